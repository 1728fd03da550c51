"""`PostLocalSGDOptimizer`: a local optimiser on each rank, whose parameters are averaged periodically. Source: Lin et al. (2018)."""

from __future__ import annotations

from adjoint.optim import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """An optimiser that calls an averager after each step.

    Parameters
    ----------
    optim : Optimizer
    averager : ModelAverager
        Such as `algorithms.model_averaging.averagers.PeriodicModelAverager`.
    """

    def __init__(self, optim: Any, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups, self.defaults = optim.param_groups, optim.defaults

    @property
    def state(self) -> Any:  # type: ignore[override]  # the optimiser's own
        """That of the optimiser."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict:
        """That of the optimiser, with the averager's count as "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict) -> None:
        """Load both; without a count, averaging begins anew."""
        self.averager.step = state_dict.get("step", 0)
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})

    def step(self, closure=None):
        """A step, and the average if a period has passed."""
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.optim.param_groups)
        return loss

    def zero_grad(self, set_to_none=True) -> None:
        """That of the optimiser."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group) -> None:
        """That of the optimiser."""
        self.optim.add_param_group(param_group)
