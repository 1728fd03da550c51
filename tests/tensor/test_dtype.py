"""The twelve dtypes: their attributes, conversions between them, and what they can represent."""

import itertools
import pickle

import numpy as np
import pytest
from helpers import ALL_DTYPES, FLOAT_DTYPES, INTEGER_DTYPES, array, dtype_of

import adjoint as ad

SIZES = dict(zip(ALL_DTYPES, (1, 1, 1, 2, 4, 8, 2, 4, 8, 8, 16, 2), strict=True))


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_attributes(name):
    d = dtype_of(name)
    assert isinstance(d, ad.dtype) and d.itemsize == SIZES[name]
    assert d.is_floating_point == (name in FLOAT_DTYPES)
    assert d.is_complex == name.startswith("complex")
    assert d.is_signed == (name not in ("bool", "uint8"))
    assert pickle.loads(pickle.dumps(d)) is d
    assert hash(d) == hash(dtype_of(name)) and d == dtype_of(name) and d != "float"


def test_aliases():
    assert ad.float is ad.float32 and ad.double is ad.float64 and ad.half is ad.float16
    assert ad.long is ad.int64 and ad.int is ad.int32 and ad.short is ad.int16
    assert ad.cfloat is ad.complex64 and ad.cdouble is ad.complex128


def test_limits():
    for name in INTEGER_DTYPES:
        info = ad.iinfo(dtype_of(name))
        assert (info.min, info.max, info.bits) == (
            np.iinfo(name).min,
            np.iinfo(name).max,
            np.iinfo(name).bits,
        )
    for name in ("float16", "float32", "float64"):
        info, wanted = ad.finfo(dtype_of(name)), np.finfo(name)
        assert (info.eps, info.max, info.min, info.tiny) == (wanted.eps, wanted.max, wanted.min, wanted.tiny)
        assert info.bits == wanted.bits and info.smallest_normal == wanted.tiny
    b = ad.finfo(ad.bfloat16)
    assert b.eps == 2**-7 and b.bits == 16 and b.tiny == 2**-126
    with pytest.raises(TypeError):
        ad.iinfo(ad.float32)
    with pytest.raises(TypeError):
        ad.finfo(ad.int32)


@pytest.mark.parametrize("source, target", list(itertools.product(ALL_DTYPES, ALL_DTYPES)))
def test_conversion(source, target):
    x = ad.tensor([0, 1, 2, 100], dtype=dtype_of(source))
    y = x.to(dtype_of(target))
    assert y.dtype == dtype_of(target)
    values = [bool(v) for v in (0, 1, 2, 100)] if "bool" in (source, target) else [0, 1, 2, 100]
    assert y.tolist() == values
    assert x[::2].to(dtype_of(target)).tolist() == values[::2]


def test_float_to_integer_truncates():
    assert ad.tensor([1.9, -1.9, 0.5]).to(ad.int64).tolist() == [1, -1, 0]
    assert ad.tensor([0.1, 0.0, float("nan")]).to(ad.bool).tolist() == [True, False, True]


def test_narrowing_wraps():
    assert ad.tensor([300, -1]).to(ad.uint8).tolist() == [44, 255]
    assert ad.tensor([200]).to(ad.int8).tolist() == [-56]


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_rounding_to_nearest_even(name):
    a = np.random.default_rng(0).standard_normal(4000) * 10.0 ** np.random.default_rng(1).integers(
        -8, 5, 4000
    )
    a = np.concatenate(
        [a, [65504, 65519.9, 65520, 1e300, 5.9e-8, 2.9e-8, np.inf, -np.inf, np.nan, 2049, 2051]]
    )
    with np.errstate(all="ignore"):
        expected = a.astype(name)
    np.testing.assert_array_equal(array(ad.tensor(a.tolist(), dtype=ad.float64).to(dtype_of(name))), expected)


def test_bfloat16_rounds_to_nearest_even():
    values = [1.0, 1 + 2**-8, 1 + 2**-7, 1 + 3 * 2**-8, 3.3e38, 1e39, float("inf"), 1e-40]
    bits = np.array(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    assert ad.tensor(values).to(ad.bfloat16).to(ad.float32).tolist() == rounded.tolist()
    assert np.isnan(ad.tensor([float("nan")]).to(ad.bfloat16).item())


def test_every_half_survives_the_round_trip():
    a = np.arange(2**16, dtype=np.uint16).view(np.float16)
    back = ad.from_numpy(a).to(ad.float32).to(ad.float16).numpy()
    np.testing.assert_array_equal(back, a)


def test_view_as_dtype():
    x = ad.tensor([1.0, -2.0])
    assert x.view(ad.int32).tolist() == np.array([1.0, -2.0], np.float32).view(np.int32).tolist()
    assert x.view(ad.uint8).shape == (8,)
    assert x.view(ad.float64).shape == (1,)
