"""Schedules that are stepped after every batch, and that turn the momentum against the rate."""

from __future__ import annotations

import math

from adjoint import _C
from adjoint._types import Any, Callable, Sequence, StateDict
from adjoint.optim.optimizer import Optimizer

from ._base import LRScheduler, _check_optimizer, _each_group, _set_rate

__all__ = ["CyclicLR", "OneCycleLR"]


class _WithMomentum(LRScheduler):
    """A schedule of the rate and of the momentum, be it "momentum" or the first of "betas"."""

    def _begin_momentum(self, optimizer, base_momentum, max_momentum):
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        lows = _each_group(optimizer, "base_momentum", base_momentum)
        highs = _each_group(optimizer, "max_momentum", max_momentum)
        for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
            self._set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low
        return lows, highs

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_WithMomentum):
    """Between `base_lr` and `max_lr`, up and down in straight lines, with momentum the other way.

    Parameters
    ----------
    optimizer : Optimizer
    base_lr, max_lr : float, or lists of one for each group
    step_size_up, step_size_down : int
        Steps on the way up, and on the way down (as many, by default).
    mode : 'triangular', 'triangular2' or 'exp_range'
        The height of a cycle stays, is halved each time, or is gamma^steps.
    gamma : float
    scale_fn, scale_mode : callable, 'cycle' or 'iterations'
        The height by a function of the number of the cycle (from 1) or of steps; `mode` is ignored then.
    cycle_momentum : bool
    base_momentum, max_momentum : float, or lists of one for each group
    last_epoch : int
        The number of the last step.

    Raises
    ------
    ValueError
        An option is unknown, or the optimiser has no momentum to cycle.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.CyclicLR(optimizer, 1.0, 3.0, step_size_up=2, cycle_momentum=False)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 2.0, 3.0, 2.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[..., Any] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        base_lrs = _each_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                _set_rate(group, rate)
        self.max_lrs = _each_group(optimizer, "max_lr", max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            momenta = self._begin_momentum(optimizer, base_momentum, max_momentum)
            self.base_momentums, self.max_momentums = momenta
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, by its number or by the number of steps, as `scale_mode` says."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 2.0 ** (1 - x) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float]:
        self._check_within_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict:
        """Everything but the optimiser and a plain function; a callable object gives its attributes."""
        state = super().state_dict()
        function = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = dict(vars(function)) if _is_object(function) else None
        return state

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what `state_dict` returned."""
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom")
        if attributes is not None:
            vars(self._scale_fn_custom).update(attributes)
        super().load_state_dict(state)


def _is_object(function):
    return function is not None and hasattr(function, "__dict__") and not hasattr(function, "__code__")


class OneCycleLR(_WithMomentum):
    """Up from max_lr / div_factor to `max_lr`, and down to a `final_div_factor`-th of the first rate, once.

    Source: Smith and Topin (2018).

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float, or a list of one for each group
    total_steps : int
        The steps of the cycle; or `epochs` and `steps_per_epoch`.
    pct_start : float in [0, 1]
        The part of the cycle that goes up.
    anneal_strategy : 'cos' or 'linear'
    cycle_momentum : bool
        Turn the momentum the other way, from `max_momentum` to `base_momentum` and back.
    base_momentum, max_momentum : float, or lists of one for each group
    div_factor, final_div_factor : float
    three_phase : bool
        Come back to the first rate in as many steps as it went up, and go to the last one then.
    last_epoch : int
        The number of the last step.

    Raises
    ------
    ValueError
        An option is out of range, the optimiser has no momentum to cycle, or the cycle is over.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0, momentum=0.9)
    >>> scheduler = ad.optim.lr_scheduler.OneCycleLR(
    ...     optimizer, 1.0, total_steps=5, pct_start=0.6, anneal_strategy="linear", div_factor=4
    ... )
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 3) for rate in rates]
    [0.25, 0.625, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            _check_count("epochs", epochs)
            _check_count("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        _check_count("total_steps", total_steps)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.total_steps = total_steps
        top, last = float(pct_start * total_steps) - 1, total_steps - 1
        if three_phase:
            middle = float(2 * pct_start * total_steps) - 2
            phases = [
                (top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (middle, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            phases = [
                (top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [
            dict(zip(keys, phase, strict=True)) for phase in phases
        ]
        self._anneal_func_type = anneal_strategy
        max_lrs = _each_group(optimizer, "max_lr", max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(optimizer, base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, part):
        if self._anneal_func_type == "linear":
            return start + (end - start) * part
        return end + (start - end) / 2 * (_C._cosine(math.pi * part) + 1)

    def get_lr(self) -> list[float]:
        self._check_within_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        start: float = 0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        part = (step - start) / (end - start) if end != start else 1.0
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, part))
        return rates


def _check_count(name, value):
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
