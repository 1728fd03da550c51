"""`FileStore`: a store in a file, which is a log of changes that processes append to under a lock of the system.

A change is a record ``length, key, value``; the last one counts. A record that is cut short, since its writer was killed or the disk
is full, is no record: the next writer removes it. Start reading at `_locked`.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time

from adjoint._types import Any
from adjoint.distributed._errors import DistStoreError
from adjoint.distributed._stores import Store, changed, late, seconds
from adjoint.distributed._wire import LONGEST

__all__ = ["FileStore"]

_GONE = 1 << 31  # in place of the length of a value: the key was deleted
_USERS = "adjoint/users"


class FileStore(Store):
    """A store in a file on a disk that all processes see.

    Parameters
    ----------
    file_name : str
        It need not exist. It should not be that of an earlier run, whose values are still in it.
    world_size : int
        How many processes there are; the last to leave removes the file. -1: it stays.
    """

    def __init__(self, file_name: Any, world_size: int = -1) -> None:
        super().__init__()
        self.path, self._world_size = os.fspath(file_name), world_size
        self._values: dict = {}
        self._read_up_to = 0
        self._left = False
        try:
            open(self.path, "ab").close()
        except OSError as error:
            raise DistStoreError(f"FileStore: cannot open {self.path}: {error.strerror}") from None

    @contextlib.contextmanager
    def _locked(self):
        """The file, locked, after reading all its entries."""
        import fcntl

        try:
            with open(self.path, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._catch_up(file)
                yield file
        except OSError as error:
            raise DistStoreError(f"FileStore: {self.path}: {error.strerror}") from None

    def _catch_up(self, file):
        file.seek(0, os.SEEK_END)
        size = file.tell()
        if size < self._read_up_to:
            raise DistStoreError(f"FileStore: {self.path} was truncated or removed by another program")
        file.seek(self._read_up_to)
        data, at = file.read(), 0
        while at + 8 <= len(data):
            n, m = struct.unpack_from("<II", data, at)
            gone, m = m == _GONE, 0 if m == _GONE else m
            if n > LONGEST or m > LONGEST:
                raise DistStoreError(f"FileStore: {self.path} is not a store file")
            if at + 8 + n + m > len(data):
                break
            key = data[at + 8 : at + 8 + n].decode(errors="replace")
            if gone:
                self._values.pop(key, None)
            else:
                self._values[key] = data[at + 8 + n : at + 8 + n + m]
            at += 8 + n + m
        self._read_up_to += at

    def _append(self, file, key, value):
        name = key.encode()
        record = struct.pack("<II", len(name), _GONE if value is None else len(value)) + name + (value or b"")
        # What a writer that was killed left behind is cut off.
        file.truncate(self._read_up_to)
        file.seek(self._read_up_to)
        try:
            file.write(record)
            file.flush()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, self._read_up_to)
            raise DistStoreError(
                f"FileStore: {key!r} could not be written to {self.path}: {error.strerror}"
            ) from None
        self._read_up_to += len(record)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def _look(self, key):
        with self._locked():
            return self._values.get(key)

    def _change(self, key, how, *values):
        with self._locked() as file:
            after = changed(self._values.get(key), how, values)
            if after is not None:
                self._append(file, key, after)
            return self._values.get(key, values[0])

    def _wait(self, keys, timeout):
        end, pause = time.monotonic() + seconds(timeout), 0.0005
        while True:
            with self._locked():
                missing = [key for key in keys if key not in self._values]
            if not missing:
                return
            if time.monotonic() > end:
                raise late(timeout, missing)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _delete(self, key):
        with self._locked() as file:
            there = key in self._values
            if there:
                self._append(file, key, None)
            return there

    def _names(self):
        with self._locked():
            return [key for key in self._values if key != _USERS]

    def _close(self):
        if self._world_size < 1 or self._left:
            return
        self._left = True
        with contextlib.suppress(DistStoreError):
            if self.add(_USERS, 1) >= self._world_size:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
