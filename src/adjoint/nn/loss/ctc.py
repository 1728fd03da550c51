"""The loss of connectionist temporal classification, and the cross entropy of a linear map: in `adjoint.nn.functional`.

`ctc_loss` sums the probabilities of all ways to spell the target over time (core/kernels/cpu/ctc.cpp).
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._publish.arguments import ignores
from adjoint._types import Any, Sequence, Tensor

__all__ = ["ctc_loss", "linear_cross_entropy"]


def _lengths(lengths, count, name):
    if isinstance(lengths, ad.Tensor) and (lengths.is_floating_point() or lengths.is_complex()):
        raise RuntimeError(f"{name} must be integral")
    lengths = lengths.flatten().tolist() if isinstance(lengths, ad.Tensor) else list(lengths)
    if len(lengths) != count:
        raise RuntimeError(f"{name} must be of size batch_size: got {len(lengths)}, expected {count}")
    return lengths


def _rows(targets, lengths):
    """The targets as (N, longest), whatever comes after their ends."""
    longest = max(lengths, default=0)
    if targets.dim() == 2:
        if targets.shape[0] != len(lengths):
            raise RuntimeError(
                f"Expected tensor to have size {len(lengths)} at dimension 0, but got size {targets.shape[0]} for argument "
                "targets (while checking arguments for ctc_loss)"
            )
        if longest > targets.shape[1]:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.shape[1]} for "
                "argument targets (while checking arguments for ctc_loss)"
            )
        return targets[:, :longest]
    if targets.dim() != 1:
        raise RuntimeError(
            f"ctc_loss: targets must have one or two dimensions, but got shape {list(targets.shape)}"
        )
    if targets.shape[0] != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.shape[0]} for argument "
            "targets (while checking arguments for ctc_loss)"
        )
    return ad.nn.utils.rnn.pad_sequence(list(targets.split(lengths)), batch_first=True)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative logarithm of the probability of a target over all its alignments in time (Graves et al., 2006).

    Parameters
    ----------
    log_probs : Tensor, shape (T, N, C) or (T, C)
        Logarithms of the probabilities of C classes, as `log_softmax` gives them.
    targets : Tensor, shape (N, S), or all of them one after the other
        Classes other than `blank`; what is no integer is converted to one.
    input_lengths, target_lengths : Tensor or tuple of int, shape (N) or ()
    blank : int
    reduction : 'mean', 'sum' or 'none'
        The mean divides each loss by the length of its target first.
    zero_infinity : bool
        Losses of targets that are too long for their input, which are infinite, count 0, and so do their derivatives.

    Returns
    -------
    Tensor, shape () or (N)

    Raises
    ------
    RuntimeError
        Shapes and lengths do not fit.

    Notes
    -----
    The derivative is that by `log_probs`, whatever they are. torch's own takes them as normalised; after `log_softmax` the
    two are the same.

    Examples
    --------
    >>> import adjoint as ad
    >>> log_probs = ad.zeros(3, 1, 2).log_softmax(-1)
    >>> loss = ad.nn.functional.ctc_loss(log_probs, ad.tensor([[1]]), (3,), (1,))
    >>> round(loss.exp().item(), 4)  # 6 of the 8 sequences spell it
    1.3333
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if log_probs.dim() not in (2, 3):
        raise RuntimeError(
            f"ctc_loss: log_probs must have shape (T, N, C) or (T, C), but got {list(log_probs.shape)}"
        )
    if log_probs.numel() == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        input_lengths, target_lengths = (
            (x.reshape(-1) if isinstance(x, ad.Tensor) else x if isinstance(x, (tuple, list)) else (x,))
            for x in (input_lengths, target_lengths)
        )
    steps, count, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: got {blank} for {classes} classes")
    frames: Any = _lengths(input_lengths, count, "input_lengths")
    spellings: Any = _lengths(target_lengths, count, "target_lengths")
    for i, (given, spelled) in enumerate(zip(frames, spellings)):
        if not 0 <= given <= steps:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {steps}, but got value {given} for sample {i} (while "
                "checking arguments for ctc_loss)"
            )
        if spelled < 0:
            raise RuntimeError(
                f"Expected target_lengths to be non-negative, but got {spelled} for sample {i}"
            )
    if log_probs.dtype in (ad.float16, ad.bfloat16):
        log_probs = log_probs.to(ad.float32)
    if targets.is_floating_point() or targets.dtype is ad.bool:
        targets = targets.long()
    letters = _rows(targets, spellings)
    loss = _C._ctc_loss(log_probs, letters, frames, spellings, blank, zero_infinity)
    if reduction == "mean":
        return (loss / ad.tensor([max(1, n) for n in spellings], dtype=loss.dtype)).mean()
    return loss.sum() if reduction == "sum" else loss if batched else loss.squeeze(0)


@ignores("options", why="the scores are made in one piece")
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of ``linear(input, linear_weight, linear_bias)``.

    Parameters
    ----------
    input : Tensor, shape (N, in) or (in)
    linear_weight : Tensor, shape (C, in) or (C, d₁, …, in)
    target, weight, reduction, label_smoothing
        Like those of `cross_entropy`.
    linear_bias : Tensor, shape (C) or (C, d₁, …), optional
    ignore_index : int, optional
        -100 by default; only for targets that are classes.
    options : optional
        Taken without effect: the scores are always made in one piece.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, w = ad.zeros(2, 3), ad.zeros(4, 3)
    >>> round(ad.nn.functional.linear_cross_entropy(x, w, ad.tensor([0, 3])).item(), 5)  # log 4
    1.38629
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    size, *inner, width = linear_weight.shape
    if input.shape[-1] != width:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {width}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != [size, *inner]:
        raise RuntimeError(f"expected linear_bias shape {(size, *inner)}, got {tuple(linear_bias.shape)}")
    if inner and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {width}), got unbatched input with shape {tuple(input.shape)}"
        )
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = ad.linear(input, linear_weight.reshape(-1, width), bias).reshape(*input.shape[:-1], size, *inner)
    ignore_index = -100 if ignore_index is None else ignore_index
    return ad.nn.functional.cross_entropy(
        scores,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


register.publish(globals())
