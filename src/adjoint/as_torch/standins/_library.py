"""Names of ``torch.library`` that libraries call when they are imported, before they ask whether there is Triton."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refusing
from adjoint.library import custom_op

__all__: list[str] = []

globals().update(refusing("torch.library", "wrap_triton", "kernels of Triton are not called"))


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """An operator like those of `custom_op`: a function that calls a kernel of Triton is refused where it does so."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)
