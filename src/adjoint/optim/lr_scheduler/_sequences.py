"""Several schedules for one optimiser: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right

from adjoint._types import Sequence, StateDict
from adjoint.optim.optimizer import Optimizer

from ._base import LRScheduler, _set_rate
from ._plateau import ReduceLROnPlateau

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Several(LRScheduler):
    """What holds schedulers: their checks, and a state dict that has theirs."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers, optimizer, purpose):
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler{purpose}, but got no scheduler.")
        optimizer = getattr(schedulers[0], "optimizer", None) if optimizer is None else optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )
        return optimizer

    def _rewind(self):
        for scheduler in self._schedulers:
            scheduler._rewind()

    def state_dict(self) -> dict:
        """Everything but the optimiser; "_schedulers" has the state dicts of the schedulers."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what `state_dict` returned."""
        state = dict(state_dict)
        for scheduler, inner in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(inner)
        super().load_state_dict(state)


class SequentialLR(_Several):
    """One schedule after the other: the next begins, at its epoch 0, at each of the milestones.

    Parameters
    ----------
    optimizer : Optimizer
    schedulers : list of schedulers of that optimiser
    milestones : list of int, one less than there are schedulers
    last_epoch : int

    Raises
    ------
    ValueError
        The lists do not match, or a scheduler is another optimiser's, or one on a plateau.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> parts = [ConstantLR(optimizer, factor=0.25, total_iters=2), ExponentialLR(optimizer, gamma=0.5)]
    >>> scheduler = SequentialLR(optimizer, parts, milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.25, 0.25, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._check(schedulers, optimizer, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to "
                f"be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler has made its first step; only that of the first one counts.
        for group in optimizer.param_groups:
            _set_rate(group, group["initial_lr"])
        for scheduler in schedulers:
            scheduler._rewind()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def _initial_step(self):
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def _go(self, epoch=None):
        turn = bisect_right(self._milestones, epoch)
        self.last_epoch = epoch
        self._schedulers[turn]._go(epoch - (self._milestones[turn - 1] if turn else 0))
        self._last_lr = self._schedulers[turn].get_last_lr()

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch of the schedule whose turn it is; `epoch` 0 starts all over."""
        if epoch is not None:
            self._go(epoch)
            return
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._go(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """Several schedules at once: each changes the rate that the one before it left.

    Parameters
    ----------
    schedulers : list of schedulers of one optimiser
    optimizer : Optimizer, optional

    Raises
    ------
    ValueError
        There are none, or a scheduler is another optimiser's, or one on a plateau.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> parts = [ConstantLR(optimizer, factor=0.5, total_iters=2), ExponentialLR(optimizer, gamma=0.5)]
    >>> scheduler = ChainedScheduler(parts)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.5, 0.25, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer = self._check(schedulers, optimizer, " to be chained")
        self._schedulers = schedulers
        self._last_lr = schedulers[-1]._rates()

    def _initial_step(self):
        for scheduler in self._schedulers:
            scheduler._initial_step()

    def _go(self, epoch=None):
        for scheduler in self._schedulers:
            scheduler._go(epoch)
        self._last_lr = self._rates()

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step() if epoch is None else scheduler.step(epoch)
        self._last_lr = self._rates()
