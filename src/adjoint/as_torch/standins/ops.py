"""``torch.ops``: operators by the names that torch's dispatcher gives them, such as ``torch.ops.aten.mm.default``.

``torch.ops.aten.mm`` holds what torch calls the overloads of one operator. Adjoint's operators have none, so each overload
is the operator itself, ``adjoint.mm``: what a policy of selective checkpointing is given, and what a list for one names.
"""

from __future__ import annotations

import adjoint
from adjoint import _C

__all__ = ["aten"]


class _Packet:
    """The overloads of one operator; calling it calls the operator."""

    def __init__(self, name, operator):
        self.__name__ = name
        self._operator = operator

    def __call__(self, *args, **kwargs):
        return self._operator(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self._operator

    def __repr__(self):
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class _Aten:
    """The namespace of torch's own operators."""

    def __getattr__(self, name):
        operator = vars(adjoint).get(name) or getattr(_C, name, None) or getattr(adjoint.Tensor, name, None)
        if name.startswith("__") or not callable(operator):
            raise AttributeError(f"Adjoint does not have torch.ops.aten.{name}")
        packet = _Packet(name, operator)
        setattr(self, name, packet)
        return packet


aten = _Aten()


def __getattr__(name):
    raise AttributeError(f"Adjoint does not have torch.ops.{name}: operators are not registered by name")
