"""What torch publishes at its top level as well: functions of `nn.functional`, in the order of arguments that they have there.

`adjoint` finds them here when they are first asked for. Most are the same function; a few take parameters before statistics, or
a reduction by its number.
"""

from __future__ import annotations

from adjoint._publish import register
from adjoint._publish.arguments import ignores
from adjoint._types import Sequence, Tensor

from . import functional
from .functional import (
    alpha_dropout,
    bilinear,
    channel_shuffle,
    cosine_similarity,
    feature_alpha_dropout,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
    rrelu,
    rrelu_,
)
from .pooling.functions import (
    adaptive_avg_pool1d,
    adaptive_max_pool1d,
    avg_pool1d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool3d,
)
from .rnn.functions import gru, gru_cell, lstm, lstm_cell, rnn_relu, rnn_relu_cell, rnn_tanh, rnn_tanh_cell

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "alpha_dropout",
    "alpha_dropout_",
    "avg_pool1d",
    "batch_norm",
    "bilinear",
    "channel_shuffle",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "group_norm",
    "gru",
    "gru_cell",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "rms_norm",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "rrelu",
    "rrelu_",
    "triplet_margin_loss",
]


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` in place."""
    return functional.dropout(input, p, train, inplace=True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` in place."""
    return alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` in place."""
    return feature_alpha_dropout(input, p, train, inplace=True)


def _named(reduction):
    """The name of a reduction that may come as torch's number for it."""
    return reduction if isinstance(reduction, str) else ("none", "mean", "sum")[reduction]


@ignores("cudnn_enabled", why="it permits a library that is not there", warns=False)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """`functional.batch_norm`, with the parameters before the statistics."""
    return functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@ignores("cudnn_enabled", why="it permits a library that is not there", warns=False)
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """`functional.instance_norm`, with the parameters before the statistics."""
    return functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@ignores("cudnn_enabled", why="it permits a library that is not there", warns=False)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`functional.group_norm`."""
    return functional.group_norm(input, num_groups, weight, bias, eps)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """`functional.ctc_loss`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity
    )


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`functional.kl_div`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.kl_div(input, target, reduction=_named(reduction), log_target=log_target)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: str
) -> Tensor:
    """`functional.poisson_nll_loss`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_named(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`functional.margin_ranking_loss`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.margin_ranking_loss(input1, input2, target, margin, reduction=_named(reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`functional.hinge_embedding_loss`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`functional.cosine_embedding_loss`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.cosine_embedding_loss(input1, input2, target, margin, reduction=_named(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`functional.triplet_margin_loss`; the reduction may be a number, 0 for 'none', 1 for 'mean', 2 for 'sum'."""
    return functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction)
    )


register.publish(globals())
