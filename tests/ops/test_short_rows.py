"""Broadcasts whose innermost runs are short, such as colours of pixels: against NumPy, over shapes, layouts and types."""

import numpy as np
import pytest
from helpers import array

import adjoint as ad

TYPES = ["bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128"]


def operand(generator, shape, dtype):
    """Some dimensions of length 1 or missing, in some order in memory."""
    sizes = [d if generator.random() < 0.6 else 1 for d in shape][
        generator.integers(len(shape)) * (generator.random() < 0.3) :
    ]
    a = (generator.normal(size=sizes) * 3).astype(dtype)
    order = generator.permutation(len(sizes)) if generator.random() < 0.4 else np.arange(len(sizes))
    return a.transpose(order), ad.tensor(a).permute(*order.tolist())


@pytest.mark.parametrize("dtype", TYPES)
def test_broadcasts(dtype):
    generator = np.random.default_rng(TYPES.index(dtype))
    compared = 0
    for _ in range(250):
        shape = generator.choice([1, 2, 3, 5, 7, 17, 47, 48, 60], size=generator.integers(1, 5))
        if shape.prod() > 100_000:
            continue
        (a, x), (b, y) = operand(generator, shape, dtype), operand(generator, shape, dtype)
        try:
            expected = np.add(a, b)
        except ValueError:
            continue
        compared += 1
        case = (a.shape, a.strides, b.shape, b.strides)
        assert np.array_equal(array(x + y), expected), case
        assert np.array_equal(array(ad.where(x != 0, x, y)), np.where(a != 0, a, b)), case
        out = ad.empty(expected.shape[::-1], dtype=x.dtype).permute(*range(expected.ndim)[::-1])
        assert ad.add(x, y, out=out) is out and np.array_equal(array(out), expected), case
        if a.shape == expected.shape:
            assert np.array_equal(array(x.clone().add_(y)), expected), case
    assert compared > 60


def test_gradients_of_colours():
    picture, alpha, colour = (
        ad.randn(*s, dtype=ad.float64, requires_grad=True) for s in ((5, 6, 3), (5, 6, 1), (3,))
    )
    assert ad.autograd.gradcheck(lambda p, a, c: (p + a * (c - p)).sigmoid(), (picture, alpha, colour))


def test_many_rows_in_several_threads():
    x, y = ad.randn(300_000, 1), ad.randn(3)
    before = ad.get_num_threads()
    try:
        ad.set_num_threads(2)
        assert np.array_equal(array(x * y), array(x) * array(y))
    finally:
        ad.set_num_threads(before)
