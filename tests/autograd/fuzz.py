"""Random programs of views, writes and operators: each gradient against finite differences of the same program.

    python -m tests.autograd.fuzz --programs 10000 --seed 0

runs programs and prints what became of them, every failure shrunk to a program that runs by itself. `fuzz_generate`
makes a program, `fuzz_reference` says what it means, and this file runs it on Adjoint, compares and shrinks. Start
reading at `check`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "jit")]

from fuzz_generate import generate  # noqa: E402
from fuzz_reference import Reference, refusal  # noqa: E402
from fuzz_steps import OPS, Program, Step, show  # noqa: E402
from side_by_side import side_by_side  # noqa: E402

#: What a program may be refused with, and a word for it.
PHRASES = {
    "leaf": "a leaf Variable that requires grad is being used in an in-place operation",
    "view of a leaf": "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "stale one of several views": "is a view and its base or another view of its base has been modified inplace",
    "one of several views": "is being modified inplace. This view is the output of a function that returns multiple views",
    "no_grad view": "A view was created in no_grad mode and is being modified inplace with grad mode enabled",
    "stale no_grad view": "A view was created in no_grad mode and its base or another view of its base has been modified",
    "view of a no_grad view": "is a view of a view which was created in no_grad mode",
    "overlap": "more than one element of the written-to tensor refers to a single memory location",
    "saved": "one of the variables needed for gradient computation has been modified by an inplace operation",
}
#: Which of the reasons that the reference sees each of them may have; a backward pass is refused for "saved".
REASONS = {
    "leaf": {"leaf"},
    "view of a leaf": {"leaf"},
    "one of several views": {"multi"},
    "no_grad view": {"no_grad", "multi"},  # where recording had nothing to record, torch says so too
    "view of a no_grad view": {"no_grad", "stale"},
    "stale no_grad view": {"stale"},
    "stale one of several views": {"stale"},
    "overlap": {"overlap"},
    "saved": set(),
}


class Failure(Exception):
    """A program that went wrong; `kind` says how."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Refused(Exception):
    """A program that cannot go on after a refusal."""


@dataclass
class Outcome:
    """What became of a program that did not fail."""

    refused: list[str]  #: phrases of refused steps, or of a refused backward pass
    compared: str  #: "yes", or why its gradient was not compared


def phrase_of(error: Exception) -> str | None:
    if isinstance(error, RuntimeError):
        return next((word for word, phrase in PHRASES.items() if phrase in str(error)), None)
    return None


class Runner:
    """A program on a package with torch's interface, line by line."""

    def __init__(self, program: Program, ad: ModuleType):
        self.ad = ad
        self.names: dict = {"ad": ad, "np": np}
        for name, x in (program.leaves | program.constants).items():
            self.names[name] = eval(show(x), self.names)
        self.leaves = [self.names[name].requires_grad_() for name in program.leaves]

    def run(self, step: Step) -> None:
        code = compile(step.text(), "program", "exec")
        if step.grad:
            exec(code, self.names)
        else:
            with self.ad.no_grad():
                exec(code, self.names)

    def array(self, name: str) -> np.ndarray:
        return np.asarray(self.names[name].detach().tolist())

    def gradients(self, terms: list[Step], create_graph: bool = False, retain: bool = False):
        """Of the loss, for every leaf: zeros where there is none."""
        loss = sum(self.names[t.out[0]] for t in terms if t.out[0] in self.names)
        if isinstance(loss, int) or not loss.requires_grad:
            return [self.ad.zeros_like(x) for x in self.leaves]
        grads = self.ad.autograd.grad(
            loss,
            self.leaves,
            allow_unused=True,
            create_graph=create_graph,
            retain_graph=retain or create_graph,
        )
        return [self.ad.zeros_like(x) if g is None else g for g, x in zip(grads, self.leaves, strict=True)]

    def accumulated(self, terms: list[Step]):
        """The same, by `backward()` of one term after the other."""
        for k, t in enumerate(terms):
            if t.out[0] in self.names and self.names[t.out[0]].requires_grad:
                self.names[t.out[0]].backward(retain_graph=k < len(terms) - 1)
        return [self.ad.zeros_like(x) if x.grad is None else x.grad for x in self.leaves]


def compare_values(runner: Runner, reference: Reference, when: str, kind: str = "value") -> None:
    for name, x in reference.values.items():
        mine = runner.array(name)
        if mine.shape != x.v.shape or not np.allclose(mine, x.v, rtol=1e-9, atol=1e-9, equal_nan=True):
            raise Failure(kind, f"{name} {when} is {mine.tolist()}, expected {x.v.tolist()}")


