"""How a case is declared, sampled and summarised: start at `case` and `Comparison`.

A *case* is a function of a module with the torch interface; it prepares its inputs and returns the function
to time. Both libraries live in one process; their samples alternate one by one, so that a machine that
slows down slows down both. A row gives the ratio of the medians, and the quartiles of the ratios of
neighbouring samples as its uncertainty.

A case of another nature (memory, import time, size on disk, threads) is a *study*: it gets the list of
libraries and yields rows itself.
"""

import dataclasses
import gc
import importlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

CASES = []


@dataclasses.dataclass
class Row:
    """One line of the table. `ours` and `theirs` are in `unit`; None means that it could not be measured."""

    name: str
    ours: float | None = None
    theirs: float | None = None
    unit: str = "s"
    ratio: float | None = None
    quartiles: tuple[float, float] | None = None
    target: str = ""
    reached: bool | None = None
    note: str = ""


@dataclasses.dataclass
class Case:
    name: str
    group: str
    run: object
    #: The ratio theirs / ours to reach.
    target: float | None = None
    threads: int = 1
    study: bool = False


@dataclasses.dataclass
class Settings:
    quick: bool = False
    #: Names of the modules to compare: ours first, the peer second.
    ours: str = "adjoint"
    theirs: str = "torch"

    @property
    def samples(self):
        return 7 if self.quick else 31

    @property
    def sample_seconds(self):
        return 0.002 if self.quick else 0.02

    @property
    def case_seconds(self):
        return 1.0 if self.quick else 12.0


def case(name, *, group, target=None, threads=1):
    """Register a case: `prepare(m)` returns the function to time, which returns a tensor for the
    comparison.
    """

    def register(prepare):
        CASES.append(Case(name, group, prepare, target, threads))
        return prepare

    return register


def study(name, *, group):
    """Register a study: `run(libraries, settings)` yields rows."""

    def register(run):
        CASES.append(Case(name, group, run, study=True))
        return run

    return register


class Missing(Exception):
    """A library lacks something that the case needs."""


def load(name):
    """Import a library, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def set_threads(m, count):
    """Set a library's number of threads, if it has a way to."""
    getattr(m, "set_num_threads", lambda count: None)(count)


def submodule(m, name):
    """`m.name` as a module: `submodule(m, "nn.functional")`."""
    try:
        return importlib.import_module(f"{m.__name__}.{name}")
    except ImportError as error:
        raise Missing(f"{m.__name__}.{name}") from error


def wave(m, *shape, scale=0.37, **options):
    """A deterministic float32 tensor of values in [-1, 1], the same for every library."""
    count = math.prod(shape)
    out = m.sin(m.arange(count, dtype=m.float32) * scale).reshape(*shape)
    return out.requires_grad_() if options.get("requires_grad") else out


def attempt(function, *arguments):
    """(result, None), or (None, why not): a missing function is a finding, not a crash."""
    try:
        return function(*arguments), None
    except Missing as error:
        return None, f"missing: {error}"
    except (AttributeError, NotImplementedError) as error:
        return None, f"missing: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a library raises belongs in the table
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:100]


def fingerprint(value):
    """A few numbers by which two libraries' results are compared."""
    if value is None:
        return None
    flat = value.detach().reshape(-1)
    step = max(1, flat.numel() // 16)
    return [float(v) for v in flat[::step][:16].tolist()]


def agree(a, b):
    return (
        a is None or b is None or all(abs(x - y) <= 1e-5 + 2e-3 * abs(y) for x, y in zip(a, b, strict=True))
    )


def timed(function, calls):
    start = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return (time.perf_counter_ns() - start) / calls * 1e-9


def calibrate(function, settings):
    """How many calls make one sample, and how many samples fit the time for this case."""
    once = min(timed(function, 1) for _ in range(2))
    calls = max(1, math.ceil(settings.sample_seconds / max(once, 1e-8)))
    budget = settings.case_seconds / 2 / max(once * calls, 1e-8)
    return calls, max(3, min(settings.samples, int(budget)))


class Comparison:
    """Samples several functions one by one in turn."""

    #: A library's threads go on looking for work for some milliseconds, and would take a processor from the other's.
    rest_seconds = 0.01

    def __init__(self, functions, settings, threads=1):
        self.functions = functions
        self.threads = threads
        plans = [calibrate(f, settings) for f in functions]
        self.calls = [plan[0] for plan in plans]
        self.count = min(plan[1] for plan in plans)

    def run(self):
        """One list of seconds per call for each function."""
        samples = [[] for _ in self.functions]
        gc.collect()
        gc.disable()
        try:
            for k in range(self.count):
                # Alternate who goes first: the second finds the caches warmed by the first.
                order = list(enumerate(self.functions))
                for i, function in order if k % 2 == 0 else reversed(order):
                    if self.threads > 1:
                        time.sleep(self.rest_seconds)
                        function()
                    samples[i].append(timed(function, self.calls[i]))
        finally:
            gc.enable()
        return samples


def quartiles(values):
    q = statistics.quantiles(values, n=4, method="inclusive")
    return q[0], q[2]


def compare(entry, ours, theirs, settings):
    """The row of one ordinary case."""
    row = Row(entry.name, target=f"≥ {entry.target:g}×" if entry.target else "")
    functions, problems, prints = [], [], []
    for m in (ours, theirs):
        if m is None:
            functions.append(None)
            problems.append("not installed")
            continue
        set_threads(m, entry.threads)
        function, why = attempt(entry.run, m)
        value = None
        if why is None:
            value, why = attempt(lambda f=function: fingerprint(f()))
        functions.append(function if why is None else None)
        problems.append(why)
        prints.append(value)
    if problems[0]:
        row.note = problems[0]
    elif problems[1]:
        row.note = f"{settings.theirs} {problems[1]}" if theirs else ""
    present = [f for f in functions if f is not None]
    if present:
        samples = iter(Comparison(present, settings, entry.threads).run())
        times = [next(samples) if f is not None else None for f in functions]
        row.ours = statistics.median(times[0]) if times[0] else None
        row.theirs = statistics.median(times[1]) if times[1] else None
        if row.ours and row.theirs:
            row.ratio = row.theirs / row.ours
            row.quartiles = quartiles([b / a for a, b in zip(*times, strict=True)])
            if entry.target:
                row.reached = row.ratio >= entry.target
                # "No slower" is reached by equality, which a ratio of medians meets only within its own
                # spread.
                row.reached |= entry.target == 1 and row.quartiles[1] >= 1
            if not agree(*prints):
                row.note, row.reached = "RESULTS DIFFER", False
    for m in (ours, theirs):
        if m is not None and entry.threads != 1:
            set_threads(m, 1)
    return row


def rows_of(entry, ours, theirs, settings):
    """All rows of a case or study; an error becomes a row that says so."""
    if not entry.study:
        yield compare(entry, ours, theirs, settings)
        return
    try:
        yield from entry.run(ours, theirs, settings)
    except Exception as error:  # noqa: BLE001 - one broken study must not hide the other rows
        yield Row(entry.name, note=f"{type(error).__name__}: {error}".splitlines()[0][:100])


def child(script, *arguments, threads=1):
    """Run a Python script in a process of its own and return the last line that it prints.

    The folder is a fresh one, so that nothing but what is installed (or on PYTHONPATH) can be imported.
    """
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **limits},
            check=False,
        )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "died without a word"
        raise Missing(last[:100])
    return done.stdout.strip().splitlines()[-1]
