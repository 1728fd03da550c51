"""Python's own types as dtypes, and what NumPy's scalars are: float means float64 wherever a dtype is taken."""

import inspect

import numpy as np
import pytest

import adjoint as ad

MEANING = {float: ad.float64, int: ad.int64, complex: ad.complex128, bool: ad.bool}

#: What takes a dtype, as functions of it that give a tensor.
TAKERS = {
    "zeros": lambda d: ad.zeros(1, dtype=d),
    "empty_permuted": lambda d: ad.empty_permuted((1,), (0,), dtype=d),
    "ones": lambda d: ad.ones(1, dtype=d),
    "empty": lambda d: ad.empty(1, dtype=d),
    "full": lambda d: ad.full((1,), 1, dtype=d),
    "eye": lambda d: ad.eye(2, dtype=d),
    "tensor": lambda d: ad.tensor([1], dtype=d),
    "as_tensor": lambda d: ad.as_tensor(np.ones(2), dtype=d),
    "as_tensor of a list": lambda d: ad.as_tensor([1, 2], dtype=d),
    "asarray": lambda d: ad.asarray([1, 2], dtype=d),
    "scalar_tensor": lambda d: ad.scalar_tensor(1, dtype=d),
    "empty_strided": lambda d: ad.empty_strided((2,), (1,), dtype=d),
    "zeros_like": lambda d: ad.zeros_like(ad.ones(1), dtype=d),
    "ones_like": lambda d: ad.ones_like(ad.ones(1), dtype=d),
    "empty_like": lambda d: ad.empty_like(ad.ones(1), dtype=d),
    "full_like": lambda d: ad.full_like(ad.ones(1), 1, dtype=d),
    "new_zeros": lambda d: ad.ones(1).new_zeros(2, dtype=d),
    "new_ones": lambda d: ad.ones(1).new_ones(2, dtype=d),
    "new_full": lambda d: ad.ones(1).new_full((2,), 1, dtype=d),
    "new_empty": lambda d: ad.ones(1).new_empty(2, dtype=d),
    "new_tensor": lambda d: ad.ones(1).new_tensor([1], dtype=d),
    "to": lambda d: ad.ones(1).to(d),
    "to by keyword": lambda d: ad.ones(1).to(dtype=d),
    "to with device": lambda d: ad.ones(1).to("cpu", d),
    "type": lambda d: ad.ones(1).type(d),
    "frombuffer": lambda d: ad.frombuffer(bytearray(16), dtype=d),
    "from_file": lambda d: ad.from_file(__file__, size=2, dtype=d),
}
NOT_BOOL = {
    "arange": lambda d: ad.arange(3, dtype=d),
    "arange of fractions": lambda d: ad.arange(0.0, 3.0, 1.0, dtype=d),
    "linspace": lambda d: ad.linspace(0, 1, 3, dtype=d),
    "logspace": lambda d: ad.logspace(0, 1, 3, dtype=d),
    "sum": lambda d: ad.ones(1).sum(dtype=d),
    "prod": lambda d: ad.ones(1).prod(dtype=d),
    "cumsum": lambda d: ad.ones(1).cumsum(0, dtype=d),
    "cumprod": lambda d: ad.ones(1).cumprod(0, dtype=d),
}
REAL_FLOATS = {
    "rand": lambda d: ad.rand(1, dtype=d),
    "randn": lambda d: ad.randn(1, dtype=d),
    "softmax": lambda d: ad.ones(1).softmax(0, dtype=d),
    "log_softmax": lambda d: ad.nn.functional.log_softmax(ad.ones(1), 0, dtype=d),
    "mean": lambda d: ad.ones(1).mean(dtype=d),
    "vector_norm": lambda d: ad.linalg.vector_norm(ad.ones(1), dtype=d),
    "Linear": lambda d: ad.nn.Linear(1, 1, dtype=d).weight,
    "Linear.to": lambda d: ad.nn.Linear(1, 1).to(d).weight,
    "Linear.type": lambda d: ad.nn.Linear(1, 1).type(d).weight,
    "LayerNorm": lambda d: ad.nn.LayerNorm(2, dtype=d).weight,
    "Embedding": lambda d: ad.nn.Embedding(2, 2, dtype=d).weight,
}