def run_steps(program: Program, runner: Runner) -> tuple[list[Step], list[str], Reference]:
    """Run what can be run: the steps that were not refused, the phrases of those that were, and the values."""
    reference = Reference(program)
    done, refused = [], []
    for step in program.steps + program.terms:
        if not step.reads <= reference.values.keys():
            continue
        versions = {n: runner.names[n]._version for n in reference.values}
        try:
            runner.run(step)
        except Exception as error:
            word = phrase_of(error)
            if word is None:
                raise Failure("error", f"{step.text()!r} raised {type(error).__name__}: {error}") from error
            if step.op == "aug_item" and word:  # three steps in one line, of which the first two may be done
                raise Refused([*refused, word]) from error
            if not REASONS[word] & refusal(reference, step):
                raise Failure("spurious refusal", f"{step.text()!r} raised {error}") from error
            for name, version in versions.items():
                if runner.names[name]._version != version:
                    raise Failure(
                        "changed", f"{step.text()!r} was refused, and counted as a write to {name}"
                    ) from error
            compare_values(runner, reference, f"after {step.text()!r} was refused", "changed")
            refused.append(word)
            continue
        with np.errstate(all="ignore"):
            reference.run(step)
        done.append(step)
    compare_values(runner, reference, "at the end")
    return done, refused, reference


class Differences:
    """The loss of a program as a function of its leaves, and finite differences of it."""

    def __init__(self, program: Program, done: list[Step], seed: int):
        self.program, self.done = program, done
        rng = np.random.default_rng([seed, 7])
        self.directions = [{n: _direction(rng, x) for n, x in program.leaves.items()} for _ in range(3)]

    def loss(self, moves: dict[str, np.ndarray]) -> float:
        reference = Reference(self.program, moves)
        for step in self.done:
            reference.run(step)
        return np.nan if reference.at_kink else reference.loss(self.program.terms)

    def along(self, u: dict, h: float) -> float:
        """Loss with the leaves moved by h u."""
        return self.loss({n: h * x for n, x in u.items()})

    def first(self, u: dict) -> tuple[float, float] | None:
        """The derivative along u and how exact it is; None at a kink."""
        at, h = self.along(u, 0.0), 1e-5
        ahead, behind, ahead2, behind2 = (self.along(u, k * h) for k in (1, -1, 2, -2))
        one, two = (ahead - behind) / (2 * h), (ahead2 - behind2) / (4 * h)
        scale = 1 + abs(at) + abs(one)
        # What is left of the second difference when that of a smooth function is taken away: the jump of a kink.
        jump = abs(2 * (ahead - 2 * at + behind) - (ahead2 - 2 * at + behind2) / 2) / h
        if not np.isfinite(one + two) or max(abs(one - two), jump) > 1e-5 * scale:
            return None
        return one, 1e-6 * scale + 10 * abs(one - two)

    def second(self, u: dict, v: dict) -> tuple[float, float] | None:
        """The derivative along u of that along v."""

        def difference(h, k=0):
            """At a point that lies k h before or behind."""
            corners = (
                (s * t, {n: h * ((k + s) * u[n] + (k + t) * v[n]) for n in u})
                for s in (1, -1)
                for t in (1, -1)
            )
            return sum(sign * self.loss(moves) for sign, moves in corners) / (4 * h * h)

        one, two = difference(2e-4), difference(4e-4)
        scale = 1 + abs(one) + abs(self.along(u, 0.0))
        if not np.isfinite(one + two) or abs(one - two) > 1e-3 * scale:
            return None
        # The function may be smooth once and not twice, as relu(x) ** 2 at 0.
        if abs(difference(2e-4, 3) - difference(2e-4, -3)) > 2e-2 * scale:
            return None
        return one, 1e-4 * scale + 10 * abs(one - two)


def _direction(rng, x):
    u = rng.uniform(-1, 1, x.shape)
    return u + 1j * rng.uniform(-1, 1, x.shape) if x.dtype.kind == "c" else np.asarray(u)


def _inner(gradients, u) -> float:
    """What the gradients, which point uphill, say about the loss along u."""
    return sum(
        float((np.asarray(g.detach().tolist()) * np.conj(x)).sum().real)
        for g, x in zip(gradients, u.values(), strict=True)
    )


