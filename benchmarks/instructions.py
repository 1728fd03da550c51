"""Instructions per recorded operation, counted by callgrind: exact where a clock is noisy.

`python benchmarks/instructions.py [--json FILE]`. Each count is the difference between two run lengths, so
that starting the interpreter and importing the library cancel. Only the loop of the interpreter remains in
it, the same for every library. Start reading at `MEASURES`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

#: name → (body of the loop, what follows the loop). The backward count is taken as a difference of two of
#: them.
MEASURES = {
    "add": ("x + b", ""),
    "mul": ("x * b", ""),
    "sin": ("sin(x)", ""),
    "sin of 7": ("sin(z)", ""),
    "exp of 7": ("m.exp(z)", ""),
    "sin of 7 and backward": ("sin(z).backward(z)", ""),
    "chain forward": ("y = y * b", ""),
    "chain forward and backward": ("y = y * b", "y.backward()"),
    "sum": ("v.sum()", ""),
    "sum and backward": ("v.sum().backward()", ""),
    "reshape": ("v.reshape(2, 4)", ""),
    "index": ("v[0]", ""),
    "cat": ("m.cat((v, v))", ""),
    "where": ("m.where(c, v, v)", ""),
    "matmul": ("m.matmul(w, w)", ""),
    "softmax twice": ("g(w.softmax(1)[0, 0], w, create_graph=True)[0].sum().backward()", ""),
    "cross entropy twice": ("g(loss(w, t), w, create_graph=True)[0].sum().backward()", ""),
    "write": ("u.copy_(u)", ""),
    "dual mul": ("d * d", ""),
    "dual sum": ("d.sum()", ""),
}

SCRIPT = """
import gc, importlib, itertools, sys
gc.disable()
m = importlib.import_module(sys.argv[1])
m.set_num_threads(1)
def dual_ones():
    dual = importlib.import_module(sys.argv[1] + ".autograd.forward_ad")
    dual.enter_dual_level()
    return dual.make_dual(m.ones(8), m.ones(8))
d = {dual}
def run(count, x, b, sin):
    y, u, c = x, m.ones(8), m.ones(8) > 0
    v, w = m.ones(8, requires_grad=True), m.ones(3, 3, requires_grad=True)
    z, t = m.full((7,), 0.5).requires_grad_(), m.tensor([0, 1, 2])
    g, loss = m.autograd.grad, m.nn.functional.cross_entropy
    for _ in itertools.repeat(None, count):
        {body}
    {after}
arguments = m.tensor(0.5, requires_grad=True), m.tensor(0.25), m.sin
run(100, *arguments)
run(int(sys.argv[2]), *arguments)
"""


def instructions(library, body, after, count):
    """Instructions that a whole process executes with a loop of `count` rounds."""
    script = SCRIPT.format(
        body=body, after=after or "pass", dual="dual_ones()" if body.startswith("d") else "None"
    )
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command += [sys.executable, "-c", script, library, str(count)]
        # A fixed hash seed and the plain allocator of Python make two runs execute the same instructions.
        environment = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=environment, check=False
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"callgrind failed on {library}:\n{done.stderr[-2000:]}")
    return int(found.group(1))


def per_operation(library, body, after, short, long):
    return (instructions(library, body, after, long) - instructions(library, body, after, short)) / (
        long - short
    )


def main(argv=None):
    """Print a line for each measure; without valgrind, say so and succeed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--library", default="adjoint", help="the module to count (torch takes minutes)")
    parser.add_argument("--only", metavar="NAME", help="measures whose name contains NAME")
    parser.add_argument("--short", type=int, default=2_000)
    parser.add_argument("--long", type=int, default=12_000)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 0
    counts = {}
    for name, (body, after) in MEASURES.items():
        if options.only and options.only not in name:
            continue
        counts[name] = per_operation(options.library, body, after, options.short, options.long)
        print(f"{name:32} {counts[name]:10.0f} instructions per operation", flush=True)
    if {"chain forward", "chain forward and backward"} <= counts.keys():
        counts["chain backward"] = counts["chain forward and backward"] - counts["chain forward"]
        print(f"{'chain backward':32} {counts['chain backward']:10.0f} instructions per operation")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"library": options.library, "instructions": counts}, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
