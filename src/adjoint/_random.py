"""Random tensors, and the generators that they are drawn from.

Numbers are a function of the generator's seed and position alone (counter-based), so that they are the same for any
number of threads. A draw without `generator` takes the default one, which `manual_seed` sets. What is drawn does not
depend smoothly on its parameters: where these need gradients the result does too, as in torch, and they are zero. Start
reading at `manual_seed`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._arguments import give
from adjoint._C import Generator, Tensor
from adjoint._creation import _size, empty_laid
from adjoint._creation_keywords import creation
from adjoint._register import Members, extend, publish

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]

default_generator = _C._default_generator()


def _clone_state(self) -> Generator:
    """A generator that goes on with the same numbers, by itself."""
    return _generator(self.stream, self.initial_seed(), self.get_state())


def _generator(stream, seed, state):
    made = Generator(stream=stream)
    made.manual_seed(_signed(seed))
    return made.set_state(state)


def _reduce(self):
    return _generator, (self.stream, self.initial_seed(), self.get_state())


def _spawn(self, n) -> list:
    """New generators whose numbers never meet each other's: what goes to chains, workers or ranks.

    They depend on this one's seed and position, which moves by n, and on nothing else: so a chain's numbers are the same alone, in
    a pool, and on any rank.

    Parameters
    ----------
    n : int

    Returns
    -------
    list of Generator

    Examples
    --------
    >>> import adjoint as ad
    >>> first, second = ad.Generator().manual_seed(0).spawn(2)
    >>> again = ad.Generator().manual_seed(0).spawn(2)[1]
    >>> ad.equal(ad.rand(3, generator=second), ad.rand(3, generator=again))
    True
    """
    n = int(n)
    if n < 0:
        raise ValueError(f"spawn(): expected a number of generators, but got {n}")
    if self.stream == "torch":
        seeds = _C._randint((n,), 0, 2**63 - 1, _C.int64, self).tolist()
    else:
        seed, block = _C._reserve(n, self)
        seeds = [_mixed(seed, block + i + 2**62) for i in range(n)]
    return [Generator(stream=self.stream).manual_seed(_signed(seed)) for seed in seeds]


def _signed(seed):
    return seed - 2**64 if seed >= 2**63 else seed


def _mixed(seed, stream) -> int:
    """A seed for each stream of a seed, no two alike: an invertible function of the stream (splitmix64, Steele et al. 2014)."""
    x = (seed + (stream + 1) * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


for _name, _method in (
    ("clone_state", _clone_state),
    ("spawn", _spawn),
    ("__deepcopy__", lambda self, memo: memo.setdefault(id(self), _clone_state(self))),
    ("__reduce__", _reduce),
):
    setattr(Generator, _name, _method)


class SeedTooLarge(ValueError, RuntimeError):
    """A seed that does not fit: torch has raised the one and the other."""


def manual_seed(seed, *, stream=None) -> Generator:
    """Start the default generator anew at a seed, and return it.

    Parameters
    ----------
    seed : int, from -2⁶³ to 2⁶⁴ - 1
    stream : int, optional
        Which of the 2⁶⁴ streams of this seed, that never meet: a chain's or worker's number, or a rank.

    Examples
    --------
    >>> import adjoint as ad
    >>> generator = ad.manual_seed(0)
    >>> x = ad.rand(3)
    >>> generator = ad.manual_seed(0)
    >>> ad.equal(x, ad.rand(3))
    True
    """
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise SeedTooLarge(f"Overflow when unpacking long long: the seed {seed} does not fit into 64 bits")
    if stream is not None:
        seed = _mixed(seed, int(stream))
    return _C._default_generator().manual_seed(_signed(seed))


def seed() -> int:
    """Start the default generator anew at a seed that the system chooses, and return the seed."""
    return _C._default_generator().seed()


def initial_seed() -> int:
    """The seed that the default generator started at."""
    return _C._default_generator().initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, as a uint8 tensor."""
    return _C._default_generator().get_state()


def set_rng_state(new_state) -> None:
    """Put the default generator back into a state that `get_rng_state` gave."""
    _C._default_generator().set_state(new_state)


def _drawn(numbers, *parameters):
    """`numbers`, recorded where a parameter of their distribution needs a gradient, which is zero."""
    if not _C.is_grad_enabled():
        return numbers
    for parameter in parameters:
        if parameter.requires_grad:
            # Written over, a copy of the parameter keeps its history and none of its gradient.
            numbers = parameter.expand(numbers.shape).to(numbers.dtype, copy=True).copy_(numbers)
    return numbers


@creation(plain=((_C._rand, "size"),))
def rand(*size, dtype=None, generator=None, **keywords) -> Tensor:
    """Numbers drawn evenly from [0, 1).

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.rand(2, 3).shape
    adjoint.Size([2, 3])
    """
    return _C._rand(_size(size, keywords, "rand"), dtype, generator)


