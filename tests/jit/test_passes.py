"""Cheap operations of a chain as one pass: the same bits as the operations by themselves, whichever operand holds what is in
registers, and whatever else needs a value in between.

Random programs of sums, products and their like run over sizes with and without a rest, with numbers and tensors of one
element, with infinities and NaN; some values are results, some are read again. Start reading at `test_programs`.
"""

import random

import numpy as np
import pytest
import twice

import adjoint as ad

F = ad.nn.functional
SIZES = (1024, 1031, 4096, 5001)
#: The value so far and another operand, in both orders.
STEPS = {
    "add": lambda v, x: v + x,
    "radd": lambda v, x: x + v,
    "sub": lambda v, x: v - x,
    "rsub": lambda v, x: x - v,
    "mul": lambda v, x: v * x,
    "div": lambda v, x: v / x,
    "rdiv": lambda v, x: x / v,
    "neg": lambda v, x: -v,
    "square": lambda v, x: v * v,
    "double": lambda v, x: v + v,
    "power": lambda v, x: v**2,
    "root": lambda v, x: ad.sqrt(v),
    "inverse": lambda v, x: 1 / v,
    "tanh": lambda v, x: ad.tanh(v),
}


def program(seed):
    """A function of three tensors, two of them full, that returns what it made in between, too."""
    draw = random.Random(seed)
    plan = [(draw.choice(list(STEPS)), draw.choice("xyz0123v"), draw.random() < 0.2) for _ in range(12)]

    def run(x, y, z):
        v, kept = x, [x]
        for name, operand, keeps in plan:
            others = {"x": x, "y": y, "z": z, "v": kept[-1], "0": 0.5, "1": -3.0, "2": 2, "3": 1e-3}
            v = STEPS[name](v, others[operand])
            if keeps:
                kept.append(v)
        return [v, *kept[1:], v.sum()]

    return run


def operands(seed, n, dtype):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, n))
    for place in (3, n // 2, n - 1):
        x[place], y[place] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38], 2)
    return [ad.tensor(a, dtype=getattr(ad, dtype)) for a in (x, y, rng.standard_normal())]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("piece", range(4))
def test_programs(piece, dtype):
    passes = 0
    for seed in range(piece * 25, piece * 25 + 25):
        f = program(seed)
        jitted = ad.jit(f)
        n = SIZES[seed % len(SIZES)]
        for k in range(5):
            args = operands(seed + 1000 * k, n, dtype)
            assert twice.picture(jitted(*args)) == twice.picture(f(*args)), (
                f"program {seed}, call {k}: {ad.jit.explain(jitted)}"
            )
        passes += str(ad.jit.explain(jitted)).count("(") - 1
    assert passes >= 8


def test_a_polynomial_is_one_pass():
    jitted = ad.jit(lambda x: ((((x * 0.5 + 1) * x - 2) * x + 3) * x - 4) * x + 5)
    for k in range(4):
        jitted(ad.randn(2000) * k)
    text = str(ad.jit.explain(jitted))
    # Without vectors of three operands, processors keep another NaN of two in products: those are not joined.
    assert "(mul add mul sub mul add mul sub mul add)" in text or "(mul add) (mul sub) (mul add)" in text, (
        text
    )


def is_one_pass(f, names, *shapes):
    """Whether the operations of these names are one pass in `f`, which gives the same bits, special numbers among them."""
    jitted = ad.jit(f)
    for k in range(5):
        rng = np.random.default_rng(k)
        args = [ad.tensor(rng.standard_normal(s), dtype=ad.float32) for s in shapes]
        args[0].view(-1)[3 : 6 + k] = ad.tensor([np.nan, np.inf, -0.0, 0.0, -np.inf, 1e-40, 3e38][: 3 + k])
        assert twice.picture(jitted(*args)) == twice.picture(f(*args)), str(ad.jit.explain(jitted))
    passes = str(ad.jit.explain(jitted)).split("(")[1:]
    return any(set(names) <= set(p.split(")")[0].split()) for p in passes)


