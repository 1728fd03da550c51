"""The function that `ad.jit` returns: selects a trace, records, and gives up.

Calls that are replayed never come here: core/bind/replay_entry.cpp. Start reading at `Jitted._call`.
"""

from __future__ import annotations

import os
import sys
import types
import warnings

from adjoint import _C
from adjoint._replay._agree import agree
from adjoint._replay._codes import Codes
from adjoint._replay._paths import reasons
from adjoint._replay.traces import Recorded, Trace, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Jitted", "jit", "of"]

#: Recordings in a row that lead to no trace, and replays of a trace in a row that were undone, after which it is given up.
_PATIENCE = 8
#: Recordings that are kept to be compared with later ones.
_WAITING = 8
_AGREED = 4
#: Calls in a row that no trace fitted, after which only few of them are recorded.
_MISSES = 32
_OFF = os.environ.get("ADJOINT_JIT") == "0"


class Jitted(_C._Entry):
    """A function that is replayed where possible; see `jit`. Its attributes are those of the function."""

    _OWN = frozenset(
        "function limit __wrapped__ __name__ __qualname__ __doc__ __module__ "
        "_traces _waiting _agreed _codes _listed _calls _replayed _undone _at_once _failed _missed _tried _eager _eager_calls _recorded _reasons _never _timed".split()
    )

    def __init__(self, function: Callable[..., Any], limit: int) -> None:
        super().__init__()
        self.function = function
        self.limit = limit
        self.__wrapped__ = function
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))
        self._never = reasons(function)
        self.clear()

    def clear(self) -> None:
        """Forget all traces and start again."""
        self._traces = []
        #: Recordings that no other agreed with so far, and all code that ran in any.
        self._waiting: list[tuple[Recorded, int]] = []
        #: The last few that agreed with another: where one differs from them in numbers alone, these may vary.
        self._agreed: list[tuple[Recorded, int]] = []
        self._codes: dict[tuple[int, int], Any] | None = None
        self._listed = Codes()
        self._calls = self._recorded = self._replayed = self._eager_calls = self._undone = 0
        self._failed = self._missed = self._tried = 0
        #: Whether programs are planned when they are recorded, and not when they are replayed first: one could not be.
        self._at_once = False
        self._timed = False
        self._eager = _OFF or bool(self._never)
        self._reasons: dict[str, int] = dict.fromkeys(self._never, 1)

    def _call(self, undone: list[Trace] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that no trace was replayed for; `undone`: those that fit, in which decisions come out otherwise."""
        function = self.function
        if _C._reason_not_to_replay():
            self._eager_calls += 1
            return function(*args, **kwargs)
        mode = _C._mode_of_replay()
        undone = undone or []
        for trace in self._traces:
            if trace.checked and trace.mode == mode:
                from adjoint._replay._check import checked

                fits, result = checked(self, trace, args, kwargs, undone)
                if fits:
                    return result
        # No trace, or none in which decisions come out as now: the call is another one to record.
        if any(t.undone >= _PATIENCE for t in undone):
            self._traces = [t for t in self._traces if not (t in undone and t.undone >= _PATIENCE)]
        self._missed += 1
        if self._traces and self._missed > _MISSES and self._missed & (self._missed - 1):
            self._eager_calls += 1
            return function(*args, **kwargs)
        return self._record(mode, args, kwargs)

    def _record(self, mode: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        codes = self._codes  # other threads may forget it meanwhile
        known = [*self._waiting, *self._agreed] if self._tried < _PATIENCE else []
        earlier = [r for r, m in known if m == mode]
        listed = self._listed
        if codes and len(codes) != len(listed):  # it only grows
            self._listed = listed = Codes(codes.copy().values())
        made = record(self.function, args, kwargs, None if codes is None else listed, earlier)
        self._tried += made.tracked is not None
        self._recorded += 1
        result = made.result.pop()
        # What ran while modules were imported, as in many a first call, does not run again.
        if self._recorded > _PATIENCE or not any(code.co_name == "<module>" for code, _ in made.codes):
            if codes is None:
                codes = self._codes = {}
                self._listed = Codes()
            for code, names in made.codes:
                codes[id(code), id(names)] = code, names
        reason = made.unfit or (self._compare(made, mode) if made.recording else "")
        made.tracked = None
        if reason:
            self._fail(reason, lasting=bool(made.unfit))
        return result

    def _compare(self, made: Recorded, mode: int) -> str:
        """A recording that agrees with one of the last few becomes a trace; else it waits for one that does, and the
        answer is why it had to.
        """
        reason = ""
        for before in (*self._waiting, *(self._agreed if made.tracked else ())):
            if before[1] != mode or not (made.watched or made.tracked or before[0].watched):
                continue
            differs = agree(before[0], made)
            reason = reason or differs or ""
            if differs:
                continue
            try:
                trace = Trace(made, mode, self._calls)
                if self._at_once or trace.checked:
                    trace.program.plan()
            except RuntimeError as error:
                return str(error)
            self._failed = 0
            if made.varying:
                self._tried = 0
            self._agreed = [(made, mode), *self._agreed[: _AGREED - 1]]
            self._waiting = [w for w in self._waiting if w is not before]
            if self._timed:
                trace.program.time(True)
            self._keep([trace, *self._traces])
            return ""
        self._waiting.insert(0, (made, mode))
        del self._waiting[_WAITING:]
        return reason

    def _unplanned(self, trace: Trace, reason: str) -> None:
        """A trace could not be made ready to run when it was to be replayed first, and is gone."""
        self._at_once = True
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        self._failed += 1
        again = [pair for pair in self._agreed if pair[0].layout is trace.layout and not pair[0].varying]
        self._waiting = [*again, *self._waiting][:_WAITING]

    def _keep(self, kept: list[Trace]) -> None:
        """From now on these are the traces, but for the oldest above the limit. A new list: other threads walk the last."""
        if len(kept) > self.limit:
            oldest = min(kept[1:], key=lambda t: t.used)
            kept = [t for t in kept if t is not oldest]
        self._traces = kept

    def _fail(self, reason: str, lasting: bool) -> None:
        """Note why a call gave no trace; `lasting` if another recording would not change that."""
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        self._failed += 1
        if self._failed >= _PATIENCE and not self._traces:
            self._eager = True
            self._waiting = []
            self._agreed = []
            self._codes = None
            self._listed = Codes()
            name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
            self._tell(name, reason)

    def _tell(self, name: str, reason: str) -> None:
        warnings.warn(f"jit: {name} is not replayed: {reason}. It runs as it would without jit", stacklevel=5)

    def stats(self) -> dict[str, Any]:
        """Statistics of the calls so far.

        Returns
        -------
        dict
            ``calls``, and how many of them were ``recorded``, ``replayed``, ``eager`` and ``undone``; ``traces`` and the
            ``bytes`` that they take; ``reasons`` why calls were not replayed, with how often.

        Examples
        --------
        >>> import adjoint as ad
        >>> f = ad.jit(lambda x: x * 2)
        >>> for _ in range(5):
        ...     y = f(ad.ones(3))
        >>> f.stats()["replayed"]
        2
        """
        programs = [t.program.statistics() for t in self._traces]
        return {
            "calls": self._calls,
            "recorded": self._recorded,
            "replayed": self._replayed,
            "eager": self._eager_calls,
            "undone": self._undone,
            "traces": len(programs),
            "bytes": sum(p["bytes"] + p["arena_bytes"] for p in programs),
            "reasons": dict(self._reasons),
        }

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bind = getattr(type(self.function), "__get__", None)
        if instance is None or bind is None:
            return self
        bound = bind(self.function, instance, owner)
        if type(bound) is types.MethodType and bound.__func__ is self.function:
            return types.MethodType(self, instance)  # type: ignore[arg-type]
        return self if bound is self.function else bound

    def __getattr__(self, name: str) -> Any:
        if name in Jitted._OWN:
            raise AttributeError(name)
        return getattr(self.function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Jitted._OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.function, name)

    def __repr__(self) -> str:
        return f"<jit of {self.function!r}>"

    def __reduce__(self) -> Any:
        # A function that is found by its name is that, as functions are.
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        name = getattr(self, "__qualname__", "<none>")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (type(self), (self.function, self.limit))


class _Jit:
    """A function with the behaviour of another that is replayed without Python after a few calls.

    The first calls run the function and record what happens to elements, what it reads and what it changes. Once two
    recordings in a row agree, a call that finds everything as it was is replayed: same values to the last bit, same
    gradients, ``.grad``, versions, draws and changes. Any other call runs the function, and is recorded, too. What cannot be
    replayed, a function that prints, say, runs as it would without ``jit``, with a warning that says why.

    Parameters
    ----------
    function : callable
        A function of nested containers of tensors and Python values, a method, or a module. Without it, a decorator.
    limit : int, optional
        How many traces are kept, for other shapes, types, modes and plain values. The least recently used goes.

    Returns
    -------
    Jitted
        What is called as the function is. `Jitted.stats` tells what happened; `jit.explain` what is replayed; `jit.clear`
        forgets it.

    Raises
    ------
    TypeError
        If `function` cannot be called.
    ValueError
        If `limit` is no int of at least 1.

    Examples
    --------
    >>> import adjoint as ad
    >>> w = ad.ones(3, requires_grad=True)
    >>> @ad.jit
    ... def loss(x):
    ...     return (w * x).sin().sum()
    >>> for _ in range(5):
    ...     loss(ad.zeros(3)).backward()
    >>> loss.stats()["replayed"]
    2
    """

    def __call__(self, function: Any = None, *, limit: int = 32) -> Any:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"jit(): limit is how many traces are kept, at least 1, not {limit!r}")
        if function is None:
            return lambda f: self(f, limit=limit)
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__, limit=limit))
        if not callable(function):
            raise TypeError(
                f"jit(): expected a function, a method or a module, not {type(function).__name__}"
            )
        return function if isinstance(function, Jitted) else Jitted(function, limit)

    @staticmethod
    def clear(function: Any) -> None:
        """Forget the traces of a jitted function and start again.

        Parameters
        ----------
        function : Jitted
            What `jit` gave, or a method of it.

        Raises
        ------
        TypeError
            If `jit` did not give it.

        Examples
        --------
        >>> import adjoint as ad
        >>> f = ad.jit(ad.sin)
        >>> ad.jit.clear(f)
        >>> f.stats()["calls"]
        0
        """
        _jitted(function, "clear").clear()

    @staticmethod
    def explain(function: Any, times: bool | None = None) -> str:
        """What is replayed of a jitted function, and why other calls are not.

        Parameters
        ----------
        function : Jitted
            What `jit` gave, or a method of it.
        times : bool, optional
            True: from now on the time of each instruction is taken as calls are replayed, and shown here. False: no longer.

        Returns
        -------
        str
            The counts of `Jitted.stats`; of each trace what it reads, the memory that it takes, and its instructions, with
            nanoseconds if these were taken; and reasons.

        Raises
        ------
        TypeError
            If `jit` did not give it.

        Examples
        --------
        >>> import adjoint as ad
        >>> f = ad.jit(lambda x: x.exp() * 2)
        >>> for _ in range(5):
        ...     y = f(ad.ones(3))
        >>> print(ad.jit.explain(f).splitlines()[-1])
          loop   mul of 3
        """
        from adjoint._replay._explain import explain

        f = _jitted(function, "explain")
        if times is not None:
            f._timed = bool(times)
            for trace in f._traces:
                trace.program.time(f._timed)
        return explain(f)


def of(function: Any) -> Jitted | None:
    """The jitted function that this is, or is a method of."""
    found = function if isinstance(function, Jitted) else getattr(function, "__func__", None)
    return found if isinstance(found, Jitted) else None


def _jitted(function: Any, what: str) -> Jitted:
    found = of(function)
    if found is None:
        raise TypeError(
            f"jit.{what}(): expected a function that jit() returned, not {type(function).__name__}"
        )
    return found


jit = _Jit()
