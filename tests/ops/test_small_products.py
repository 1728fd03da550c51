"""Products of few numbers, which loops of our own compute in place of a library: every kind of them, in each layout."""

import pytest

import adjoint as ad


def products():
    """(m, k, n) around the bounds between kinds of loops."""
    sizes = [1, 2, 3, 5, 7, 8, 9, 16, 17, 33]
    return [(m, k, n) for m in sizes for k in sizes for n in sizes if (m * 7 + k * 3 + n) % 5 == 0]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_small_products(dtype):
    """Against sums of products in double precision."""
    for m, k, n in products():
        a, b, c = ad.randn(m, k, dtype=dtype), ad.randn(k, n, dtype=dtype), ad.randn(n, dtype=dtype)
        right = (a.double()[:, :, None] * b.double()[None]).sum(1)
        for x in (a, a.T.contiguous().T, ad.stack([a, a], -1)[..., 0]):
            for y in (b, b.T.contiguous().T, ad.stack([b, b], -1)[..., 0]):
                close = {"rtol": 0, "atol": 3e-5 if dtype is ad.float32 else 1e-13}
                assert ad.allclose((x @ y).double(), right, **close), (m, k, n)
                assert ad.allclose(ad.addmm(c, x, y).double(), right + c.double(), **close), (m, k, n)
