"""`PeriodicModelAverager`: parameters become their mean over ranks every few steps. Start reading at `average_parameters`."""

from __future__ import annotations

import adjoint as ad
from adjoint import distributed as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager:
    """The base of averagers of parameters; it counts its calls."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = dist._world.need_group(process_group)
        self.step = 0

    def average_parameters(self, params) -> None:
        """Average them if a period has passed."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages every `period` steps, after `warmup_steps`."""

    def __init__(self, period: Any, warmup_steps: Any = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params) -> None:
        """Average parameters, or those of an optimiser's groups."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            params = list(params)
            if params and isinstance(params[0], dict):
                params = [p for group in params for p in group["params"]]
            with ad.no_grad():
                for p in params:
                    mean = p.detach() / self.process_group.size()
                    dist.all_reduce(mean, group=self.process_group)
                    p.copy_(mean)
        self.step += 1
