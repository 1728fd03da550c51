"""The array API: names and parameters of the standard, values and types against NumPy, whose main namespace follows it too."""

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import adjoint as ad

xp = ad.array_api

# The functions of version 2025.12 and their keyword-only parameters.
NAMES = """
abs acos acosh add all:axis,keepdims any:axis,keepdims arange:dtype,device argmax:axis,keepdims argmin:axis,keepdims
argsort:axis,descending,stable asarray:dtype,device,copy asin asinh astype:copy,device atan atan2 atanh bitwise_and bitwise_invert
bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip
concat:axis conj copysign cos cosh count_nonzero:axis,keepdims cumulative_prod:axis,dtype,include_initial
cumulative_sum:axis,dtype,include_initial diff:axis,n,prepend,append divide empty:dtype,device empty_like:dtype,device equal exp
expand_dims expm1 eye:k,dtype,device finfo flip:axis floor floor_divide from_dlpack:device,copy full:dtype,device
full_like:dtype,device greater greater_equal hypot iinfo imag isdtype isfinite isin:invert isinf isnan less less_equal
linspace:dtype,device,endpoint log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
matrix_transpose max:axis,keepdims maximum mean:axis,keepdims meshgrid:indexing min:axis,keepdims minimum moveaxis multiply negative
nextafter nonzero not_equal ones:dtype,device ones_like:dtype,device permute_dims positive pow prod:axis,dtype,keepdims real
reciprocal remainder repeat:axis reshape:copy result_type roll:axis round searchsorted:side,sorter sign signbit sin sinh
sort:axis,descending,stable sqrt square squeeze stack:axis std:axis,correction,keepdims subtract sum:axis,dtype,keepdims take:axis
take_along_axis:axis tan tanh tensordot:axes tile tril:k triu:k trunc unique_all unique_counts unique_inverse unique_values
unstack:axis var:axis,correction,keepdims vecdot:axis where zeros:dtype,device zeros_like:dtype,device
""".split()
LINALG = """
cholesky:upper cross:axis det diagonal:offset eig eigh eigvals eigvalsh inv matmul matrix_norm:keepdims,ord matrix_power
matrix_rank:rtol matrix_transpose outer pinv:rtol qr:mode slogdet solve svd:full_matrices svdvals tensordot:axes
trace:offset,dtype vecdot:axis vector_norm:axis,keepdims,ord
""".split()
FFT = """
fft:n,axis,norm ifft:n,axis,norm rfft:n,axis,norm irfft:n,axis,norm hfft:n,axis,norm ihfft:n,axis,norm fftn:s,axes,norm
ifftn:s,axes,norm rfftn:s,axes,norm irfftn:s,axes,norm fftfreq:d,dtype,device rfftfreq:d,dtype,device fftshift:axes ifftshift:axes
""".split()


@pytest.mark.parametrize(
    ("module", "entry"),
    [*((xp, n) for n in NAMES), *((xp.linalg, n) for n in LINALG), *((xp.fft, n) for n in FFT)],
    ids=lambda v: v if isinstance(v, str) else v.__name__.rpartition(".")[2],
)
def test_names_and_parameters(module, entry):
    import inspect

    name, _, keywords = entry.partition(":")
    assert name in module.__all__
    function = getattr(module, name)
    if keywords:
        assert set(keywords.split(",")) <= set(inspect.signature(function).parameters)


def test_namespace_of_a_tensor():
    x = ad.ones(2)
    assert x.__array_namespace__() is xp
    assert all(x.__array_namespace__(api_version=v) is xp for v in ("2023.12", "2024.12", "2025.12"))
    with pytest.raises(ValueError, match="2023.12, 2024.12 or 2025.12, but got '2017.1'"):
        x.__array_namespace__(api_version="2017.1")
    assert xp.__array_api_version__ == "2025.12" and set(dir(xp)) == set(xp.__all__)
    assert x.to_device("cpu") is x and x.device == xp.__array_namespace_info__().default_device()
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="integral") == {
        d.name: d for d in (ad.int8, ad.int16, ad.int32, ad.int64, ad.uint8)
    }
    assert info.default_dtypes() == {
        "real floating": ad.float32,
        "complex floating": ad.complex64,
        "integral": ad.int64,
        "indexing": ad.int64,
    }
    assert info.capabilities()["boolean indexing"] and len(info.devices()) == 1


