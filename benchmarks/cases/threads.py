"""What a second thread brings: each library against itself, one thread and two, sampled in turn."""

import statistics
import threading
import time

from benchmarks.cases.large import expression, matmul, rows
from benchmarks.harness import Comparison, Row, attempt, child, quartiles, set_threads, study, wave


def softmax(m):
    f, x = rows(m)["softmax"], wave(m, 2000, 2000, scale=0.013)
    return lambda: f(x, 1)


def exponential(m):
    x = wave(m, 10_000_000, scale=0.001)
    out = m.empty_like(x)
    return lambda: m.exp(x, out=out)


CASES = {
    "large expression and gradient": expression,
    "exp into a given tensor, 10⁷": exponential,
    "matrix product 1024³": matmul,
    "softmax 2000×2000": softmax,
}


def gain(m, prepare, settings):
    """Time with one thread over time with two."""
    function, why = attempt(prepare, m)
    if why:
        return None, why

    def with_threads(count):
        def run():
            set_threads(m, count)
            function()

        return run

    try:
        one, two = Comparison([with_threads(1), with_threads(2)], settings).run()
    finally:
        set_threads(m, 1)
    return statistics.median(one) / statistics.median(two), ""


@study("thread scaling", group="threads")
def scaling(ours, theirs, settings):
    for name, prepare in CASES.items():
        row = Row(f"gain of two threads over one: {name}", unit="×", target="≥ 1.7×")
        for field, m in (("ours", ours), ("theirs", theirs)):
            if m is not None:
                value, why = gain(m, prepare, settings)
                setattr(row, field, value)
                row.note = row.note or why
        row.reached = row.ours >= 1.7 if row.ours else None
        yield row


@study("parallel branches", group="threads")
def towers(ours, theirs, settings):
    """Eight towers of operations that are too small to be split, and one sum over them: backward alone."""
    row = Row("gain of parallel branches: eight towers, two threads", unit="×", target="≥ 1.6×")

    def measure(m):
        x = wave(m, 64, 64, scale=0.013).requires_grad_()

        def tower(t):
            for _ in range(20):
                t = m.tanh(t @ x)
            return t.sum()

        y = m.stack([tower(x * (0.1 * k)) for k in range(8)]).sum()

        def backward(parallel):
            def run():
                with m.autograd.set_parallel_backward(parallel):
                    m.autograd.grad(y, x, retain_graph=True)

            return run

        set_threads(m, 2)
        try:
            serial, parallel = Comparison([backward(False), backward(True)], settings).run()
        finally:
            set_threads(m, 1)
        return statistics.median(serial) / statistics.median(parallel)

    row.ours, why = attempt(measure, ours)
    row.note = why or ""
    row.reached = None if row.ours is None else row.ours >= 1.6
    yield row


def graphs(m):
    """A function that records a graph of small operations and differentiates it."""

    def work():
        x = m.ones(16).requires_grad_()
        y = x
        for _ in range(300):
            y = m.sin(y) * x
        y.sum().backward()

    return work


def side_by_side(work, count):
    """Seconds of `count` calls in each of two Python threads."""

    def run():
        for _ in range(count):
            work()

    workers = [threading.Thread(target=run) for _ in range(2)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


@study("two Python threads with a graph each", group="threads")
def python_threads(ours, theirs, settings):
    """Both libraries' two threads, in turn; the note says what each gains over one thread that does it all."""
    row = Row("two Python threads, each records and differentiates graphs of its own", target="≥ 1.8×")
    present = [m for m in (ours, theirs) if m is not None]
    works = [graphs(m) for m in present]
    for work in works:
        work()
    counts = []
    for work in works:
        start = time.perf_counter()
        work()
        counts.append(max(1, int(settings.sample_seconds / (time.perf_counter() - start))))
    times = [[] for _ in present]
    alone = [[] for _ in present]
    for _ in range(settings.samples):
        for k, work in enumerate(works):
            times[k].append(side_by_side(work, counts[k]) / counts[k])
            start = time.perf_counter()
            for _ in range(2 * counts[k]):
                work()
            alone[k].append((time.perf_counter() - start) / counts[k])
    row.ours = statistics.median(times[0])
    row.note = "gain over one: " + ", ".join(
        f"{m.__name__} {statistics.median(b) / statistics.median(a):.2f}×"
        for m, a, b in zip(present, times, alone, strict=True)
    )
    if len(present) > 1:
        row.theirs = statistics.median(times[1])
        row.ratio = row.theirs / row.ours
        row.quartiles = quartiles([b / a for a, b in zip(*times, strict=True)])
        row.reached = row.ratio >= 1.8
    yield row


RESTING = """
import importlib, sys, time
m = importlib.import_module(sys.argv[1])
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096
y = x = m.tensor(1.0, requires_grad=True)
for _ in range(1_000_000):
    y = m.sin(y)
peak = resident()
del y
for _ in range(30):
    (x * x).backward()
    time.sleep(0.1)
print(resident(), peak)
"""


@study("memory after a peak", group="memory")
def resting(ours, theirs, settings):
    """What a process keeps three seconds after a graph of a million operations has gone."""
    row = Row("kept after a graph of 10⁶ operations has gone", unit="B", target="≤ 100 MB")
    for field, m in (("ours", ours), ("theirs", theirs)):
        if m is None:
            continue
        kept, why = attempt(lambda m=m: int(child(RESTING, m.__name__).split()[0]))
        setattr(row, field, kept)
        row.note = row.note or why or ""
    if row.ours:
        row.reached = row.ours <= 100e6
        row.ratio = row.theirs / row.ours if row.theirs else None
    yield row
