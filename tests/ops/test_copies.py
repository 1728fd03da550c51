"""Copies in any layout and conversions between any types: against NumPy, and an element's bits are the same wherever it lies."""

import numpy as np
import pytest
from helpers import array

import adjoint as ad

NAMES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
SHAPES = [
    (1,),
    (7,),
    (300, 3),
    (3, 300),
    (2, 300),
    (65, 70),
    (128, 130),
    (5, 33, 40),
    (2, 3, 17, 19),
    (4, 2, 3, 2, 18),
]


@pytest.mark.parametrize("name", NAMES)
def test_layouts(name):
    generator = np.random.default_rng(3)
    for shape in SHAPES:
        a = (generator.normal(size=shape) * 50).astype(name)
        x = ad.tensor(a)
        for _ in range(4):
            order = generator.permutation(len(shape)).tolist()
            step = [slice(None, None, int(k)) for k in generator.choice([1, 1, 2, 3], size=len(shape))]
            b, y = a.transpose(order)[tuple(step)], x.permute(*order)[tuple(step)]
            assert np.array_equal(array(y.contiguous()), b), (shape, order, step)
            dims = [d for d in range(len(shape)) if generator.random() < 0.5]
            assert np.array_equal(array(y.flip(dims)), np.flip(b, dims)), (shape, order, step, dims)
            to, wanted = np.zeros_like(a), np.zeros_like(a)
            into = ad.tensor(to)
            into.permute(*order)[tuple(step)] = y
            wanted.transpose(order)[tuple(step)] = b
            assert np.array_equal(array(into), wanted), (shape, order, step)


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    65504.0,
    65519.9,
    65520.0,
    1e-8,
    5.9e-8,
    2.98e-8,
    6.1e-5,
    3.4e38,
    -3.4e38,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
]


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int64", "bool"])
def test_conversions_of_one_and_of_many(name, to):
    """The loop's whole vectors, its end, and single elements in any steps agree to the last bit."""
    generator = np.random.default_rng(4)
    numbers = np.concatenate(
        [SPECIAL, generator.normal(size=240) * 10.0 ** generator.integers(-6, 5, size=240)]
    )
    if "float" not in to:
        numbers = np.nan_to_num(np.clip(numbers, 0, 200))
    with np.errstate(over="ignore", invalid="ignore"):
        x = ad.tensor(numbers.astype(name))
    dtype = getattr(ad, to)
    bits = {2: ad.int16, 4: ad.int32, 8: ad.int64}.get(ad.empty((), dtype=dtype).element_size(), ad.uint8)
    many = x.to(dtype).view(bits).tolist()
    assert many == [x[i].clone().to(dtype).view(bits).item() for i in range(len(numbers))]
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 33):
        assert x[5 : 5 + n].to(dtype).view(bits).tolist() == many[5 : 5 + n], n
        assert x[1 : 1 + 3 * n : 3].to(dtype).view(bits).tolist() == many[1 : 1 + 3 * n : 3], n
    if to not in ("bfloat16", "bool"):
        with np.errstate(over="ignore"):
            assert np.array_equal(array(x.to(dtype)), array(x).astype(to), equal_nan="float" in to)


def test_halves_come_back():
    every = ad.arange(65536, dtype=ad.int32).to(ad.int16)
    for dtype in (ad.float16, ad.bfloat16):
        x = every.view(dtype)
        back = x.to(ad.float32).to(dtype)
        same = (back.view(ad.int16) == every) | x.to(ad.float32).isnan()
        assert bool(same.all())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 5, 15, 16, 17, 63, 255, 1000, 4097, 9001])
def test_fills(name, n):
    assert np.array_equal(array(ad.full((n,), 3, dtype=getattr(ad, name))), np.full(n, 3, dtype=name))
    assert np.array_equal(
        array(ad.ones(n, dtype=getattr(ad, name)).expand(3, n).contiguous()), np.ones((3, n), dtype=name)
    )


def test_ranges():
    for start, end, step in [
        (0, 1000, 1),
        (5, -700, -3),
        (2**62, 2**62 + 600, 1),
        (-(2**63), -(2**63) + 5, 2),
    ]:
        assert ad.arange(start, end, step).tolist() == list(range(start, end, step))
        if abs(start) < 1000:
            for dtype in (ad.int32, ad.int16, ad.float32, ad.float64):
                assert ad.arange(start, end, step, dtype=dtype).tolist() == list(range(start, end, step))
    for n in (1, 2, 3, 511, 512, 513, 1200):
        for name in ("float32", "float64", "complex128"):
            x = array(ad.linspace(-1, 2, n, dtype=getattr(ad, name)))
            assert (
                np.allclose(x, np.linspace(-1, 2, n), rtol=1e-6, atol=1e-6)
                and x[0] == -1
                and (n == 1 or x[-1] == 2)
            )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("rows, columns", [(1000, 700), (513, 1025), (16, 40_000), (40_000, 9), (31, 12_345)])
def test_transposes_beyond_the_first_caches(rows, columns, dtype):
    x = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    np.testing.assert_array_equal(ad.tensor(x).T.contiguous().numpy(), x.T)
    np.testing.assert_array_equal(ad.tensor(x).T.flip(0).contiguous().numpy(), x.T[::-1])
    wide = ad.zeros(columns, rows + 3, dtype=getattr(ad, dtype))
    wide[:, 1:-2] = ad.tensor(x).T
    np.testing.assert_array_equal(wide.numpy()[:, 1:-2], x.T)
    assert not wide[:, 0].any() and not wide[:, -2:].any()


@pytest.mark.parametrize("few", [1, 2, 3, 7])
@pytest.mark.parametrize("many", [2, 9, 64])
@pytest.mark.parametrize("run", [1, 5, 64, 300])
def test_planes_of_few_rows_between_many(few, many, run):
    """Repeated rows, flips, and heads that are laid side by side, near and far beyond a cache."""
    lead = 1 if few * many * run < 10000 else 12
    x = np.arange(lead * many * few * run, dtype=np.float32).reshape(lead, many, few, run)
    t = ad.from_numpy(x)
    assert (t.flip(2).numpy() == x[:, :, ::-1]).all()
    assert (t.transpose(1, 2).contiguous().numpy() == x.swapaxes(1, 2)).all()
    assert (t.repeat(2, 1, 2, 3).numpy() == np.tile(x, (2, 1, 2, 3))).all()
    assert (t[:, :, :1].expand(x.shape).clone().numpy() == x[:, :, :1]).all()
