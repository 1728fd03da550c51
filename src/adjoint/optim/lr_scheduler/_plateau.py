"""A schedule driven by a metric."""

from __future__ import annotations

import math

from adjoint._types import Any, Sequence, Tensor
from adjoint.optim.optimizer import Optimizer

from ._base import LRScheduler, _check_optimizer, _set_rate, _warn_epoch

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has not improved for more than `patience` epochs.

    Parameters
    ----------
    optimizer : Optimizer
    mode : 'min' or 'max'
        Whether less or more is better.
    factor : float below 1
    patience : int
    threshold, threshold_mode : float, 'rel' or 'abs'
        What counts as better: below best · (1 - threshold), or below best - threshold.
    cooldown : int
        Epochs after a reduction that do not count.
    min_lr : float, or a list of one for each group
    eps : float
        Smaller changes are not made.

    Raises
    ------
    ValueError
        `factor` is not below 1, or a mode is unknown.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in [1.0, 1.0, 1.0]:
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        _check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        rates: Any = min_lr
        self.min_lrs: list[float] = list(rates) if isinstance(rates, (list, tuple)) else [rates] * groups
        self.default_min_lr = None if isinstance(rates, (list, tuple)) else rates
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self):
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def is_better(self, value: float, best: float) -> bool:
        """Whether `value` beats `best` by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * value > sign * best * (1 + sign * self.threshold)
        return sign * value > sign * best + self.threshold

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs do not count at present."""
        return self.cooldown_counter > 0

    def step(self, metrics: float | Tensor, epoch: float | None = None) -> None:  # type: ignore[override]  # it needs the metric
        """Look at the metric of this epoch and reduce the rates if it is time to."""
        value = float(metrics)
        if epoch is not None:
            _warn_epoch(2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch  # type: ignore[assignment]
        if self.is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            groups = self.optimizer.param_groups
            if len(groups) != len(self.min_lrs):
                if self.default_min_lr is None:
                    raise RuntimeError(
                        f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                        f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                        "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                        "`optimizer` param groups."
                    )
                self.min_lrs = [self.default_min_lr] * len(groups)
            for group, lowest in zip(groups, self.min_lrs, strict=True):
                old = float(group["lr"])
                new = max(old * self.factor, lowest)
                if old - new > self.eps:
                    _set_rate(group, new)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()