G = np.random.default_rng(0)
A, B, S = G.normal(size=(3, 4, 4)), G.normal(size=(4, 4)), G.normal(size=(4, 4))
S = S @ S.T + np.eye(4)
I, J = G.integers(-5, 6, size=(3, 4)), G.integers(1, 5, size=(3, 4))
C = A + 1j * G.normal(size=A.shape)
K = np.array([[2, 0, 1, 3], [-1, 1, 1, 0]])
F0 = np.array(2.5, dtype=np.float32)
V = np.array([3.0, 1.0, 2.0, 1.0, math.nan, 3.0])

#: Expressions of the namespace `x` and the arrays above; each is computed by both libraries.
CASES = """
x.arange(5) | x.arange(1, 7, 2) | x.arange(3, 0) | x.arange(0., 1, .25) | x.eye(3, 4, k=1) | x.eye(2, k=5) | x.eye(3, 2, k=-1)
x.linspace(0., 1., 5) | x.linspace(0., 1., 4, endpoint=False) | x.full(3, 2) | x.full((2, 2), True) | x.full((), 2.5) | x.zeros(2)
x.ones((2, 0)) | x.full_like(I, 7) | x.zeros_like(C) | x.tril(A, k=1) | x.triu(A, k=-1) | x.asarray([[1, 2], [3, 4]])
x.meshgrid(V, I[0])[0] | x.meshgrid(V, I[0], indexing='ij')[1]
x.add(A, B) | x.add(A, 2) | x.subtract(1.5, A) | x.multiply(I, J) | x.divide(A, B) | x.floor_divide(I, J) | x.remainder(I, J)
x.pow(J, 2) | x.pow(2, J) | x.atan2(A, B) | x.hypot(A, B) | x.copysign(A, -1.) | x.logaddexp(A, B) | x.nextafter(A, B)
x.maximum(A, 0) | x.minimum(A, B) | x.bitwise_and(I, J) | x.bitwise_left_shift(J, 2) | x.bitwise_invert(I) | x.equal(I, J) | x.less(A, 0.)
x.logical_xor(A > 0, B > 0) | x.add(F0, x.asarray(F0)) | x.multiply(F0, x.ones(3, dtype=x.float64)) | x.add(C, 1j) | x.add(x.astype(A, x.float32), 1j)
x.clip(A, -.5, .5) | x.clip(I, max=2) | x.sign(C) | x.abs(C) | x.conj(C) | x.imag(C) | x.real(C) | x.ceil(I)
x.round(A * 2) | x.trunc(A) | x.signbit(A) | x.sqrt(x.abs(A)) | x.square(I) | x.reciprocal(A) | x.expm1(A) | x.log1p(x.abs(A))
x.isnan(V) | x.isfinite(V) | x.logical_not(I)
x.sum(A) | x.sum(A, axis=0) | x.sum(A, axis=(0, 2), keepdims=True) | x.sum(A, axis=()) | x.sum(x.astype(I, x.int8)) | x.sum(A > 0)
x.sum(I, dtype=x.float64) | x.sum(x.zeros((0, 3)), axis=0)
x.prod(A, axis=1) | x.prod(A, axis=(0, 2)) | x.prod(A, keepdims=True) | x.prod(x.astype(J, x.int16)) | x.mean(A, axis=-1) | x.mean(A)
x.mean(A, axis=()) | x.var(A) | x.var(A, axis=(1, 2), correction=1) | x.std(A, axis=0, keepdims=True) | x.max(A) | x.max(I, axis=0)
x.min(A, axis=(0, 1)) | x.all(I > -9) | x.any(A > 2, axis=1) | x.all(A > 0, axis=(0, 2), keepdims=True) | x.any(I, axis=()) | x.count_nonzero(I)
x.count_nonzero(I, axis=1, keepdims=True) | x.argmax(A) | x.argmax(A, axis=1, keepdims=True) | x.argmin(A, keepdims=True)
x.cumulative_sum(V[:4]) | x.cumulative_sum(A, axis=1, include_initial=True) | x.cumulative_prod(A, axis=-1)
x.cumulative_prod(I, axis=0, include_initial=True) | x.cumulative_sum(x.astype(I, x.int8), axis=0)
x.diff(A, axis=1) | x.diff(A, n=2) | x.diff(A, prepend=A, axis=0)
x.sort(A) | x.sort(A, axis=0, stable=True) | x.argsort(I, axis=1, stable=True) | x.searchsorted(x.sort(V[:4]), V[:4])
x.searchsorted(x.sort(V[:4]), V[:4], side='right')
x.sort(x.unique_values(I)) | x.unique_counts(I).counts | x.unique_inverse(I).inverse_indices | x.unique_all(I).indices | x.unique_values(V)
x.unique_counts(V).counts | x.unique_values(I[0:0]) | x.isin(I, J) | x.isin(I, J, invert=True)
x.broadcast_to(B, (2, 4, 4)) | x.broadcast_arrays(A, B)[1] | x.concat([A, A]) | x.concat([I, I], axis=None) | x.concat([I, x.astype(J, x.int8)], axis=1)
x.stack([B, S]) | x.stack([B, S], axis=-1) | x.unstack(A, axis=1)[2] | x.expand_dims(A, axis=1) | x.expand_dims(A, axis=-1) | x.expand_dims(B, axis=(0, -1))
x.squeeze(A[:1], axis=0) | x.squeeze(A[:1, :1], axis=(0, 1)) | x.flip(A) | x.flip(A, axis=(0, -1)) | x.moveaxis(A, 0, -1) | x.moveaxis(A, (0, 1), (2, 0))
x.permute_dims(A, (2, 0, 1)) | x.reshape(A, (4, -1)) | x.reshape(A, (48,), copy=True) | x.roll(A, 2) | x.roll(A, (1, -1), axis=(0, 1)) | x.repeat(B, 2)
x.repeat(B, 2, axis=1) | x.repeat(B, J[0], axis=0) | x.tile(B, (2, 1, 2)) | x.tile(B, (2,)) | x.take(A, x.asarray([1, -1]), axis=1) | x.take(V, x.asarray([0, 2]))
x.take_along_axis(I, K[:1] % 3, axis=0) | x.take_along_axis(A[0][:2], K, axis=1) | x.nonzero(I)[1] | x.where(A > 0, A, 0.) | x.where(I > 0, I, J) | x.where(A > B, 1, A)
x.matmul(A, B) | x.matrix_transpose(A) | x.tensordot(A, B, axes=1) | x.tensordot(A, A, axes=((1, 2), (1, 2))) | x.vecdot(A, B) | x.vecdot(C, C, axis=0)
x.vecdot(C, A)
x.linalg.cholesky(S) | x.linalg.cholesky(S, upper=True) | x.linalg.cross(A[..., :3], A[..., 1:]) | x.linalg.det(A) | x.linalg.diagonal(A, offset=1)
x.linalg.eigh(S).eigenvalues | x.linalg.eigvalsh(S) | x.linalg.inv(A) | x.linalg.matrix_norm(A) | x.linalg.matrix_norm(A, ord=1, keepdims=True)
x.linalg.matrix_norm(A, ord='nuc') | x.linalg.matrix_power(A, 3) | x.linalg.matrix_rank(A) | x.linalg.outer(V, V) | x.linalg.pinv(A)
x.linalg.slogdet(A).logabsdet | x.linalg.solve(A, B) | x.linalg.solve(A, B[0]) | x.linalg.svdvals(A) | x.linalg.svd(A, full_matrices=False).S
x.linalg.trace(A) | x.linalg.trace(A, offset=-1) | x.linalg.vector_norm(A) | x.linalg.vector_norm(A, axis=(0, 2), ord=3) | x.linalg.vector_norm(A, axis=1, keepdims=True, ord=math.inf)
x.abs(x.linalg.qr(A).R) | x.abs(x.linalg.qr(A, mode='complete').Q)
x.fft.fft(A) | x.fft.ifft(C, n=6, axis=1) | x.fft.rfft(A, norm='ortho') | x.fft.irfft(C, n=7) | x.fft.hfft(C) | x.fft.ihfft(A) | x.fft.fftn(C, axes=(0, 2))
x.fft.ifftn(C) | x.fft.rfftn(A) | x.fft.irfftn(C, axes=(1, 2)) | x.fft.fftfreq(5, d=.5) | x.fft.rfftfreq(6) | x.fft.fftshift(A) | x.fft.ifftshift(A, axes=1)
"""
CASES = [case.strip() for line in CASES.strip().splitlines() for case in line.split("|")]
#: Where NumPy gives another type: Adjoint's default is float32 and complex64.
OF_DEFAULT_TYPE = (
    "x.arange(0.",
    "x.eye",
    "x.linspace",
    "x.full(()",
    "x.zeros(2)",
    "x.ones((2",
    "x.sum(x.zeros",
    "x.fft.fftfreq",
    "x.fft.rfftfreq",
)


