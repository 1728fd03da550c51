"""The legacy tensor types, one per dtype: ``torch.FloatTensor(2, 3)``, ``isinstance(x, torch.LongTensor)``, ``x.type(…)``.

Nothing is an instance of them but by their dtype; what they construct are ordinary tensors. Start reading at
`TensorType`.
"""

from __future__ import annotations

import adjoint
from adjoint import _C, sparse_coo, strided

__all__ = ["SPARSE_TYPES", "TYPES", "cuda_type"]


class TensorType(type):
    """The type of the types: what they have in common."""

    dtype: _C.dtype
    is_cuda = False
    is_sparse = False
    layout = strided

    def __new__(mcls, name, bases, attributes):
        for base in bases:
            raise TypeError(f"type '{base.__module__}.{base.__name__}' is not an acceptable base type")
        return type.__new__(mcls, name, bases, attributes)

    def __instancecheck__(cls, value):
        return isinstance(value, adjoint.Tensor) and value.dtype is cls.dtype

    def __call__(cls, *args, **keywords):
        return _C._empty((0,), dtype=cls.dtype).new(*args, **keywords)

    def __repr__(cls):
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _make(dtype):
    name = f"{dtype._type_name}Tensor"
    doc = f"Tensors of {dtype.name}: constructs them as legacy programs do; prefer ``tensor(data, dtype=…)``."
    return name, TensorType(name, (), {"__module__": "torch", "__doc__": doc, "dtype": dtype})


#: By name: FloatTensor, LongTensor, …; for complex dtypes torch has none.
TYPES = dict(
    _make(value) for value in vars(_C).values() if isinstance(value, _C.dtype) and not value.is_complex
)


class SparseTensorType(TensorType):
    """Types of sparse tensors: ``torch.sparse.FloatTensor(indices, values, size)`` as legacy programs write it."""

    is_sparse = True
    layout = sparse_coo

    def __instancecheck__(cls, value):
        return isinstance(value, adjoint.Tensor) and value.is_sparse and value.dtype is cls.dtype

    def __call__(cls, *args, **keywords):
        if not args or not isinstance(args[0], adjoint.Tensor):
            # Sizes, spelt out or as one sequence.
            size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
            return adjoint.sparse_coo_tensor(tuple(size), dtype=cls.dtype)
        return adjoint.sparse_coo_tensor(*args, dtype=cls.dtype, **keywords)


#: By name, in `torch.sparse`.
SPARSE_TYPES = {
    name: SparseTensorType(name, (), {"__module__": "torch.sparse", "dtype": kind.dtype})
    for name, kind in TYPES.items()
}


class CudaTensorType(TensorType):
    """Types of tensors on a device that is not there: nothing is an instance, and none can be made."""

    is_cuda = True

    def __instancecheck__(cls, value):
        return False

    def __call__(cls, *args, **keywords):
        raise TypeError(
            f"type {cls!r} not available. Torch not compiled with CUDA enabled: Adjoint has no CUDA device here; use "
            f"torch.{cls.__name__}"
        )


def cuda_type(name):
    """``torch.cuda.FloatTensor`` and its like."""
    return CudaTensorType(name, (), {"__module__": "torch.cuda", "dtype": TYPES[name].dtype})