def test_what_takes_different_values_is_one_pass():
    """Links need not take what the last one made."""
    assert is_one_pass(lambda x, y: x * x + y * y - (x - y) / y, ["mul", "add", "div", "sub"], 3000, 3000)


@pytest.mark.parametrize("rows", [(8, 512), (5, 2048)])
def test_rows_and_their_numbers_are_taken_where_they_lie(rows):
    """Operands that repeat along rows or for each of them are no reason to end a pass, and fill no buffer."""

    def f(x, each, row):
        d = (x - each) * row
        return d.sum(1, keepdim=True), d / each + row

    assert is_one_pass(f, ["sub", "mul", "div", "add"], rows, (rows[0], 1), rows[1:])


def test_gradients_of_quotients_and_extremes_are_in_passes():
    def quotient(x, each, g):
        x, each = x.detach().requires_grad_(), each.detach().requires_grad_()
        y = x / each
        return y.detach(), *ad.autograd.grad(y, (x, each), g)

    def extreme(x, each, g):
        x = x.detach().requires_grad_()
        return ad.autograd.grad(x.amax(1, keepdim=True), x, each)[0] + g

    rows = (8, 512)
    assert is_one_pass(quotient, ["div", "div.backward.other"], rows, (8, 1), rows)
    # Products of two kinds of NaN as above.
    assert ad._C.instruction_set() == "portable" or is_one_pass(
        quotient, ["div", "div.backward.self"], rows, (8, 1), rows
    )
    assert is_one_pass(extreme, ["_where_equal", "add"], rows, (8, 1), rows)


def test_roots_and_powers_are_in_passes():
    assert is_one_pass(lambda x: (x * x + 1).sqrt() - x**2, ["mul", "add", "sqrt", "sub"], 3000)


def test_products_and_sums_round_twice():
    """What a processor could compute with one rounding is not."""
    x = ad.full((1024,), 1 + 2.0**-12)
    jitted = ad.jit(lambda x: x * x - 1)
    for _ in range(4):
        found = jitted(x)
    x = np.float32(1 + 2.0**-12)
    assert float(found[0]) == float(np.float32(x * x) - np.float32(1))


def test_gradients_are_passes_too():
    def f(x, y):
        x = x.detach().requires_grad_()
        z = (((x * y + 2) * x - y) * x).sum()
        return z.detach(), *ad.autograd.grad(z, x)

    jitted = ad.jit(f)
    for k in range(5):
        x, y = operands(k, 3000, "float32")[:2]
        assert twice.picture(jitted(x, y)) == twice.picture(f(x, y))
    assert "mul.backward" in str(ad.jit.explain(jitted)).split("(")[-1]


def test_small_products_are_kept():
    """Of all shapes, turned or not, with what they start from."""
    for m, k, n in [
        (3, 3, 1),
        (1, 3, 3),
        (3, 3, 3),
        (2, 5, 4),
        (16, 16, 16),
        (1, 40, 7),
        (33, 8, 65),
        (5, 1, 9),
        (4, 0, 3),
    ]:
        for dtype in (ad.float32, ad.float64, ad.complex64, ad.int64):

            def f(a, b, c):
                return (
                    a @ b,
                    b.T @ a.T,
                    ad.addmm(c, a, b),
                    a.T.contiguous().T @ b,
                    (a[:, 0] if k else a.sum(1)) @ c,
                )

            jitted = ad.jit(f)
            for j in range(5):
                rng = np.random.default_rng(j)
                args = [ad.tensor(rng.integers(-9, 9, s)).to(dtype) for s in ((m, k), (k, n), (m, n))]
                assert twice.picture(jitted(*args)) == twice.picture(f(*args)), (
                    f"{m, k, n, dtype}: {ad.jit.explain(jitted)}"
                )
            assert jitted.stats()["replayed"]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 16, 33, 128, 500, 1023, 2000])
