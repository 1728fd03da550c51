"""Programs made of many small operations, where the cost of recording is everything."""

import itertools
import statistics

from benchmarks import floor
from benchmarks.harness import Comparison, Row, attempt, case, quartiles, study


@case("scalar chain, 1000 × y = y * b, forward and backward", group="small", target=12)
def scalar_chain(m):
    a = m.tensor(1.0, requires_grad=True)
    b = m.tensor(0.999)

    def run():
        a.grad = None
        y = a
        for _ in range(1000):
            y = y * b
        y.backward()
        return a.grad

    return run


# Ten calls are written out so that the loop around them weighs little.
RECORDED = {
    "add": "x + y",
    "mul": "x * y",
    "sin": "sin(x)",
}
LOOP = """
def loop(times, x, y, sin, call):
    for _ in times:
        {body}
"""


def repeated(expression):
    scope = {}
    exec(LOOP.format(body="; ".join([expression] * 10)), scope)  # noqa: S102 - our own text, just above
    return scope["loop"]


def bind(loop, x, y, sin=None, call=None, count=200):
    return lambda: loop(itertools.repeat(None, count), x, y, sin, call)


@study("recorded operation against the floor", group="small")
def recorded(ours, theirs, settings):
    thing = floor.load().make()
    bottom = bind(repeated("call(x, y)"), 1, 2, call=thing.call)
    for name, expression in RECORDED.items():
        row = Row(f"recorded {name}, one call", target="≤ 3× floor")
        loop = repeated(expression)
        functions = [bottom]
        for m in (ours, theirs):
            if m is None:
                continue
            made, why = attempt(
                lambda m=m, loop=loop: bind(
                    loop, m.tensor(0.5, requires_grad=True), m.tensor(0.25), sin=m.sin
                )
            )
            if why:
                row.note = why
                continue
            functions.append(made)
        samples = [[t / 2000 for t in s] for s in Comparison(functions, settings).run()]
        medians = [statistics.median(s) for s in samples]
        if ours is not None and not row.note:
            row.ours = medians[1]
            times = medians[1] / medians[0]
            row.reached = times <= 3
            row.note = f"floor {medians[0] * 1e9:.0f} ns, {times:.1f}× floor"
            if len(medians) > 2:
                row.theirs = medians[2]
                row.ratio = medians[2] / medians[1]
                row.quartiles = quartiles([b / a for a, b in zip(samples[1], samples[2], strict=True)])
        yield row


@case("3×3 recurrence tanh(A @ s + v) - 0.1 * s, 200 steps, forward and backward", group="small", target=8)
def recurrence(m):
    A = m.tensor([[0.5, -0.2, 0.1], [0.3, 0.4, -0.3], [-0.1, 0.2, 0.6]], requires_grad=True)
    v = m.tensor([0.1, -0.2, 0.3], requires_grad=True)
    start = m.tensor([1.0, 0.5, -0.5])

    def run():
        A.grad = v.grad = None
        s = start
        for _ in range(200):
            s = m.tanh(A @ s + v) - 0.1 * s
        s.sum().backward()
        return A.grad

    return run


@case(
    "element indexing and stack, 100 steps of a Lorenz system, forward and backward", group="small", target=8
)
def indexing(m):
    start = m.tensor([1.0, 1.0, 1.0], requires_grad=True)

    def run():
        start.grad = None
        s = start
        for _ in range(100):
            x, y, z = s[0], s[1], s[2]
            s = s + 0.001 * m.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.5 * z])
        s.sum().backward()
        return start.grad

    return run


@case(
    "Hessian-vector product of a 10-dimensional Rosenbrock function, double backward", group="small", target=8
)
def rosenbrock(m):
    x = m.tensor([0.1 * k - 0.4 for k in range(10)], requires_grad=True)
    v = m.tensor([1.0 - 0.15 * k for k in range(10)])
    grad = m.autograd.grad

    def run():
        f = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        (g,) = grad(f, x, create_graph=True)
        return grad(g, x, v)[0]

    return run