@creation(plain=((_C._randn, "size", 0.0, 1.0),))
def randn(*size, dtype=None, generator=None, **keywords) -> Tensor:
    """Numbers drawn from the normal distribution of mean 0 and variance 1.

    A complex number has variance 1 as a whole: each part has half of it.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.randn(2, dtype=ad.float64).dtype
    adjoint.float64
    """
    return _C._randn(_size(size, keywords, "randn"), 0.0, 1.0, dtype, generator)


@creation
def randint(low=None, high=None, size=None, *, dtype=None, generator=None) -> Tensor:
    """Integers drawn evenly from `low` up to but without `high`: ``randint(high, size)``, ``randint(low, high, size)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.randint(3, 5, (100,))
    >>> x.min().item(), x.max().item()
    (3, 4)
    """
    if size is None:
        if high is None:
            raise TypeError(
                "randint(): missing argument 'size': call randint(high, size) or randint(low, high, size)"
            )
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    low, high = _range_of("randint", low, high)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return _C._randint(size, low, high, dtype or _C.int64, generator)


def _range_of(name, low, high):
    if high is None:
        raise TypeError(
            f"{name}(): missing argument 'high': numbers are drawn from low up to but without high"
        )
    return 0 if low is None else low, high


@creation
def randperm(n, *, dtype=None, generator=None) -> Tensor:
    """The integers from 0 to n - 1 in random order."""
    return _C._randperm(n, dtype or _C.int64, generator)


@creation(out=False, consults=True, plain=((_C._rand_like, "0"),))
def rand_like(input, *, dtype=None, memory_format=None, generator=None, device=None) -> Tensor:
    """As `rand`, with the shape and dtype of `input`."""
    return _C._rand_like(empty_laid(input, dtype, memory_format, device, "rand_like"), generator)


@creation(out=False, consults=True, plain=((_C._randn_like, "0"),))
def randn_like(input, *, dtype=None, memory_format=None, generator=None, device=None) -> Tensor:
    """As `randn`, with the shape and dtype of `input`."""
    return _C._randn_like(empty_laid(input, dtype, memory_format, device, "randn_like"), generator)


@creation(out=False, consults=True)
def randint_like(
    input, low=None, high=None, *, dtype=None, memory_format=None, generator=None, device=None
) -> Tensor:
    """As `randint`, with the shape and dtype of `input`."""
    if high is None:
        low, high = 0, low
    low, high = _range_of("randint_like", low, high)
    like = empty_laid(input, dtype, memory_format, device, "randint_like")
    return _C._randint_like(like, low, high, generator)


@creation(consults=True)
def normal(mean=0.0, std=1.0, size=None, *, dtype=None, generator=None) -> Tensor:
    """Numbers drawn from normal distributions.

    Parameters
    ----------
    mean, std : float or Tensor
        Tensors broadcast, and each element has a distribution of its own.
    size : tuple of int
        The shape, where neither is a tensor.
    """
    if type(mean) is Tensor and isinstance(std, (float, int)) and std >= 0 and _C._batching() is None:
        if mean.is_floating_point() and mean.is_contiguous():
            centre = mean.detach()  # the usual case, in four calls
            return _drawn(_C._randn_like(centre, generator).mul_(std).add_(centre), mean)

    from adjoint.autograd import no_grad

    with no_grad():
        if isinstance(mean, Tensor) or isinstance(std, Tensor):
            if isinstance(std, Tensor):
                if std.is_complex():
                    raise RuntimeError("normal expects standard deviation to be non-complex")
                if std.numel() and not std.is_meta and _samples(std).min().item() < 0:
                    raise RuntimeError("normal expects all elements of std >= 0.0")
            elif std < 0:
                raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
            # The type is the mean's, or that of the tensor; and the order of the numbers does not depend on strides.
            first = mean if isinstance(mean, Tensor) else std
            number = first.is_floating_point() or first.is_complex()
            dtype = first.dtype if number else _C.get_default_dtype()
            _refuse_same_of_samples(mean, std)
            shaped = mean + std
            result = _C._randn_like(shaped.new_empty(shaped.shape, dtype=dtype), generator)
            result = (result * std + mean).to(dtype).contiguous()
            parameters = [x for x in (mean, std) if isinstance(x, Tensor)]
        else:
            if size is None:
                raise TypeError("normal(): argument 'size' is needed where neither mean nor std is a Tensor")
            result = _C._randn(size, mean, std, dtype, generator)
            parameters = []
    return _drawn(result, *parameters)


def _samples(x):
    """All samples that a tensor stands for inside of vmap(); else itself."""
    while _C._is_batched(x):
        x, _ = _C._batch_of(x)
    return x


