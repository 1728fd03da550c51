"""`ProcessGroup`: the interface of a backend, with torch's names; further backends are registered by `Backend.register_backend`.

A method takes lists of tensors and options and returns a `Work`. Start reading at `ProcessGroup`.
"""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

from adjoint._types import Any, Sequence, Tensor
from adjoint.distributed._buffers import unrecorded
from adjoint.distributed._reduce_op import ReduceOp
from adjoint.distributed._stores import Store
from adjoint.distributed._work import Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = [
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ProcessGroup",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
]


class _Options:
    """Options of a collective. `rootRank` is a rank within the group."""

    def __init__(self, op=ReduceOp.SUM, root=0, timeout=None, async_op=True, label=0):
        self.reduceOp, self.rootRank, self.rootTensor = op, root, 0
        self.timeout, self.asyncOp, self.label = timeout, async_op, label
        self.device_ids: list = []


class AllreduceOptions(_Options):
    """What `allreduce` of a group is told beside its tensors."""


class AllreduceCoalescedOptions(_Options):
    """What `allreduce_coalesced` of a group is told beside its tensors."""


class BroadcastOptions(_Options):
    """What `broadcast` of a group is told beside its tensors."""


class ReduceOptions(_Options):
    """What `reduce` of a group is told beside its tensors."""


class GatherOptions(_Options):
    """What `gather` of a group is told beside its tensors."""


class ScatterOptions(_Options):
    """What `scatter` of a group is told beside its tensors."""


class ReduceScatterOptions(_Options):
    """What `reduce_scatter` of a group is told beside its tensors."""


class AllToAllOptions(_Options):
    """What `alltoall` of a group is told beside its tensors."""


class BarrierOptions(_Options):
    """What `barrier` of a group is told beside its tensors."""


def whose(name, ranks) -> str:
    """The end of error messages that name ranks within a group."""
    ranks = list(ranks)
    return "" if ranks == list(range(len(ranks))) else f" (ranks within {name}: among all, these are {ranks})"


class ProcessGroup:
    """A group of ranks that run collectives in the same order.

    A backend of one's own is a subclass with those of the methods that its programs call; each returns a `Work`.

    Parameters
    ----------
    rank, size : int
        Which of how many this process is.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self.group_name, self.group_desc = "", ""
        #: By rank within the group: the rank among all.
        self.ranks: list = list(range(size))
        self.bound_device_id = None
        self._store = None

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks it has."""
        return self._size

    def name(self) -> str:
        """The name of the backend."""
        return self.getBackendName()

    def getBackendName(self) -> str:
        """The name of the backend."""
        return "undefined"

    def _get_backend_name(self):
        return self.getBackendName()

    def _get_backend(self, device=None):
        return self

    @property
    def _device_types(self):
        import adjoint as ad

        return [ad.device("cpu")]

    def get_group_store(self) -> Store | None:
        """The store that the ranks used for rendezvous."""
        return self._store

    def _check_usable(self, name):
        """Raise an error if the group has failed or was destroyed."""

    def _whose(self):
        """The end of error messages that name ranks of this group, if these differ from the global ranks."""
        return whose(self.group_name, self.ranks)

    def _refuse(self, what) -> NoReturn:
        raise RuntimeError(f"ProcessGroup {self.getBackendName()} does not support {what}")

    def allreduce(self, tensors: Sequence[Tensor], opts: _Options | None = None) -> Work:
        """Reduce each tensor over the ranks; all of them get the result."""
        self._refuse("allreduce")

    def _at_once(self, tensor, op):
        """Run a synchronous `allreduce` by a shorter path if there is one; whether it did."""
        return False

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: _Options | None = None) -> Work:
        """Like `allreduce`."""
        self._refuse("allreduce_coalesced")

    def broadcast(self, tensors: Sequence[Tensor], opts: _Options | None = None) -> Work:
        """Broadcast the tensor of the root."""
        self._refuse("broadcast")

    def reduce(self, tensors: Sequence[Tensor], opts: _Options | None = None) -> Work:
        """Reduce the tensors of all ranks at the root."""
        self._refuse("reduce")

    def allgather(
        self, output_tensors: Sequence[Any], input_tensors: Sequence[Any], opts: _Options | None = None
    ) -> Work:
        """Gather the inputs of all ranks: ``output_tensors[0][r]`` becomes that of rank r."""
        self._refuse("allgather")

    def gather(
        self, output_tensors: Sequence[Any], input_tensors: Sequence[Any], opts: _Options | None = None
    ) -> Work:
        """Like `allgather`, at the root alone."""
        self._refuse("gather")

    def scatter(
        self, output_tensors: Sequence[Any], input_tensors: Sequence[Any], opts: _Options | None = None
    ) -> Work:
        """Scatter from the root: the output becomes its ``input_tensors[0][rank]``."""
        self._refuse("scatter")

    def reduce_scatter(
        self, output_tensors: Sequence[Any], input_tensors: Sequence[Any], opts: _Options | None = None
    ) -> Work:
        """Reduce and scatter: the output is the reduction of all ranks' ``input_tensors[0][rank]``."""
        self._refuse("reduce_scatter")

    def alltoall(
        self, output_tensors: Sequence[Any], input_tensors: Sequence[Any], opts: _Options | None = None
    ) -> Work:
        """Exchange: ``output_tensors[r]`` becomes ``input_tensors[rank]`` of rank r."""
        self._refuse("alltoall")

    def barrier(self, opts: _Options | None = None) -> Work:
        """Wait until all ranks have called it."""
        self._refuse("barrier")

    def send(self, tensors: Sequence[Tensor], dst: int, tag: int = 0) -> Work:
        """Send a tensor to a rank."""
        self._refuse("send")

    def recv(self, tensors: Sequence[Tensor], src: int, tag: int = 0) -> Work:
        """Receive a tensor from a rank."""
        self._refuse("recv")

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:
        """Receive a tensor from any rank."""
        self._refuse("recv_anysource")

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> Work:
        """A barrier whose error lists the missing ranks."""
        return self.barrier()

    def _allgather_base(self, output, input, opts=None):
        output = unrecorded(output, "all_gather_into_tensor")
        return self.allgather([list(output.view(self._size, -1).unbind())], [input.reshape(-1)], opts)

    def _reduce_scatter_base(self, output, input, opts=None):
        output = unrecorded(output, "reduce_scatter_tensor")
        return self.reduce_scatter([output.view(-1)], [list(input.reshape(self._size, -1).unbind())], opts)

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: _Options | None = None,
    ) -> Work:
        """`alltoall` of pieces of one tensor along its first dimension, of equal size unless sizes are given."""
        output = unrecorded(output, "all_to_all_single")
        pieces: list[Any] = []
        for tensor, sizes in ((output, output_split_sizes), (input, input_split_sizes)):
            even = [tensor.shape[0] // self._size] * self._size if tensor.dim() else []
            pieces.append(list(tensor.split(list(sizes) or even)))
        outputs, inputs = pieces
        return self.alltoall(outputs, inputs, opts)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of further operations."""

    def shutdown(self) -> None:
        """Shut the group down; the other ranks are told that this one has left."""

    def abort(self) -> None:
        """Abort: pending operations fail, on all ranks."""

    # --- in differentiated programs ----------------------------------------------------------------------------------

    def sum(self, x: Tensor) -> Tensor:
        """The differentiable sum of `x` over the ranks, on each of them: see `distributed.nn.functional`."""
        return import_module("adjoint.distributed.nn.functional").all_reduce(x, group=self)
