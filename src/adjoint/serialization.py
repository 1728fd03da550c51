"""Saving to files and loading: `save` writes torch's archives, `load` reads them and, unless told otherwise, makes nothing
but data.

A pickle can name any function for the reader to call. `load` therefore runs it on a machine of its own, which takes names
from a fixed list (`adjoint._files`). Start reading at `load`.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from contextlib import contextmanager
from typing import IO, Any

from adjoint import _C
from adjoint._files import reading, writing
from adjoint._files.locations import default_restore_location, location_tag, register_package
from adjoint._files.names import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from adjoint._publish.register import listing
from adjoint._tensor.device import device

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_default_load_endianness",
    "get_safe_globals",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_default_load_endianness",
]
__dir__ = listing(__name__)

DEFAULT_PROTOCOL = 2


class LoadEndianness:
    """The order of bytes of files that do not say it: `set_default_load_endianness`."""

    NATIVE, LITTLE, BIG = "native", "little", "big"


def get_default_load_endianness() -> Any:
    """What `set_default_load_endianness` has been given, None at first, which stands for little.

    Returns
    -------
    str, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> serialization.get_default_load_endianness() is None
    True
    """
    return reading.unsaid_order


def set_default_load_endianness(endianness: Any) -> None:
    """Say the order of bytes of archives that do not say it, one of `LoadEndianness` or None.

    Parameters
    ----------
    endianness : {'native', 'little', 'big'}, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> serialization.set_default_load_endianness("big")
    >>> serialization.get_default_load_endianness()
    'big'
    >>> serialization.set_default_load_endianness(None)
    """
    if endianness not in (None, "native", "little", "big"):
        raise TypeError(
            "Invalid argument type in function set_default_load_endianness: expected a LoadEndianness, or None"
        )
    reading.unsaid_order = endianness


FileLike = FILE_LIKE = str | os.PathLike | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors, state dicts, modules, or anything else that can be pickled, to a file that torch reads as well.

    Parameters
    ----------
    obj : object
        Tensors over one memory share it again when they come back; all of the memory is written, also what a view
        does not show. Hooks are left out.
    f : path, or file open for writing bytes
        For a path that ends in ``.safetensors``, `obj` is a dict of tensors: see `adjoint.safetensors.save_file`.
    pickle_module : module
        Another one than `pickle` writes a plain pickle of its own, which torch does not read.
    pickle_protocol : int
        torch reads 2 with `weights_only`.
    _use_new_zipfile_serialization : bool
        Write a zip archive; False writes torch's format of before version 1.6.

    Returns
    -------
    None

    Examples
    --------
    >>> import adjoint as ad, io
    >>> file = io.BytesIO()
    >>> ad.save({"weight": ad.ones(2)}, file)
    >>> position = file.seek(0)
    >>> ad.load(file)
    {'weight': tensor([1., 1.])}
    """
    if _is_safetensors(f):
        from adjoint.safetensors import save_file

        save_file(obj, f)
        return
    with _opened(f, "wb", "save") as file:
        if pickle_module is not pickle:
            pickle_module.dump(obj, file, protocol=pickle_protocol)
        elif _use_new_zipfile_serialization:
            name = os.path.splitext(os.path.basename(os.fspath(f)))[0] if _is_path(f) else "archive"
            writing.archive(obj, file, pickle_protocol, name if isinstance(name, str) and name else "archive")
        else:
            writing.legacy(obj, file, pickle_protocol)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` or torch wrote: archives, torch's legacy format, and pickles of Adjoint.

    Parameters
    ----------
    f : path, or file open for reading bytes
        A path that ends in ``.safetensors`` is read by `adjoint.safetensors.load_file`.
    map_location : str, device, dict of str, or function of a storage and its location, optional
        Where storages go which the file says were elsewhere: 'cpu'.
    pickle_module : module, optional
        What unpickles where `weights_only` is False, which giving a module means, as in torch.
    weights_only : bool
        Make nothing but tensors, numbers, text and containers (the default). False also makes modules and objects of any
        class, and runs whatever code the file names: only for files that you trust.
    mmap : bool
        Leave the numbers of an archive in the file, to be read when they are used; writing to the tensors does not change
        the file. Checksums are not looked at then.
    **pickle_load_args
        Keywords of `pickle_module`'s unpickler.

    Returns
    -------
    object
        What was saved: a tensor, a state dict, a module.

    Raises
    ------
    UnpicklingError
        With `weights_only`, something else is in the file; or the file is damaged, or of another kind.
    RuntimeError
        A storage belongs to a device that is not here.

    Examples
    --------
    >>> import adjoint as ad
    >>> import io
    >>> file = io.BytesIO()
    >>> ad.save({"weight": ad.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> ad.load(file)
    {'weight': tensor([1., 1.])}
    """
    if pickle_module is not None and weights_only:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and not _is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    for name in pickle_load_args.keys() - {"encoding", "errors", "fix_imports", "buffers"}:
        raise TypeError(f"load() got an unexpected keyword argument {name!r}")
    if _is_safetensors(f):
        from adjoint.safetensors import load_file

        if map_location is not None and not isinstance(map_location, (str, device)):
            raise TypeError(
                f"load(): for a .safetensors file map_location must be a device or a str, not {type(map_location).__name__}"
            )
        return load_file(f, "cpu" if map_location is None else map_location)
    careful = pickle_module is None if weights_only is None else weights_only
    unpickler = None if careful else (pickle_module or pickle).Unpickler
    with _opened(f, "rb", "load") as file:
        return reading.read(file, map_location, unpickler, bool(mmap), pickle_load_args)


def _is_path(f):
    return isinstance(f, (str, bytes, os.PathLike))


def _is_safetensors(f):
    return _is_path(f) and os.fsdecode(f).endswith(".safetensors")


@contextmanager
def _opened(f, mode, caller):
    wanted = "read" if mode == "rb" else "write"
    if _is_path(f):
        if os.path.isdir(f):
            raise IsADirectoryError(f"{caller}(): {os.fspath(f)!r} is a directory; expected a file")
        if mode == "wb":
            folder = os.path.dirname(os.fspath(f))
            if folder and not os.path.isdir(folder):
                raise RuntimeError(f"Parent directory {folder} does not exist.")
        with open(f, mode) as file:
            yield file
    elif hasattr(f, wanted):
        if isinstance(f, io.TextIOBase):
            raise TypeError(f"{caller}(): the file is open for text; open it with mode {mode!r}")
        yield f
    else:
        hint = (
            "; did you pass the object and the file in the wrong order?"
            if isinstance(f, (_C.Tensor, dict))
            else ""
        )
        raise AttributeError(
            f"{caller}(): expected 'f' to be string, path, or a file-like object with a '{wanted}' attribute, but got "
            f"{type(f).__name__}{hint}"
        )
