"""An element's value, and its gradient, have the same bits wherever it lies: within a vector, or among the few that fill none."""

import numpy as np
import pytest
from helpers import array, dtype_of
from reference import NUMBERS, OPTIONS
from samples import OPERATORS, domain, function_of

import adjoint as ad

ELEMENTWISE = [row for row in OPERATORS if row["kind"] == "elementwise"]
MOST = 70
#: By whole vectors of every width, and up to one element more or less.
LENGTHS = [*range(1, 18), 31, 32, 33, 47, 63, 65, MOST]


def inputs_of(row, dtype):
    """Within the domain, and with a zero and a NaN."""
    generator = np.random.default_rng(3)
    made = []
    for k in range(row["arity"]):
        low, high = domain(row, k)
        x = generator.uniform(low, high, size=MOST)
        if k == 0:
            x[[11, 69]] = -0.0, np.nan
        if dtype.is_complex and k != row["condition"]:
            x = x + 1j * generator.uniform(-1, 1, size=MOST)
        if k == row["condition"]:
            x = x > (low + high) / 2
        x = x[0] if k == NUMBERS.get(row["name"]) else x
        made.append(ad.tensor(x.tolist(), dtype=None if k == row["condition"] else dtype))
    return made


def values_and_gradients(row, inputs, slope):
    wanted = [
        name in row["gradients"] and x.ndim == 1 for name, x in zip(row["arguments"], inputs, strict=False)
    ]
    inputs = [x.clone().requires_grad_(want) for x, want in zip(inputs, wanted, strict=True)]
    result = function_of(row)(*inputs, **OPTIONS.get(row["name"], {}))
    found = [result.detach()]
    if result.requires_grad:
        leaves = [x for x in inputs if x.requires_grad]
        found += ad.autograd.grad(result, leaves, slope.to(result.dtype), materialize_grads=True)
    return [array(x) for x in found]


def parts(row, inputs, slope):
    """Values and gradients of a part at either end, beside the same part of those of the whole, for each length."""
    whole = values_and_gradients(row, inputs, slope)
    for n in LENGTHS:
        for start in {0, MOST - n}:
            part = [x[start : start + n].clone() if x.ndim else x for x in inputs]
            found = values_and_gradients(row, part, slope[start : start + n].clone())
            for one, all_of_it in zip(found, whole, strict=True):
                yield one, all_of_it[start : start + n], n


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row["name"])
def test_the_same_bits_wherever_an_element_lies(row, dtype):
    if dtype not in row["types"]:
        return
    inputs, slope = inputs_of(row, dtype_of(dtype)), ad.linspace(-2, 2, MOST, dtype=dtype_of(dtype).to_real())
    if dtype_of(dtype).is_complex:
        slope = ad.complex(slope, slope.cos())
    for one, expected, n in parts(row, inputs, slope):
        assert one.tobytes() == expected.tobytes() or np.array_equal(one, expected, equal_nan=True), n


def with_nan(inputs):
    """Other NaN in places of each input: its number, and the element's."""
    made = []
    for k, x in enumerate(inputs):
        if x.ndim and x.dtype.is_floating_point:
            values = array(x).copy()
            bits = values.view(f"u{values.itemsize}")
            where = np.arange(k, MOST, 3) if k < 2 else np.arange(0, MOST, 2)
            bits[where] = np.full(1, np.nan, values.dtype).view(bits.dtype) + (100 * k + where).astype(
                bits.dtype
            )
            x = ad.from_numpy(values)
        made.append(x)
    return made


def without_sign_of_nan(x):
    return np.where(np.isnan(x), np.abs(x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row["name"])
def test_of_several_nan_the_same_one_wherever_an_element_lies(row, dtype):
    """Else ad.jit could not run a loop in other pieces than it has by itself. (Signs of NaN mean nothing.)"""
    if dtype not in row["types"]:
        return
    inputs, slope = with_nan(inputs_of(row, dtype_of(dtype))), ad.linspace(-2, 2, MOST, dtype=dtype_of(dtype))
    for one, expected, n in parts(row, inputs, slope):
        if one.dtype == dtype:
            assert without_sign_of_nan(one).tobytes() == without_sign_of_nan(expected).tobytes(), n


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "row", [row for row in ELEMENTWISE if row["inplace"] and row["method"]], ids=lambda row: row["name"]
)
def test_written_in_place_an_element_has_the_same_bits(row, dtype):
    if dtype not in row["types"] or row["condition"] == 0:
        return
    inputs, options = inputs_of(row, dtype_of(dtype)), OPTIONS.get(row["name"], {})
    for n in LENGTHS:
        part = [x[:n].clone() if x.ndim else x for x in inputs]
        expected = function_of(row)(*part, **options)
        if expected.dtype != part[0].dtype:
            return
        getattr(part[0], row["name"] + "_")(*part[1:], **options)
        assert array(part[0]).tobytes() == array(expected).tobytes(), n
