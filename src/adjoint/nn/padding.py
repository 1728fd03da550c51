"""Padding as modules: each holds the widths, and calls `functional.pad` in its mode.

The classes for one, two and three dimensions differ in how many widths there are, so they are made in one loop.
"""

from __future__ import annotations

from adjoint._arguments import whole

from . import functional
from .module import Module

_MODES = {
    "Constant": ("constant", "a number"),
    "Zero": ("constant", "zeros"),
    "Reflection": ("reflect", "the elements reflected at the border, which itself comes once"),
    "Replication": ("replicate", "the element at the border"),
    "Circular": ("circular", "the elements from the other end"),
}

__all__ = sorted(f"{name}Pad{n}d" for name in _MODES for n in (1, 2, 3))


class _Pad(Module):
    _n = 0
    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self._n, self._mode = (
            self._n,
            self._mode,
        )  # its own: programs call forward with other objects that have its __dict__
        padding = whole(padding)
        self.padding = (padding,) * (2 * self._n) if isinstance(padding, int) else tuple(padding)

    def forward(self, input):
        n = self._n
        if self._mode == "circular" and input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return functional.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


def _make(name, n):
    mode, what = _MODES[name]
    before = "(N, C, " + ", ".join("DHW"[3 - n :] if n > 1 else "L") + ")"
    doc = f"""Put {what} around the last {n} dimension(s) of {before}, or without N.

    Parameters
    ----------
    padding : int or tuple of {2 * n} int
        (before, after) of the last dimension, then of the one before it, and so on; negative numbers cut.
    """
    if name == "Constant":
        doc += "value : float\n    "
    base = {"Constant": _ConstantPad, "Zero": _ZeroPad}.get(name, _Pad)
    members = {"_n": n, "_mode": mode, "__doc__": doc, "__module__": __name__}
    return type(f"{name}Pad{n}d", (base,), members)


for _name in _MODES:
    for _number in (1, 2, 3):
        globals()[f"{_name}Pad{_number}d"] = _make(_name, _number)
del _name, _number
