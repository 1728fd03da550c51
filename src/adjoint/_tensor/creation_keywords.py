"""The keywords of all functions that make tensors: `dtype`, `device`, `requires_grad`, `layout`, `pin_memory`, and `out`.

A function states what it makes of its own arguments and `dtype`; `creation` publishes it with the rest.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.arguments import give, refuse_pinned
from adjoint._publish.register import overload, published
from adjoint._tensor.device import device_number, strided
from adjoint._types import Any, Callable, Tensor

__all__ = ["creation"]


@overload
def creation(function: Callable[..., Tensor]) -> Callable[..., Tensor]: ...
@overload
def creation(
    *, out: bool = ..., like: bool = ..., consults: bool = ..., row: Any = ...
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]: ...
def creation(
    function: Any = None,
    *,
    out: bool = True,
    like: bool = False,
    consults: bool = False,
    row: Any = None,
) -> Any:
    """Publish a function that makes a tensor, with the keywords that all of these take.

    The function itself sees `dtype` alone, which is that of `out` where this is given.

    Parameters
    ----------
    out : bool
        Whether it takes `out`.
    like : bool
        Whether it is a method, whose tensor says where the new one is made.
    consults : bool
        Whether it takes a tensor, which may answer by `__torch_function__`.
    row : Operator
        The row that does the same for arguments that it takes as they are: such calls go straight to it.

    A function with a parameter `device` takes that as a number, and has to see to it itself.
    """
    if function is None:
        return lambda f: _made(f, out, like, consults, row)
    return _made(function, out, like, consults, row)


def _made(function: Any, out: bool, like: bool, consults: bool, row: Any) -> Any:
    name, takes_out = function.__name__, out
    takes_device = "device" in (function.__kwdefaults__ or ())

    def make(
        *args, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **own
    ):
        if pin_memory:
            refuse_pinned(name, pin_memory)
        if layout is not None and layout is not strided:
            made = make(*args, dtype=dtype, device=device, **own)
            if made._layout_number == 0:
                if "zeros" not in name and "empty" not in name:
                    raise RuntimeError(
                        f"{name}(): cannot make a tensor of layout {layout}; use .to_sparse(layout={layout})"
                    )
                made = made.zero_().to_sparse(layout=layout)
            return _C._as_leaf(made) if requires_grad else made
        if device is not None or like:
            place = args[0]._device_number if device is None else device_number(device)
            if takes_device:
                own["device"] = place
            elif place != (before := _C._default_device()):
                _C._set_default_device(place)
                try:
                    place = args[0].device if device is None else device
                    return make(*args, out=out, dtype=dtype, requires_grad=requires_grad, device=place, **own)
                finally:
                    _C._set_default_device(before)
        if out is None:
            # Ordinary calls have nothing to hand on.
            if own:
                made = function(*args, dtype=dtype, **own)
            else:
                made = function(*args) if dtype is None else function(*args, dtype=dtype)
        elif not takes_out:
            raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
        elif dtype is None or _C._dtype(dtype) is out.dtype:
            made = function(*args, dtype=out.dtype, **own)
            if name in ("arange", "fftfreq", "rfftfreq") and out.numel() and out.numel() != made.numel():
                from warnings import warn

                warn(
                    f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not match the "
                    f"computed number of elements {made.numel()}. Note that this may occur as a result of rounding error. The out "
                    f"tensor will be resized to a tensor of shape ({made.numel()},).",
                    stacklevel=2,
                )
            made = give(out, made, name, warns=name == "normal")
        else:
            raise RuntimeError(
                f"dtype {_C._dtype(dtype)._type_name} does not match dtype of out parameter ({out.dtype._type_name})"
            )
        return _C._as_leaf(made) if requires_grad else made

    maker: Any = make
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(maker, attribute, getattr(function, attribute))
    maker.__wrapped__ = function
    public = published(maker, consults=consults, row=row)
    public._signature = lambda: _signature(function, maker.__kwdefaults__, takes_out)
    return public


#: What the added keywords may be, as annotations.
_TYPES = {
    "out": "Tensor | None",
    "dtype": "DType | None",
    "layout": "Layout | None",
    "device": "Device | None",
    "requires_grad": "bool",
    "pin_memory": "bool",
}


def _signature(function, keywords, takes_out):
    """The parameters of a function and, after them, the keywords that `creation` adds."""
    from inspect import Parameter, signature

    found = signature(function)
    own = [p for p in found.parameters.values() if p.name not in ("dtype", "device")]
    rest = [own.pop()] if own[-1].kind is Parameter.VAR_KEYWORD else []
    added = [
        Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=_TYPES[key])
        for key, default in keywords.items()
        if takes_out or key != "out"
    ]
    return found.replace(parameters=[*own, *added, *rest])
