"""Schedules along a cosine."""

from __future__ import annotations

import math

from adjoint import _C
from adjoint.optim.optimizer import Optimizer

from ._base import LRScheduler

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to `eta_min` along half a cosine of `T_max` epochs, and back again.

    The rate is η_min + (η₀ - η_min)(1 + cos(π epoch / T_max)) / 2. Source: Loshchilov and Hutter (2017).
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch):
        return (1 + _C._cosine(math.pi * epoch / self.T_max)) / 2

    def get_lr(self) -> list[float]:
        self._check_within_step()
        epoch = self.last_epoch
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and epoch > 0:
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


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the initial rate to `eta_min` along half a cosine, and at once back to the start.

    The rate is η_min + (η₀ - η_min)(1 + cos(π T_cur / T_i)) / 2, T_cur being the epochs since the last restart; a
    period has T_0 epochs at first, and after each restart T_mult times as many.
    Source: Loshchilov and Hutter (2017).

    Parameters
    ----------
    optimizer : Optimizer
    T_0, T_mult : int, at least 1
    eta_min : float
    last_epoch : int

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._check_within_step()
        height = (1 + _C._cosine(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to `epoch`, which may be a fraction, and set its rates."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self.T_cur, self.T_i = epoch, self.T_0
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                while self.T_cur >= self.T_i:
                    self.T_cur -= self.T_i
                    self.T_i *= self.T_mult
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._write(rates)