@pytest.mark.parametrize("python", MEANING, ids=lambda t: t.__name__)
def test_what_takes_a_dtype_takes_pythons(python):
    takers = {
        **TAKERS,
        **(NOT_BOOL if python is not bool else {}),
        **(REAL_FLOATS if python is float else {}),
    }
    for name, make in takers.items():
        if name in ("linspace", "logspace") and python is complex:
            continue
        assert make(python).dtype == MEANING[python], name


def test_a_dtype_is_pythons_whatever_the_default():
    ad.set_default_dtype(ad.float64)
    assert ad.zeros(1, dtype=float).dtype == ad.float64
    ad.set_default_dtype(ad.float16)
    assert ad.zeros(1, dtype=float).dtype == ad.float64 and ad.zeros(1).dtype == ad.float16


def test_limits_and_promotion():
    assert ad.finfo(float).eps == 2.0**-52 and ad.finfo(complex).dtype == ad.float64
    assert ad.iinfo(int).max == 2**63 - 1
    assert ad.promote_types(float, ad.int32) == ad.float64 and ad.promote_types(int, ad.int32) == ad.int64
    assert not ad.can_cast(float, int)
    for refused in (
        lambda: ad.finfo(int),
        lambda: ad.iinfo(float),
        lambda: ad.iinfo(bool),
        lambda: ad.finfo("float32"),
    ):
        with pytest.raises(TypeError):
            refused()
    assert ad.ones(2).view(float).shape == (1,)
    x = ad.ones(2, dtype=ad.float64)
    assert x.to(float) is x and x.type(float) is x
    for dtype in (np.float32, np.dtype("float32"), "float32"):
        with pytest.raises(TypeError):
            ad.zeros(1, dtype=dtype)


NUMPY_SCALARS = [
    np.float64,
    np.float32,
    np.float16,
    np.int64,
    np.int32,
    np.int16,
    np.int8,
    np.uint8,
    np.bool_,
    np.complex64,
    np.complex128,
]


@pytest.mark.parametrize("scalar", NUMPY_SCALARS, ids=lambda t: t.__name__)
def test_a_numpy_scalar_keeps_its_type(scalar):
    expected = getattr(ad, np.dtype(scalar).name)
    for make in (ad.tensor, ad.as_tensor, ad.asarray):
        assert make(scalar(1)).dtype == expected, make
        assert make([scalar(1)]).dtype == expected, make
        assert make(scalar(1)).item() == 1
    assert ad.tensor([scalar(1), [scalar(0)][0]]).tolist() == [1, 0]


def test_numpy_scalars_together():
    assert ad.tensor([np.float64(1), 1.0]).dtype == ad.float64
    assert ad.tensor([np.int32(1), 1]).dtype == ad.int64
    assert ad.tensor([np.int32(1), np.float32(1)]).dtype == ad.float32
    assert ad.Tensor([np.float64(1)]).dtype == ad.float32
    # Beside a tensor they are numbers, as weak as Python's.
    assert (ad.ones(1) * np.float64(2)).dtype == ad.float32
    assert (ad.ones(1, dtype=ad.int32) * np.int64(2)).dtype == ad.int32
    assert (ad.ones(1, dtype=ad.int32) * np.float32(2)).dtype == ad.float32
    assert ad.full((1,), np.float64(2)).dtype == ad.float32


def test_no_parameter_is_read_as_the_default_type():
    # The functions that take a dtype and are missing above would slip by.
    def takes_dtype(f):
        try:
            return "dtype" in inspect.signature(f).parameters
        except (TypeError, ValueError):
            return False

    known = {name.split()[0] for name in (*TAKERS, *NOT_BOOL, *REAL_FLOATS)}
    random_and_windows = {
        n
        for n in dir(ad)
        if n.startswith(("rand", "bartlett", "blackman", "hamming", "hann", "kaiser", "normal"))
    }
    others = {
        "tril_indices",
        "triu_indices",
        "vander",
        "norm",
        "nansum",
        "nanmean",
        "logsumexp",
        "autocast",
        "range",
        "sparse_coo_tensor",
        "sparse_csr_tensor",
        "sparse_csc_tensor",
    }
    public = {
        n for n in dir(ad) if not n.startswith("_") and callable(f := getattr(ad, n, None)) and takes_dtype(f)
    }
    assert public - known - random_and_windows - others == set()
