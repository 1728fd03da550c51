"""Timing statements, with torch.utils.benchmark's interface: `Timer` measures, `Measurement` holds the times, `Compare` tabulates them.

A statement runs as in `timeit`, on one thread unless told otherwise. A measurement is a list of runs of many repetitions each; its
figures are of one repetition. Start reading at `Timer.blocked_autorange`.
"""

from __future__ import annotations

import textwrap
import timeit
from dataclasses import dataclass, field
from typing import Any

from adjoint import _C
from adjoint._publish.register import listing

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]
__dir__ = listing(__name__)

timer = timeit.default_timer


@dataclass(frozen=True)
class TaskSpec:
    """What was measured."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        name = self.label or textwrap.shorten(self.stmt, 60)
        return name + (f": {self.sub_label}" if self.sub_label else "")


@dataclass
class Measurement:
    """Times of runs of a statement; the figures are seconds for one repetition.

    Parameters
    ----------
    number_per_run : int
        How often the statement ran in each.
    raw_times : list of float
        Seconds of each run.
    task_spec : TaskSpec
    metadata : dict, optional

    Examples
    --------
    >>> from adjoint.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(10, [20.0, 30.0, 70.0], TaskSpec("f()"))
    >>> m.times, m.mean, m.median, m.iqr
    ([2.0, 3.0, 7.0], 4.0, 3.0, 2.5)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        return sum(self.times) / len(self.raw_times)

    @property
    def median(self) -> float:
        return self._quantile(0.5)

    @property
    def iqr(self) -> float:
        """The interquartile range."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def has_warnings(self) -> bool:
        """Whether there are too few runs, or they differ too much, to say a median."""
        return len(self.times) < 3 or self.iqr > 0.1 * self.median

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the times vary by less than this part of their median."""
        return len(self.times) > 1 and self.iqr < threshold * self.median

    def _quantile(self, q):
        times = sorted(self.times)
        place = q * (len(times) - 1)
        low = int(place)
        high = min(low + 1, len(times) - 1)
        return times[low] + (times[high] - times[low]) * (place - low)

    def __getattr__(self, name: str) -> Any:
        # What was measured, asked of the measurement.
        if name in TaskSpec.__dataclass_fields__ or name == "title":
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}")

    def __repr__(self) -> str:
        what = [f"<{__name__}.Measurement object at {hex(id(self))}>", self.title]
        if self.task_spec.setup != "pass":
            what.append("setup: " + textwrap.shorten(self.task_spec.setup, 60))
        runs = len(self.raw_times)
        if runs == 1:
            what.append(f"  {_readable(self.mean)}")
        else:
            what += [f"  Median: {_readable(self.median)}", f"  IQR:    {_readable(self.iqr)}"]
        count = f"{runs} measurement{'s' if runs > 1 else ''}, {self.number_per_run} run{'s' if self.number_per_run > 1 else ''} per measurement"
        threads = self.task_spec.num_threads
        return "\n".join([*what, f"  {count}, {threads} thread{'s' if threads > 1 else ''}"])

    @staticmethod
    def merge(measurements: Any) -> list[Measurement]:
        """Measurements of one thing as one: the runs of all, at the number of repetitions of the first."""
        groups: dict = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [
            Measurement(ms[0].number_per_run, [t * ms[0].number_per_run for m in ms for t in m.times], spec)
            for spec, ms in groups.items()
        ]


def _unit(seconds):
    for name, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return name, size
    return "ns", 1e-9


def _readable(seconds):
    name, size = _unit(seconds)
    return f"{seconds / size:.2f} {name}"


