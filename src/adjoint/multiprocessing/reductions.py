"""How a tensor goes to another process: as the descriptor of shared memory, and what the tensor is over it.

A tensor that is alone on its memory is moved to shared memory where it stands, so that both ends see the same. Of one that
others share, a copy is sent. Start reading at `reduce_tensor`.
"""

from __future__ import annotations

from multiprocessing import context, reduction
from multiprocessing.reduction import ForkingPickler

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor import segments
from adjoint._types import Any

__all__ = ["init_reductions", "rebuild_tensor", "reduce_tensor"]


def rebuild_tensor(
    cls,
    segment: Any,
    start: Any,
    nbytes: Any,
    dtype: Any,
    size: Any,
    stride: Any,
    offset: Any,
    requires_grad: bool,
) -> Any:
    """The tensor of what `reduce_tensor` gave."""
    dtype = getattr(_C, dtype)
    if segment is None:
        part = _C._from_buffer(bytearray(nbytes)) if nbytes else _C._empty((0,), dtype=_C.uint8)
        tensor = _C._over(part, dtype, size, stride, offset)
    else:
        tensor = segments.tensor_over(segment, start, nbytes, dtype, size, stride, offset)
    if cls is not Tensor:
        from adjoint import nn

        kind = getattr(nn, cls)
        return kind(tensor, requires_grad) if cls == "Parameter" else kind(tensor)
    return tensor.requires_grad_() if requires_grad else tensor


def reduce_tensor(tensor: Tensor) -> Any:
    """How a tensor is made again in another process.

    Raises
    ------
    RuntimeError
        The tensor has a history.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    cls = Tensor if type(tensor) is Tensor else type(tensor).__name__
    sent = tensor
    if segments.find(sent) is None and not segments.move([sent], None):
        sent = tensor.detach().clone()
        segments.move([sent], None)
    found = segments.find(sent)
    facts = (
        sent._storage()[1],
        str(sent.dtype).rpartition(".")[2],
        tuple(sent.shape),
        sent.stride(),
        sent.storage_offset(),
        tensor.requires_grad,
    )
    if found is None:  # there are no bytes
        return rebuild_tensor, (cls, None, 0, *facts)
    # The pickle notes a segment once, however many tensors lie in it: a descriptor can be handed on only once.
    return rebuild_tensor, (cls, *found, *facts)


def _rebuild_segment(descriptor, nbytes):
    return segments.mapped(descriptor.detach(), nbytes)


def _reduce_segment(segment):
    starting = context.get_spawning_popen()
    if starting is not None:
        # The process is started when all is pickled; until then the descriptor has to be open.
        vars(starting).setdefault("segments", []).append(segment)
    return _rebuild_segment, (reduction.DupFd(segment.fd), len(segment))


def init_reductions() -> None:
    """Let pickles between processes know tensors; pickles to files are as they were."""
    from adjoint import nn

    for kind in (Tensor, nn.Parameter, nn.Buffer):
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(segments.Segment, _reduce_segment)
