"""``torch._subclasses.fake_tensor``: tensors without data for a compiler; here those of the device meta have none."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refused

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]

_types = refused(
    "torch._subclasses.fake_tensor", "FakeTensor FakeTensorMode", "make tensors on the device meta"
)
FakeTensor, FakeTensorMode = _types.values()


def is_fake(x) -> bool:
    """Whether a tensor stands for one that a compiler will see: never."""
    return False
