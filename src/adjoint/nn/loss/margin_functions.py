"""Losses that compare scores with one another or with a margin, and those of counts: exported by `adjoint.nn.functional`.

All are compositions and end in `_reduce`, as those of `_losses` do. What is cut at 0 by `clamp` has the derivative 1 there, by
`relu` 0, as in torch.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._publish import register
from adjoint._publish.arguments import same_dtype, scalar_type
from adjoint._types import Any, Callable, Tensor

from .functions import _reduce, legacy_reduction

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts under Poisson distributions: ``exp(input) - target · input``.

    Parameters
    ----------
    input : Tensor
        Logarithms of the expected counts, or with ``log_input=False`` the expected counts themselves.
    target : Tensor, of a shape that broadcasts
    log_input : bool
    full : bool
        Add Stirling's approximation of log(target!) where the target is above 1.
    eps : float
        Added to expected counts before the logarithm.
    reduction : 'mean', 'sum' or 'none'

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.poisson_nll_loss(ad.zeros(2), ad.tensor([1.0, 3.0])).item()
    1.0
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        count = target.to(loss.dtype).clamp(min=1.0)
        stirling = count * count.log() - count + 0.5 * (2 * math.pi * count).log()
        loss = loss + ad.where(target > 1, stirling, 0.0)
    return _reduce(loss, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target · (input1 - input2) + margin)``: the first should be above the second where the target is 1.

    Parameters
    ----------
    input1, input2, target : Tensor
        Of the same number of dimensions; targets are 1 or -1.
    margin : float
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    RuntimeError
        The dimensions differ.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.margin_ranking_loss(ad.tensor([1.0]), ad.tensor([3.0]), ad.tensor([1.0])).item()
    2.0
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return _reduce((-target * (input1 - input2) + float(margin)).clamp(min=0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, and ``max(0, margin - input)`` where it is -1.

    Parameters
    ----------
    input, target : Tensor, shapes that broadcast
    margin : float
    reduction : 'mean', 'sum' or 'none'

    Examples
    --------
    >>> import adjoint as ad
    >>> distance, same = ad.tensor([0.5, 0.25]), ad.tensor([1, -1])
    >>> ad.nn.functional.hinge_embedding_loss(distance, same, reduction="none").tolist()
    [0.5, 0.75]
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    far = ad.where(target != 1, (margin - input).clamp(min=0), 0.0)
    near = ad.where(target != -1, input, 0.0)
    return _reduce(far + near, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target · input))`` for targets that are 1 or -1, without overflow.

    Parameters
    ----------
    input, target : Tensor of the same shape
    reduction : 'mean', 'sum' or 'none'

    Examples
    --------
    >>> import adjoint as ad
    >>> round(ad.nn.functional.soft_margin_loss(ad.zeros(2), ad.ones(2)).item(), 5)  # log 2
    0.69315
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not input.is_floating_point():
        raise RuntimeError(
            f"soft_margin_loss(): expected a floating-point input, but got {input.dtype}; convert it, for example with .float()"
        )
    return _reduce(-ad.nn.functional.logsigmoid(input * target).to(input.dtype), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the binary cross entropy of sigmoid(input).

    Parameters
    ----------
    input, target : Tensor, shape (N, C) or (C)
    weight : Tensor, shape (C), optional
    reduction : 'mean', 'sum' or 'none' (then one number for each sample)

    Examples
    --------
    >>> import adjoint as ad
    >>> round(ad.nn.functional.multilabel_soft_margin_loss(ad.zeros(1, 3), ad.ones(1, 3)).item(), 5)
    0.69315
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    logsigmoid = ad.nn.functional.logsigmoid
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.mean(-1), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where the target is 1, and ``max(0, cos - margin)`` where it is -1.

    Parameters
    ----------
    input1, input2 : Tensor, shape (N, D) or (D)
    target : Tensor, shape (N) or ()
    margin : float
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    RuntimeError
        The dimensions do not fit together.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> ad.nn.functional.cosine_embedding_loss(x, x, ad.tensor([1, -1]), reduction="none").tolist()
    [0.0, 1.0]
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if target.dim() > 1:
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported: target has shape "
            f"{list(target.shape)}"
        )
    want = target.dim() + 1
    if input1.dim() != want or input2.dim() != want:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {want}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    # Both squared lengths are raised a little, so that the derivative is finite for vectors of zeros.
    eps = 1e-12
    lengths = ((input1.square().sum(-1) + eps) * (input2.square().sum(-1) + eps)).sqrt()
    cos = (input1 * input2).sum(-1) / lengths
    zero = ad.zeros_like(cos)
    loss = ad.where(target == 1, 1 - cos, zero)
    loss = loss + ad.where(target == -1, (cos - margin).clamp(min=0), zero)
    return _reduce(loss, reduction)


def _classes(input, name):
    """The input as (N, C), and whether it was."""
    if input.dim() > 2 or input.dim() and not input.shape[-1]:
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    return input.reshape(-1, input.shape[-1] if input.dim() else 1), input.dim() == 2


def _check_targets(target, reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if target.dtype is not ad.int64:
        raise RuntimeError(f"expected scalar type Long but found {scalar_type(target)}: targets are classes")


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``Σ max(0, margin - input[target] + input[i])^p / C`` over the other classes i.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (C)
    target : int64 Tensor, shape (N) or ()
    p : 1 or 2
    margin : float
    weight : Tensor, shape (C), optional
        A factor for each class of the target.
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    ValueError
        `p` is neither 1 nor 2, or the weight has not one dimension.
    RuntimeError
        Shapes do not fit, or a target is no class.

    Examples
    --------
    >>> import adjoint as ad
    >>> scores = ad.tensor([[1.0, 2.0, 4.0]])
    >>> ad.nn.functional.multi_margin_loss(scores, ad.tensor([2])).item()
    0.0
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    x, _ = _classes(input, "multi_margin_loss")
    count, classes = x.shape
    if target.numel() != count or target.dim() > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). "
            f"Expected target size [{count}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    _check_targets(target, reduction)
    same_dtype("multi_margin_loss", input, weight)
    index = target.reshape(-1, 1)
    if count and not index.is_meta and bool(ad._C._whole((index < 0) | (index >= classes)).any()):
        raise RuntimeError(f"multi_margin_loss: target out of range: classes are 0 to {classes - 1}")
    terms = ad.relu(margin - x.gather(1, index) + x)
    if p == 2:
        terms = terms.square()
    if weight is not None:
        terms = terms * weight[index]
    # The target itself does not count.
    others = ad.ones_like(x).scatter(1, index, 0.0)
    loss = (terms * others).sum(1) / classes
    return _reduce(loss.reshape(target.shape), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``Σ max(0, 1 - input[j] + input[i]) / C`` over the classes j of the target and all others i.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (C)
    target : int64 Tensor of that shape
        The classes come first; -1 ends them.
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    RuntimeError
        The shapes differ, or a target is no class.

    Examples
    --------
    >>> import adjoint as ad
    >>> scores = ad.tensor([0.1, 0.2, 0.4, 0.8])
    >>> round(ad.nn.functional.multilabel_margin_loss(scores, ad.tensor([3, 0, -1, 1])).item(), 2)
    0.85
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    x, batched = _classes(input, "multilabel_margin_loss")
    if target.shape != input.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    _check_targets(target, reduction)
    y = target if batched else target.reshape(1, -1)
    count, classes = x.shape
    if count and not y.is_meta and bool(ad._C._whole((y < -1) | (y >= classes)).any()):
        raise RuntimeError(
            f"argument #2 'target' is out of range: classes are 0 to {classes - 1}, and -1 ends them"
        )
    used = ((y < 0).cumsum(1) == 0).to(x.dtype)
    index = y.clamp(min=0)
    # How often a class is named; the others have none.
    named = ad.zeros_like(x).scatter_add(1, index, used)
    others = (named == 0).to(x.dtype)
    terms = ad.relu(1 - x.gather(1, index).unsqueeze(2) + x.unsqueeze(1))
    loss = (terms * used.unsqueeze(2) * others.unsqueeze(1)).sum((1, 2)) / classes
    return _reduce(loss if batched else loss.squeeze(0), reduction)


def _same_dimensions(anchor, positive, negative):
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``, d the p-norm of the difference.

    Source: Balntas et al. (2016).

    Parameters
    ----------
    anchor, positive, negative : Tensor, shape (N, D) or (D)
    margin : float, above 0
    p : float
    eps : float
        Added to the differences.
    swap : bool
        Take d(positive, negative) for the second distance, where it is less.
    reduction : 'mean', 'sum' or 'none'

    Raises
    ------
    ValueError
        The margin is not above 0.
    RuntimeError
        The dimensions differ.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.zeros(1, 2)
    >>> round(ad.nn.functional.triplet_margin_loss(a, a + 3.0, a + 3.0).item(), 3)
    1.0
    """
    reduction = legacy_reduction(size_average, reduce, reduction)

    def distance(x, y):
        return ad.nn.functional.pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=distance,
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[..., Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance.

    Parameters
    ----------
    anchor, positive, negative : Tensor
    distance_function : function of two tensors, optional
        `pairwise_distance` by default.
    margin, swap, reduction
        Like those of `triplet_margin_loss`.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _same_dimensions(anchor, positive, negative)
    distance = distance_function or ad.nn.functional.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ad.minimum(far, distance(positive, negative))
    return _reduce((margin + near - far).clamp(min=0), reduction)


register.publish(globals())
