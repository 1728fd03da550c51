"""The bits of a result depend neither on its neighbours, nor on places in memory, nor on the number of threads (docs/accuracy.md)."""

import mpmath as mp
import numpy as np
import pytest

import adjoint as ad

FLOATS = (ad.float32, ad.float64)
EXPONENTS = (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, -3, 1.7)


def numbers(n, dtype, seed=0):
    draws = np.random.default_rng(seed).normal(size=(2, n))
    x = ad.tensor(draws[0], dtype=dtype.to_real() if dtype.is_complex else dtype)
    return ad.complex(x, ad.tensor(draws[1], dtype=x.dtype)) if dtype.is_complex else x


def same(a, b):
    return bool(((a == b) | ((a != a) & (b != b))).all())


@pytest.mark.parametrize("dtype", [*FLOATS, ad.complex64, ad.complex128], ids=str)
@pytest.mark.parametrize("p", EXPONENTS)
def test_powers_of_one_and_of_many(dtype, p):
    x = numbers(1031, dtype)
    many = x.pow(p)
    picked = range(0, 1031, 13)
    assert same(ad.stack([x[i].pow(p) for i in picked]), many[::13])
    # Exponents of which each has its own, and those beside which another stands.
    alike, mixed = ad.full_like(x, p), ad.full_like(x, p)
    mixed[::2] = 1.3
    assert same(x.pow(alike), many) and same(x.pow(mixed)[1::2], many[1::2])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("p", EXPONENTS)
def test_gradients_of_powers(dtype, p):
    x = numbers(1031, dtype).requires_grad_()
    mixed = ad.full_like(x, p)
    mixed[::2] = 1.3
    by_number, by_tensor, among_others = (
        ad.autograd.grad(x.pow(e).sum(), x)[0] for e in (p, ad.full_like(x, p), mixed)
    )
    assert same(by_number, by_tensor) and same(by_number[1::2], among_others[1::2])


def test_cubes_are_rounded_once():
    x = numbers(2000, ad.float32)
    with mp.workprec(200):
        far = [
            abs(mp.mpf(y) / mp.mpf(v) ** 3 - 1) for v, y in zip(x.tolist(), x.pow(3).tolist(), strict=True)
        ]
    assert max(far) < 0.5001 * 2**-23  # x * x * x: up to 1.1e-7
    ends = ad.tensor([-0.0, 0.0, -np.inf, 1e30, -1e30, np.nan])
    assert repr(ends.pow(3).tolist()) == "[-0.0, 0.0, -inf, inf, -inf, nan]"


def test_roots_by_power_are_those_of_the_standard():
    ends = ad.tensor([-np.inf, -0.0, 0.0, np.inf, 4.0, -1.0])
    assert repr(ends.pow(0.5).tolist()) == "[inf, 0.0, 0.0, inf, 2.0, nan]"
    assert repr(ends.pow(-0.5).tolist()) == "[0.0, inf, inf, 0.0, 0.5, nan]"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7])
def test_short_sums_are_in_order(dtype, n):
    """Fewer than eight terms: one after another in float64, however they lie in memory."""
    rows = numbers(50 * n, dtype).reshape(50, n)
    expected = np.zeros(50)
    for k in range(n):
        expected = expected + rows[:, k].double().numpy()
    expected = ad.tensor(expected).to(dtype)
    columns = rows.t().contiguous()
    apart = ad.stack([rows, rows], 2).flatten(1)[:, ::2]
    for total in (rows.sum(1), rows.t().sum(0), columns.sum(0), columns.t().sum(1), apart.sum(1)):
        assert same(total, expected)
    padded = ad.cat([rows, ad.zeros(50, 7 - n, dtype=dtype)], 1)
    assert same(padded.sum(1), expected)


SUMS = {
    "sum": lambda x, **to: x.sum(**to),
    "mean": lambda x, **to: x.mean(**to),
    "var": lambda x, **to: x.var(**to),
    "logsumexp": lambda x, dim=None: x.logsumexp(tuple(range(x.ndim)) if dim is None else dim),
    "norm": lambda x, **to: ad.linalg.vector_norm(x, **to),
    "softmax": lambda x, dim=0: x.softmax(dim),
    "cumsum": lambda x, dim=0: x.cumsum(dim),
}


@pytest.mark.parametrize("dtype", [*FLOATS, ad.float16], ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_rows_alone_and_among_others(name, dtype):
    f = SUMS[name]
    for n in (3, 9, 100, 1500):
        x = numbers(6 * n, dtype).reshape(6, n)
        together = f(x, dim=1)
        assert all(same(f(x[k], dim=0), together[k]) for k in range(6)), n


@pytest.mark.parametrize("name", SUMS)
def test_places_in_memory(name):
    f, n = SUMS[name], 1003
    x = numbers(n, ad.float32)
    for offset in range(1, 17):
        moved = ad.zeros(n + 17)[offset : offset + n]
        moved.copy_(x)
        assert same(f(moved), f(x)), offset
    apart = ad.stack([x, x], 1)[:, 0]
    assert same(f(apart), f(x))


@pytest.mark.parametrize("shape", [(300_001,), (3, 150_001), (150_001, 3), (700, 700)], ids=str)
def test_numbers_of_threads(shape):
    x = numbers(int(np.prod(shape)), ad.float32).reshape(shape)
    before = ad.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            ad.set_num_threads(threads)
            found.append([f(x) for name, f in SUMS.items()] + [x.sum(0), x.sum(-1)])
    finally:
        ad.set_num_threads(before)
    assert all(same(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_sines_on_any_number_of_threads():
    """Blocks with large numbers take another way than others: they begin at the same elements on any number of threads."""
    threads = ad.get_num_threads()
    try:
        for n in (16_385, 20_000, 33_333):
            x = numbers(n, ad.float32, seed=n)
            x[:: n // 7] = 1e30
            found = []
            for count in (1, 2, 3):
                ad.set_num_threads(count)
                found += [(ad.sin(x), ad.cos(x.reshape(1, -1)))]
            assert all(ad.equal(a, found[0][0]) and ad.equal(b, found[0][1]) for a, b in found)
    finally:
        ad.set_num_threads(threads)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("f", [ad.sin, ad.cos, ad.tan], ids=lambda f: f.__name__)
def test_sines_beside_those_of_huge_numbers(f, dtype):
    x = numbers(1031, dtype) * 50
    mixed = x.clone()
    mixed[::100] = 1e9
    mixed[50], mixed[51] = np.inf, np.nan
    one = ad.ones_like(x)
    alone, among = (ad.func.vjp(f, v)[1](one)[0] for v in (x, mixed))
    same_place = mixed == x
    assert same(f(mixed)[same_place], f(x)[same_place]) and same(among[same_place], alone[same_place])
    assert ad.equal(ad.stack([f(v) for v in mixed[::100]]), f(mixed)[::100])
    inside = x.clone()
    f(inside, out=inside)
    assert ad.equal(inside, f(x))