@pytest.mark.parametrize("case", CASES)
def test_against_numpy(case):
    arrays = dict(A=A, B=B, S=S, I=I, J=J, C=C, K=K, F0=F0, V=V)
    expected = np.asarray(eval(case, {"x": np, "math": math, **arrays}))
    found = eval(case, {"x": xp, "math": math, **{n: ad.tensor(v) for n, v in arrays.items()}})
    assert tuple(found.shape) == expected.shape
    if case.startswith(OF_DEFAULT_TYPE):
        assert found.dtype is (ad.float32 if found.is_floating_point() else found.dtype)
    else:
        assert found.dtype.name == expected.dtype.name
    np.testing.assert_allclose(
        found.resolve_conj().numpy(), expected, rtol=1e-6 if found.dtype is ad.float32 else 1e-9, atol=1e-12
    )


def test_promotion():
    """As the standard's tables: arrays without dimensions count as others do, numbers take the array's type."""
    types = [
        ad.bool,
        ad.uint8,
        ad.int8,
        ad.int16,
        ad.int32,
        ad.int64,
        ad.float32,
        ad.float64,
        ad.complex64,
        ad.complex128,
    ]
    for a, b in itertools.product(types[1:], repeat=2):
        if a.is_floating_point + a.is_complex != 0 and not (b.is_floating_point or b.is_complex):
            continue
        both = xp.result_type(a, b)
        assert both is ad.promote_types(a, b)
        if not (a.is_floating_point or a.is_complex) == (b.is_floating_point or b.is_complex):
            continue
        assert xp.add(ad.ones(3).to(a), ad.tensor(1).to(b)).dtype is both
    assert xp.result_type(ad.float32, 1) is ad.float32 and xp.result_type(ad.float32, 1j) is ad.complex64
    assert xp.result_type(ad.int8, 1, ad.int16) is ad.int16
    with pytest.raises(
        TypeError, match="a Python float goes with arrays of floating-point numbers, but found adjoint.int64"
    ):
        xp.add(ad.ones(2, dtype=ad.int64), 1.5)
    with pytest.raises(ValueError, match="at least one array"):
        xp.result_type()
    assert xp.can_cast(ad.int8, ad.int16) and not xp.can_cast(ad.float64, ad.float32)
    assert (
        xp.isdtype(ad.int8, "integral")
        and xp.isdtype(ad.float32, ("bool", ad.float32))
        and not xp.isdtype(ad.bool, "numeric")
    )
    with pytest.raises(ValueError, match="isdtype"):
        xp.isdtype(ad.int8, "whole")
    assert xp.finfo(ad.complex64).eps == 2**-23 and xp.iinfo(ad.tensor(1, dtype=ad.int8)).max == 127


