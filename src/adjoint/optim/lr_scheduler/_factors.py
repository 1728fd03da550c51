"""Schedules by functions and by factors: the rate of an epoch is that of the epoch before times `_factor()`."""

from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter

from adjoint._types import Any, Callable, Sequence, StateDict
from adjoint.optim.optimizer import Optimizer

from ._base import LRScheduler

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]


class LambdaLR(LRScheduler):
    """The initial rate times ``lr_lambda(epoch)``; one function, or one for each group.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._check_within_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]

    def state_dict(self) -> Any:
        """Everything but the optimiser and plain functions; callable objects give their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else dict(f.__dict__) for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: StateDict) -> Any:
        state = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if attributes is not None:
                function.__dict__.update(attributes)
        super().load_state_dict(state)


class MultiplicativeLR(LambdaLR):
    """The rate of the epoch before times ``lr_lambda(epoch)``; one function, or one for each group."""

    def get_lr(self) -> list[float]:
        self._check_within_step()
        if self._is_initial:
            return self._rates()
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, self._rates(), strict=True)
        ]


class _FactorLR(LRScheduler):
    """A schedule that multiplies the rate of the epoch before by `_factor()`, 1 where nothing changes.

    `_total_factor()` is the product of all factors so far: the jump to a given epoch.
    """

    _factor: Any
    _total_factor: Any

    def get_lr(self) -> list[float]:
        self._check_within_step()
        factor = self._factor()
        return [rate * factor for rate in self._rates()]

    def _get_closed_form_lr(self):
        factor = self._total_factor()
        return [base * factor for base in self.base_lrs]


class StepLR(_FactorLR):
    """The rate times `gamma` every `step_size` epochs.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        return self.gamma if self.last_epoch > 0 and self.last_epoch % self.step_size == 0 else 1.0

    def _total_factor(self):
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_FactorLR):
    """The rate times `gamma` at each of the epochs `milestones`; one that is given twice counts twice."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        # By comparing, which a replay does again.
        return self.gamma ** next((n for at, n in self.milestones.items() if at == self.last_epoch), 0)

    def _total_factor(self):
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ExponentialLR(_FactorLR):
    """The rate times `gamma` at every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        return 1.0 if self._is_initial else self.gamma

    def _total_factor(self):
        return self.gamma**self.last_epoch


class ConstantLR(_FactorLR):
    """The initial rate times `factor` for `total_iters` epochs, then the initial rate."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _total_factor(self):
        return self.factor if self.last_epoch < self.total_iters else 1.0


class LinearLR(_FactorLR):
    """The initial rate times a factor that goes in a line from `start_factor` to `end_factor`.

    It arrives after `total_iters` epochs and stays.

    Raises
    ------
    ValueError
        A factor is outside [0, 1], or the first one is 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _total_factor(self):
        passed = min(self.last_epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * passed


class PolynomialLR(_FactorLR):
    """The initial rate times (1 - epoch / total_iters)^power, 0 after `total_iters` epochs."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        left = self.total_iters - self.last_epoch
        return (left / (left + 1)) ** self.power

    def _total_factor(self):
        return (1.0 - min(self.last_epoch, self.total_iters) / self.total_iters) ** self.power
