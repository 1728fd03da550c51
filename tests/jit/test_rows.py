"""Chains by rows: reductions over the last dimensions, and what is spread over rows again, have eager's bits.

Random programs alternate operations on whole tensors, on a number for each row, and reductions of rows, with their gradients, over rows of
many lengths and numbers of them, on one thread and on several, with infinities and NaN. Start reading at `test_programs`.
"""

import platform
import random

import numpy as np
import pytest
import twice

import adjoint as ad

#: Rows and their lengths: with and without a rest beside whole vectors and blocks, one, and more than a cache holds.
SHAPES = [
    (1, 5000),
    (2, 700),
    (3, 1000),
    (7, 512),
    (16, 64),
    (33, 511),
    (17, 513),
    (40, 51),
    (300, 15),
    (257, 16),
    (90, 17),
    (700, 2),
    (2000, 1),
    (3, 5000),
    (2, 40_000),
]

REDUCTIONS = {
    "sum": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "amin": lambda x: x.amin(-1).unsqueeze(-1),
    "max": lambda x: x.max(-1, keepdim=True).values,
    "min with its place": lambda x: sum(x.min(-1, keepdim=True)),
    "var": lambda x: x.var(-1, keepdim=True, correction=0),
    "logsumexp": lambda x: x.logsumexp(-1, keepdim=True),
    "norm": lambda x: ad.linalg.vector_norm(x, dim=-1, keepdim=True),
    "count": lambda x: (x > 0).sum(-1, keepdim=True) * 0.5,
    "prod": lambda x: x.tanh().prod(-1, keepdim=True),
}
UNARY = {
    "exp": lambda x: ad.exp(-x * x),
    "tanh": ad.tanh,
    "sin": ad.sin,
    "abs": ad.abs,
    "square": lambda x: x * x,
    "shift": lambda x: x * 0.5 - 1,
    "root": lambda x: ad.sqrt(x.abs() + 1e-3),
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 0.5),
    "maximum": ad.maximum,
    "where": lambda x, y: ad.where(x > y, x, y * 0.1),
}