def test_writes_in_place_are_links(n):
    """An optimiser written out: what a chain writes outside is read again in it, and counted as written."""

    def step(p, m, v, g):
        m.mul_(0.9).add_(0.1 * g)
        v.mul_(0.99).add_(g * g).sub_(0.5)
        p.sub_(0.1 * m / (v.abs().sqrt() + 1e-3))
        g.neg_().mul_(v)
        return p * g, p + p

    plain, replayed = ([t.clone() for t in operands(n, max(n, 8), "float32")[:2]] for _ in range(2))
    plain, replayed = ([a[:n].clone(), b[:n].clone(), a[:n] * b[:n], b[:n] - 1] for a, b in (plain, replayed))
    jitted = ad.jit(step)
    for _ in range(6):
        a, b = step(*plain), jitted(*replayed)
        assert twice.picture([a, plain]) == twice.picture([b, replayed]), str(ad.jit.explain(jitted))
    assert [t._version for t in plain] == [t._version for t in replayed]
    assert jitted.stats()["replayed"]
    if n >= 1024:
        assert str(ad.jit.explain(jitted)).count("blocks of") == 1


def test_memory_of_others_may_overlap():
    """Two arrays of one memory, an element apart: what is written is read by what comes next, as in eager."""
    found = []
    for make in (lambda f: f, ad.jit):
        memory = np.linspace(-1, 1, 3001).astype(np.float32)
        x, y = ad.from_numpy(memory[:-1]), ad.from_numpy(memory[1:])

        def step(x, y):
            x.mul_(1.5).add_(1)
            y.mul_(0.5).sub_(1)
            return x + y

        f = make(step)
        for _ in range(5):
            results = f(x, y)
        found.append(memory.tobytes() + results.numpy().tobytes())
    assert found[0] == found[1]


def test_why_a_block_ends():
    x, w = ad.randn(64, 64), ad.randn(64)
    for f, words in [
        (lambda x, w: ((x + 1) * 2) @ x, "mm is no loop over elements"),
        (lambda x, w: ((x + 1) * w) * x.T, "mul takes operands that are broadcast or lie otherwise"),
        (lambda x, w: (x + 1) * 2, "nothing else takes what it makes"),
    ]:
        jitted = ad.jit(f)
        for _ in range(4):
            jitted(x, w)
        text = str(ad.jit.explain(jitted))
        assert words in text, text


def test_numbers_of_another_type_beside_strided_operands():
    """Integers beside floating-point numbers, converted once."""
    for dtype in ("float32", "float64", "float16", "int32"):

        def f(x):
            return x[:, ::2] * 3 - 1, 2 / (x[::2].T + 7), (x[:, 1] + 1.5) * 2, x[1:, :3] ** 2

        jitted = ad.jit(f)
        for k in range(5):
            x = (ad.arange(35).reshape(5, 7) * (k + 1)).to(getattr(ad, dtype))
            assert twice.picture(jitted(x)) == twice.picture(f(x)), str(ad.jit.explain(jitted))
        assert jitted.stats()["replayed"]


def test_rows_that_plan_by_lists_are_prepared():
    """Padding, resampling, indices by plans, attention: their plans are kept with their launches."""
    x, q = (ad.randn(*s, requires_grad=True) for s in ((2, 3, 8, 8), (2, 4, 8, 16)))
    i = ad.tensor([0, 2, 1])

    def f():
        made = [
            F.pad(x, (1, 1, 2, 0), mode="reflect"),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            x[:, i],
            x[0, i, i],
            F.scaled_dot_product_attention(q, q, q),
            F.unfold(x, 2),
            F.max_pool2d(x, 2),
        ]
        return ad.autograd.grad(sum((y * y).sum() for y in made), (x, q))

    jitted = ad.jit(f)
    for _ in range(5):
        assert twice.picture(jitted()) == twice.picture(f())
    assert jitted.stats()["replayed"]
    assert ", 0 rows," in str(ad.jit.explain(jitted)), str(ad.jit.explain(jitted))


