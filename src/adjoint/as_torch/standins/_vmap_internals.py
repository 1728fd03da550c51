"""``torch._vmap_internals``: the older names of `torch.vmap`."""

from __future__ import annotations

from adjoint.func import vmap

__all__ = ["vmap"]


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    return vmap(func, in_dims, out_dims)
