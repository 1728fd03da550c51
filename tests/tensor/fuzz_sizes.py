"""Random calls of public functions with sizes, strides, ranks and counts that no program should pass.

Nothing may crash, read outside of its memory, or go on when it is told to stop: each call ends by itself or soon after a
signal, with a result whose elements lie within their storage, or with an exception. `python -m tests.tensor.fuzz_sizes`
runs more calls than the suite does, in processes of their own with limited memory, so that a crash is one result among others.
Start reading at `run_call`.
"""

import argparse
import inspect
import math
import queue
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

import adjoint as ad

INTEGERS = [
    0,
    1,
    -1,
    2,
    3,
    -3,
    5,
    63,
    64,
    65,
    300,
    2**15,
    2**24 + 1,
    2**31 - 1,
    2**31,
    2**32 + 1,
    2**40,
    2**60 + 1,
    2**61,
]
INTEGERS += [
    2**62,
    2**62 + 1,
    2**63 - 1,
    -(2**31),
    -(2**62),
    -(2**63),
    6148914691236517206,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
]
NUMBERS = [0.0, 1.5, -1.0, 1e30, 1e308, math.inf, -math.inf, math.nan, 2.0**31, 1j]
OTHERS = [None, True, False, "", "sum", "ij,jk", [], (), b"", object(), ad.float32, ad.int64, ad.bool]

#: Seconds after which a call is told to stop, and after which it should have.
ASKED, GIVEN = 0.25, 20.0
#: Not called: they change the process, not tensors.
LEFT_OUT = {
    "set_num_threads",
    "set_default_dtype",
    "set_default_device",
    "set_memory_limit",
    "set_printoptions",
    "save",
    "load",
}


def subjects():
    """The public functions by name, and what is known of their parameters: names, or None."""
    found = {}
    modules = [
        ("ad", ad),
        ("ad.nn.functional", ad.nn.functional),
        ("ad.linalg", ad.linalg),
        ("ad.special", ad.special),
    ]
    for prefix, module in [*modules, ("ad.Tensor", ad.Tensor)]:
        for name in dir(module):
            f = getattr(module, name, None)
            if name.startswith("_") or name in LEFT_OUT or not callable(f) or inspect.isclass(f):
                continue
            found[f"{prefix}.{name}"] = f
    return found


def tensors():
    return [
        ("ad.ones(3)", lambda: ad.ones(3)),
        ("ad.ones(2, 3, requires_grad=True)", lambda: ad.ones(2, 3, requires_grad=True)),
        ("ad.arange(24).reshape(2, 3, 4)", lambda: ad.arange(24).reshape(2, 3, 4)),
        ("ad.zeros(4, 4, dtype=ad.float64)", lambda: ad.zeros(4, 4, dtype=ad.float64)),
        ("ad.tensor(2.5)", lambda: ad.tensor(2.5)),
        ("ad.tensor(True)", lambda: ad.tensor(True)),
        ("ad.empty(0)", lambda: ad.empty(0)),
        ("ad.empty(2, 0, 3)", lambda: ad.empty(2, 0, 3)),
        ("ad.ones(1).expand(2**62)", lambda: ad.ones(1).expand(2**62)),
        ("ad.ones(2, 1).expand(2, 2**40)", lambda: ad.ones(2, 1).expand(2, 2**40)),
        (
            "ad.zeros(1, dtype=ad.int64).expand(2**31 + 1)",
            lambda: ad.zeros(1, dtype=ad.int64).expand(2**31 + 1),
        ),
        ("ad.empty(0, 2**40)", lambda: ad.empty(0, 2**40)),
        ("ad.ones([1] * 64)", lambda: ad.ones([1] * 64)),
        ("ad.ones(20).as_strided((3, 4), (5, 1), 2)", lambda: ad.ones(20).as_strided((3, 4), (5, 1), 2)),
    ]


class Call:
    """One call: its text, and the pieces to make it."""

    def __init__(self, seed, functions, values):
        self.random = random.Random(seed)
        self.name = self.random.choice(functions)
        self.values = values
        self.texts = []

    def integer(self):
        return self.random.choice(INTEGERS[:9] if self.random.random() < 0.3 else INTEGERS)

    def argument(self, name):
        """A value for a parameter of this name."""
        r = self.random.random()
        if name in (
            "input",
            "self",
            "tensor",
            "x",
            "other",
            "mat2",
            "vec",
            "index",
            "src",
            "source",
            "target",
            "weight",
            "out",
        ):
            r *= 0.55
        elif name in ("tensors", "size", "sizes", "shape", "stride", "dims", "pad", "repeats", "shifts"):
            r = 0.9 if name != "tensors" else 0.6
        elif name is not None:
            r = 0.35 + 0.65 * r
        if r < 0.5:
            text, make = self.random.choice(self.values)
            self.texts.append(text)
            return make()
        if r < 0.62 and name == "tensors":
            count = self.random.choice([1, 2, 4])
            text, make = self.random.choice(self.values)
            self.texts.append(f"[{text}] * {count}")
            return [make() for _ in range(count)]
        if r < 0.8:
            value = self.integer()
        elif r < 0.93:
            value = [self.integer() for _ in range(self.random.choice([0, 1, 2, 2, 3, 4, 65]))]
            if self.random.random() < 0.1:
                value = [1] * self.random.choice([64, 65, 257, 300])
        else:
            value = self.random.choice(self.random.choice([NUMBERS, OTHERS]))
        self.texts.append(repr(value))
        return value

    def make(self, function):
        names = parameters(function)
        if names is None:
            names = ["input", *[None] * self.random.randrange(4)]
        most = len(names)
        count = max(self.random.randrange(most + 1), min(most, 1 + self.random.randrange(3)))
        return [self.argument(name) for name in names[:count]]

    def __str__(self):
        return f"{self.name}({', '.join(self.texts)})"