def test_operands_that_repeat():
    """Numbers for each row, one row, both, and what no vector of the loop fits: in blocks or not, the same bits."""
    for shape, others in [
        ((64, 32), [(64, 1), (1, 32), (32,), (1, 1), (64, 32)]),
        ((4, 16, 48), [(4, 1, 1), (16, 1), (4, 16, 1), (48,), (16, 48), (1, 16, 48), (4, 1, 48)]),
        ((40, 51), [(40, 1), (51,)]),
        ((3, 1024), [(3, 1), (1024,)]),
        ((2048, 1), [(1,), (2048, 1)]),
    ]:
        for other in others:
            for dtype in (ad.float32, ad.float64):

                def f(x, y):
                    d = (x - y) * x
                    e = ad.where(d > 0, d / (y * y + 1), ad.sin(d) * y)
                    return e.sum(-1), (y - e).amax(), ad.exp(e - e.amax(-1, keepdim=True))

                jitted = ad.jit(f)
                for k in range(5):
                    rng = np.random.default_rng(k)
                    args = [ad.tensor(rng.standard_normal(s), dtype=dtype) for s in (shape, other)]
                    args[1] = args[1].mT.contiguous().mT if len(other) > 1 and k % 2 else args[1]
                    assert twice.picture(jitted(*args)) == twice.picture(f(*args)), (
                        f"{shape, other, dtype}: {ad.jit.explain(jitted)}"
                    )
    jitted = ad.jit(lambda x, y, z: (x - y) / y * z)
    for _ in range(4):
        jitted(ad.randn(64, 64), ad.randn(64, 1), ad.randn(64))
    assert "blocks of 4096: (sub div mul)" in str(ad.jit.explain(jitted)).replace("div) mul", "div mul)")


def test_results_do_not_lie_over_shorter_operands():
    """A condition that ends where it is used: what is chosen would be written over what is still to be read of it."""
    for dtype in (ad.float32, ad.float64):

        def f(x, y):
            z = ad.where(x > y, x, y)
            return (
                z,
                ad.where((z * 2 > 1) & (x < y), y, x).sum(),
                ad.where(z > 0, z - (z > 0.5) * 1.0, y * (z < -0.5)),
            )

        jitted = ad.jit(f)
        for k in range(5):
            x, y = ad.randn(3000, dtype=dtype) * (k + 1), ad.randn(3000, dtype=dtype)
            assert twice.picture(jitted(x, y)) == twice.picture(f(x, y)), str(ad.jit.explain(jitted))


def test_decisions_read_what_stands_for_equal_operations():
    jitted = ad.jit(lambda x: x + 1 if (x.sum() > 0 and x.sum() > 0) or x.sum() > 0 else x - 1)
    for k in range(12):
        x = ad.randn(3, generator=ad.Generator().manual_seed(k))
        assert ad.equal(jitted(x), x + 1 if x.sum() > 0 else x - 1)
    assert jitted.stats()["replayed"] >= 6


def test_equal_operations_are_one():
    def f(x, y):
        a, b = x * y, x * y
        x2 = x.clone()
        c = x2 * y
        x2.add_(1)
        return a - 1, b * 2, c, x2 * y, x * 2 + x * 2 + x * 2.0, x * 3 - x * 4

    jitted = ad.jit(f)
    for k in range(5):
        for n in (5, 2000):
            args = [ad.randn(n) * k, ad.randn(n)]
            assert twice.picture(jitted(*args)) == twice.picture(f(*args)), str(ad.jit.explain(jitted))
    # Of the last trace: x * y, x2 * y twice, b, and three of the last four products by a number.
    last = str(ad.jit.explain(jitted)).split("trace:")[-1]
    assert last.count("mul") == 7, last
