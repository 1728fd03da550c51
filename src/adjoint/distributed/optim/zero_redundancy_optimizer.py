"""`ZeroRedundancyOptimizer`: each rank steps its share of the parameters, and keeps the optimiser's state of those alone.

Source: Rajbhandari et al. (2020), stage 1. Start reading at `ZeroRedundancyOptimizer.step`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import distributed as dist
from adjoint._publish.arguments import ignores
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook
from adjoint.optim import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ZeroRedundancyOptimizer"]


class _Hook(JoinHook):
    def __init__(self, zero: Any) -> None:
        self.zero = zero

    def main_hook(self):
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Any optimiser with its state sharded over the ranks; after a step all ranks have all parameters.

    Parameters
    ----------
    params : iterable
        As of an optimiser; the same on all ranks.
    optimizer_class : type
        Such as `optim.Adam`; it must treat parameters one by one.
    process_group : ProcessGroup
    parameters_as_bucket_view
        Taken, and of no effect.
    overlap_with_ddp : bool
        Refused.
    **defaults
        For `optimizer_class`.
    """

    @ignores("parameters_as_bucket_view", why="parameters stay where they are")
    def __init__(
        self,
        params: Any,
        optimizer_class: Any,
        process_group: Any = None,
        parameters_as_bucket_view: Any = False,
        overlap_with_ddp: Any = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not supported; leave it False"
            )
        self.process_group = dist._world.need_group(process_group)
        self.optim = None
        self._class, self._defaults_of_class = optimizer_class, defaults
        super().__init__(params, defaults)
        Joinable.__init__(self)
        self._states: list = []
        self._divide()

    def _divide(self):
        """Assign parameters to ranks: the largest first, each to the rank with the least so far."""
        size, mine = self.process_group.size(), []
        loads, self._owner = [0] * size, {}
        for group in self.param_groups:
            for p in sorted(group["params"], key=lambda p: -p.numel()):
                rank = loads.index(min(loads))
                loads[rank] += p.numel()
                self._owner[p] = rank
        for group in self.param_groups:
            own = [p for p in group["params"] if self._owner[p] == self.process_group.rank()]
            mine.append({**group, "params": own})
        before = self.optim
        # An optimiser refuses to be empty; a rank without parameters has none.
        self.optim = self._class(mine, **self._defaults_of_class) if any(g["params"] for g in mine) else None
        if before is not None and self.optim is not None:
            for p, state in before.state.items():
                self.optim.state[p] = state
        self.state = self.optim.state if self.optim is not None else {}

    def _pass_options(self):
        """Copy what a scheduler has changed here to the local optimiser."""
        groups: Any = self.optim.param_groups if self.optim else ()
        for here, there in zip(self.param_groups, groups):
            there.update({key: value for key, value in here.items() if key != "params"})

    def step(self, closure=None, **kwargs):
        """Step this rank's parameters, and send them to the others."""
        Join.notify_join_context(self)
        loss = None
        self._pass_options()
        if closure is not None:
            with ad.enable_grad():
                loss = closure()
        if self.optim is not None:
            self.optim.step(**kwargs)
        with ad.no_grad():
            for rank in range(self.process_group.size()):
                some = [p for group in self.param_groups for p in group["params"] if self._owner[p] == rank]
                by_dtype: dict = {}
                for p in some:
                    by_dtype.setdefault(p.dtype, []).append(p)
                for params in by_dtype.values():
                    together = ad.cat([p.detach().reshape(-1) for p in params])
                    dist.broadcast(together, group=self.process_group, group_src=rank)
                    if rank != self.process_group.rank():
                        for p, part in zip(params, together.split([p.numel() for p in params])):
                            p.copy_(part.view(p.shape))
        return loss

    def add_param_group(self, param_group):
        """Add parameters; they are divided anew."""
        super().add_param_group(param_group)
        if self.optim is not None:
            self._divide()

    def consolidate_state_dict(self, to=0) -> None:
        """Bring all ranks' states to rank `to`, for `state_dict`; all ranks call it."""
        mine = {}
        for i, p in enumerate(self._order()):
            if p in self.state:
                mine[i] = self.state[p]
        rank = dist._world.get_group_rank(self.process_group, to)
        size = self.process_group.size()
        theirs = [None] * size if self.process_group.rank() == rank else None
        dist.gather_object(mine, theirs, group=self.process_group, group_dst=rank)
        self._states = theirs or []

    def _order(self):
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict:
        """The whole state, as of one optimiser over all parameters, on the rank that `consolidate_state_dict` brought it to."""
        if not self._states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.process_group.rank()})` on all ranks beforehand if you meant to save the global state."
            )
        state = {i: s for states in self._states for i, s in states.items()}
        groups, at = [], 0
        for group in self.param_groups:
            n = len(group["params"])
            groups.append(
                {**{k: v for k, v in group.items() if k != "params"}, "params": list(range(at, at + n))}
            )
            at += n
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict) -> None:
        """Load a whole state; each rank keeps its share."""
        order = self._order()
        for i, state in state_dict["state"].items():
            if self.optim is not None and self._owner[order[int(i)]] == self.process_group.rank():
                self.optim.state[order[int(i)]] = {
                    k: v.clone() if isinstance(v, ad.Tensor) else v for k, v in state.items()
                }
        for here, there in zip(self.param_groups, state_dict["param_groups"]):
            here.update({k: v for k, v in there.items() if k != "params"})

    def join_hook(self, **kwargs):
        """What `Join` calls on a rank without inputs."""
        return _Hook(self)

    @property
    def join_device(self):
        """The device of what `Join` sends."""
        return ad.device("cpu")

    @property
    def join_process_group(self):
        """The group that `Join` asks."""
        return self.process_group
