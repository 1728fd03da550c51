"""Stores: small key-value stores that processes share for rendezvous. `HashStore` is local to one process; others have files of their own.

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
    """A value as the bytes that stores hold."""
    return value.encode() if isinstance(value, str) else bytes(value)


def late(timeout, keys) -> DistStoreError:
    """The error of a wait that timed out."""
    return DistStoreError(f"wait timeout after {round(seconds(timeout) * 1000)}ms, keys: {', '.join(keys)}")


class Store:
    """A key-value store that processes share.

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
        """Wait until all keys are set; raise `late` after the timeout."""
        raise NotImplementedError

    def _delete(self, key) -> bool:
        raise NotImplementedError

    def _names(self) -> list:
        raise NotImplementedError

    # --- what programs call ----------------------------------------------------------------------------------------

    @property
    def timeout(self) -> timedelta:
        """The timeout of `get` and `wait`."""
        return self._timeout

    def set_timeout(self, timeout: timedelta | float) -> None:
        """Set the timeout of `get` and `wait`."""
        self._timeout = as_timedelta(timeout)

    def set(self, key: str, value: bytes | str) -> None:
        """Set a key."""
        self._change(key, "set", as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, after waiting until it is set."""
        self._wait([key], self._timeout)
        return self._look(key)

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key holds, 0 where there is none yet, and return the sum."""
        return int(self._change(key, "add", str(int(amount)).encode()))

    def append(self, key: str, value: bytes | str) -> None:
        """Append bytes to a value."""
        self._change(key, "append", as_bytes(value))

    def compare_set(self, key: str, expected_value: bytes | str, desired_value: bytes | str) -> bytes:
        """Set a key to the desired value if it has the expected one (or is unset and the expected one is empty); return its value."""
        return self._change(key, "compare", as_bytes(expected_value), as_bytes(desired_value))

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        """Wait until all keys are set.

        Raises
        ------
        DistStoreError
            They are not, after the timeout.
        """
        self._wait(list(keys), self._timeout if timeout is None else as_timedelta(timeout))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are set."""
        return all(self._look(key) is not None for key in keys)

    def multi_get(self, keys: Sequence[str]) -> list:
        """The values of several keys, after waiting until they are set."""
        keys = list(keys)
        self._wait(keys, self._timeout)
        return [self._look(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        """Set several keys."""
        keys, values = list(keys), list(values)
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): {len(keys)} keys and {len(values)} values")
        for key, value in zip(keys, values):
            self.set(key, value)

    def delete_key(self, key: str) -> bool:
        """Delete a key; whether it was set."""
        return self._delete(key)

    def num_keys(self) -> int:
        """The number of keys."""
        return len(self._names())

    def list_keys(self) -> list:
        """The keys."""
        return self._names()

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` can be called."""
        return True

    def queue_push(self, key: str, value: bytes | str) -> None:
        """Append a value to a queue."""
        self.set(f"{key}/queue/{self.add(f'{key}/pushed', 1)}", value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Pop the first value of a queue; if it is empty, wait or raise QueueEmptyError."""
        if not block and self.queue_len(key) <= 0:
            raise QueueEmptyError(f"queue {key} is empty")
        place = f"{key}/queue/{self.add(f'{key}/popped', 1)}"
        value = self.get(place)
        self._delete(place)
        return value

    def queue_len(self, key: str) -> int:
        """The length of a queue."""
        return self.add(f"{key}/pushed", 0) - self.add(f"{key}/popped", 0)

    def clone(self) -> Store:
        """A store over the same values, for another thread."""
        return self

    def _close(self):
        """Close connections and files."""


def changed(before, how, values):
    """The value after a change; None for no change."""
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
        """The keys that are still unset after a number of seconds."""
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
    """A view of another store that prefixes each key."""

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
