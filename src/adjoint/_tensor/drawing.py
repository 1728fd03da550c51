"""Members of Tensor that draw: `uniform_` and others fill it, `bernoulli` and `multinomial` take it for their parameter."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Generator, Tensor
from adjoint._publish.register import Members, extend
from adjoint._tensor.random import _as_torch, _drawn, bernoulli, multinomial
from adjoint._types import Any


@extend
class Filling(Members):
    """Random values in place."""

    def uniform_(self, *args: Any, generator: Generator | None = None, **bounds: Any) -> Tensor:
        """Fill with uniform random numbers from [from, to), by default [0, 1)."""
        low, high = _two(args, bounds, "from", "to", 0.0, 1.0, "uniform_")
        return _C._uniform(self, low, high, generator)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with numbers drawn from the normal distribution."""
        return _C._normal(self, mean, std, generator)

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with numbers drawn from the exponential distribution of rate `lambd`."""
        return _C._exponential(self, lambd, generator)

    def log_normal_(
        self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fill with exponentials of numbers drawn from the normal distribution."""
        if std <= 0:
            raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
        if _as_torch(generator):
            return _C._fill_transformed(self, 0, mean, std, generator)
        return self.normal_(mean, std, generator=generator).exp_()

    def cauchy_(
        self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fill with numbers drawn from the Cauchy distribution."""
        if sigma <= 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
        if _as_torch(generator):
            return _C._fill_transformed(self, 1, median, sigma, generator)
        drawn = self.uniform_(-0.5, 0.5, generator=generator).mul_(3.141592653589793).tan_()
        return drawn.mul_(sigma).add_(median)

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Tensor:
        """Fill with the number of trials until the first success, each of probability `p`."""
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        from math import log1p

        if _as_torch(generator):
            return _C._fill_transformed(self, 2, p, 0.0, generator)
        if self.is_floating_point():
            return self.exponential_(-log1p(-p), generator=generator).ceil_()
        drawn = _C._exponential(_C._empty(self.shape, dtype=_C.float64), -log1p(-p), generator)
        return self.copy_(drawn.ceil_())

    def random_(self, *args: Any, generator: Generator | None = None, **bounds: Any) -> Tensor:
        """Fill with uniform random integers from `from` up to, but not including, `to`; by default all that the dtype holds."""
        if len(args) == 1:
            args = (0, *args)
        low, high = _two(args, bounds, "from", "to", 0, None, "random_")
        if high is not None and not (self.is_floating_point() or self.dtype is _C.bool):
            from adjoint import iinfo

            limits = iinfo(self.dtype)
            for name, value in (("from", low), ("to - 1", high - 1)):
                if low < high and not limits.min <= value <= limits.max:
                    raise RuntimeError(
                        f"random_(): {name} is out of bounds for {self.dtype.name}: it is {value}"
                    )
        return _C._random(self, low, high, generator)

    def bernoulli_(self, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fill with ones of probability `p`, a number or a tensor that broadcasts, and zeros."""
        if isinstance(p, Tensor):
            # Drawn as the elements lie in memory.
            order = sorted(range(self.dim()), key=lambda d: -self.stride(d))
            drawn = _C._bernoulli_each(p.detach().expand(self.shape).permute(order), generator)
            return self.copy_(_drawn(drawn.permute([order.index(d) for d in range(self.dim())]), p))
        return _C._bernoulli(self, p, generator)


@extend
class Drawing(Members):
    """Draws whose parameters are the tensor."""

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Like `adjoint.multinomial`."""
        return multinomial(self, num_samples, replacement, generator=generator)

    def bernoulli(self, p: float | Tensor | None = None, *, generator: Generator | None = None) -> Tensor:
        """Like `adjoint.bernoulli`."""
        return bernoulli(self, p, generator=generator)


def _two(args, named, first, second, low, high, name):
    """Two bounds of which the first is called `from`, a word that Python keeps for itself."""
    given = dict(zip((first, second), args))
    for key, value in named.items():
        if key not in (first, second) or key in given:
            raise TypeError(f"{name}() got an unexpected argument {key!r}")
        given[key] = value
    return given.get(first, low), given.get(second, high)
