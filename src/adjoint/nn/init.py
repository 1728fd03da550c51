"""Initial values of parameters. Each function writes in place, unrecorded, and returns its tensor.

The scale of the random ones follows from the fans: the number of inputs and of outputs of a unit (`fans`).
Sources: Glorot and Bengio (2010) for xavier, He et al. (2015) for kaiming, Saxe et al. (2014) for
orthogonal, Martens (2010) for sparse.
"""

from __future__ import annotations

import math
import warnings

import adjoint as ad
from adjoint._moved import find_past
from adjoint._publish import register
from adjoint._publish.register import listing
from adjoint._types import Any, Generator, Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
__dir__ = listing(__name__)
find_past(__name__)


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The gain recommended for a nonlinearity: the factor of weights that keeps the variance of signals.

    Parameters
    ----------
    nonlinearity : str
        'linear', 'conv1d' … 'conv_transpose3d', 'sigmoid' (all 1), 'tanh' (5/3), 'relu' (√2),
        'leaky_relu' (√(2/(1+slope²))), 'selu' (3/4).
    param : float, optional
        The negative slope of 'leaky_relu', 0.01 by default.

    Raises
    ------
    ValueError
        The nonlinearity is unknown, or the slope is not a number.

    Examples
    --------
    >>> import adjoint as ad
    >>> round(ad.nn.init.calculate_gain("leaky_relu", 0.2), 4)
    1.3868
    """
    linear = {"linear", "sigmoid"}
    linear |= {f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}
    if nonlinearity in linear:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3.0
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def fans(tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight of shape (outputs, inputs, …kernel)."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans


def _random(tensor, method, first, second, generator):
    with ad.no_grad():
        if generator is None:
            return getattr(tensor, method)(first, second)
        return getattr(tensor, method)(first, second, generator=generator)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in [a, b).

    Examples
    --------
    >>> import adjoint as ad
    >>> w = ad.nn.init.uniform_(ad.empty(3, 5), -1.0, 1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    return _random(tensor, "uniform_", a, b, generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal with the given mean and standard deviation."""
    return _random(tensor, "normal_", mean, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal with the given mean and standard deviation, conditioned on [a, b] (by rejection)."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def below(x):
        return (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0

    with ad.no_grad():
        if below(b) - below(a) > 0.3:
            low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
            normal_(tensor, mean, std, generator)
            while (outside := (tensor < low) | (tensor > high)).any():
                again = ad.empty_like(tensor).normal_(mean, std, generator=generator)
                tensor.copy_(ad.where(outside, again, tensor))
            return tensor
        # Most of the distribution lies outside: even draws from [a, b], each kept with its density over the largest.
        largest = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        pending = None
        while pending is None or pending.any():
            drawn = ad.empty_like(tensor).uniform_(a, b, generator=generator)
            tensor.copy_(drawn if pending is None else ad.where(pending, drawn, tensor))
            density = drawn.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(largest)
            refused = ad.empty_like(tensor).uniform_(generator=generator).log_() > density
            pending = refused if pending is None else pending & refused
        return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    with ad.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, also of a rectangular shape.

    Raises
    ------
    ValueError
        `tensor` has not two dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with ad.no_grad():
        return tensor.copy_(ad.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution weight (3 to 5 dimensions) that passes its input channels through.

    Raises
    ------
    ValueError
        `tensor` has another number of dimensions, or its outputs are not divisible by `groups`.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    center = tuple(size // 2 for size in tensor.shape[2:])
    with ad.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel) + center] = 1
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in ±gain·√(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal of standard deviation gain·√(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _nothing_to_fill(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in ±gain·√(3 / fan).

    Parameters
    ----------
    a : float
        The negative slope, used with 'leaky_relu'.
    mode : 'fan_in' (keeps the variance forward) or 'fan_out' (backward)
    nonlinearity : str, see `calculate_gain`
    """
    if _nothing_to_fill(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal of standard deviation gain / √fan; parameters like those of `kaiming_uniform_`."""
    if _nothing_to_fill(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix times `gain`; dimensions after the first are flattened.

    Raises
    ------
    ValueError
        `tensor` has fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with ad.no_grad():
        matrix = ad.empty(rows, columns, dtype=tensor.dtype, device=tensor.device)
        normal_(matrix, 0, 1, generator)
        # The signs that Gram and Schmidt choose make the result uniform over the orthogonal group.
        q = _orthonormal(matrix) if rows < columns else _orthonormal(matrix.mT).mT
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def _orthonormal(vectors):
    """The rows of a matrix made orthonormal from the first on (Gram and Schmidt, twice for full precision)."""
    basis = vectors.to(ad.float64, copy=True)
    for i in range(len(basis)):
        v = basis[i].clone()
        for _ in range(2):
            v -= (basis[:i] @ v) @ basis[:i]
        basis[i] = v / v.norm()
    return basis.to(vectors.dtype)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal of standard deviation `std`, with the fraction `sparsity` of every column set to 0.

    Raises
    ------
    ValueError
        `tensor` has not two dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0, std, generator)
    with ad.no_grad():
        for column in range(columns):
            order = ad.randperm(rows) if generator is None else ad.randperm(rows, generator=generator)
            tensor[order[:zeros], column] = 0
    return tensor


register.publish(globals())
