"""What a second thread brings: each library against itself, one thread and two, sampled in turn."""

import statistics

from benchmarks.cases.large import expression, matmul, rows
from benchmarks.harness import Comparison, Row, attempt, set_threads, study, wave


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
    row = Row("gain of parallel branches: eight towers, two threads", unit="×", target="≥ 1.5×")

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
    row.reached = None if row.ours is None else row.ours >= 1.5
    yield row
