"""Padding as modules: each holds the widths, and calls `functional.pad` in its mode.

The classes for one, two and three dimensions differ in how many widths there are.
"""

from __future__ import annotations

from adjoint._publish.arguments import whole
from adjoint._types import Ints, Tensor

from . import functional
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
        return functional.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Ints, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return functional.pad(input, self.padding, "constant", self.value)

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