def test_copies():
    x = ad.ones(2, 3)
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x and xp.asarray(x, copy=False) is x
    for obj, dtype in ((x, ad.float64), ([1, 2], None)):
        with pytest.raises(ValueError, match="without a copy"):
            xp.asarray(obj, dtype=dtype, copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        xp.reshape(x.mT, (6,), copy=False)
    assert (
        xp.reshape(x, (6,), copy=False).data_ptr()
        == x.data_ptr()
        != xp.reshape(x, (6,), copy=True).data_ptr()
    )
    assert xp.astype(x, ad.float32, copy=False) is x and xp.astype(x, ad.float32) is not x
    a = np.ones(3)
    assert xp.from_dlpack(a).data_ptr() == a.ctypes.data != xp.from_dlpack(a, copy=True).data_ptr()


def test_descending_order_and_bounds():
    """What NumPy's namespace does not take."""
    x = ad.tensor([[2, 1, 2], [0, 3, 3]])
    assert xp.sort(x, descending=True).tolist() == [[2, 2, 1], [3, 3, 0]]
    assert xp.argsort(x, descending=True).tolist() == [[0, 2, 1], [1, 2, 0]]
    assert xp.clip(x, ad.tensor(1), 2).tolist() == [[2, 1, 2], [1, 2, 2]]
    assert xp.clip(x) is not x and xp.clip(x).tolist() == x.tolist()
    assert xp.meshgrid() == ()


def test_bad_input():
    x = ad.ones(2, 3)
    for wrong in (
        lambda: xp.squeeze(x, axis=0),
        lambda: xp.expand_dims(x, axis=4),
        lambda: xp.nonzero(ad.tensor(1)),
        lambda: xp.cumulative_sum(x),
        lambda: xp.take(x, ad.tensor([0])),
        lambda: xp.astype(x + 1j, ad.float32),
        lambda: xp.linalg.inv(x),
    ):
        with pytest.raises((ValueError, IndexError, TypeError, RuntimeError)):
            wrong()


def test_derivatives_flow_through():
    x = ad.tensor([[2.0, 0.3], [0.4, 1.5]], dtype=ad.float64, requires_grad=True)

    def f(x):
        y = xp.matmul(xp.linalg.inv(x), xp.sort(x, axis=0, descending=True))
        return xp.sum(xp.clip(y, -1, 5) * xp.take(x, ad.tensor([1, -1]), axis=0)) + xp.std(xp.concat([x, y]))

    assert ad.autograd.gradcheck(f, x)


def test_scipy_and_scikit_learn_take_tensors():
    """What they dispatch on by the array API, in a process of its own, since both read a switch when imported."""
    pytest.importorskip("sklearn")
    pytest.importorskip("array_api_compat")
    program = """
import numpy as np, adjoint as ad
from scipy import special, stats, signal
x = ad.linspace(0.1, 2, 5).double()
for f in (special.gammaln, special.erf, special.expit, special.log_ndtr):
    found = f(x)
    assert isinstance(found, ad.Tensor), f
    np.testing.assert_allclose(found.numpy(), f(x.numpy()), rtol=1e-12)
assert isinstance(stats.zscore(x), ad.Tensor)
import sklearn
from sklearn.metrics import accuracy_score, mean_squared_error
with sklearn.config_context(array_api_dispatch=True):
    assert abs(mean_squared_error(x, x + 1) - 1) < 1e-12
    assert abs(accuracy_score(ad.tensor([1, 0, 1]), ad.tensor([1, 1, 1])) - 2 / 3) < 1e-6
print("all")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )
    assert done.stdout == "all\n", done.stderr


def test_forms_beyond_the_standard_that_scikit_learn_writes():
    """For `roc_curve`: `diff` with its count by position, `where` of a condition alone."""
    x = ad.tensor([1.0, 4.0, 9.0, 16.0])
    assert xp.diff(x, 2).tolist() == xp.diff(x, n=2).tolist() == np.diff(x.numpy(), 2).tolist()
    assert [i.tolist() for i in xp.where(x > 3)] == [[1, 2, 3]]


# --- what the standard says of special values, and of what is refused ---------------------------------------------------


@pytest.mark.parametrize(
    "x1, x2, expected",
    [
        *((math.inf, 1.0, math.inf), (math.inf, -1.0, -math.inf), (-math.inf, 2.0, -math.inf)),
        *((1.0, math.inf, 0.0), (-1.0, -math.inf, 0.0), (1.0, -math.inf, -0.0), (-1.0, math.inf, -0.0)),
        *((math.inf, math.inf, math.nan), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (0.0, -1.0, -0.0)),
    ],
)
def test_floor_divide_at_infinity(x1, x2, expected):
    found = xp.floor_divide(xp.asarray(x1), xp.asarray(x2)).item()
    if expected == 0:  # the standard lets the quotient round either way where the signs differ
        assert found == 0 and math.copysign(1, found) == math.copysign(1, expected)
    else:
        assert found == expected or math.isnan(found) and math.isnan(expected)


@pytest.mark.parametrize("x1", [0.0, -0.0, 3.0, -3.0])
@pytest.mark.parametrize("x2", [1.0, -1.0, 1.5])
def test_remainder_has_the_sign_of_the_divisor(x1, x2):
    found = xp.remainder(xp.asarray(x1), xp.asarray(x2)).item()
    assert found == np.remainder(x1, x2) and math.copysign(1, found) == math.copysign(1, x2)


@pytest.mark.parametrize("f", [xp.std, xp.var])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_has_no_variance(f, value):
    for x, axis in ((xp.asarray(value), None), (xp.asarray([value]), 0), (xp.asarray([value, 1.0]), ())):
        assert xp.isnan(f(x, axis=axis)).any()


@pytest.mark.parametrize("dtype", [xp.uint8, xp.int8, xp.int64])
def test_integers_are_vectors_too(dtype):
    x = xp.asarray([[1, 2], [3, 4]], dtype=dtype)
    for f in (xp.vecdot, xp.linalg.vecdot):
        assert f(x, x).tolist() == [5, 25] and f(x, x, axis=0).dtype == dtype
    assert xp.repeat(xp.asarray([1, 2]), xp.asarray([2, 1], dtype=dtype)).tolist() == [1, 1, 2]


def test_axes_and_shapes_that_do_not_fit():
    for axes in ((0, 0), (1, -2), (0, 9)):
        with pytest.raises(ValueError, match="expand_dims"):
            xp.expand_dims(xp.asarray([1.0]), axis=axes)
    assert xp.expand_dims(xp.asarray([1.0]), axis=(0, -1)).shape == (1, 1, 1)
    with pytest.raises(ValueError, match="broadcast"):
        xp.broadcast_shapes((2, 3), (4,))


def test_devices_are_a_tuple():
    assert xp.__array_namespace_info__().devices() == (ad.device("cpu"),)


@pytest.mark.parametrize("f", [xp.any, xp.all])
@pytest.mark.parametrize("dtype", [xp.uint8, xp.bool, xp.int8, xp.float32, xp.complex64])
def test_whether_something_holds_is_a_boolean(f, dtype):
    for axis in (None, 0, ()):
        assert f(xp.ones((2, 3), dtype=dtype), axis=axis).dtype is xp.bool
    assert f(xp.zeros((0,), dtype=dtype)).dtype is xp.bool


def test_expm1_of_a_complex_zero_has_a_real_part_without_a_sign():
    for imaginary in (0.0, -0.0):
        found = xp.expm1(xp.asarray(complex(-0.0, imaginary))).item()
        assert math.copysign(1, found.real) == 1 and math.copysign(1, found.imag) == math.copysign(
            1, imaginary
        )
