"""``torch.ops``: operators by the names that torch's dispatcher gives them, such as ``torch.ops.aten.mm.default``.

``torch.ops.aten.mm`` holds what torch calls the overloads of one operator. Adjoint's operators have none, so each overload
is the operator itself, ``adjoint.mm``: what a policy of selective checkpointing is given, and what a list for one names. Every other
namespace has what `adjoint.library` knows.
"""

from __future__ import annotations

import adjoint
from adjoint import _C
from adjoint.as_torch.standins._refused import refused
from adjoint.library import _custom

__all__ = ["aten", "load_library", "loaded_libraries"]

#: What `load_library` has loaded: nothing.
loaded_libraries: set = set()


globals().update(
    refused("torch._ops", "HigherOrderOperator OpOverload", "operators have no overloads, and no dispatcher")
)


#: Of what words torch's overloads are named: ``dim_IntList``, ``Tensor_Scalar_out``.
_WORDS = frozenset(
    "IntList Other OutScalar OutTensor Scalar ScalarAndTensor ScalarList ScalarOpt ScalarOther ScalarSelf Self Tensor TensorList "
    "all alpha any array beta bin bins bool complex correction ct data decimals default deprecated device dim dims dtype end "
    "enum float from generator grad high indices input int intlist inverse layout left list low mask max mean memory "
    "format min mode names no norm offset or ord other out output p padding idx periodic prim quantized rcond reduce result right "
    "scalar sections self sign size sizes source Storage storage sparse src stable start stats std step str t tensor tensors to tol twin "
    "two unary using ints value values vec with index x hacked n m atol rtol scale".split()
)


class _Packet:
    """The overloads of one operator; calling it calls the operator."""

    def __init__(self, name, operator):
        self.__name__ = name
        self._operator = operator

    def __call__(self, *args, **kwargs):
        return self._operator(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_") or not _WORDS.issuperset(overload.split("_")):
            raise AttributeError(
                f"The underlying op of 'aten.{self.__name__}' has no overload name {overload!r}"
            )
        return self._operator

    def __repr__(self):
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


def _to_copy(self, *, dtype=None, layout=None, device=None, memory_format=None, **keywords):
    keywords = {"layout": layout, "device": device, "memory_format": memory_format, **keywords}
    keywords = {name: value for name, value in keywords.items() if value is not None}
    return self.to(dtype=dtype or self.dtype, copy=True, **keywords)


def _slice(self, dim=0, start=None, end=None, step=1):
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)]


def _index(self, indices):
    return self[tuple(slice(None) if i is None else i for i in indices)]


def _absent(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"Adjoint does not have torch.ops.aten.{name}")

    return refuse


#: What only the dispatcher calls so; and what libraries name in tables of their own, but Adjoint has not.
_OTHERS = {
    "_pin_memory": adjoint.Tensor.pin_memory,
    "_to_copy": _to_copy,
    "alias": lambda self: self.view(self.shape),
    "index": _index,
    "slice": _slice,
    **{name: _absent(name) for name in ("_sparse_addmm", "_sparse_mm_reduce_impl")},
}


class _Aten:
    """The namespace of torch's own operators."""

    def __getattr__(self, name):
        operator = (
            vars(adjoint).get(name)
            or getattr(_C, name, None)
            or getattr(adjoint.Tensor, name, None)
            or _OTHERS.get(name)
        )
        if name.startswith("__") or not callable(operator):
            raise AttributeError(f"Adjoint does not have torch.ops.aten.{name}")
        packet = _Packet(name, operator)
        setattr(self, name, packet)
        return packet


class _Overloads:
    """The overloads of an operator that a program declared; calling it calls the first that takes the arguments."""

    def __init__(self, namespace, name, found):
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__module__ = f"torch.ops.{namespace}"
        self._found = found

    def __call__(self, *args, **kwargs):
        *others, last = self._found.values()
        for op in others:
            try:
                op._schema.bind(args, kwargs)
            except RuntimeError:
                continue
            return op(*args, **kwargs)
        return last(*args, **kwargs)

    def overloads(self):
        return [*self._found]

    def __getattr__(self, overload):
        found = vars(self).get("_found", {}).get(overload)
        if found is None:
            raise AttributeError(
                f"The underlying op of '{self.__module__.removeprefix('torch.ops.')}.{self.__name__}' has no overload name '{overload}'"
            )
        return found._opoverload

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self.__module__.removeprefix('torch.ops.')}.{self.__name__}')>"

    def __str__(self):
        return f"{self.__module__.removeprefix('torch.ops.')}.{self.__name__}"


class _Namespace:
    """The operators that were declared in a namespace, there or not."""

    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, name):
        found = _custom.operators.get(self.__name__, {}).get(name)
        if not found:
            raise AttributeError(f"'_OpNamespace' '{self.__name__}' object has no attribute '{name}'")
        return _Overloads(self.__name__, name, found)

    def __dir__(self):
        return sorted(_custom.operators.get(self.__name__, {}))

    def __repr__(self):
        return f"<module 'torch.ops.{self.__name__}' from 'torch.ops'>"


aten = _Aten()


def load_library(path) -> None:
    """Refused: what a library compiled for torch declares is made of torch's own tensors."""
    raise OSError(
        f"Could not load this library: {path} is compiled for torch, whose tensors Adjoint's are not. Its operators can be "
        "declared in Python by torch.library"
    )


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Namespace(name)
