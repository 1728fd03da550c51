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
    assert "blocks of 2000: (mul add mul sub mul add mul sub mul add)" in str(ad.jit.explain(jitted))


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
