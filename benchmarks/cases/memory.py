"""Memory, measured in processes of their own: what a recorded operation keeps, and the peaks of a large
expression and of attention.
"""

from benchmarks.harness import Missing, Row, child, study

# Resident pages, from the kernel: what the process really holds, allocator overhead and all.
GROWTH = """
import importlib, resource, sys
m, expression, count = importlib.import_module(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()
step = eval("lambda y, c, sin: " + expression)
x, c, sin = m.tensor(0.5, requires_grad=True), m.tensor(0.999), m.sin
y = x
for _ in range(1000):
    y = step(y, c, sin)
before = resident()
for _ in range(count):
    y = step(y, c, sin)
print((resident() - before) / count)
"""

PEAK = """
import importlib, sys
m, threads = importlib.import_module(sys.argv[1]), int(sys.argv[2])
m.set_num_threads(threads)
def peak():
    # Not ru_maxrss: across exec a child inherits the peak of the process that started it.
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
exec(sys.argv[3])
before = peak()
exec(sys.argv[4])
print(peak() - before)
"""


def measure(script, names, *arguments):
    values, notes = [], []
    for name in names:
        try:
            values.append(float(child(script, name, *arguments)))
        except Missing as error:
            values.append(None)
            notes.append(f"{name}: {error}")
    return values, "; ".join(notes)


def present(ours, theirs, settings):
    return [n for n, m in ((settings.ours, ours), (settings.theirs, theirs)) if m is not None]


@study("memory per recorded operation", group="memory")
def recorded(ours, theirs, settings):
    count = 100_000 if settings.quick else 1_000_000
    for expression, label, limit in (("y * c", "y = y * c", 250), ("sin(y)", "y = sin(y)", 350)):
        names = present(ours, theirs, settings)
        values, note = measure(GROWTH, names, expression, count)
        found = dict(zip(names, values, strict=True))
        row = Row(f"memory per recorded {label}", unit="B", target=f"≤ {limit} B", note=note)
        row.ours, row.theirs = found.get(settings.ours), found.get(settings.theirs)
        if row.ours is not None:
            row.reached = row.ours <= limit
            row.ratio = row.theirs / row.ours if row.theirs else None
        yield row


EXPRESSION = (
    "x = m.zeros(10_000_000); x += 0.5; x.requires_grad_()",
    "y = (m.tanh(x) * x + m.exp(-x * x)).sum(); y.backward()",
)
ATTENTION = (
    "leaves = [m.rand(1, 8, 2048, 64) for _ in range(3)]; [x.requires_grad_() for x in leaves]; "
    "from importlib import import_module; f = import_module(m.__name__ + '.nn.functional').scaled_dot_product_attention; "
    "(m.rand(64, 64, requires_grad=True) @ m.rand(64, 64)).sum().backward()",
    "f(*leaves).sum().backward()",
)


@study("peak memory of large steps", group="memory")
def peak(ours, theirs, settings):
    for (prepare, work), label, counts in (
        (EXPRESSION, "large expression and gradient", (1, 2)),
        (ATTENTION, "attention, 8 heads of 64, length 2048, and gradient", (1,)),
    ):
        for threads in counts:
            names = present(ours, theirs, settings)
            values, note = measure(PEAK, names, threads, prepare, work)
            found = dict(zip(names, values, strict=True))
            row = Row(
                f"peak memory above inputs, {label}, {threads} thread{'s' * (threads > 1)}",
                unit="B",
                target="≥ 1×",
                note=note,
            )
            row.ours, row.theirs = found.get(settings.ours), found.get(settings.theirs)
            if row.ours and row.theirs:
                row.ratio = row.theirs / row.ours
                row.reached = row.ratio >= 0.99
            yield row
