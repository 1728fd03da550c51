"""Which loops are vectors: each element-wise row runs several times as fast as its portable loop, or its documentation says why not.

    python -m benchmarks.vector_forms

A loop with a call or a branch in it goes an element at a time on every processor, so it gains nothing from wide vectors. Two processes
time all rows, values and derivatives, one of them by the portable loops. Rows that gain nothing and do not say so are printed, and so are
those that say so and gain; the exit status tells whether there are any. Start reading at `main`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import adjoint as ad

TESTS = Path(__file__).resolve().parent.parent / "tests"
PROGRAM = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
import adjoint as ad
from samples import operands
from test_table import ELEMENTWISE, function
ad.set_num_threads(1)
N = 16384

def shortest(f):
    best = 1e9
    for _ in range(9):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    return best

found = {}
for op in ELEMENTWISE:
    for dtype in ("float32", "float64"):
        if dtype not in op["types"]:
            continue
        f, xs = function(op), [ad.tensor(x) for x in operands(op, dtype, (N,))]
        out = f(*xs)
        if out.dtype is ad.bool or op["condition"] >= 0:
            continue
        found[f"{op['name']} {dtype}"] = shortest(lambda: f(*xs))
        if op["differentiable"]:
            for k in range(len(xs)):
                leaves = [x.detach().requires_grad_(i == k) for i, x in enumerate(xs)]
                y = f(*leaves)
                if y.requires_grad and y.grad_fn is not None:
                    g = ad.ones_like(y)
                    try:
                        took = shortest(lambda: ad.autograd.grad(y, leaves[k], g, retain_graph=True))
                    except NotImplementedError:
                        continue
                    found[f"{op['name']} {dtype} {k}"] = took
print(json.dumps(found))
"""
#: Words by which a row says that a loop of it, or of its derivatives, has no vector form; the reason follows.
WORD = "An element at a time: "
#: A vector of four or more numbers is more than twice as fast; an element at a time gains up to 1.5 by newer instructions.
GAIN, KNOWN = 1.6, 3.2
#: Seconds below which a loop does too little to be seen beside the call: two nanoseconds an element.
SMALL = 2e-9 * 16384


def times(**environment):
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            json.dumps([str(TESTS), str(TESTS / "ops"), *filter(None, sys.path)]),
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


def slow_rows(quick, portable):
    """The rows of which some loop gains too little; of each the least gain."""
    gains = {}
    for name, seconds in quick.items():
        if seconds > SMALL:
            row = name.split()[0]
            gains[row] = min(gains.get(row, 1e9), portable[name] / seconds)
    return gains


def main():
    """Print the rows that want a word, and those that have one too many; 1 if there are any."""
    said = {row["name"] for row in ad._C.operators() if row["kind"] == "elementwise" and WORD in row["doc"]}
    quick, portable = times(), times(ADJOINT_ISA_LEVEL="0")
    if portable["exp float32"] < GAIN * quick["exp float32"]:
        print("this processor runs the portable loops, with which others are compared")
        return 0
    for _ in range(3):  # what else the machine does makes a time longer, never shorter
        gains = slow_rows(quick, portable)
        without = {row for row, gain in gains.items() if gain < GAIN} - said
        needless = {row for row in said if gains.get(row, 1e9) > KNOWN}
        if not without and not needless:
            break
        quick = {k: min(v, quick[k]) for k, v in times().items()}
        portable = {k: min(v, portable[k]) for k, v in times(ADJOINT_ISA_LEVEL="0").items()}
    for row in sorted(without):
        print(
            f"{row}: {gains[row]:.2f} times as fast as its portable loop; its doc should end with {WORD!r} and the reason"
        )
    for row in sorted(needless):
        print(f"{row}: its doc says {WORD!r}, yet it is {gains[row]:.2f} times as fast as its portable loop")
    print(f"{len(gains)} rows timed, {len(said)} say that they go an element at a time")
    return 1 if without or needless else 0


if __name__ == "__main__":
    sys.exit(main())
