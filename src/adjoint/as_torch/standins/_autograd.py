"""Private names of ``torch.autograd`` that programs use.

How the history of a view is made anew, counts of writes, and the Function that changes a
shape. Start reading at `_unsafe_preserve_version_counter`.
"""

from __future__ import annotations

from adjoint import _C, Tensor
from adjoint.autograd.function import Function

__all__ = ["Resize"]


class _force_original_view_tracking:
    """A switch, at once and as a context, of how the history of a view is made anew after a write to its base.

    Here that repeats the view, as torch does where this is on, and there is nothing to switch.
    """

    mode = False

    def __init__(self, mode):
        cls = type(self)
        self.before, cls.mode = cls.mode, bool(mode)

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        type(self).mode = self.before


def is_view_replay_enabled() -> bool:
    """What was asked for by `_force_original_view_tracking`."""
    return _force_original_view_tracking.mode


def _is_checkpoint_valid() -> bool:
    """Whether a checkpointed region may be recomputed in the pass that runs: always, since `autograd.grad` may, too."""
    return True


class _unsafe_preserve_version_counter:
    """A context that preserves the version counters of tensors, so that writes go unnoticed."""

    def __init__(self, tensors):
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
        self.versions = [t._version for t in self.tensors]

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        for tensor, version in zip(self.tensors, self.versions, strict=True):
            _C._set_version(tensor, version)


def _profiler_enabled() -> bool:
    """Whether a `torch.profiler.profile` is open."""
    from adjoint.as_torch.standins.profiler import _watching

    return bool(_watching)


class Resize(Function):
    """The same elements in another shape."""

    @staticmethod
    def forward(ctx, tensor, sizes):
        ctx.shape = tensor.shape
        if tensor.numel() != _C.Size(sizes).numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({_C.Size(sizes).numel()} elements in total), but the given "
                f"tensor has a size of {'x'.join(map(str, tensor.size()))} ({tensor.numel()} elements). autograd's resize can "
                "only change the shape of a given tensor, while preserving the number of elements."
            )
        return tensor.reshape(sizes).clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(ctx.shape), None