def check(program: Program, ad: ModuleType | None = None) -> Outcome:
    """Run a program, twice differentiated for every third seed. Raises Failure."""
    if ad is None:
        import adjoint as ad
    runner = Runner(program, ad)
    try:
        done, refused, reference = run_steps(program, runner)
    except Refused as stop:
        return Outcome(stop.args[0], "refused half-way")
    twice = program.seed % 3 == 0
    try:
        first = runner.gradients(program.terms, retain=True)
        again = (
            runner.gradients(program.terms, create_graph=True) if twice else runner.accumulated(program.terms)
        )
    except Exception as error:
        word = phrase_of(error)
        if word != "saved" or not any(OPS[s.op].kind == "write" for s in done):
            raise Failure("error", f"backward raised {type(error).__name__}: {error}") from error
        compare_values(runner, reference, "after a refused backward pass", "changed")
        return Outcome([*refused, word], "backward refused")
    compare_values(runner, reference, "after the backward pass", "changed")
    if not all(
        np.allclose(a.tolist(), b.tolist(), rtol=1e-10, atol=1e-12) for a, b in zip(first, again, strict=True)
    ):
        raise Failure("again", f"a second backward pass gives {again}, the first gave {first}")
    differences = Differences(program, done, program.seed)
    compared = "yes"
    u, v, w = differences.directions
    with np.errstate(all="ignore"):
        for direction in (u, v):
            expected = differences.first(direction)
            if expected is None:
                return Outcome(refused, "kink")
            found = _inner(first, direction)
            if not abs(found - expected[0]) <= expected[1]:
                raise Failure(
                    "gradient",
                    f"along a direction: {found}, expected {expected[0]}\n{report(program, done, first)}",
                )
        if twice:
            compared = check_second(runner, differences, again, u, w)
    return Outcome(refused, compared)


def kept_bytes(program: Program) -> int:
    """What a program leaves in memory when all its names are gone; to be asked with the garbage collector off."""
    import adjoint as ad

    def once():
        runner = Runner(program, ad)
        with contextlib.suppress(Refused, RuntimeError):  # what is refused must leave nothing either
            run_steps(program, runner)
            runner.accumulated(program.terms)

    def allocated():
        return ad._C.memory_statistics()["allocated_bytes"]

    once()
    before = allocated()
    once()
    return allocated() - before


def check_second(runner: Runner, differences: Differences, gradients, u, w) -> str:
    s = 0
    for g, x in zip(gradients, u.values(), strict=True):
        if g.requires_grad:
            term = (g * eval(show(np.conj(x)), runner.names)).sum()
            s = s + (term.real if term.is_complex() else term)
    found = 0.0
    if not isinstance(s, int):
        try:
            second = runner.ad.autograd.grad(s, runner.leaves, allow_unused=True)
        except Exception as error:
            raise Failure("error", f"the second backward raised {type(error).__name__}: {error}") from error
        found = _inner(
            [runner.ad.zeros_like(x) if g is None else g for g, x in zip(second, runner.leaves, strict=True)],
            w,
        )
    expected = differences.second(u, w)
    if expected is None:
        return "first only"
    if not abs(found - expected[0]) <= expected[1]:
        raise Failure("second derivative", f"along two directions: {found}, expected {expected[0]}")
    return "twice"


def report(program: Program, done: list[Step], gradients) -> str:
    """Found and expected gradients, element by element."""
    differences = Differences(program, done, 0)
    zero = {n: np.zeros_like(x) for n, x in program.leaves.items()}
    lines = []
    for (name, x), g in zip(program.leaves.items(), gradients, strict=True):
        expected = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
                u = {n: z.copy() for n, z in zero.items()}
                u[name][place] = unit
                expected[place] += unit * (differences.along(u, 1e-5) - differences.along(u, -1e-5)) / 2e-5
        lines.append(f"{name}: found {g.tolist()}, expected {np.round(expected, 7).tolist()}")
    return "\n".join(lines)


def failure_of(program: Program) -> Failure | None:
    try:
        check(program)
    except Failure as failure:
        return failure
    except Exception as error:  # the fuzzer itself
        return Failure("fuzzer", f"{type(error).__name__}: {error}")
    return None


