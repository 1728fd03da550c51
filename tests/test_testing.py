"""Comparing tensors in tests, and making tensors to test with: `adjoint.testing`."""

import math

import numpy as np
import pytest
from helpers import announced

import adjoint as ad
from adjoint.testing import assert_allclose, assert_close, make_tensor

ONES = ad.ones(2)


@pytest.mark.parametrize(
    "actual, expected, options",
    [
        (None, None, {}),
        ([ONES, {"a": 1.0}], (ONES, {"a": 1.0}), {}),
        (ONES, ad.nn.Parameter(ONES), {}),
        (1.0, 1, {"check_dtype": False}),
        (np.ones(2), np.ones(2), {}),
        (math.nan, math.nan, {"equal_nan": True}),
        (ONES, ONES + 0.5, {"rtol": 0.0, "atol": 0.5}),
    ],
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    "actual, expected, options, error, message",
    [
        (None, 1, {}, AssertionError, "None mismatch: None is not 1"),
        ("a", "a", {}, TypeError, "No comparison pair was able to handle inputs of type"),
        (ONES, [1.0, 1.0], {}, TypeError, "No comparison pair was able to handle inputs of type"),
        (ONES, ad.nn.Parameter(ONES), {"allow_subclasses": False}, TypeError, "No comparison pair"),
        (1.0, 1, {}, AssertionError, r"The \(d\)types do not match: <class 'float'> != <class 'int'>"),
        (True, False, {}, AssertionError, "Booleans mismatch: True is not False"),
        (
            1,
            2,
            {},
            AssertionError,
            "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\n",
        ),
        (
            1.0,
            2.0,
            {},
            AssertionError,
            r"Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 \(up to",
        ),
        (math.nan, math.nan, {}, AssertionError, "Expected nan but got nan"),
        ([1, 2], [1], {}, AssertionError, "The length of the sequences mismatch: 2 != 1"),
        ({"a": 1}, {"b": 1}, {}, AssertionError, r"Missing keys in the actual mapping: \['b'\]"),
        (
            ONES.long(),
            ad.tensor([1, 3]),
            {},
            AssertionError,
            "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2",
        ),
        ([ONES], [ad.zeros(2)], {}, AssertionError, r"The failure occurred for item \[0\]"),
        (ONES, ad.ones(3), {}, AssertionError, "attribute 'shape' do not match"),
        (ONES, ONES.double(), {}, AssertionError, "attribute 'dtype' do not match"),
        (
            ad.ones(2, 3).t(),
            ad.ones(3, 2),
            {"check_stride": True},
            AssertionError,
            "attribute 'stride\\(\\)' do not match",
        ),
        (ONES, ONES, {"rtol": 1.0}, ValueError, "must be either specified or omitted.*but got no atol"),
        (
            ONES,
            ad.zeros(2),
            {"msg": lambda m: "here: " + m},
            AssertionError,
            "here: Tensor-likes are not close!",
        ),
    ],
)
def test_not_close(actual, expected, options, error, message):
    with pytest.raises(error, match=message):
        assert_close(actual, expected, **options)


def test_the_comparison_of_old():
    with announced(FutureWarning, match="assert_allclose.* is deprecated"):
        assert_allclose(ad.tensor([math.nan, 1.0]), [math.nan, 1.00005])
    with pytest.raises(AssertionError, match="not close"):
        assert_allclose(ONES, ONES + 1e-3)


@pytest.mark.parametrize("dtype", [ad.bool, ad.uint8, ad.int64, ad.float16, ad.float32, ad.complex128])
def test_made_tensors(dtype):
    x = make_tensor(3, 400, dtype=dtype, device="cpu")
    assert x.shape == (3, 400) and x.dtype is dtype
    parts = ad.view_as_real(x) if x.is_complex() else x.double()
    low, high = {ad.bool: (0, 1), ad.uint8: (0, 9)}.get(dtype, (-9, 9))
    assert low <= parts.min() <= low + 0.5 and high - 0.5 <= parts.max() <= high
    y = make_tensor((3, 4), dtype=dtype, device="cpu", low=0, high=2, exclude_zero=True, noncontiguous=True)
    assert y.stride() == (8, 2) and bool((y != 0).all())


def test_made_tensors_that_are_refused():
    for options, message in (
        ({"low": 1, "high": 0}, "`low` must be less than `high`"),
        ({"dtype": ad.int64, "requires_grad": True}, "not supported for boolean and integral"),
        ({"dtype": ad.uint8, "low": 300, "high": 400}, r"only supports \[0, 256\)"),
        ({"low": math.nan}, "cannot be NaN"),
        ({"noncontiguous": True, "memory_format": ad.channels_last}, "mutually exclusive"),
    ):
        with pytest.raises(ValueError, match=message):
            make_tensor(3, **{"dtype": ad.float32, "device": "cpu"} | options)
    assert make_tensor(2, dtype=ad.float32, device="cpu", requires_grad=True).is_leaf
