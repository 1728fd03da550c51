"""The hook of post-local SGD: gradients are averaged over all ranks at first, then over each subgroup alone. Source: Lin et al. (2018).

`optim.PostLocalSGDOptimizer` averages the parameters now and then. Start reading at `post_localSGD_hook`.
"""

from __future__ import annotations

from adjoint.distributed._futures import Future
from adjoint.distributed.algorithms.ddp_comm_hooks.default_hooks import _mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The state of the hook: the groups, and the step at which it begins to use the smaller one.

    Parameters
    ----------
    process_group, subgroup : ProcessGroup
        All ranks, and those whose gradients are averaged after the beginning.
    start_localSGD_iter : int
        How many steps average over all.
    post_local_gradient_allreduce : bool
        Whether gradients are averaged at all afterwards.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: Any,
        post_local_gradient_allreduce: Any = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket) -> None:
        """Count a step, after its last bucket."""
        self.iter += bucket.is_last()


def post_localSGD_hook(state, bucket):
    """The mean over the ranks that `state` names for this step."""
    begun = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if begun and not state.post_local_gradient_allreduce:
        future = Future()
        future.set_result(bucket.buffer())
        return future
    group = state.subgroup if begun else state.process_group
    return _mean(group, bucket.buffer()).then(lambda done: done.value()[0])
