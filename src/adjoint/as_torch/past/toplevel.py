"""Functions of `nn.functional` that torch has at its top level in another order of arguments.

They take parameters before statistics, or a reduction by its number. `adjoint` finds them here when they are first asked for.
"""

from __future__ import annotations

from adjoint._publish import register
from adjoint._publish.arguments import ignores
from adjoint._types import Sequence, Tensor
from adjoint.nn import functional
from adjoint.nn.functional import alpha_dropout, feature_alpha_dropout

__all__ = [
    "adaptive_max_pool1d",
    "alpha_dropout_",
    "batch_norm",
    "cosine_embedding_loss",
    "ctc_loss",
    "dropout_",
    "feature_alpha_dropout_",
    "group_norm",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
]


def adaptive_max_pool1d(input: Tensor, output_size: int) -> tuple[Tensor, Tensor]:
    """`nn.functional.adaptive_max_pool1d_with_indices`: the maxima and where they are.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.adaptive_max_pool1d(ad.tensor([[1.0, 3.0, 2.0]]), 1)
    (tensor([[3.]]), tensor([[1]]))
    """
    return functional.adaptive_max_pool1d_with_indices(input, output_size)


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
    if isinstance(reduction, int) and not 0 <= reduction <= 2:
        raise ValueError(f"reduction must be 0 for 'none', 1 for 'mean' or 2 for 'sum', but got {reduction}")
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


for _name in __all__:
    globals()[_name].__module__ = "adjoint"  # as pickles know them
    globals()[_name] = register.published(globals()[_name])
