"""`adjoint.masked`: dtypes of results, integers, and tensors without dimensions. (Values and derivatives: test_transformed_compositions.)"""

import math

import pytest

import adjoint as ad

MASK = ad.tensor([True, False, True, True])


def test_indices_have_the_dtype_of_the_input():
    x = ad.tensor([1.0, 9.0, 5.0, 2.0])
    for f, index in ((ad.masked.argmax, 2), (ad.masked.argmin, 0)):
        assert f(x, 0, mask=MASK).dtype is ad.float32 and f(x, 0, mask=MASK).item() == index
        assert f(x.int(), 0, mask=MASK).dtype is ad.int32
        assert f(x, 0, mask=MASK, dtype=ad.int64).dtype is ad.int64


def test_cumulative_functions_keep_integers():
    x = ad.tensor([1, 9, 5, 2], dtype=ad.int32)
    for f, expected in ((ad.masked.cumsum, [1, 1, 6, 8]), (ad.masked.cumprod, [1, 1, 5, 10])):
        result = f(x, 0, mask=MASK)
        assert result.dtype is ad.int32 and result.tolist() == expected


def test_deviations_of_integers_and_of_complex_numbers():
    x = ad.tensor([1, 9, 3, 5])
    assert ad.masked.var(x, mask=MASK).dtype is ad.float32 and ad.masked.var(x, mask=MASK).item() == 4.0
    assert ad.masked.std(x, mask=MASK).item() == 2.0
    assert ad.masked.var(x, mask=MASK, dtype=ad.float64).dtype is ad.float64
    z = ad.tensor([1j, 9, 3j, 5j], requires_grad=True)
    var, std = ad.masked.var(z, mask=MASK), ad.masked.std(z, mask=MASK)
    assert var.dtype is std.dtype is ad.complex64 and (var.item(), std.item()) == (4, 2)
    (g,) = ad.autograd.grad(var.real, z)
    assert g.tolist() == [-2j, 0, 0, 2j]


def test_logsumexp_and_median_of_integers():
    x = ad.tensor([1, 50, 9, 4])
    result = ad.masked.logsumexp(x, 0, mask=MASK)
    assert result.dtype is ad.int64 and result.item() == int(math.log(sum(math.exp(v) for v in (1, 9, 4))))
    assert ad.masked.median(x, 0, mask=MASK).tolist() == 4
    with pytest.raises(ValueError, match="masked median expects no fully masked out rows"):
        ad.masked.median(x, 0, mask=MASK & False)


def test_a_number_is_its_own_mean():
    assert ad.masked.mean(ad.tensor(3.0), dim=0, keepdim=True).item() == 3.0
