"""What the names in a file stand for: torch's and Adjoint's names of tensors, dtypes, storages and plain containers.

The list is fixed. A file that asks for another name is refused, unless the program has called `add_safe_globals` with what
the name stands for. What makes tensors here checks sizes and strides against the storage. Start reading at `table`.
"""

from __future__ import annotations

import collections
import pickle
import threading
from contextlib import contextmanager

from adjoint import _C
from adjoint._publish.arguments import ignores
from adjoint._switches import switches
from adjoint._tensor.copying import rebuild, rebuild_sparse, set_attributes
from adjoint._tensor.device import LAYOUTS, device
from adjoint._tensor.storage import UntypedStorage
from adjoint._tensor.typed_storage import TypedStorage

#: torch's names of storages, by dtype.
STORAGES = {
    "FloatStorage": _C.float32,
    "DoubleStorage": _C.float64,
    "HalfStorage": _C.float16,
    "BFloat16Storage": _C.bfloat16,
    "LongStorage": _C.int64,
    "IntStorage": _C.int32,
    "ShortStorage": _C.int16,
    "CharStorage": _C.int8,
    "ByteStorage": _C.uint8,
    "BoolStorage": _C.bool,
    "ComplexFloatStorage": _C.complex64,
    "ComplexDoubleStorage": _C.complex128,
}
DTYPES = {dtype.name: dtype for dtype in STORAGES.values()}
#: dtypes that torch has and Adjoint lacks.
ABSENT = (
    "uint16 uint32 uint64 complex32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2 quint8 qint8 qint32 quint4x2 quint2x4"
).split()


class Kind:
    """What a file calls a class of storages: one dtype, or None for bytes."""

    __slots__ = ("dtype", "name")

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype


def refuse(message) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(message)


