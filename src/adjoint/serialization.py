"""Saving to files and loading: `save` writes a pickle, `load` reads it and, unless told otherwise, makes nothing but data.

A pickle can name any function for the reader to call. `load` therefore looks names up in a short list (`_ALLOWED`):
tensors, parameters, dtypes, shapes and plain containers. Start reading at `load`.
"""

from __future__ import annotations

import pickle
from contextlib import contextmanager

from adjoint import _C

__all__ = ["load", "save"]

_ALLOWED = {
    ("adjoint", "Tensor"),
    ("adjoint", "Size"),
    ("adjoint._copying", "rebuild"),
    ("adjoint.nn.parameter", "Buffer"),
    ("adjoint.nn.parameter", "Parameter"),
    ("adjoint.nn.parameter", "_rebuild"),
    ("adjoint._device", "device"),
    ("builtins", "complex"),
    ("builtins", "set"),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
}


def save(obj, f, pickle_module=pickle, pickle_protocol=4, _use_new_zipfile_serialization=True) -> None:
    """Write tensors, state dicts, modules, or anything else that can be pickled, to a file.

    Parameters
    ----------
    obj : object
        Each tensor is written by itself: two views of one memory are two memories when they come back.
    f : path, or file open for writing bytes

    Examples
    --------
    >>> import adjoint as ad, io
    >>> file = io.BytesIO()
    >>> ad.save({"weight": ad.ones(2)}, file)
    >>> position = file.seek(0)
    >>> ad.load(file)
    {'weight': tensor([1., 1.])}
    """
    with _opened(f, "wb") as file:
        pickle_module.dump(obj, file, protocol=pickle_protocol)


def load(f, map_location=None, pickle_module=pickle, *, weights_only=True, mmap=None, **keywords):
    """Read what `save` wrote.

    Parameters
    ----------
    f : path, or file open for reading bytes
    map_location : optional
        Accepted for torch's sake; tensors come back on the CPU.
    weights_only : bool
        Make nothing but tensors, numbers, text and containers. False also makes modules and objects of any class,
        and runs whatever code the file names: only for files that you trust.

    Raises
    ------
    UnpicklingError
        With `weights_only`, something else is in the file; or the file was written by torch itself.
    """
    with _opened(f, "rb") as file:
        start = file.peek(4)[:4] if hasattr(file, "peek") else b""
        if start == b"PK\x03\x04":
            raise pickle.UnpicklingError(
                "load(): the file is an archive as torch itself writes them, which Adjoint does not read; "
                "convert it where torch is installed: save the state dict as NumPy arrays"
            )
        return (
            _Careful(file, **keywords) if weights_only else pickle_module.Unpickler(file, **keywords)
        ).load()


class _Careful(pickle.Unpickler):
    def find_class(self, module, name):
        allowed = (module, name) in _ALLOWED
        if not allowed and module == "adjoint":
            allowed = isinstance(getattr(_C, name, None), _C.dtype)
        if not allowed:
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file asks for {module}.{name}, which is neither a tensor nor a plain "
                "container. If you trust the file, which can then run any code, use weights_only=False"
            )
        return super().find_class(module, name)


@contextmanager
def _opened(f, mode):
    if hasattr(f, "read" if mode == "rb" else "write"):
        yield f
    else:
        with open(f, mode) as file:
            yield file
