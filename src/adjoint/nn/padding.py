"""Padding: `pad`, and the layers, each of which holds the widths and calls it in its mode.

The classes for one, two and three dimensions differ in how many widths there are.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._publish.arguments import whole
from adjoint._types import Ints, Sequence, Tensor

from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Put `value`, or in other modes elements of the tensor itself, around a tensor.

    Parameters
    ----------
    input : Tensor, any shape
    pad : sequence of int
        (before, after) of the last dimension, then of the one before it, …; negative numbers cut.
    mode : 'constant', 'reflect', 'replicate' or 'circular'
        All but the first pad one, two or three dimensions after one or two others.
    value : float, 0 by default

    Raises
    ------
    RuntimeError
        The length of `pad` is odd or more than twice the dimensions, or a size would be negative; a reflection that
        is not shorter than the dimension.
    NotImplementedError
        Another mode, or another number of dimensions than the mode takes.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.pad(ad.tensor([[1, 2, 3]]), (2, 1), mode="reflect").tolist()
    [[3, 2, 1, 2, 3, 2]]
    >>> ad.nn.functional.pad(ad.tensor([1, 2]), (1, 2), value=9).tolist()
    [9, 1, 2, 9, 9]
    """
    pad = list(pad)
    if mode in ("reflect", "replicate", "circular"):
        return _pad_with_own(input, pad, mode, value)
    if mode != "constant":
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but got {len(pad)}")
    if len(pad) > 2 * input.dim():
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(pad)} and input of dimension {input.dim()}"
        )
    if max(pad, default=0) > 0:
        # Rounded to the input's type, also where that is an infinity.
        value = ad.full((), value, dtype=input.dtype).item() if value else 0
        return _C.constant_pad_nd(input, pad, value)
    # A part, or nothing but the input itself, is to be a tensor of its own too, in the input's order.
    for dim, before, after in zip(range(-1, -len(pad), -1), pad[::2], pad[1::2]):
        size = input.shape[dim]
        if size + before + after < 0:
            raise RuntimeError(
                f"pad: the size {size} of dimension {dim} with padding {before}, {after} would be negative"
            )
        input = input.narrow(dim, -before, size + before + after)
    return input.clone()


def _pad_with_own(input, pad, mode, value):
    """What `functional.pad` does in the modes 'reflect', 'replicate' and 'circular'."""
    if value is not None:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument, but got value={value!r}')
    padded = len(pad) // 2
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but got {tuple(pad)}")
    if not 1 <= padded <= 3 or input.ndim not in (padded + 1, padded + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\nOnly 2D, 3D, 4D, 5D padding with "
            "non-constant padding are supported for now: the last one, two or three dimensions with one or two before them."
        )
    # Only a batch may be empty.
    if mode != "circular" and 0 in input.shape[input.ndim - padded - 1 :]:
        raise RuntimeError(
            f"Expected {padded + 1}D or {padded + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    return _C._own_pad(input, pad, mode)


class _Pad(Module):
    _n = 0
    _mode = "constant"

    def __init__(self, padding: Ints) -> None:
        super().__init__()
        self._n, self._mode = (
            self._n,
            self._mode,
        )  # its own: programs call forward with other objects that have its __dict__
        padding = whole(padding)
        self.padding = (padding,) * (2 * self._n) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        n = self._n
        if self._mode == "circular" and input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return ad.nn.functional.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Ints, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


_TEXT = """Put {what} around the last {n} dimension(s) of {shape}, or without N.

    Parameters
    ----------
    padding : int or tuple of {pairs} int
        (before, after) of the last dimension, then of the one before it, and so on; negative numbers cut.
    """


def _says(what: str, n: int, more: str = "") -> str:
    shape = "(N, C, " + ", ".join("DHW"[3 - n :] if n > 1 else "L") + ")"
    return _TEXT.format(what=what, n=n, shape=shape, pairs=2 * n) + more


class ConstantPad1d(_ConstantPad):
    _n = 1
    __doc__ = _says("a number", 1, "value : float\n    ")


class ConstantPad2d(_ConstantPad):
    _n = 2
    __doc__ = _says("a number", 2, "value : float\n    ")


class ConstantPad3d(_ConstantPad):
    _n = 3
    __doc__ = _says("a number", 3, "value : float\n    ")


class ZeroPad1d(_ZeroPad):
    _n = 1
    __doc__ = _says("zeros", 1)


class ZeroPad2d(_ZeroPad):
    _n = 2
    __doc__ = _says("zeros", 2)


class ZeroPad3d(_ZeroPad):
    _n = 3
    __doc__ = _says("zeros", 3)


class _ReflectionPad(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    _n = 1
    __doc__ = _says("the elements reflected at the border, which itself comes once", 1)


class ReflectionPad2d(_ReflectionPad):
    _n = 2
    __doc__ = _says("the elements reflected at the border, which itself comes once", 2)


class ReflectionPad3d(_ReflectionPad):
    _n = 3
    __doc__ = _says("the elements reflected at the border, which itself comes once", 3)


class _ReplicationPad(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    _n = 1
    __doc__ = _says("the element at the border", 1)


class ReplicationPad2d(_ReplicationPad):
    _n = 2
    __doc__ = _says("the element at the border", 2)


class ReplicationPad3d(_ReplicationPad):
    _n = 3
    __doc__ = _says("the element at the border", 3)


class _CircularPad(_Pad):
    _mode = "circular"


class CircularPad1d(_CircularPad):
    _n = 1
    __doc__ = _says("the elements from the other end", 1)


class CircularPad2d(_CircularPad):
    _n = 2
    __doc__ = _says("the elements from the other end", 2)


class CircularPad3d(_CircularPad):
    _n = 3
    __doc__ = _says("the elements from the other end", 3)


register.publish(globals())
