"""Details of torch's answers that no family owns: layouts of views, kinds of errors, warnings, and what is no number."""

import warnings

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional


@pytest.mark.parametrize(
    "shape, size, strides",
    [
        ((5,), (1, 1, 5), (5, 5, 1)),
        ((5,), (2, 1, 5), (0, 5, 1)),
        ((5,), (1, 2, 5), (0, 0, 1)),
        ((1, 5), (3, 1, 5), (0, 5, 1)),
        ((1, 1), (1, 1, 1), (1, 1, 1)),
        ((3, 1), (2, 3, 4), (0, 1, 0)),
        ((), (1, 1), (1, 1)),
        ((), (1, 4), (0, 0)),
        ((0,), (1, 0), (0, 1)),
    ],
)
def test_a_new_dimension_of_size_one_repeats_nothing(shape, size, strides):
    x = ad.ones(shape)
    assert x.expand(size).stride() == strides
    assert ad.broadcast_to(x, size).stride() == strides
    assert x.expand(size).numel() == np.prod(size)


def test_memory_that_is_not_there():
    assert issubclass(ad.OutOfMemoryError, RuntimeError) and issubclass(ad.OutOfMemoryError, MemoryError)
    for asks in (
        lambda: ad.empty(2**60),
        lambda: ad.ones(2).resize_(2**62),
        lambda: ad.zeros(2**61),
        lambda: ad.randn(2**60),
        lambda: ad.ones(2).untyped_storage().resize_(2**62),
        lambda: ad.ones(1).expand(2**58).clone(),
        lambda: ad.ones(1).expand(2**58) + 1,
    ):
        with pytest.raises(ad.OutOfMemoryError, match="out of memory"):
            asks()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, span: x + span,
        lambda x, span: span + x,
        lambda x, span: x < span,
        lambda x, span: x.fill_(span),
        lambda x, span: ad.add(x, span),
        lambda x, span: ad.full((2,), span),
        lambda x, span: x.clamp(min=span),
        lambda x, span: x.__setitem__(0, span),
    ],
)
@pytest.mark.parametrize("span", [np.timedelta64(3), np.timedelta64(3, "s"), np.datetime64("2020-01-01")])
def test_spans_of_time_are_no_numbers(call, span):
    with pytest.raises(TypeError):
        call(ad.ones(2), span)


def test_what_is_no_data():
    for data in (None, [None], object(), [[1.0], [object()]]):
        with pytest.raises(RuntimeError, match="Could not infer dtype of (NoneType|object)"):
            ad.tensor(data)
    with pytest.raises(ValueError, match="expected a non-empty list of Tensors"):
        ad.cat([])


@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_too_few_elements_for_their_correction(name):
    f = getattr(ad, name)
    for x, keywords in (
        (ad.ones(1), {}),
        (ad.ones(2), {"correction": 2}),
        (ad.ones(2, 0), {"dim": 1}),
        (ad.ones(3, 1), {"dim": 1}),
    ):
        with pytest.warns(UserWarning, match=rf"{name}\(\): degrees of freedom is <= 0"):
            f(x, **keywords)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(ad.ones(2))
        f(ad.ones(1), correction=0)
        f(ad.ones(0, 1), dim=1)  # nothing comes out
        F.layer_norm(ad.ones(2, 1), (1,))


@pytest.mark.parametrize("dtype", [ad.bool, ad.float16, ad.float32, ad.float64, ad.complex128])
def test_reading_a_few_elements_of_a_giant_expanded_tensor(dtype):
    at = ad.arange(24).reshape(2, 3, 4)
    for size in (2**62, 2**61, 2**60 + 1, 2**59):
        x = ad.ones(1, dtype=dtype).expand(size)
        assert x.take(at).shape == (2, 3, 4) and bool((x.take(at) == 1).all())
        assert bool((x[at] == 1).all())
        flat = at.reshape(-1)
        for y in (x.gather(0, flat), x.index_select(0, flat), ad.take_along_dim(x, flat, 0)):
            assert y.shape == (24,) and bool((y == 1).all())
        rows = ad.ones(2, 1, dtype=dtype).expand(2, size // 2)
        assert bool((rows.gather(1, at.reshape(2, 12)) == 1).all())
        assert bool((rows.t().gather(0, at.reshape(12, 2)) == 1).all())


def test_compositions_over_nothing():
    assert ad.trapezoid(ad.ones(0)) == 0
    assert ad.trapezoid(ad.ones(2, 0)).tolist() == [0, 0]
    assert ad.trapezoid(ad.ones(0, 2), dim=0).tolist() == [0, 0]
    assert F.bilinear(ad.ones(3, 2), ad.ones(3, 2), ad.ones(0, 2, 2)).shape == (3, 0)
    assert F.bilinear(ad.ones(0, 2), ad.ones(0, 2), ad.ones(4, 2, 2)).shape == (0, 4)
    assert F.bilinear(ad.ones(3, 0), ad.ones(3, 2), ad.ones(4, 0, 2)).tolist() == [[0.0] * 4] * 3


def test_an_integral_has_one_place_for_each_value():
    for values, places in (((2,), (3,)), ((3,), (1,)), ((2, 3), (2, 1)), ((2, 3), (2,))):
        with pytest.raises(RuntimeError, match="one `x` value for each sample point|must match the size"):
            ad.trapezoid(ad.ones(values), ad.arange(float(np.prod(places))).reshape(places))
    assert ad.trapezoid(ad.ones(2, 3), ad.tensor([0.0, 2.0, 3.0])).tolist() == [3, 3]


def test_histograms_have_finite_ends():
    for x, ends in (
        (ad.tensor([1.0, ad.inf]), ()),
        (ad.tensor([ad.nan, 1.0]), ()),
        (ad.ones(2), (0, ad.inf)),
        (ad.ones(2), (ad.nan, 1)),
    ):
        with pytest.raises(RuntimeError, match=r"histc\(\): range of \[.*\] is not finite"):
            ad.histc(x, 4, *ends)


def test_divisors_of_truth_values():
    yes, whole = ad.tensor([True, False]), ad.tensor([4, 6])
    assert ad.gcd(yes, whole).tolist() == [1, 6] and ad.gcd(whole, yes).tolist() == [1, 6]
    assert ad.lcm(yes, whole).tolist() == [4, 0]
    for f in (ad.gcd, ad.lcm):
        with pytest.raises(RuntimeError, match=rf"{f.__name__}\(\): not implemented for 'bool'"):
            f(yes, yes)
