"""The losses of `adjoint.nn.functional`, which exports every name of this file.

Fused losses (mse, nll, cross entropy, binary cross entropy with logits) are one call into the core; the
others are compositions. Each ends in `_reduce`, the one place that knows what a reduction is.
"""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._publish.arguments import same_dtype
from adjoint._switches import announce
from adjoint._types import Tensor

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two legacy flags stand for."""
    if size_average is None and reduce is None:
        return reduction
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    reduction = "none" if not reduce else "mean" if size_average else "sum"
    announce(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        stacklevel=3,
    )
    return reduction


def _reduce(loss, reduction, weight=None):
    if weight is not None:
        loss = loss * weight
    if reduction == "mean":
        return loss.mean() if weight is None else loss.sum() / weight.expand_as(loss).sum()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _pair(input, target):
    """Both in one shape, with a warning where they differed: neither is then a weak number in promotion."""
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
        input, target = ad.broadcast_tensors(input, target)
    return input, target


def _check_weight(input, weight):
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise ValueError(
            f"Weights and input must have the same size: {tuple(weight.shape)} != {tuple(input.shape)}"
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared difference, (input - target)².

    Parameters
    ----------
    input, target : Tensor, shapes that broadcast (different ones warn)
    reduction : 'mean', 'sum' or 'none'
    weight : Tensor of the shape of input, optional
        Factors; the mean is then the weighted one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.mse_loss(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0])).item()
    2.0
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    input, target = _pair(input, target)
    if weight is None and reduction in ("mean", "sum", "none"):
        return ad.mse_loss(input, target, reduction)
    _check_weight(input, weight)
    return _reduce((input - target).square(), reduction, weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute difference, |input - target|; parameters like those of `mse_loss`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.l1_loss(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0])).item()
    1.0
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    input, target = _pair(input, target)
    _check_weight(input, weight)
    return _reduce((input - target).abs(), reduction, weight)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Quadratic below `beta`, d²/(2β), and linear above, |d| - β/2, where d = input - target.

    Raises
    ------
    RuntimeError
        `beta` is negative.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    input, target = _pair(input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    if input.is_complex() or target.is_complex():
        size = (input - target).abs()
        return _reduce(ad.where(size < beta, size.square() * (0.5 / beta), size - 0.5 * beta), reduction)
    return _reduce(_C._smooth_l1(input, target, beta), reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Quadratic below `delta`, d²/2, and linear above, δ(|d| - δ/2), where d = input - target; in the dtype of input.

    Raises
    ------
    RuntimeError
        `delta` is not positive.
    """
    if not isinstance(delta, (int, float)):
        raise TypeError(f"huber_loss(): delta must be a float or int, got: {type(delta)}")
    input, target = _pair(input, target)
    _check_weight(input, weight)
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    if input.is_complex() or target.is_complex():
        size = (input - target).abs()
        loss = ad.where(size < delta, size.square() * 0.5, (size - 0.5 * delta) * delta)
    else:
        loss = _C._huber(input, target, delta).to(input.dtype)
    return _reduce(loss if weight is None else loss * weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence, target · (log target - input): `input` holds log-probabilities.

    Parameters
    ----------
    input : Tensor, log-probabilities
    target : Tensor of that shape, probabilities, or their logarithms with `log_target`
    reduction : 'batchmean' (the sum over the first dimension's size: the divergence of mathematics), 'mean',
        'sum' or 'none'
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. "
            "'batchmean' divides only by the batch size, and aligns with the KL math definition.",
            stacklevel=2,
        )
    for t in (input, target):
        if not t.is_floating_point():
            kind = "Complex" if t.is_complex() else "Integral"
            raise RuntimeError(
                f"kl_div: {kind} inputs not supported; convert them, for example with .float()"
            )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = ad.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.shape[0] if input.dim() else 1)
    return _reduce(loss, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of the target classes; `input` holds log-probabilities.

    Parameters
    ----------
    input : Tensor, shape (C), (N, C) or (N, C, d₁, …)
    target : integer Tensor, shape (), (N) or (N, d₁, …), classes in [0, C)
    weight : Tensor, shape (C), optional
        A factor for each class; the mean is then the weighted one.
    ignore_index : int
        Targets of this value count nothing.
    reduction : 'mean', 'sum' or 'none'
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if input.is_floating_point():
        same_dtype("nll_loss", input, weight)
    return ad.nll_loss(input, target, weight, reduction, ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy between unnormalised scores and target classes or target probabilities.

    Parameters
    ----------
    input : Tensor, shape (C), (N, C) or (N, C, d₁, …), scores (logits)
    target : integer Tensor of classes, shape (), (N) or (N, d₁, …); or probabilities, shape of input
    weight : Tensor, shape (C), optional
        A factor for each class.
    ignore_index : int
        Target classes of this value count nothing.
    reduction : 'mean', 'sum' or 'none'
    label_smoothing : float in [0, 1]
        The share of the target that is spread evenly over all classes.

    Examples
    --------
    >>> import adjoint as ad
    >>> loss = ad.nn.functional.cross_entropy(ad.zeros(2, 4), ad.tensor([0, 3]))
    >>> round(loss.item(), 5)  # log 4
    1.38629
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if input.is_floating_point() and not target.is_floating_point():
        same_dtype("cross_entropy", input, weight)
    return ad.cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The binary cross entropy of probabilities, -(t log p + (1 - t) log(1 - p)), logarithms at least -100.

    Parameters
    ----------
    input : Tensor, probabilities in [0, 1]
    target : Tensor of that shape
    weight : Tensor that broadcasts to that shape, optional; it does not enter the denominator of the mean
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    ValueError
        The shapes differ.
    RuntimeError
        A probability is outside [0, 1].

    Notes
    -----
    For p below 1e-12 (or as close to 1) the gradient is (p - t) / 1e-12: large and finite for a certain mistake, 0 where p is t. `binary_cross_entropy_with_logits` is stabler and faster.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    same_dtype("binary_cross_entropy", input, target)
    wide = ad.promote_types(input.dtype, ad.float32)
    p, t = input.to(wide), target.to(wide)
    inside = (p >= _EPSILON) & (1 - p >= _EPSILON)
    if p.is_meta or bool(ad._C._whole(inside).all()):
        loss = -(t * p.log() + (1 - t) * (1 - p).log())
    elif not bool(ad._C._whole((p >= 0) & (p <= 1)).all()):
        raise RuntimeError("binary_cross_entropy: all elements of input should be between 0 and 1")
    else:
        q = ad.where(inside, p, 0.5)
        loss = ad.where(inside, -(t * q.log() + (1 - t) * (1 - q).log()), _bce_at_ends(p, t))
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.to(input.dtype), reduction)


#: How near to 0 or 1 a probability counts as certain.
_EPSILON = 1e-12


def _bce_at_ends(p, t):
    """The terms with logarithms of at least -100, as a polynomial in p that has torch's derivatives at p: (p - t) / eps, and
    (p² - 2 p t + t) / eps²."""
    at = p.detach()
    step, more, less = p - at, at.log().clamp(min=-100.0), (1 - at).log().clamp(min=-100.0)
    curve = (at * at - 2 * at * t + t) * (0.5 / _EPSILON**2)
    return step * ((at - t) / _EPSILON + step * curve) - (t * more + (1 - t) * less)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The binary cross entropy of sigmoid(input), computed without leaving the scale of logarithms.

    Parameters
    ----------
    input : Tensor, scores (logits)
    target : Tensor of that shape, in [0, 1]
    weight : Tensor that broadcasts to that shape, optional
    pos_weight : Tensor that broadcasts to that shape, optional
        A factor for positive targets.
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    ValueError
        The shapes differ, or the reduction is unknown.

    Examples
    --------
    >>> import adjoint as ad
    >>> loss = ad.nn.functional.binary_cross_entropy_with_logits(ad.zeros(3), ad.ones(3))
    >>> round(loss.item(), 5)  # log 2
    0.69315
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ad.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of targets under normal distributions: ``(log σ² + (input - target)² / σ²) / 2``.

    Parameters
    ----------
    input, target : Tensor
        Means and observations.
    var : Tensor or float
        Variances: of the shape of `input`, or with a last size of 1, or without the last dimension.
    full : bool
        Add the constant ``log(2π) / 2``.
    eps : float
        The least variance; where it takes effect, the derivative is that of `var` all the same.

    Raises
    ------
    ValueError
        A variance is negative, or of a shape that fits neither way; or the reduction is unknown.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.gaussian_nll_loss(ad.zeros(2), ad.ones(2), ad.ones(2))
    tensor(0.5000)
    """
    if not isinstance(var, ad.Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = ad.full_like(input, var)
    elif not var.is_meta and bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif [v for s, v in zip(input.shape, var.shape) if s != v] != [1] or input.ndim != var.ndim:
            raise ValueError(f"var is of incorrect size: {list(var.shape)} for input of {list(input.shape)}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not valid: it is not a valid value for reduction")
    # Raised to the least value, while the derivative passes.
    var = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.9189385332046727
    return _reduce(loss, reduction)


register.publish(globals())
