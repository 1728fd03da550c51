"""torch's warning that typed storages will go, once in a process or always: members of `TypedStorage` that say it.

What programs call warns; what torch's own code calls has a private name, and does not. Start reading at `install`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor.typed_storage import TypedStorage, cast_name
from adjoint.as_torch._changes import change

__all__ = ["Removal", "install", "tell_removal"]

#: The private names of what programs call.
_PRIVATE = {
    "nbytes": "_nbytes",
    "size": "_size",
    "element_size": "_element_size",
    "data_ptr": "_data_ptr",
    "resize_": "_resize_",
    "is_shared": "_is_shared",
    "share_memory_": "_share_memory_",
    "pickle_storage_type": "_pickle_storage_type",
    "__len__": "_length",
    "__getitem__": "_getitem",
    "__setitem__": "_setitem",
    "__deepcopy__": "_deepcopy",
    "tolist": "_tolist",
    "fill_": "_fill",
    "clone": "_clone",
    "copy_": "_copy",
    "cpu": "_cpu",
    "type": "_type",
}


class Removal:
    """Whether it has been said, and whether it is said each time."""

    told = True
    always = False
    #: One call warns once, whatever it calls.
    within = False


def tell_removal(level):
    if Removal.within or (Removal.told and not Removal.always):
        return
    Removal.told = True
    from warnings import warn

    warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
        "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
        "tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=level,
    )


def _warns(function):
    def method(self, *args, **keywords):
        if not keywords.pop("_internal", False) and keywords.get("_owner") is None:
            tell_removal(3)
        before, Removal.within = Removal.within, True
        try:
            return function(self, *args, **keywords)
        finally:
            Removal.within = before

    method.__name__, method.__qualname__, method.__doc__ = (
        function.__name__,
        function.__qualname__,
        function.__doc__,
    )
    return method


def install() -> None:
    """Let them warn until `as_torch` is undone."""
    for name, private in _PRIVATE.items():
        if not hasattr(TypedStorage, private):
            change(TypedStorage, private, getattr(TypedStorage, name))
    casts = [cast_name(dtype) for dtype in vars(_C).values() if isinstance(dtype, _C.dtype)]
    for name in ("__init__", "untyped", *_PRIVATE, *casts):
        change(TypedStorage, name, _warns(getattr(TypedStorage, name)))
    change(TypedStorage, "dtype", property(_warns(vars(TypedStorage)["dtype"].fget)))
    change(TypedStorage, "is_cuda", property(_warns(lambda self: False)))
    change(Tensor, "storage", _warns(Tensor.storage))
    change(Removal, "told", False)