def shrink(program: Program, fails, rounds: int = 4) -> Program:
    """Leave out terms and steps, in pieces that grow smaller, for as long as `fails(program)`."""
    for _ in range(rounds):
        before = (len(program.steps), len(program.terms))
        for part in ("terms", "steps"):
            size = max(len(getattr(program, part)) // 2, 1)
            while size:
                at = 0
                while at < len(items := getattr(program, part)):
                    smaller = replace(program, **{part: items[:at] + items[at + size :]})
                    if fails(smaller):
                        program = smaller
                    else:
                        at += size
                size //= 2
        for k, step in enumerate(program.steps):
            if not step.grad:
                loud = [replace(s, grad=True) if i == k else s for i, s in enumerate(program.steps)]
                if fails(replace(program, steps=loud)):
                    program = replace(program, steps=loud)
        if (len(program.steps), len(program.terms)) == before:
            break
    return _without_unused(program, fails)


def _without_unused(program: Program, fails) -> Program:
    for group in ("constants", "leaves"):
        for name in getattr(program, group):
            rest = {n: x for n, x in getattr(program, group).items() if n != name}
            smaller = replace(program, **{group: rest})
            if not any(name in s.reads for s in program.steps + program.terms) and (
                rest or group == "constants"
            ):
                program = smaller if fails(smaller) else program
    return program


def reproducer(program: Program, failure: Failure) -> str:
    second = failure.kind == "second derivative"
    return f"# seed {program.seed}: {failure.kind}\n# {str(failure).replace(chr(10), chr(10) + '# ')}\n{program.source(second=second)}"


def run_seed(seed: int) -> tuple[Outcome | None, str]:
    """An outcome, or the shrunk reproducer of a failure."""
    program = generate(seed)
    try:
        return check(program), ""
    except Failure as failure:
        kind = failure.kind

    def fails(smaller):
        other = failure_of(smaller)
        return other is not None and other.kind == kind

    small = shrink(program, fails)
    return None, reproducer(small, failure_of(small) or Failure(kind, "not reproduced after shrinking"))


def summary(counts: collections.Counter) -> str:
    return "\n".join(f"{n:7d}  {what}" for what, n in sorted(counts.items()))


def count(counts: collections.Counter, outcome: Outcome) -> None:
    counts["programs"] += 1
    counts["programs with nothing refused"] += not outcome.refused
    counts[f"gradient compared: {outcome.compared}"] += 1
    for word in set(outcome.refused):
        counts[f"programs refused: {word}"] += 1


def _worker(seeds: range, threads: int) -> None:
    """Print, for each seed, that it starts, and its outcome."""

    def work(seed):
        print(f"seed {seed}\n", end="", flush=True)  # a line at once, beside those of other threads
        return run_seed(seed)

    for _, outcome in side_by_side(work, seeds, threads):
        print(f"{outcome!r}\n", end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--show", action="store_true", help="print the programs and do not run them")
    parser.add_argument(
        "--jit", action="store_true", help="as functions, under jit and not: both must show the same"
    )
    parser.add_argument("--threads", type=int, default=1, help="programs at once")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.programs)
    if given.jit:
        from test_jit_fuzz import compare

        return compare(seeds, given.threads)
    if given.worker:
        _worker(seeds, given.threads)
        return 0
    if given.show:
        print(*(generate(seed).source() for seed in seeds), sep="\n\n")
        return 0
    started, counts, failures = time.time(), collections.Counter[str](), 0
    at = seeds.start
    while at < seeds.stop:  # in processes of their own, so that a crash is one result among others
        arguments = ["--worker", f"--threads={given.threads}"]
        arguments += [f"--seed={at}", f"--programs={min(seeds.stop - at, 1000)}"]
        done = subprocess.run(
            [sys.executable, __file__, *arguments], capture_output=True, text=True, check=False
        )
        before = at
        for line in done.stdout.splitlines():
            if line.startswith("seed "):
                at = max(at, int(line[5:]) + 1)
                continue
            outcome, failure = eval(line)
            if outcome is not None:
                count(counts, outcome)
            else:
                failures += 1
                counts["programs"] += 1
                print(f"\n{failure}\n", flush=True)
        if done.returncode and at == before:  # it did not come to the first program
            print(done.stderr, file=sys.stderr)
            return 2
        if done.returncode:
            failures += 1
            counts["programs"] += 1
            print(f"\n# seed {at - 1}: the process ended with {done.returncode}\n{done.stderr}", flush=True)
            print(generate(at - 1).source(), flush=True)
    counts["FAILED"] = failures
    print(summary(counts))
    print(f"{time.time() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
