"""Learning rates that change over time.

A scheduler writes ``group["lr"]`` of its optimiser: once when it is made, and at every ``step()``, which is
called after the optimiser's. Most are factors: the rate of this epoch is the rate of the epoch before times
`_factor()`, so that several schedulers compose. Start with `LRScheduler` and `StepLR`.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right

import adjoint as ad

from .optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "StepLR",
]


def _set_rate(group, value):
    if isinstance(group["lr"], ad.Tensor):
        with ad.no_grad():
            group["lr"].fill_(value)
    else:
        group["lr"] = value


class LRScheduler:
    """Base class: a subclass overrides `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        The epoch to resume after; -1 starts afresh and takes the present rates as the initial ones.

    Attributes
    ----------
    base_lrs : list of float, the initial rate of each group
    last_epoch : int
    """

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rates of this epoch, one for each group."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def step(self, epoch=None) -> None:
        """Go to the next epoch (or to `epoch`) and set its rates."""
        if self._step_count == 1 and self.optimizer._steps_taken == 0:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite "
                "order, `optimizer.step()` first, or the first value of the schedule is skipped.",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if closed is None else closed()
        for group, rate in zip(self.optimizer.param_groups, rates):
            _set_rate(group, rate)
        self._last_lr = [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict:
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def _rates(self):
        return [float(group["lr"]) for group in self.optimizer.param_groups]


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

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]

    def state_dict(self):
        """Everything but the optimiser and plain functions; callable objects give their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else dict(f.__dict__) for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if attributes is not None:
                function.__dict__.update(attributes)
        super().load_state_dict(state)


class MultiplicativeLR(LambdaLR):
    """The rate of the epoch before times ``lr_lambda(epoch)``; one function, or one for each group."""

    def get_lr(self):
        if self.last_epoch <= 0:
            return self._rates()
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, self._rates(), strict=True)
        ]


class _FactorLR(LRScheduler):
    """A schedule that multiplies the rate of the epoch before by `_factor()`, 1 where nothing changes.

    `_total_factor()` is the product of all factors so far: the jump to a given epoch.
    """

    def get_lr(self):
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

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        return self.gamma if self.last_epoch > 0 and self.last_epoch % self.step_size == 0 else 1.0

    def _total_factor(self):
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_FactorLR):
    """The rate times `gamma` at each of the epochs `milestones`; one that is given twice counts twice."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        return self.gamma ** self.milestones.count(self.last_epoch)

    def _total_factor(self):
        return self.gamma ** bisect_right(self.milestones, self.last_epoch)


class ExponentialLR(_FactorLR):
    """The rate times `gamma` at every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        return self.gamma if self.last_epoch > 0 else 1.0

    def _total_factor(self):
        return self.gamma**self.last_epoch


class ConstantLR(_FactorLR):
    """The initial rate times `factor` for `total_iters` epochs, then the initial rate."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
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

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
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
        if self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _total_factor(self):
        passed = min(self.last_epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * passed


class PolynomialLR(_FactorLR):
    """The initial rate times (1 - epoch / total_iters)^power, 0 after `total_iters` epochs."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self):
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return 1.0
        left = self.total_iters - self.last_epoch
        return (left / (left + 1)) ** self.power

    def _total_factor(self):
        return (1.0 - min(self.last_epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to `eta_min` along half a cosine of `T_max` epochs, and back again.

    The rate is η_min + (η₀ - η_min)(1 + cos(π epoch / T_max)) / 2. Source: Loshchilov and Hutter (2017).
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch):
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2

    def get_lr(self):
        epoch = self.last_epoch
        if epoch == 0:
            return self._rates()
        if self._step_count == 1:  # the first step of a resumed schedule
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The cosine was at its bottom, from where no factor leads up again.
            return [
                rate + (base - self.eta_min) * self._height(self.T_max - 1)
                for rate, base in zip(self._rates(), self.base_lrs, strict=True)
            ]
        ratio = self._height(epoch) / self._height(epoch - 1)
        return [self.eta_min + (rate - self.eta_min) * ratio for rate in self._rates()]

    def _get_closed_form_lr(self):
        height = self._height(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


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
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
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
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self):
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def is_better(self, value, best) -> bool:
        """Whether `value` beats `best` by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * value > sign * best * (1 + sign * self.threshold)
        return sign * value > sign * best + self.threshold

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs do not count at present."""
        return self.cooldown_counter > 0

    def step(self, metrics, epoch=None) -> None:  # type: ignore[override]  # it needs the metric
        """Look at the metric of this epoch and reduce the rates if it is time to."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, lowest in zip(self.optimizer.param_groups, self.min_lrs):
                old = float(group["lr"])
                new = max(old * self.factor, lowest)
                if old - new > self.eps:
                    _set_rate(group, new)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()
