"""Mutated files through `load`: whatever the bytes say, it raises, or gives data that is what it seems.

Files of tensors, parameters and containers are written by `save` and then damaged: bytes changed, pieces cut out, doubled
and exchanged, numbers replaced by others that are sizes and strides no program writes. A second kind of file is written by
hand: calls of `rebuild` with arguments of an attacker's choice. `python -m tests.tensor.fuzz_files` runs more files than
the suite does. Start reading at `run_file`.
"""

import argparse
import collections
import io
import pathlib
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
import warnings

import adjoint as ad
from adjoint._tensor.copying import rebuild

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fuzz_sizes  # noqa: E402

#: Seconds for one file.
GIVEN = 20


def originals():
    x = ad.arange(12.0).reshape(3, 4)
    state = collections.OrderedDict(weight=x, bias=x[0], step=3)
    parameter = ad.nn.Parameter(ad.ones(2, 2))
    parameter.note = "kept"
    values = [
        x,
        x.t(),
        x[:, ::2],
        parameter,
        ad.nn.Buffer(ad.zeros(2)),
        state,
        {"a": [x, (1, 2.5, 1j, None)], "b": {ad.float16}},
    ]
    values += [
        ad.ones(2, dtype=ad.complex64),
        ad.tensor(True),
        ad.empty(0, 3),
        ad.Size([1, 2]),
        ad.ones(3, requires_grad=True),
    ]
    files = []
    for value in values:
        for protocol in (2, 4):
            file = io.BytesIO()
            ad.save(value, file, pickle_protocol=protocol, _use_new_zipfile_serialization=protocol == 2)
            files += [file.getvalue(), pickle.dumps(value, protocol)]
    return files


class _Rebuilt:
    """What a pickle makes a call of `rebuild` of."""

    def __init__(self, arguments):
        self.arguments = arguments

    def __reduce__(self):
        return rebuild, self.arguments


def written_by_hand(r):
    n = lambda: r.choice(fuzz_sizes.INTEGERS)  # noqa: E731
    numbers = lambda: tuple(n() for _ in range(r.choice([0, 1, 1, 2, 3, 65])))  # noqa: E731
    names = [
        "sum",
        "shape",
        "note",
        "__class__",
        "_storage",
        "grad",
        "data",
        "x" * 100,
        3,
        None,
        "requires_grad",
        "persistent",
    ]
    attributes = r.choice([{}, {r.choice(names): n()}, None, [], 3])
    cls = r.choice([ad.Tensor, ad.Tensor, ad.nn.Parameter, ad.nn.Buffer, int])
    data = r.choice([b"", b"\0" * 16, b"\1" * 15, b"\0" * 64, "text", 3])
    dtype = r.choice([ad.float32, ad.float64, ad.complex128, ad.bool, ad.int64, None, "float32"])
    size, stride = numbers(), numbers()
    if r.random() < 0.7:
        stride = tuple(n() for _ in size)
    if r.random() < 0.2:
        cls, data, dtype, size, stride = (
            ad.Tensor,
            b"\1" * 48,
            ad.float32,
            (r.choice([0, 1, 3]), 2),
            (r.choice([1, 2, 4]), r.choice([0, 1, 5])),
        )
    elif r.random() < 0.3:
        size = tuple(r.choice([0, 1, 2, 3]) for _ in size)
    file = io.BytesIO()
    pickle.dump(
        _Rebuilt((cls, data, dtype, size, stride, r.choice([False, False, True, 3]), attributes)),
        file,
        r.choice([2, 4]),
    )
    return file.getvalue()


def mutated(r, file):
    file = bytearray(file)
    for _ in range(r.choice([1, 1, 2, 5])):
        at = r.randrange(len(file) + 1)
        length = r.choice([1, 1, 2, 4, 8, 30])
        how = r.randrange(6)
        if how == 0:
            file[at : at + length] = bytes(r.randrange(256) for _ in range(length))
        elif how == 1:
            del file[at : at + length]
        elif how == 2:
            file[at:at] = file[at : at + length]
        elif how == 3:
            other = r.randrange(len(file) + 1)
            file[at : at + length], file[other : other + length] = (
                file[other : other + length],
                file[at : at + length],
            )
        elif how == 4:
            del file[at:]
        else:
            value = r.choice([v for v in fuzz_sizes.INTEGERS if -(2**63) <= v < 2**63])
            file[at : at + 2] = b"\x8a\x08" + value.to_bytes(8, "little", signed=True)
        if not file:
            break
    return bytes(file)


def file_of(seed, files):
    r = random.Random(seed)
    if r.random() < 0.4:
        file = written_by_hand(r)
        return mutated(r, file) if r.random() < 0.2 else file
    return mutated(r, r.choice(files))


def run_file(file):
    """'loaded' or 'refused'. What was loaded is looked at: each element lies in its storage, and tensors are tensors."""
    signal.alarm(GIVEN)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ad.load(io.BytesIO(file))
    except Exception as error:
        assert not isinstance(error, SystemError), error
        return "refused"
    finally:
        signal.alarm(0)
    look_at(value)
    return "loaded"


def look_at(value, depth=0):
    if isinstance(value, ad.Tensor):
        fuzz_sizes.check_result(value)
        assert not [
            name for name in value.__dict__ if isinstance(name, str) and hasattr(type(value), name)
        ], value.__dict__
        if value.numel() < 1000:
            assert isinstance(repr(value), str)
            value.detach().clone().sum()
    elif isinstance(value, dict) and depth < 4:
        for key in list(value)[:20]:
            look_at(value[key], depth + 1)
    elif isinstance(value, (list, tuple, set)) and depth < 4:
        for element in list(value)[:20]:
            look_at(element, depth + 1)


def _worker(first, last, gigabytes):
    if gigabytes:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = gigabytes << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
    files = originals()
    for seed in range(first, last):
        print("file", seed, flush=True)
        try:
            outcome = run_file(file_of(seed, files))
        except AssertionError as error:
            outcome = f"WRONG seed {seed}: {error}"
        print("outcome", outcome.replace("\n", " "), flush=True)


def run(first, last, gigabytes=4):
    """Outcomes counted, and the failures."""
    counts, failures = collections.Counter(), []
    at = first
    while at < last:
        arguments = ["--worker", "--seed", str(at), "--files", str(last - at), "--memory", str(gigabytes)]
        done = subprocess.run(
            [sys.executable, __file__, *arguments], capture_output=True, text=True, check=False
        )
        before = at
        for line in done.stdout.splitlines():
            if line.startswith("file "):
                at = int(line[5:]) + 1
            elif line.startswith("outcome "):
                counts[line.split()[1]] += 1
                if line.startswith("outcome WRONG"):
                    failures.append(line)
        if done.returncode:
            failures.append(f"seed {at - 1}: ended with {done.returncode}\n{done.stderr[-2000:]}")
        if at == before:
            raise RuntimeError(f"the worker did not come to its first file:\n{done.stderr}")
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--memory", type=int, default=4, help="gigabytes that a process may map; 0: no limit")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _worker(given.seed, given.seed + given.files, given.memory)
        return 0
    started = time.time()
    counts, failures = run(given.seed, given.seed + given.files, given.memory)
    print(*failures, sep="\n")
    print(dict(counts), f"FAILED {len(failures)}", f"{time.time() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
