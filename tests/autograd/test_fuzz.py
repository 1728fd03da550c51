"""Random programs of views and writes, against finite differences of the same programs. See `fuzz.py`.

The seeds are fixed. ADJOINT_FUZZ_PROGRAMS sets how many programs run; `python -m tests.autograd.fuzz` runs more of them,
survives crashes, and counts what was refused.
"""

import collections
import gc
import os

import fuzz
import numpy as np
import pytest
from fuzz_generate import generate
from fuzz_reference import Reference
from fuzz_steps import Program, Step

import adjoint as ad

PROGRAMS = int(os.environ.get("ADJOINT_FUZZ_PROGRAMS", "500"))
PIECES = 10


@pytest.mark.parametrize("piece", range(PIECES))
def test_programs(piece):
    counts: collections.Counter = collections.Counter()
    for seed in range(piece, PROGRAMS, PIECES):
        outcome, failure = fuzz.run_seed(seed)
        assert not failure, "\n" + failure
        fuzz.count(counts, outcome)
    if counts["programs"] >= 50:  # the comparison is not empty
        assert counts["programs with nothing refused"] >= 0.7 * counts["programs"], fuzz.summary(counts)
        compared = counts["gradient compared: yes"] + counts["gradient compared: twice"]
        assert compared + counts["gradient compared: first only"] >= 0.7 * counts["programs"], fuzz.summary(
            counts
        )
        assert counts["gradient compared: twice"] >= 0.15 * counts["programs"], fuzz.summary(counts)


@pytest.mark.parametrize("piece", range(PIECES))
def test_programs_leave_no_memory(piece):
    """With the garbage collector off: what a node saves must not come to own the node, whatever is written.

    One in a thousand may: a view made without recording of a computed tensor is a leaf that owns its base, here as in
    torch; a recorded write that takes it into that base is a cycle. See Note: views and writes.
    """
    gc.collect()
    gc.disable()
    try:
        kept = {seed: fuzz.kept_bytes(generate(seed)) for seed in range(piece, PROGRAMS, PIECES)}
    finally:
        gc.enable()
    kept = {seed: n for seed, n in kept.items() if n}
    assert len(kept) <= PROGRAMS // PIECES // 300, (
        f"bytes left behind, by seed: {kept}\n{generate(min(kept)).source()}"
    )


def test_a_seed_gives_one_program():
    assert generate(7).source() == generate(7).source() != generate(8).source()


def small(*steps, leaf=(0.5, -1.2), term="t1"):
    term = Step("weigh_square", (term,), (np.array([2.0, 3.0]),), ("l0",))
    return Program(0, {"x0": np.array(leaf)}, {}, list(steps), [term])


MUL = Step("mul", ("x0", 2.0), (), ("t1",))


def loss(program, moves):
    reference = Reference(program, moves)
    for step in program.steps + program.terms:
        reference.run(step)
    return reference.loss(program.terms)


def test_the_reference_holds_constants():
    """A value written without recording counts as value and not as derivative; one read without it as constant."""
    quiet = Step("add_", ("t1", 1.0), (1.0,), (), grad=False)
    d = Step("detach", ("t1",), (), ("t2",))
    through = Step("mul_", ("t2", 3.0))
    read = Step("mul", ("t1", "t2"), (), ("t3",))
    h = 1e-3
    move = {"x0": np.array([h, 0.0])}

    def expected(y, scale=1.0):
        return 2 * (scale * y[0]) ** 2 + 3 * (scale * y[1]) ** 2

    x = np.array([0.5, -1.2])
    assert np.isclose(loss(small(MUL), move), expected(2 * (x + move["x0"])))
    assert np.isclose(loss(small(MUL, quiet), move), expected(2 * (x + move["x0"]) + 1))
    # The write through the alias makes y three times as large, and its derivative stays 2.
    assert np.isclose(loss(small(MUL, d, through), move), expected(6 * x + 2 * move["x0"]))
    found = loss(small(MUL, d, read, term="t3"), move)
    assert np.isclose(found, expected(2 * (x + move["x0"]) * (2 * x)))


def test_a_wrong_gradient_is_found_and_shrunk(monkeypatch):
    """`sin` stands for an operator whose derivative is wrong: here it is always 0."""
    wrong = fuzz.OPS["sin"].__class__("pure", "ad.where({a} > 9, {a}, {a}.sin().detach())", np.sin)
    monkeypatch.setitem(fuzz.OPS, "sin", wrong)
    steps = [MUL, Step("neg", ("t1",), (), ("t2",)), Step("sin", ("t2",), (), ("t3",)), Step("cos_", ("t1",))]
    program = small(*steps, Step("add", ("t3", "t1"), (), ("t4",)), term="t4")

    def fails(p):
        failure = fuzz.failure_of(p)
        return failure is not None and failure.kind == "gradient"

    assert fails(program)
    shrunk = fuzz.shrink(program, fails)
    assert len(shrunk.steps) < len(program.steps) and any(s.op == "sin" for s in shrunk.steps)
    names: dict = {}
    exec(fuzz.reproducer(shrunk, fuzz.failure_of(shrunk)), names)
    assert isinstance(names["g"][0], ad.Tensor)


def test_a_refused_step_that_writes_is_found(monkeypatch):
    """A write that is refused after it was done."""
    late = fuzz.OPS["neg_"].__class__("write", "{a}.data.neg_(), {a}.add_(1)", np.negative)
    monkeypatch.setitem(fuzz.OPS, "neg_", late)
    with pytest.raises(fuzz.Failure, match="was refused is") as failure:
        fuzz.check(small(Step("neg_", ("x0",)), MUL))
    assert failure.value.kind == "changed"


def test_undocumented_errors_are_found():
    with pytest.raises(fuzz.Failure, match="raised") as failure:
        fuzz.check(small(MUL, Step("view", ("t1",), ((3,),), ("t2",))))
    assert failure.value.kind == "error"
