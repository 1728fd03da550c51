"""Collating samples: tensors are stacked, numbers become tensors, containers are gone through. Start at `default_collate`."""

from __future__ import annotations

import collections.abc
import copy

from adjoint import _C
from adjoint._C import Tensor
from adjoint._types import Any

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]


def _numpy_kind(value):
    """'array' or 'scalar' for what NumPy made, without importing it."""
    if type(value).__module__ != "numpy":
        return None
    return "array" if type(value).__name__ in ("ndarray", "memmap") else "scalar"


def _rebuilt(kind, original: Any, values):
    """A container like `original`, which may be of a subclass, over other values."""
    try:
        if kind is dict:
            if isinstance(original, collections.abc.MutableMapping):
                clone = copy.copy(original)
                clone.update(values)
                return clone
            return type(original)(values)
        if isinstance(original, collections.abc.MutableSequence):
            result: Any = copy.copy(original)
            for i, value in enumerate(values):
                result[i] = value
            return result
        return type(original)(values)
    except TypeError:
        # The type cannot be made from its members, like range.
        return values


def default_convert(data):
    """Convert NumPy arrays in nested containers to tensors; all else stays as it is.

    Parameters
    ----------
    data : object

    Returns
    -------
    object

    Examples
    --------
    >>> from adjoint.utils.data import default_convert
    >>> default_convert([1, "a"])
    [1, 'a']
    """
    import adjoint as ad

    if isinstance(data, Tensor):
        return data
    kind = _numpy_kind(data)
    if kind:
        if kind == "array" and data.dtype.kind in "SUO":
            return data
        return ad.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt(dict, data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(list, data, [default_convert(value) for value in data])
    return data


def _collate_tensors(batch, *, collate_fn_map=None):
    return _C.stack(batch, 0)


def _collate_numbers(batch, *, collate_fn_map=None):
    import adjoint as ad

    return ad.tensor(batch, dtype=ad.float64 if isinstance(batch[0], float) else None)


def _collate_text(batch, *, collate_fn_map=None):
    return batch


#: How samples of a type are put together; programs may add types.
default_collate_fn_map: dict = {
    Tensor: _collate_tensors,
    float: _collate_numbers,
    int: _collate_numbers,
    str: _collate_text,
    bytes: _collate_text,
}


def collate(batch, *, collate_fn_map=None):
    """`default_collate` with another table of functions by type."""
    import adjoint as ad

    first = batch[0]
    if collate_fn_map is not None:
        function = collate_fn_map.get(type(first))
        if function is None:
            function = next((f for t, f in collate_fn_map.items() if isinstance(first, t)), None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    kind = _numpy_kind(first)
    if kind == "array":
        if first.dtype.kind in "SUO":
            raise TypeError(_refusal(first.dtype))
        return collate([ad.as_tensor(x) for x in batch], collate_fn_map=collate_fn_map)
    if kind == "scalar":
        return ad.as_tensor(batch)
    if isinstance(first, collections.abc.Mapping):
        by_key = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first
        }
        return _rebuilt(dict, first, by_key)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(
                f"each element in list of batch should be of equal size, but the sizes are {[len(s) for s in batch]}"
            )
        values = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)]
        return values if isinstance(first, tuple) else _rebuilt(list, first, values)
    raise TypeError(_refusal(type(first)))


def _refusal(found):
    return (
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {found}"
    )


def default_collate(batch):
    """A batch from a list of samples: a new first dimension in front of tensors, containers as they are.

    Parameters
    ----------
    batch : list of samples of one structure
        Tensors and NumPy arrays of one shape are stacked, ints become int64 and floats float64 tensors, strings stay a
        list; dicts, lists, tuples and named tuples are gone through.

    Returns
    -------
    Tensor, or container of batches

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.data import default_collate
    >>> default_collate([{"x": ad.zeros(2), "y": 1}, {"x": ad.ones(2), "y": 2}])["y"]
    tensor([1, 2])
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
