"""``torch._foreach_add_(tensors, others)`` and its like, which optimisers call: the operation, tensor by tensor.

Beside the list of tensors stands a number or a tensor for all of them, or a list with one for each. Start reading at
`foreach`.
"""

from __future__ import annotations

import adjoint
from adjoint import _C
from adjoint._types import Any

__all__ = ["foreach"]

#: Those that have another name.
_FUNCTIONS = {
    "norm": lambda x, ord=2, dtype=None: adjoint.linalg.vector_norm(x, ord, dtype=dtype),
    "powsum": lambda x, ord=2, dtype=None: x.abs().pow(ord).sum(dtype=dtype),
    **{
        name: lambda x, a, b, value=1, _name=name: getattr(x, _name)(a, b, value=value)
        for name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_")
    },
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x, source, non_blocking=False: x.copy_(source),
    "clone": lambda x, memory_format=None: x.clone(),
}


def foreach(name):
    """The function called ``torch.<name>``; AttributeError where there is no operation of that name."""
    operation = name.removeprefix("_foreach_")
    function: Any = _FUNCTIONS.get(operation)
    if function is None:
        function = getattr(_C, operation, None) or getattr(adjoint, operation, None)
        function = function or getattr(adjoint.Tensor, operation, None)
        if not callable(function) or operation.startswith("_"):
            raise AttributeError(name)
    in_place = operation.endswith("_")

    def run(self, *args, **keywords):
        if not isinstance(self, (list, tuple)):
            # The power of one number is the only form in which the list comes second.
            return tuple(function(self, x) for x in args[0])
        count = len(self)
        if not count:
            raise RuntimeError("Tensor list must have at least one tensor.")
        rows = [_each(value, count) for value in args]
        named = {key: _each(value, count) for key, value in keywords.items()}
        results = [
            function(x, *(row[i] for row in rows), **{key: row[i] for key, row in named.items()})
            for i, x in enumerate(self)
        ]
        return list(self) if in_place else tuple(results)

    run.__name__ = run.__qualname__ = name
    return run


def _each(value, count):
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
            if value and isinstance(value[0], adjoint.Tensor)
            else "Tensor list must have same number of elements as scalar list."
        )
    return value