def _refuse_same_of_samples(*parameters):
    """Refuse as torch what a strict vmap() with the same numbers for all cannot draw: from parameters of each sample."""
    level = _C._batching()
    if level is None or level[2] != "same" or not level[3]:
        return
    if any(isinstance(x, Tensor) and _C._is_batched(x, level[0]) for x in parameters):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input: normal was called with parameters "
            "that differ between samples"
        )


def bernoulli(input, p=None, *, generator=None, out=None) -> Tensor:
    """Ones and zeros: 1 with the probability that each element of `input` is (or `p`, where given).

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.bernoulli(ad.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is None:
        result = _C._bernoulli_each(input.detach(), generator)
    else:
        result = _C._bernoulli_like(input, p, generator)
    result = _drawn(result, input)
    # Ones and zeros are elements of every type.
    return give(out, result if out is None else result.to(out.dtype), "bernoulli", warns=False)


def multinomial(input, num_samples, replacement=False, *, generator=None, out=None) -> Tensor:
    """Indices drawn in proportion to the weights in each row of `input`.

    Parameters
    ----------
    input : Tensor, shape (n) or (rows, n), floating point, not negative
    num_samples : int
    replacement : bool
        Whether an index may be drawn more than once.

    Returns
    -------
    Tensor of int64, shape (num_samples) or (rows, num_samples)
    """
    if out is not None and out.dtype is not _C.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype._type_name}")
    result = _C._multinomial(input.detach(), num_samples, replacement, generator)
    return give(out, result, "multinomial", warns=False)


# --- in place ---------------------------------------------------------------------------------------------------


@extend
class Filling(Members):
    """Random values in place."""

    def uniform_(self, *args, generator=None, **bounds) -> Tensor:
        """Fill with numbers drawn evenly from [from, to), by default [0, 1)."""
        low, high = _two(args, bounds, "from", "to", 0.0, 1.0, "uniform_")
        return _C._uniform(self, low, high, generator)

    def normal_(self, mean=0.0, std=1.0, *, generator=None) -> Tensor:
        """Fill with numbers drawn from the normal distribution."""
        return _C._normal(self, mean, std, generator)

    def exponential_(self, lambd=1.0, *, generator=None) -> Tensor:
        """Fill with numbers drawn from the exponential distribution of rate `lambd`."""
        return _C._exponential(self, lambd, generator)

    def log_normal_(self, mean=1.0, std=2.0, *, generator=None) -> Tensor:
        """Fill with exponentials of numbers drawn from the normal distribution."""
        if std <= 0:
            raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
        if _as_torch(generator):
            return _C._fill_transformed(self, 0, mean, std, generator)
        return self.normal_(mean, std, generator=generator).exp_()

    def cauchy_(self, median=0.0, sigma=1.0, *, generator=None) -> Tensor:
        """Fill with numbers drawn from the Cauchy distribution."""
        if sigma <= 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
        if _as_torch(generator):
            return _C._fill_transformed(self, 1, median, sigma, generator)
        drawn = self.uniform_(-0.5, 0.5, generator=generator).mul_(3.141592653589793).tan_()
        return drawn.mul_(sigma).add_(median)

    def geometric_(self, p, *, generator=None) -> Tensor:
        """Fill with the number of trials until the first success, each of probability `p`."""
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        from math import log1p

        if _as_torch(generator):
            return _C._fill_transformed(self, 2, p, 0.0, generator)
        if self.is_floating_point():
            return self.exponential_(-log1p(-p), generator=generator).ceil_()
        drawn = _C._exponential(_C._empty(self.shape, _C.float64), -log1p(-p), generator)
        return self.copy_(drawn.ceil_())

    def random_(self, *args, generator=None, **bounds) -> Tensor:
        """Fill with integers drawn evenly from `from` up to but without `to`; by default all that the dtype holds."""
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

    def bernoulli_(self, p=0.5, *, generator=None) -> Tensor:
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

    def multinomial(self, num_samples, replacement=False, *, generator=None) -> Tensor:
        """As `adjoint.multinomial`."""
        return multinomial(self, num_samples, replacement, generator=generator)

    def bernoulli(self, p=None, *, generator=None) -> Tensor:
        """As `adjoint.bernoulli`."""
        return bernoulli(self, p, generator=generator)


def _as_torch(generator):
    return (generator or _C._default_generator()).stream == "torch"


def _two(args, named, first, second, low, high, name):
    """Two bounds of which the first is called `from`, a word that Python keeps for itself."""
    given = dict(zip((first, second), args))
    for key, value in named.items():
        if key not in (first, second) or key in given:
            raise TypeError(f"{name}() got an unexpected argument {key!r}")
        given[key] = value
    return given.get(first, low), given.get(second, high)


publish(globals())
