"""Small recorded work with cold caches: this build beside an older one, two processes that take turns on one core.

    python -m benchmarks.cold --other FOLDER       # FOLDER/adjoint is the older build: `src` of another worktree, or site-packages
    python -m benchmarks.cold                      # this build alone, after a flush and without

A warm loop hides what a call costs in a program, where other code runs between: more pages of text, more misses, no other count of
instructions. Each sample is preceded by one of the other process on the same core and by a walk through 64 MB, so that nothing of
the library is in the caches; "warm" is the second of two samples in a row. Start reading at `main`; `work` is what is timed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def work(ad):
    """Functions to time, by name: each takes some tenths of a millisecond when warm."""
    x, c = ad.rand(4, requires_grad=True), ad.rand(4)
    table, index = ad.rand(16, 4, requires_grad=True), ad.tensor([3, 1, 2])

    class Twice(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    def products():
        y = x
        for _ in range(1000):
            y = y * c
        y.sum().backward()

    def mixed():
        y = x
        for _ in range(50):
            y = ad.sin(y * c) + ad.exp(-y) / (1 + y * y) - ad.cat([y[:2], y[2:]]).sum()
        y.sum().backward()

    def indexing():
        y = x[0]
        for k in range(100):
            y = y + table[k % 16, 1:3].sum() * table[index].mean()
        y.backward()

    def functions():
        y = x
        for _ in range(100):
            y = Twice.apply(y)
        y.sum().backward()

    def second_order():
        y = x
        for _ in range(50):
            y = ad.sin(y) * c
        (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
        g.square().sum().backward()

    return {f.__name__: f for f in (products, mixed, indexing, functions, second_order)}


def serve():
    """A child: for each line "name flush" of its input it answers with the seconds of one call."""
    import adjoint as ad

    ad.set_num_threads(1)
    calls, large = work(ad), bytearray(64 << 20)
    for call in calls.values():
        call()
    print(json.dumps([str(Path(ad.__file__).parent.parent), list(calls)]), flush=True)
    for line in sys.stdin:
        name, flush = line.split()
        if flush == "1":
            large[::64] = large[1::64]
        start = time.perf_counter()
        calls[name]()
        print(time.perf_counter() - start, flush=True)


class Child:
    """A process with one build."""

    def __init__(self, folder):
        environment = {**os.environ, **({"PYTHONPATH": folder} if folder else {})}
        command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.folder, self.names = json.loads(self.line())

    def line(self):
        if not (line := self.process.stdout.readline()):
            raise SystemExit("a process ended before it answered; its error stands above")
        return line

    def seconds(self, name, flush):
        print(name, int(flush), file=self.process.stdin, flush=True)
        return float(self.line())


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description="Cold caches, two builds.")
    parser.add_argument("--other", metavar="FOLDER", help="the folder that holds the older build's package")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve()
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    children = [Child(None)] + ([Child(str(Path(options.other).resolve()))] if options.other else [])
    print(*(f"{label}: {c.folder}" for label, c in zip(("this", "other"), children)), sep="\n")
    print(
        f"{'medians':14}"
        + "".join(f"{h:>14}" for h in ("cold", "warm") for _ in children)
        + "   this / other"
    )
    for name in children[0].names:
        cold, warm = [[] for _ in children], [[] for _ in children]
        for k in range(options.samples):
            for i in range(len(children)) if k % 2 else reversed(range(len(children))):
                cold[i].append(children[i].seconds(name, True))
                warm[i].append(children[i].seconds(name, False))
        found = [[statistics.median(s) for s in samples] for samples in (cold, warm)]
        times = "".join(f"{t * 1e6:11.1f} µs" for pair in found for t in pair)
        ratios = "  ".join(f"{pair[0] / pair[1]:.3f}" for pair in found) if len(children) > 1 else ""
        print(f"{name:14}{times}   {ratios}")
    for child in children:
        child.process.stdin.close()
        child.process.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
