"""Random tensors, and the generators that they are drawn from.

Numbers are a function of the generator's seed and position alone (counter-based), so that they are the same for any
number of threads. A draw without `generator` takes the default one, which `manual_seed` sets. What is drawn does not
depend smoothly on its parameters: where these need gradients the result does too, as in torch, and they are zero. Start
reading at `manual_seed`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Generator, Tensor
from adjoint._publish.arguments import give
from adjoint._publish.register import publish
from adjoint._tensor.creation import _size, empty_laid
from adjoint._tensor.creation_keywords import creation
from adjoint._types import Any, Device, DType, Ints, MemoryFormat

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


def manual_seed(seed: int, *, stream: Any = None) -> Generator:
    """Seed the default generator, and return it.

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
    """Seed the default generator with a number from the system, and return that."""
    return _C._default_generator().seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return _C._default_generator().initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, as a uint8 tensor."""
    return _C._default_generator().get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore a state of the default generator that `get_rng_state` returned."""
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


@creation(row=_C._rand)
def rand(
    *size: Ints, dtype: DType | None = None, generator: Generator | None = None, **keywords: Any
) -> Tensor:
    """Uniform random numbers from [0, 1).

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.rand(2, 3).shape
    adjoint.Size([2, 3])
    """
    return _C._rand(_size(size, keywords, "rand"), dtype=dtype, generator=generator)


@creation(row=_C._randn)
def randn(
    *size: Ints, dtype: DType | None = None, generator: Generator | None = None, **keywords: Any
) -> Tensor:
    """Normal random numbers of mean 0 and variance 1.

    A complex number has variance 1 as a whole: each part has half of it.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.randn(2, dtype=ad.float64).dtype
    adjoint.float64
    """
    return _C._randn(_size(size, keywords, "randn"), dtype=dtype, generator=generator)


@creation
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    dtype: DType | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform random integers from `low` up to, but not including, `high`: ``randint(high, size)``, ``randint(low, high, size)``.

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
            f"{name}(): missing argument 'high': numbers are drawn from low up to, but not including, high"
        )
    return 0 if low is None else low, high


@creation
def randperm(n: int, *, dtype: DType | None = None, generator: Generator | None = None) -> Tensor:
    """The integers from 0 to n - 1 in random order."""
    return _C._randperm(n, dtype or _C.int64, generator)


@creation(out=False, consults=True, row=_C._rand_like)
def rand_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    generator: Generator | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `rand`, with the shape and dtype of `input`."""
    return _C._rand_like(empty_laid(input, dtype, memory_format, device, "rand_like"), generator=generator)


@creation(out=False, consults=True, row=_C._randn_like)
def randn_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    generator: Generator | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `randn`, with the shape and dtype of `input`."""
    return _C._randn_like(empty_laid(input, dtype, memory_format, device, "randn_like"), generator=generator)


@creation(out=False, consults=True)
def randint_like(
    input: Tensor,
    low: Any = None,
    high: Any = None,
    *,
    dtype: DType | None = None,
    memory_format: MemoryFormat | None = None,
    generator: Generator | None = None,
    device: Device | None = None,
) -> Tensor:
    """Like `randint`, with the shape and dtype of `input`."""
    if high is None:
        low, high = 0, low
    low, high = _range_of("randint_like", low, high)
    like = empty_laid(input, dtype, memory_format, device, "randint_like")
    return _C._randint_like(like, low, high, generator)


@creation(consults=True)
def normal(
    mean: float | Tensor = 0.0,
    std: float | Tensor = 1.0,
    size: Any = None,
    *,
    dtype: DType | None = None,
    generator: Generator | None = None,
) -> Tensor:
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
            return _drawn(_C._randn_like(centre, generator=generator).mul_(std).add_(centre), mean)

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
            first: Any = mean if isinstance(mean, Tensor) else std
            number = first.is_floating_point() or first.is_complex()
            dtype = first.dtype if number else _C.get_default_dtype()
            _refuse_same_of_samples(mean, std)
            shaped: Any = mean + std
            result = _C._randn_like(shaped.new_empty(shaped.shape, dtype=dtype), generator=generator)
            result = (result * std + mean).to(dtype).contiguous()
            parameters = [x for x in (mean, std) if isinstance(x, Tensor)]
        else:
            if size is None:
                raise TypeError("normal(): argument 'size' is needed where neither mean nor std is a Tensor")
            result = _C._randn_about(size, mean, std, dtype=dtype, generator=generator)
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


def bernoulli(
    input: Tensor,
    p: float | Tensor | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
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
        result = _C._bernoulli_like(input, p, generator)  # type: ignore[arg-type]  # a row that refuses what is no number
    result = _drawn(result, input)
    # Ones and zeros are elements of every type.
    return give(out, result if out is None else result.to(out.dtype), "bernoulli", warns=False)


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
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


def _as_torch(generator):
    return (generator or _C._default_generator()).stream == "torch"


publish(globals())
