"""The function that `ad.jit` gives: which trace fits, when to record, when to give up.

Most calls of a simple function never come here: core/bind/replay_entry.cpp. Start reading at `Jitted._call`.
"""

import os
import warnings

from adjoint import _C
from adjoint.replay.traces import Trace, Unfit, agree, record

#: Recordings in a row that lead to no trace, and traces in a row that do not fit, after which a function runs by itself.
_PATIENCE = 8
_OFF = os.environ.get("ADJOINT_JIT") == "0"
_CHECK = os.environ.get("ADJOINT_JIT_CHECK") == "1"


class Jitted(_C._Entry):
    """A function that is replayed where it can be; see `jit`."""

    def __init__(self, function, limit):
        super().__init__()
        self.function = function
        self.limit = limit
        self.__wrapped__ = function
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))
        self.clear()

    def clear(self):
        """Forget all traces, and begin anew."""
        self._traces = []
        self._last = None
        self._failed = 0
        self._eager = _OFF
        self._enter_short()
        self._replayed = 0
        self._counts = dict.fromkeys(("calls", "recorded", "replayed", "eager", "undone"), 0)
        self._reasons = {}

    def _call(self, *args, **kwargs):
        counts = self._counts
        counts["calls"] += 1
        function = self.function
        if self._eager or _C._reason_not_to_replay():
            counts["eager"] += 1
            return function(*args, **kwargs)
        mode = _C._mode_of_replay()
        for trace in self._traces:
            if trace.mode != mode:
                continue
            tensors = trace.layout.match(function, args, kwargs)
            if tensors is not None:
                done, result = (self._checked if _CHECK else self._replay)(trace, tensors, args, kwargs)
                if done:
                    return result
                counts["eager"] += 1
                return function(*args, **kwargs)
        return self._record(mode, args, kwargs)

    def _replay(self, trace, tensors, args, kwargs):
        again = trace.again(self.function, args, kwargs) if trace.program.recorded and trace.mode & 1 else None
        made = trace.program.run(tensors, again)
        if made is None:
            self._counts["undone"] += 1
            trace.undone += 1
            if trace.undone >= _PATIENCE and trace in self._traces:
                self._traces.remove(trace)
                self._enter_short()
            return False, None
        trace.undone = 0
        if trace.changes:
            trace.change(self.function, args, kwargs, tensors, made)
        self._counts["replayed"] += 1
        return True, trace.structure.build(made)

    def _checked(self, trace, tensors, args, kwargs):
        """ADJOINT_JIT_CHECK: what a replay gives, and then what the function does from the same state, compared."""
        from adjoint.replay._check import checked

        return checked(self, trace, tensors, args, kwargs)

    def _record(self, mode, args, kwargs):
        last = self._last
        made = record(self.function, args, kwargs, last[0].codes if last and last[1] == mode else None)
        self._counts["recorded"] += 1
        self._last = made, mode
        reason = made.unfit
        if not reason and last and last[1] == mode and last[0].recording:
            reason = last[0].unfit or agree(last[0], made)
            if not reason:
                try:
                    self._add(Trace(made, mode))
                    return made.result
                except RuntimeError as error:
                    reason = str(error)
        result, made.result = made.result, None
        if reason:
            self._fail(reason)
        return result

    def _add(self, trace):
        self._failed = 0
        self._last = None
        self._traces.insert(0, trace)
        del self._traces[self.limit :]
        self._enter_short()

    def _enter_short(self):
        """Let the calls of plain traces take the short way."""
        short = [] if _CHECK else [t for t in self._traces if t.is_plain]
        # Whoever comes first is asked first, so the short way ends where another kind of trace stands.
        plain = self._traces[: len(short)] if self._traces[: len(short)] == short else []
        self._enter(self.function, [(t.mode, t.layout, t.program) for t in plain])

    def _fail(self, reason):
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        self._failed += 1
        if self._failed >= _PATIENCE and not self._traces:
            self._eager = True
            name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
            warnings.warn(
                f"jit: {name} is not replayed: {reason}. It runs as it would without jit", stacklevel=4
            )

    def stats(self):
        """What happened so far.

        Returns
        -------
        dict
            ``calls``, and how many of them were ``recorded``, ``replayed``, ``eager`` and ``undone``; ``traces`` and the
            ``bytes`` that they take; ``reasons`` why calls were not replayed, with how often.
        """
        programs = [t.program.statistics() for t in self._traces]
        short = self._replayed
        counts = {**self._counts, "calls": self._counts["calls"] + short, "replayed": self._counts["replayed"] + short}
        return {
            **counts,
            "traces": len(programs),
            "bytes": sum(p["bytes"] + p["arena_bytes"] for p in programs),
            "reasons": dict(self._reasons),
        }

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        from types import MethodType

        return MethodType(self, instance)

    def __getattr__(self, name):
        if name in ("function", "__wrapped__"):
            raise AttributeError(name)
        return getattr(self.function, name)

    def __repr__(self):
        return f"<jit of {self.function!r}>"

    def __reduce__(self):
        return jit, (self.function,)


class _Jit:
    """See `jit`."""

    def __call__(self, function=None, *, limit=32):
        if function is None:
            return lambda f: self(f, limit=limit)
        if not callable(function):
            raise TypeError(f"jit(): expected a function, a method or a module, not {type(function).__name__}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"jit(): limit is how many traces are kept, at least 1, not {limit!r}")
        if isinstance(function, Jitted):
            return function
        return Jitted(function, limit)

    @staticmethod
    def clear(function):
        """Forget the traces of a jitted function."""
        _jitted(function, "clear").clear()

    @staticmethod
    def explain(function):
        """What is replayed of a jitted function, and why other calls are not, as text."""
        f = _jitted(function, "explain")
        stats = f.stats()
        lines = [f"{f!r}: " + ", ".join(f"{n} {k}" for k, n in stats.items() if isinstance(n, int))]
        for trace in f._traces:
            s = trace.program.statistics()
            lines.append("trace: " + ", ".join(f"{n} {k}" for k, n in s.items()))
            lines.append("  reads " + ", ".join(trace.layout.names))
            lines.extend("  " + line for line in str(trace.program).splitlines())
        lines.extend(f"{n} times: {reason}" for reason, n in stats["reasons"].items())
        return "\n".join(lines)


def _jitted(function, what):
    found = getattr(function, "__func__", function)
    if not isinstance(found, Jitted):
        raise TypeError(f"jit.{what}(): expected a function that jit() gave, not {type(function).__name__}")
    return found


jit = _Jit()
