"""Stores: small dictionaries that processes share while they find each other. `HashStore` is one process's; others are beside.

Keys are texts, values bytes. What is asked for and not there is waited for, up to a timeout. Start reading at `Store`.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from adjoint._types import Any, Sequence
from adjoint.distributed._errors import DistStoreError, QueueEmptyError

__all__ = ["HashStore", "PrefixStore", "Store", "as_timedelta", "seconds"]

DEFAULT = timedelta(seconds=300)


def seconds(timeout: Any) -> float:
    """A timeout in seconds: of a timedelta, or of a number, which is seconds already."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        return float(timeout)
    raise TypeError(
        f"Expected timeout argument to be of type datetime.timedelta, but got {timeout!r} of type {type(timeout).__name__}"
    )


def as_timedelta(timeout: Any) -> timedelta:
    """A timeout as a timedelta."""
    return timeout if isinstance(timeout, timedelta) else timedelta(seconds=seconds(timeout))


def as_bytes(value) -> bytes:
    """A value as stores keep it."""
    return value.encode() if isinstance(value, str) else bytes(value)


def late(timeout, keys) -> DistStoreError:
    """What waiting in vain raises."""
    return DistStoreError(f"wait timeout after {round(seconds(timeout) * 1000)}ms, keys: {', '.join(keys)}")


class Store:
    """A dictionary that processes share.

    A subclass says how single keys are read and changed: `_look`, `_change`, `_wait`, `_delete`, `_names`.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT

    # --- what a subclass has ---------------------------------------------------------------------------------------

    def _look(self, key):
        """The value of a key, None where there is none."""
        raise NotImplementedError

    def _change(self, key, how, *values) -> bytes:
        """Change a key in one step and return what it is then; `how`: set, add, append, compare."""
        raise NotImplementedError

    def _wait(self, keys, timeout):
        """Return when all keys are there; raise `late` after a time."""
        raise NotImplementedError

    def _delete(self, key) -> bool:
        raise NotImplementedError

    def _names(self) -> list:
        raise NotImplementedError

    # --- what programs call ----------------------------------------------------------------------------------------

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta | float) -> None:
        """How long `get` and `wait` wait from now on."""
        self._timeout = as_timedelta(timeout)

    def set(self, key: str, value: bytes | str) -> None:
        """Give a key a value."""
        self._change(key, "set", as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once it is there."""
        self._wait([key], self._timeout)
        return self._look(key)

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key holds, 0 where there is none yet, and return the sum."""
        return int(self._change(key, "add", str(int(amount)).encode()))

    def append(self, key: str, value: bytes | str) -> None:
        """Put bytes at the end of a value."""
        self._change(key, "append", as_bytes(value))

    def compare_set(self, key: str, expected_value: bytes | str, desired_value: bytes | str) -> bytes:
        """Give a key the desired value if it has the expected one (or neither value nor expectation); return what it has then."""
        return self._change(key, "compare", as_bytes(expected_value), as_bytes(desired_value))

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        """Wait until all keys are there.

        Raises
        ------
        DistStoreError
            They are not, after the timeout.
        """
        self._wait(list(keys), self._timeout if timeout is None else as_timedelta(timeout))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return all(self._look(key) is not None for key in keys)

    def multi_get(self, keys: Sequence[str]) -> list:
        """The values of several keys, once they are there."""
        keys = list(keys)
        self._wait(keys, self._timeout)
        return [self._look(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        """Give several keys their values."""
        keys, values = list(keys), list(values)
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): {len(keys)} keys and {len(values)} values")
        for key, value in zip(keys, values):
            self.set(key, value)

    def delete_key(self, key: str) -> bool:
        """Take a key out; whether it was there."""
        return self._delete(key)

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._names())

    def list_keys(self) -> list:
        """The keys."""
        return self._names()

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` can be called."""
        return True

    def queue_push(self, key: str, value: bytes | str) -> None:
        """Put a value at the end of a queue."""
        self.set(f"{key}/queue/{self.add(f'{key}/pushed', 1)}", value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; where there is none, wait, or raise QueueEmptyError."""
        if not block and self.queue_len(key) <= 0:
            raise QueueEmptyError(f"queue {key} is empty")
        place = f"{key}/queue/{self.add(f'{key}/popped', 1)}"
        value = self.get(place)
        self._delete(place)
        return value

    def queue_len(self, key: str) -> int:
        """How many values a queue has."""
        return self.add(f"{key}/pushed", 0) - self.add(f"{key}/popped", 0)

    def clone(self) -> Store:
        """A store over the same values, for another thread."""
        return self

    def _close(self):
        """Give back connections and files; a process that leaves says so."""


def changed(before, how, values):
    """The value after a change; None: it stays as it was."""
    if how == "set":
        return values[0]
    if how == "append":
        return (before or b"") + values[0]
    if how == "add":
        try:
            return str(int(before or b"0") + int(values[0])).encode()
        except ValueError:
            raise DistStoreError(f"add() to a key that holds no number, but {bytes(before[:20])!r}") from None
    expected, desired = values
    if before is None:
        return None if expected else desired
    return desired if before == expected else None


class Table:
    """The values of a store in one process, for several threads."""

    def __init__(self):
        self.values: dict = {}
        self.arrived = threading.Condition()

    def change(self, key, how, values) -> bytes:
        with self.arrived:
            after = changed(self.values.get(key), how, values)
            if after is not None:
                self.values[key] = after
                self.arrived.notify_all()
            return self.values.get(key, values[0])

    def wait(self, keys, timeout) -> list:
        """The keys that are still absent after so many seconds."""
        end = time.monotonic() + timeout
        with self.arrived:
            while missing := [key for key in keys if key not in self.values]:
                if not self.arrived.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    break
            return missing


class HashStore(Store):
    """A store of one process, for ranks that are threads, and for tests.

    Examples
    --------
    >>> import adjoint as ad
    >>> store = ad.distributed.HashStore()
    >>> store.set("key", "value")
    >>> store.get("key"), store.add("count", 2)
    (b'value', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()

    def _look(self, key):
        return self._table.values.get(key)

    def _change(self, key, how, *values):
        return self._table.change(key, how, values)

    def _wait(self, keys, timeout):
        if missing := self._table.wait(keys, seconds(timeout)):
            raise late(timeout, missing)

    def _delete(self, key):
        with self._table.arrived:
            return self._table.values.pop(key, None) is not None

    def _names(self):
        return list(self._table.values)


class PrefixStore(Store):
    """Another store, with a word in front of each key."""

    def __init__(self, prefix: str, store: Any) -> None:
        super().__init__()
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore(): expected a Store, but got {type(store).__name__}")
        self.prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    def _name(self, key):
        return f"{self.prefix}/{key}"

    def _look(self, key):
        return self.underlying_store._look(self._name(key))

    def _change(self, key, how, *values):
        return self.underlying_store._change(self._name(key), how, *values)

    def _wait(self, keys, timeout):
        self.underlying_store._wait([self._name(key) for key in keys], timeout)

    def _delete(self, key):
        return self.underlying_store._delete(self._name(key))

    def _names(self):
        start = f"{self.prefix}/"
        return [key[len(start) :] for key in self.underlying_store._names() if key.startswith(start)]

    @property
    def _underlying_non_prefix_store(self):
        inner = self.underlying_store
        return inner._underlying_non_prefix_store if isinstance(inner, PrefixStore) else inner

    def clone(self) -> Any:
        return PrefixStore(self.prefix, self.underlying_store.clone())

    def _close(self):
        self.underlying_store._close()
