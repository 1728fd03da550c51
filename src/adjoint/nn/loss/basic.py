"""The losses as modules: each holds the options of the function in `adjoint.nn.functional` that it calls.

All take ``(input, target)``. `reduction` is 'mean', 'sum' or 'none'.
"""

from __future__ import annotations

from adjoint._types import Tensor
from adjoint.nn import functional
from adjoint.nn.module import Module

from .functions import legacy_reduction

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "NLLLoss2d",
    "SmoothL1Loss",
]


class _Loss(Module):
    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The absolute difference, |input - target|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference, (input - target)².

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.MSELoss()(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0])).item()
    2.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic below `beta`, d²/(2β), and linear above, |d| - β/2, where d = input - target."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Quadratic below `delta`, d²/2, and linear above, δ(|d| - δ/2), where d = input - target."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (int, float)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.huber_loss(input, target, self.reduction, self.delta)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence, target · (log target - input): `input` holds log-probabilities.

    Parameters
    ----------
    reduction : also 'batchmean', the divergence of mathematics
    log_target : bool
        Whether the target holds logarithms too.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_WeightedLoss):
    """The negative log-likelihood of the target classes; `input` holds log-probabilities.

    Shapes: input (C), (N, C) or (N, C, d₁, …); target (), (N) or (N, d₁, …); weight (C).
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """`NLLLoss` by its legacy name."""


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy between unnormalised scores and target classes or target probabilities.

    Parameters
    ----------
    weight : Tensor, shape (C), optional
        A factor for each class.
    ignore_index : int
        Target classes of this value count nothing.
    reduction : 'mean', 'sum' or 'none'
    label_smoothing : float in [0, 1]
        The share of the target that is spread evenly over all classes.

    Notes
    -----
    Shapes: input (C), (N, C) or (N, C, d₁, …); target of classes (), (N) or (N, d₁, …), or of probabilities
    the shape of input.

    Examples
    --------
    >>> import adjoint as ad
    >>> loss = ad.nn.CrossEntropyLoss()(ad.zeros(2, 4), ad.tensor([0, 3]))
    >>> round(loss.item(), 5)  # log 4
    1.38629
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """The binary cross entropy of probabilities, -(t log p + (1 - t) log(1 - p)), logarithms at least -100."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of sigmoid(input).

    Parameters
    ----------
    weight : Tensor that broadcasts to the input, optional
    pos_weight : Tensor that broadcasts to the input, optional
        A factor for positive targets.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )
