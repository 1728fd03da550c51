"""`LRScheduler`, the base of the schedules: it writes the rates of its optimiser, epoch by epoch."""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint._switches import announce
from adjoint._types import StateDict

from ..optimizer import Optimizer

__all__ = ["LRScheduler"]


def _check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _each_group(optimizer, name, value):
    """One value for each parameter group, from a list of them or from one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
    return list(value)


def _set_rate(group, value):
    if isinstance(group["lr"], ad.Tensor):
        with ad.no_grad():
            group["lr"].fill_(value)
    else:
        group["lr"] = value


def _own(value):
    """A rate as it is kept beside the group's: a tensor is copied, so that later steps do not change it."""
    return value.detach().clone() if isinstance(value, ad.Tensor) else value


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler: with an epoch the rates come from the closed form, where there is one, and "
    "not from the rates before."
)


_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _warn_epoch(stacklevel):
    announce(
        EPOCH_DEPRECATION_WARNING,
        UserWarning,
        stacklevel=stacklevel + 1,
    )


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

    # Whether a step asks for the rates, and whether it is the one that a schedule begins with, which continues a schedule
    # where it resumes one: the rates of the groups are those of `last_epoch` already.
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        optimizer._step_known = vars(optimizer).get("step")
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0: load the state of the optimizer first, or leave last_epoch out"
                )
        self.base_lrs = [_own(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def __repr__(self) -> str:
        """The class, the numbers that it was given, and the present rates."""
        given: dict[str, object] = {
            k: v for k, v in vars(self).items() if k[0] != "_" and isinstance(v, (int, float, str))
        }
        given["rates"] = getattr(self, "_last_lr", None)
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    def get_lr(self) -> list[float]:
        """The rates of this epoch, one for each group.

        Examples
        --------
        >>> import adjoint as ad
        >>> class Halved(ad.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [base / 2 for base in self.base_lrs]
        >>> Halved(ad.optim.SGD([ad.nn.Parameter(ad.ones(1))], lr=0.5)).get_last_lr()
        [0.25]
        """
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group.

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))], lr=0.5)
        >>> ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5).get_last_lr()
        [0.5]
        """
        return self._last_lr

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch (or to `epoch`) and set its rates.

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))], lr=0.5)
        >>> scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
        """
        if self._step_count == 1 and not self.optimizer._stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite "
                f"order, `optimizer.step()` first, or the first value of the schedule is skipped. {_SEE}",
                stacklevel=2,
            )
        elif self._step_count == 1 and vars(self.optimizer).get("step") is not self.optimizer._step_known:
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make "
                f"sure to call `optimizer.step()` before `lr_scheduler.step()`. {_SEE}",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            _warn_epoch(2)
        self._go(epoch)

    def _go(self, epoch=None):
        """Set the rates of the next epoch, or of `epoch`."""
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                rates = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._write(rates)

    def _check_within_step(self):
        """Warn if `get_lr`, which counts on the rates of the epoch before, is called by anything but a step."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _initial_step(self) -> None:
        """The step that every schedule begins with; it belongs to no step of the optimiser."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def _rewind(self):
        """Forget the step that was made at the beginning, for a schedule whose turn is later."""
        self.last_epoch -= 1

    def _write(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_rate(group, rate)
        self._last_lr = self._rates()

    def state_dict(self) -> dict:
        """Everything but the optimiser.

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))], lr=0.5)
        >>> ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5).state_dict()["last_epoch"]
        0
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what `state_dict` returned.

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))], lr=0.5)
        >>> scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> scheduler.load_state_dict({"last_epoch": 3})
        >>> scheduler.last_epoch
        3
        """
        self.__dict__.update(state_dict)

    def _rates(self):
        return [_own(group["lr"]) for group in self.optimizer.param_groups]