def program(seed):
    """A function of a matrix, its like, a number for each row and one for each column; all but the last two kinds of values may be met
    again later."""
    draw = random.Random(seed)
    reductions = draw.choices(list(REDUCTIONS), k=3)
    plan = [
        (draw.choice("uubbbr"), draw.random(), draw.choice(list(UNARY)), draw.choice(list(BINARY)))
        for _ in range(12)
    ]

    def run(x, y, each, row):
        whole, rows, count = [x, y, row], [each], 0
        for kind, where, unary, binary in plan:
            a, number = whole[int(where * len(whole))], rows[int(where * 7 * len(rows)) % len(rows)]
            if kind == "r" and count < 3:
                rows.append(REDUCTIONS[reductions[count]](a.expand(x.shape)))
                count += 1
            elif kind == "u":
                (whole if where < 0.7 else rows).append(UNARY[unary](a if where < 0.7 else number))
            elif where < 0.2:
                rows.append(BINARY[binary](number, rows[-1]))
            else:
                whole.append(BINARY[binary](a, number if where < 0.6 else whole[-1]))
        return whole[-1], rows[-1], whole[len(whole) // 2]

    return run


def operands(seed, shape, dtype, special):
    rng = np.random.default_rng(seed)
    n, m = shape
    args = [rng.standard_normal(s) for s in ((n, m), (n, m), (n, 1), (m,))]
    for a in args[: 2 if special else 0]:
        for _ in range(4):
            a[rng.integers(n), rng.integers(m)] = rng.choice(
                [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e30, 1e-40]
            )
    return [ad.tensor(a, dtype=getattr(ad, dtype)) for a in args]


def by_rows(jitted):
    """Chains by rows of all traces."""
    return str(ad.jit.explain(jitted)).count("in rows of")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("gradient", [False, True], ids=["values", "gradients"])
def test_programs(dtype, gradient):
    found, threads = 0, ad.get_num_threads()
    try:
        for seed in range(30):
            plain = program(seed)

            def run(*args, plain=plain):
                if not gradient:
                    return plain(*args)
                leaves = [a.detach().requires_grad_() for a in args]
                made = plain(*leaves)
                loss = sum((v * v).sum() for v in made if v.requires_grad)
                return *(v.detach() for v in made), *ad.autograd.grad(loss, leaves, allow_unused=True)

            jitted = ad.jit(run)
            shape = SHAPES[seed % len(SHAPES)]
            for k in range(5):
                ad.set_num_threads(1 + k % 2)
                args = operands(seed + 100 * k, shape, dtype, special=k % 2)
                assert twice.picture(jitted(*args)) == twice.picture(run(*args)), (
                    f"program {seed}, {shape}, call {k}: {ad.jit.explain(jitted)}"
                )
            found += by_rows(jitted)
    finally:
        ad.set_num_threads(threads)
    assert found >= (0 if dtype == "float16" else 15)


def softmax(t):
    e = ad.exp(t - t.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)


def layer_norm(t):
    d = t - t.mean(1, keepdim=True)
    return d * ad.rsqrt((d * d).mean(1, keepdim=True) + 1e-5)


def log_softmax(t):
    return t - t.logsumexp(1, keepdim=True)


def cosine(t):
    return t / ad.sqrt((t * t).sum(1, keepdim=True)).clamp(min=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("f", [softmax, layer_norm, log_softmax, cosine], ids=lambda f: f.__name__)
def test_what_is_written_by_hand_is_one_chain(f, shape):
    def run(x, g):
        x = x.detach().requires_grad_()
        y = f(x)
        return y.detach(), *ad.autograd.grad(y, x, g)

    for dtype in (ad.float32, ad.float64):
        jitted = ad.jit(run)
        for k in range(4):
            x, g = operands(k, shape, "float64", special=k == 2)[:2]
            x, g = x.to(dtype), g.to(dtype)
            assert twice.picture(jitted(x, g)) == twice.picture(run(x, g)), str(ad.jit.explain(jitted))
        text = str(ad.jit.explain(jitted))
        # Elsewhere sums of two NaN keep another one in what vectors leave over, so that they are no part of a chain.
        if 2 <= shape[1] <= 32768 and shape[0] > 1 and platform.machine() in ("x86_64", "AMD64"):
            assert text.count("blocks of") == by_rows(jitted) == 1, text
            assert "launch" not in text, text


def test_rows_of_several_dimensions_and_operands_that_lie_otherwise():
    def f(x, w):
        top = x.amax((-2, -1), keepdim=True)
        e = ad.exp(x - top) * w
        other = x.mT - x.mT.mean(-1, keepdim=True)  # not row by row in memory
        part = x[1:] - x[1:].mean((-2, -1), keepdim=True)
        return e / e.sum((-2, -1), keepdim=True), other * 2, part + 1, (x * 2)[:, ::2].sum(-1) + 1

    jitted = ad.jit(f)
    for k in range(5):
        x, w = ad.randn(6, 20, 33) * (k + 1), ad.randn(20, 33)
        assert twice.picture(jitted(x, w)) == twice.picture(f(x, w)), str(ad.jit.explain(jitted))
    assert by_rows(jitted) >= 2, str(ad.jit.explain(jitted))


def test_numbers_of_rows_that_are_written():
    """In place, outside, and after they were spread over their rows."""

    def f(x, total, each):
        top = x.amax(1, keepdim=True)
        a = x - top
        top.mul_(2)
        b = x - top
        total.add_((a * b).sum(1))
        each.mul_(0.5)
        c = b * each
        c.sub_(top)
        x.mul_(0.5).add_(c)
        return a, b, c, top, x.sum(1) + total

    for shape in [(33, 64), (8, 1000), (700, 3)]:
        plain, replayed = (operands(1, shape, "float32", False) for _ in range(2))
        totals = [ad.zeros(shape[0]) for _ in range(2)]
        jitted = ad.jit(f)
        for _ in range(6):
            a = f(plain[0], totals[0], plain[2])
            b = jitted(replayed[0], totals[1], replayed[2])
            assert twice.picture([a, plain, totals[0]]) == twice.picture([b, replayed, totals[1]]), str(
                ad.jit.explain(jitted)
            )
        assert jitted.stats()["replayed"]


def test_loops_that_look_at_their_neighbours():
    """The sine of a block with large numbers takes another way than that of small ones alone: each element gets eager's bits."""

    def f(x, w):
        x = x.detach().requires_grad_()
        y = ad.sin(x) - ad.sin(x).mean(1, keepdim=True)
        z = (ad.cos(x).sum(1) * w).sum()
        return y.detach(), *ad.autograd.grad(z + (y * y).sum(), x)

    for shape in [(64, 64), (16, 512), (33, 100), (5, 1000), (4, 1024)]:
        jitted = ad.jit(f)
        for k in range(5):
            x = ad.randn(*shape)
            x[k % shape[0], 3] = 1e6
            w = ad.randn(shape[0])
            assert twice.picture(jitted(x, w)) == twice.picture(f(x, w)), f"{shape}: {ad.jit.explain(jitted)}"


def test_a_dead_sum_is_not_computed():
    jitted = ad.jit(lambda x: ((x * 2).sum(1), x + 1)[1])
    for _ in range(4):
        jitted(ad.randn(64, 64))
    assert ", 2 dropped," in str(ad.jit.explain(jitted)), str(ad.jit.explain(jitted))


def test_what_explain_says_of_rows():
    x = ad.randn(64, 128)
    for f, words in [
        (
            softmax,
            "blocks of 8192 in rows of 128: amax (sub) exp sum (div); nothing else takes what it makes",
        ),
        (lambda x: softmax(x) @ x.T, "mm is no loop over elements"),
        (lambda x: (softmax(x) * 2).reshape(32, 256).sum(1), "sum takes rows of 256"),
    ]:
        jitted = ad.jit(f)
        for _ in range(4):
            jitted(x)
        assert words in str(ad.jit.explain(jitted)), str(ad.jit.explain(jitted))