def parameters(function):
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        text = getattr(function, "__text_signature__", None)
        return [p.split("=")[0].strip(" *") for p in text.strip("()").split(",")] if text else None
    return [
        name
        for name, p in signature.parameters.items()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]


def check_result(value, depth=0):
    """Every element of a tensor lies in its storage, and its sizes are what they seem."""
    if isinstance(value, ad.Tensor) and value.layout is not ad.strided:
        check_result(value.to_dense(), depth)
    elif isinstance(value, ad.Tensor):
        assert 0 <= value.ndim <= 64, value.ndim
        sizes, strides = tuple(value.shape), value.stride()
        assert all(s >= 0 for s in sizes), sizes
        assert math.prod(sizes) == value.numel() < 2**63, sizes
        if value.numel():
            last = value.storage_offset() + sum((n - 1) * s for n, s in zip(sizes, strides))
            assert value.storage_offset() >= 0, value.storage_offset()
            held = value.untyped_storage().nbytes()
            assert (last + 1) * value.element_size() <= held, (sizes, strides, held)
            if value.numel() <= 1000:
                value.detach().tolist()
    elif isinstance(value, (list, tuple)) and depth < 3:
        for element in value[:50]:
            check_result(element, depth + 1)


class Stopped(KeyboardInterrupt):
    pass


def _stop(*_):
    raise Stopped


def run_call(seed, functions, values, announce=lambda text: None):
    """What became of a call: 'returned', 'refused', 'stopped'; a wrong result raises AssertionError."""
    call = Call(seed, list(functions), values)
    function = functions[call.name]
    try:
        arguments = call.make(function)
    except Stopped:
        return "stopped"
    announce(str(call))
    signal.signal(signal.SIGALRM, _stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, ASKED)
                result = function(*arguments)
                signal.setitimer(signal.ITIMER_REAL, 0)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Stopped:
            return "stopped"
        except Exception as error:
            assert not isinstance(error, SystemError), (str(call), error)
            return "refused"
        try:
            check_result(result)
        except AssertionError as error:
            raise AssertionError(f"{call}: {error}") from None
    return "returned"


def _worker(first, last, gigabytes):
    if gigabytes:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = gigabytes << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
    functions, values = subjects(), tensors()
    for seed in range(first, last):
        print("call", seed, end=" ", flush=True)
        try:
            outcome = run_call(seed, functions, values, lambda text: print(text[:500], flush=True))
        except AssertionError as error:
            outcome = f"WRONG {error}"
        print("\noutcome", outcome.replace("\n", " "), flush=True)


def run(first, last, gigabytes=4, show=lambda text: None, script=__file__):
    """Outcomes counted, and the failures: crashes, wrong results, and calls that did not stop."""
    counts, failures = {}, []
    at = first
    while at < last:
        worker = subprocess.Popen(
            [
                sys.executable,
                script,
                "--worker",
                "--seed",
                str(at),
                "--calls",
                str(last - at),
                "--memory",
                str(gigabytes),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        call, started = "", at
        lines: queue.Queue = queue.Queue()
        reader = threading.Thread(
            target=lambda: [lines.put(line) for line in worker.stdout] + [lines.put("")]
        )
        reader.start()
        while True:
            try:
                line = lines.get(timeout=GIVEN)
            except queue.Empty:
                failures.append(f"did not stop: {call}")
                show(failures[-1])
                worker.kill()
                continue
            if not line:
                break
            if line.startswith("call "):
                number, call = line[5:].strip().partition(" ")[::2]
                at = int(number) + 1
            elif line.startswith("outcome "):
                outcome = line[8:].strip()
                word = outcome.split(" ")[0]
                counts[word] = counts.get(word, 0) + 1
                if word == "WRONG":
                    failures.append(outcome)
                    show(outcome)
        errors = worker.stderr.read()
        worker.wait()
        if worker.returncode and worker.returncode != -signal.SIGKILL:
            failures.append(f"ended with {worker.returncode}: {call}\n{errors[-2000:]}")
            show(failures[-1])
        if at == started:
            raise RuntimeError(f"the worker did not come to its first call:\n{errors}")
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument(
        "--memory", type=int, default=4, help="gigabytes that a process may map; 0: no limit, for sanitizers"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _worker(given.seed, given.seed + given.calls, given.memory)
        return 0
    started = time.time()
    counts, failures = run(
        given.seed, given.seed + given.calls, given.memory, show=lambda text: print(text, flush=True)
    )
    print(counts, f"FAILED {len(failures)}", f"{time.time() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
