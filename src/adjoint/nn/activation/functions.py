"""The activations of `adjoint.nn.functional`, which exports every name of this file.

relu, leaky_relu, elu, gelu, silu, softplus, sigmoid, tanh, softmax and log_softmax are operators of the core;
the others are compositions whose derivatives follow, with Adjoint's rule at kinks (the subgradient of least
norm).
"""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._publish.arguments import dimension, give, ignores, same_dtype, scalar_type
from adjoint._tensor.random import _as_torch
from adjoint._types import DType, Tensor

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), with derivative 0 at 0."""
    return input.relu_() if inplace else ad.relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return input.relu_()


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """x where it is positive, elsewhere a · x: in training a is drawn for each element, else it is the middle.

    Source: Xu et al. (2015).

    Parameters
    ----------
    input : Tensor, any shape
    lower, upper : float
        Where a is drawn from, evenly.
    training, inplace : bool

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.rrelu(ad.tensor([-4.0, 2.0]), 0.25, 0.75).tolist()
    [-2.0, 2.0]
    """
    if not lower <= upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, but got {lower} and {upper}"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    with ad.no_grad():
        if _as_torch(None) and not input.is_meta and _C._whole(input).numel() == input.numel():
            # torch draws doubles, for those elements that take one, between bounds of the type of the elements.
            scaled = input <= 0
            low, high = ad.tensor([lower, upper], dtype=input.dtype).tolist()
            drawn = ad.empty(int(scaled.sum()), dtype=ad.float64).uniform_(low, high).to(input.dtype)
            slope = ad.ones(input.shape, dtype=input.dtype).masked_scatter_(scaled, drawn)
        else:
            slope = ad.where(input >= 0, 1.0, ad.empty_like(input).uniform_(lower, upper))
    return input.mul_(slope) if inplace else input * slope


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, elsewhere negative_slope · x."""
    if not inplace:
        return _C.leaky_relu(input, negative_slope)
    return input.leaky_relu_(negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, elsewhere weight · x; one weight for all, or one for each channel (dimension 1).

    Raises
    ------
    RuntimeError
        The number of weights is neither 1 nor the number of channels.
    """
    same_dtype("prelu", input, weight)
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        )
    if weight.numel() != 1:
        if input.dim() == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.dim() > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape([1, channels] + [1] * (input.dim() - 2))
    elif input.dim() == 0:
        weight = weight.reshape([])
    return _C._prelu(input, weight)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, elsewhere alpha · (exp(x) - 1)."""
    if not inplace:
        return _C.elu(input, alpha)
    return input.elu_(alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled ELU whose fixed point is mean 0 and variance 1 (Klambauer et al., 2017)."""
    return input.selu_() if inplace else _C.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(alpha · (exp(x / alpha) - 1), 0): an ELU that is continuously differentiable."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if not inplace:
        return _C.celu(input, alpha)
    return input.celu_(alpha)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """x · Φ(x), Φ the normal distribution function; ``approximate="tanh"`` replaces Φ by its tanh form.

    Raises
    ------
    RuntimeError
        `approximate` is neither 'none' nor 'tanh'.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}.")
    return give(out, ad.gelu(input, approximate=approximate), "gelu")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · sigmoid(x)."""
    return input.silu_() if inplace else _C.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(softplus(x))."""
    return input.mish_() if inplace else _C.mish(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return ad.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return ad.tanh(input)


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x is above `threshold`."""
    return ad.softplus(input, beta, threshold, out=out)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(x)), accurate for every x.

    Examples
    --------
    >>> import adjoint as ad
    >>> round(ad.nn.functional.logsigmoid(ad.tensor(-800.0)).item(), 3)
    -800.0
    """
    return _C.log_sigmoid(input, out=out) if out is not None else _C.log_sigmoid(input).contiguous()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return _C.softsign(input) if input.is_floating_point() else input / (1 + input.abs())


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return _C.tanhshrink(input) if input.is_floating_point() else input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved by `lambd` towards 0, at most to 0."""
    if lambd < 0:
        raise RuntimeError(
            f"lambda must be in range [0, {ad.finfo(input.dtype).max:g}] for input dtype {scalar_type(input)}, but found "
            f"{lambd:g}"
        )
    return _C.softshrink(input, lambd, out=out)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x where |x| is above `lambd`, elsewhere 0."""
    if input.is_complex():
        return give(out, ad.where(input.abs() <= lambd, 0, input), "hardshrink")
    return _C.hardshrink(input, lambd, out=out)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val], with derivative 0 at both bounds.

    Raises
    ------
    ValueError
        `min_val` is above `max_val`.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if not (input.is_floating_point() or input.is_complex()):
        # The bounds take the dtype of the input, as its elements keep it.
        min_val, max_val = int(min_val), int(max_val)
    return input.hardtanh_(min_val, max_val) if inplace else _C.hardtanh(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6], with derivative 0 at both bounds."""
    return input.relu6_() if inplace else _C.relu6(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 limited to [0, 1]."""
    return input.hardsigmoid_() if inplace else _C.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x)."""
    return input.hardswish_() if inplace else _C.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`value` where x is at most `threshold`, elsewhere x: a NaN stays."""
    if not input.is_floating_point():
        kept = ad.where(input <= threshold, value, input).to(input.dtype)
        return input.copy_(kept) if inplace else kept
    return input.threshold_(threshold, value) if inplace else _C.threshold(input, threshold, value)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second half.

    Raises
    ------
    RuntimeError
        The input has no dimension, or the size along `dim` is odd.
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    dim = dimension(dim, input.ndim)
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    first, second = input.chunk(2, dim)
    return _C._glu(first, second)


def _implicit_dim(name, ndim):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
        "argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """exp(x), scaled so that it sums to 1 along `dim`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.softmax(ad.zeros(4), dim=0).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim())
    return ad.softmax(input, dim) if dtype is None else ad.softmax(input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """The logarithm of `softmax`, accurate for every x."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim())
    return ad.log_softmax(input, dim) if dtype is None else ad.log_softmax(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """`softmax` of -x."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim())
    return softmax(-input, dim, dtype=dtype)


@ignores("eps", why="`eps` parameter is deprecated and has no effect")
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random draw from the categories that `logits` weighs, relaxed so that it has a derivative.

    The softmax of ``(logits + g) / tau`` with g from the Gumbel distribution (Jang, Gu and Poole, 2017).

    Parameters
    ----------
    logits : Tensor, unnormalised log-probabilities
    tau : float
        The smaller, the nearer to a one-hot draw.
    hard : bool
        Return the one-hot draw, with the derivative of the relaxed one.
    dim : int

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.functional.gumbel_softmax(ad.zeros(5, 3), hard=True)
    >>> x.sum(-1).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    # In order of its elements, however the logits lie: the noise is that of torch under one seed.
    gumbels = -ad.empty_like(logits, memory_format=ad.contiguous_format).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    best = soft.max(dim, keepdim=True)[1]
    return ad.zeros_like(logits).scatter(dim, best, 1.0) - soft.detach() + soft


def _inplace(function):
    def write(input, *args, **keywords):
        return function(input, *args, **keywords, inplace=True)

    write.__name__ = write.__qualname__ = function.__name__ + "_"
    write.__doc__ = f"`{function.__name__}` in place."
    return write


celu_, elu_, hardtanh_ = _inplace(celu), _inplace(elu), _inplace(hardtanh)
leaky_relu_, selu_, threshold_ = _inplace(leaky_relu), _inplace(selu), _inplace(threshold)


register.publish(globals())