class Timer:
    """Times a statement.

    Parameters
    ----------
    stmt : str
        Code that is run over and over.
    setup : str
        Code that is run before.
    global_setup : str
        Taken for torch's sake, where it is C++.
    timer : callable
        Gives the time in seconds.
    globals : dict, optional
        The names that the code finds.
    label, sub_label, description, env : str, optional
        What `Compare` calls it.
    num_threads : int
        On how many threads operators may run meanwhile.
    language : str
        Python; C++ would need a compiler.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.benchmark import Timer
    >>> m = Timer("x + x", globals={"x": ad.ones(10)}).timeit(100)
    >>> m.number_per_run, 0 < m.mean < 1
    (100, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Any = timer,
        globals: Any = None,
        label: Any = None,
        sub_label: Any = None,
        description: Any = None,
        env: Any = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise ValueError(f"Timer takes Python statements; there is no compiler for {language}")
        stmt, setup = (textwrap.dedent(code).strip() or "pass" for code in (stmt, setup))
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=dict(globals or {}))
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _time(self, number):
        before = _C.get_num_threads()
        _C.set_num_threads(self._task_spec.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            _C.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of `number` repetitions, after a short one that warms up."""
        self._time(max(number // 100, 2))
        return Measurement(number, [self._time(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not there, as in torch: `timeit` and `blocked_autorange` measure."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _number_for(self, seconds):
        """So many repetitions that a run takes this long, and the time of the last run."""
        number = 1
        while True:
            taken = self._time(number)
            if taken >= seconds:
                return number
            number *= 2 if taken * 10 > seconds else 10

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Runs of a thousandth of the time each, until they took `min_run_time` seconds together.

        Parameters
        ----------
        callback : callable, optional
            Called with the repetitions and seconds of each run.
        min_run_time : float
        """
        number = self._number_for(min_run_time / 1000)
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._time(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """Like `blocked_autorange`, until the times vary by less than a part `threshold` of their median."""
        number = self._number_for(0.05 if min_run_time > 0.05 else min_run_time)
        times: list[float] = []
        while True:
            times.append(self._time(number))
            if callback is not None:
                callback(number, times[-1])
            made = Measurement(number, times, self._task_spec)
            spent = sum(times)
            if spent > max_run_time or (spent >= min_run_time and made.meets_confidence(threshold)):
                return made

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Not there: it runs the statement under valgrind with torch's own tools."""
        raise NotImplementedError(
            "Timer.collect_callgrind is not implemented: use timeit or blocked_autorange"
        )


class Compare:
    """Measurements as a table: a row for each `sub_label`, a column for each `description`, a block for each number of threads.

    Examples
    --------
    >>> from adjoint.utils.benchmark import Compare, Measurement, TaskSpec
    >>> spec = lambda what, how: TaskSpec("f()", label="sums", sub_label=what, description=how)
    >>> print(Compare([Measurement(1, [0.002], spec("rows", "old")), Measurement(1, [0.001], spec("rows", "new"))]))
    [--------- sums ---------]
                 |  old |  new
    1 threads: ---------------
          rows   |  2.0 |  1.0
    <BLANKLINE>
    Times are in milliseconds (ms).
    <BLANKLINE>
    """

    def __init__(self, results: Any) -> None:
        self._results: list[Measurement] = []
        self._digits: int | None = None
        self.extend_results(results)

    def extend_results(self, results: Any) -> None:
        """Add measurements."""
        results = list(results)
        for m in results:
            if not isinstance(m, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(m)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Print no more digits than the times vary by."""
        self._digits = 2

    def colorize(self, rowwise: bool = False) -> None:
        """For torch's sake: the table has no colours."""

    def highlight_warnings(self) -> None:
        """For torch's sake: the table marks nothing."""

    def __str__(self) -> str:
        blocks: dict = {}
        for m in Measurement.merge(self._results):
            blocks.setdefault(m.task_spec.label or m.task_spec.stmt, []).append(m)
        return "\n".join(self._table(label, ms) for label, ms in blocks.items())

    def _table(self, label, measured):
        unit, size = _unit(min(m.median for m in measured))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in measured))
        rows = list(dict.fromkeys(m.task_spec.sub_label or m.task_spec.stmt for m in measured))
        cells = {}
        for m in measured:
            spec = m.task_spec
            value = m.median / size
            text = f"{value:.{self._digits}g}" if self._digits else f"{value:.1f}"
            cells[spec.num_threads, spec.sub_label or spec.stmt, spec.description or ""] = text
        first = max(len(r) for r in rows) + 6
        widths = [max(len(c), *(len(t) for (_, _, of), t in cells.items() if of == c)) for c in columns]

        def line(name, parts):
            return f"{name:<{first}}   |  " + " |  ".join(
                f"{p:>{w}}" for p, w in zip(parts, widths, strict=True)
            )

        head = line("", columns)
        out = [f"[{f' {label} ':-^{len(head) - 2}}]", head]
        for threads in sorted({key[0] for key in cells}):
            out.append(f"{threads} threads: ".ljust(len(head), "-"))
            out += [line("      " + r, [cells.get((threads, r, c), "") for c in columns]) for r in rows]
        names = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
        return "\n".join([*out, "", f"Times are in {names[unit]} ({unit}).", ""])

    def print(self) -> None:
        """Print the table."""
        print(self)
