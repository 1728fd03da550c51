"""``torch._subclasses.fake_tensor``: tensors without data for a compiler; here those of the device meta have none."""

from __future__ import annotations

from contextlib import nullcontext

from adjoint.as_torch.standins._refused import refused

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake", "unset_fake_temporarily"]

_types = refused(
    "torch._subclasses.fake_tensor", "FakeTensor FakeTensorMode", "make tensors on the device meta"
)
FakeTensor, FakeTensorMode = _types.values()


def is_fake(x) -> bool:
    """Whether a tensor stands for one that a compiler will see: never."""
    return False


def unset_fake_temporarily() -> nullcontext:
    """A context without a mode of fake tensors, as it is everywhere."""
    return nullcontext()