@ignores("hooks", why="hooks are not read from files", warns=False)
def tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    if not isinstance(storage, (TypedStorage, UntypedStorage)) or not isinstance(dtype, _C.dtype):
        raise refuse(
            f"load(): the file makes a tensor of a {type(storage).__name__} and a {type(dtype).__name__}; expected a "
            "storage and a dtype"
        )
    whole = _C._storage_bytes(storage._tensor)
    _check_part(whole.numel() // dtype.itemsize, offset, size, stride, dtype)
    result = _C._over(whole, dtype, tuple(size), tuple(stride), offset)
    for name in metadata or ():
        if name == "conj" and metadata[name]:
            result = result.conj()
        elif name == "neg" and metadata[name]:
            result = -result
        elif name not in ("conj", "neg"):
            raise refuse(f"load(): a tensor's description has {name!r}; expected 'conj' or 'neg'")
    return result.requires_grad_(True) if requires_grad else result


def _check_part(count, offset, size, stride, dtype):
    """A tensor must lie within its storage: this is where a file that lies about its sizes is found."""
    numbers = (offset, *size, *stride)
    if not all(type(n) is int for n in numbers) or len(size) != len(stride) or min(numbers) < 0:
        raise refuse(
            f"load(): the file describes a tensor of size {size!r}, strides {stride!r}, offset {offset!r}; expected as many "
            "strides as sizes, none of them negative"
        )
    # A tensor without elements reaches nowhere, wherever it begins.
    if 0 in size and offset < 2**40:
        return
    if offset + sum((n - 1) * step for n, step in zip(size, stride)) >= count:
        raise refuse(
            f"load(): the file describes a tensor of size {tuple(size)}, strides {tuple(stride)}, offset {offset}, that reaches "
            f"outside of its storage of {count} elements of {dtype.name}; the file is damaged or malicious"
        )


def tensor_v2(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    if not isinstance(storage, TypedStorage):
        raise refuse(
            f"load(): the file makes a tensor of a {type(storage).__name__}; expected a typed storage"
        )
    return tensor_v3(storage, offset, size, stride, requires_grad, hooks, storage._dtype, metadata)


def meta_tensor(dtype, size, stride, requires_grad):
    """A tensor on the meta device, of which a file holds no elements."""
    from adjoint._tensor.creation import empty_strided

    return empty_strided(
        tuple(size), tuple(stride), dtype=dtype, device="meta", requires_grad=bool(requires_grad)
    )


def sparse_tensor(layout, data):
    """A sparse tensor of its parts, which are held to each other."""
    from adjoint.sparse._making import checked_parts

    parts = list(data) if isinstance(data, (tuple, list)) else []
    number = LAYOUTS.index(layout) - 1 if layout in LAYOUTS else -1
    if number == 0 and len(parts) == 3:  # legacy files do not say it
        parts.append(False)
    tensors = parts[:2] if number == 0 else parts[:3]
    if number < 0 or len(parts) != 4 or not all(isinstance(t, _C.Tensor) for t in tensors):
        raise refuse(f"load(): invalid record of a sparse tensor: {len(parts)} parts for the layout {layout}")
    if number == 0:
        return checked_parts(0, parts[3], parts[0], None, parts[1], parts[2])
    return checked_parts(number, False, *parts)


@ignores("hooks", why="hooks are not read from files", warns=False)
def parameter(data, requires_grad, hooks, state=None):
    from adjoint.nn.parameter import Parameter

    if not isinstance(data, _C.Tensor):
        raise refuse(f"load(): the file makes a Parameter of a {type(data).__name__}; expected a tensor")
    result = Parameter(data.detach(), bool(requires_grad))
    set_state(result, state)
    return result


def tensor_of_type(function, cls, arguments, state):
    """A tensor with attributes, or of a subclass that the program has allowed."""
    if function not in (tensor_v2, tensor_v3, meta_tensor, sparse_tensor, parameter):
        raise refuse("load(): the record of a tensor names a function that does not make tensors")
    result = function(*arguments)
    if isinstance(state, dict) and state.get("_is_buffer"):
        from adjoint.nn.parameter import Buffer

        state = {name: value for name, value in state.items() if name != "_is_buffer"}
        result = Buffer(result, persistent=bool(state.pop("persistent", True)))
    elif cls not in (None, _C.Tensor, type(result)):
        if not (isinstance(cls, type) and issubclass(cls, _C.Tensor)):
            raise refuse(
                f"load(): the file makes a tensor of the type {cls!r}; expected a subclass of Tensor"
            )
        result = result.as_subclass(cls)
    set_state(result, state)
    return result


def set_state(tensor, state):
    if isinstance(state, tuple) and len(state) == 2:
        state = {**(state[0] or {}), **(state[1] or {})}
    if state is not None and not isinstance(state, dict):
        raise refuse(f"load(): a tensor's attributes come as a {type(state).__name__}; expected a dict")
    set_attributes(tensor, state)


def _parameter_of_adjoint(cls, data, requires_grad, attributes):
    from adjoint.nn.parameter import _rebuild

    return _rebuild(cls, data, requires_grad, attributes)


def _encoded(text, encoding):
    """How protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise refuse(f"load(): the file encodes text as {encoding!r}; expected bytes as latin1")
    return text.encode("latin1")


def _layout(name):
    found = {f"torch.{layout.name}": layout for layout in LAYOUTS}.get(name)
    if found is None:
        raise refuse(f"load(): Adjoint does not have the layout {name!r}")
    return found


def _numpy_scalar(dtype, value):
    import numpy as np

    if not isinstance(dtype, np.dtype) or not isinstance(value, bytes) or dtype.hasobject:
        raise refuse("load(): a NumPy number needs a plain dtype and its bytes")
    if len(value) != dtype.itemsize:
        raise refuse(f"load(): a NumPy number of {dtype} has {len(value)} bytes")
    return np.frombuffer(value, dtype)[0]


def table() -> dict:
    """What each name that a file may use stands for, by ``module.name``."""
    found = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.complex": complex,
        "builtins.bytearray": bytearray,
        "_codecs.encode": _encoded,
        "torch.Size": _C.Size,
        "torch.device": device,
        "torch.Tensor": _C.Tensor,
        "torch.serialization._get_layout": _layout,
        "torch._utils._rebuild_tensor": tensor_v2,
        "torch._utils._rebuild_tensor_v2": tensor_v2,
        "torch._utils._rebuild_tensor_v3": tensor_v3,
        "torch._utils._rebuild_meta_tensor_no_storage": meta_tensor,
        "torch._utils._rebuild_sparse_tensor": sparse_tensor,
        "torch._utils._rebuild_parameter": parameter,
        "torch._utils._rebuild_parameter_with_state": parameter,
        "torch._tensor._rebuild_from_type_v2": tensor_of_type,
        "torch.storage.UntypedStorage": Kind("UntypedStorage", None),
        "adjoint.Tensor": _C.Tensor,
        "adjoint.Size": _C.Size,
        # As files name them now, and as they did before (adjoint/_moved.py).
        "adjoint._tensor.device.device": device,
        "adjoint._device.device": device,
        "adjoint._tensor.copying.rebuild": rebuild,
        "adjoint._copying.rebuild": rebuild,
        "adjoint._tensor.copying.rebuild_sparse": rebuild_sparse,
        "adjoint._copying.rebuild_sparse": rebuild_sparse,
        "adjoint.nn.parameter._rebuild": _parameter_of_adjoint,
    }
    for name, dtype in STORAGES.items():
        found["torch." + name] = found["torch.cuda." + name] = Kind(name, dtype)
    for name, dtype in DTYPES.items():
        found["torch." + name] = found["adjoint." + name] = dtype
    return found


def find(module, name, known):
    """What a name in a file stands for.

    Raises
    ------
    UnpicklingError
        It is not on the list: nothing is imported to see what it might be.
    """
    full = f"{module}.{name}"
    if full in known:
        return known[full]
    if full in ("torch.nn.parameter.Parameter", "adjoint.nn.parameter.Parameter"):
        from adjoint.nn.parameter import Parameter

        return Parameter
    if full in ("adjoint.nn.parameter.Buffer", "torch.nn.parameter.Buffer"):
        from adjoint.nn.parameter import Buffer

        return Buffer
    added = _added()
    if full in added:
        return added[full]
    if module == "torch" and name in ABSENT:
        raise refuse(f"load(): the file holds a tensor of dtype torch.{name}, which Adjoint does not have")
    if module.startswith("__torch__"):
        raise refuse(
            f"load(): the file is a TorchScript program (it asks for {full}), which Adjoint does not run; save the state_dict "
            "of the model where torch is installed"
        )
    raise refuse(
        f"Weights only load failed: the file asks for {full}, which is neither a tensor nor a plain container. If you trust "
        "the file, which can then run any code, use weights_only=False; or allow this one with "
        f"{switches.package}.serialization.add_safe_globals"
    )


# --- what the program adds ---------------------------------------------------------------------------------------------------

_safe: list = []
_lock = threading.Lock()


def _added():
    found = {}
    for entry in list(_safe):
        thing, name = (
            entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        )
        found[name] = thing
    if found:
        # NumPy's numbers are made by a function that has had two names; a file may have either.
        pair = {"numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"}
        if pair & found.keys():
            found.update(dict.fromkeys(pair, _numpy_scalar))
    return found


def add_safe_globals(safe_globals) -> None:
    """Allow functions and classes in files that are loaded with `weights_only`.

    Parameters
    ----------
    safe_globals : list of callables, or of pairs (callable, its full name in the file)

    Examples
    --------
    >>> import adjoint as ad, fractions
    >>> with ad.serialization.safe_globals([fractions.Fraction]):
    ...     ad.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    """
    entries = list(safe_globals)
    for entry in entries:
        whole = isinstance(entry, tuple)
        if whole and (len(entry) != 2 or not isinstance(entry[1], str)):
            raise ValueError(
                f"add_safe_globals(): expected a pair of a callable and a str, but got {entry!r}"
            )
        if not callable(entry[0] if whole else entry):
            raise TypeError(f"add_safe_globals(): expected a function or a class, but got {entry!r}")
    with _lock:
        _safe.extend(entry for entry in entries if entry not in _safe)


def clear_safe_globals() -> None:
    """Allow nothing beyond the fixed list.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> class Config:
    ...     pass
    >>> serialization.add_safe_globals([Config])
    >>> serialization.clear_safe_globals()
    >>> serialization.get_safe_globals()
    []
    """
    with _lock:
        _safe.clear()


def get_safe_globals() -> list:
    """What `add_safe_globals` has allowed.

    Returns
    -------
    list of classes and functions

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> serialization.get_safe_globals()
    []
    """
    return list(_safe)


@contextmanager
def safe_globals(safe_globals):
    """`add_safe_globals` for the length of a block.

    Parameters
    ----------
    safe_globals : list of classes and functions
        Or pairs of one and the name by which files know it.

    Yields
    ------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> from collections import Counter
    >>> with serialization.safe_globals([Counter]):
    ...     Counter in serialization.get_safe_globals()
    True
    """
    before = list(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before
