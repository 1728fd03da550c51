"""torch.fft's functions: values against SciPy's and NumPy's, derivatives against finite differences, what they refuse.

The three operators beneath them are tested with the rest of the table (tests/ops), against the sums that define them.
"""

import itertools

import numpy as np
import pytest
import scipy.fft
from helpers import array, normal, run_python, tensor

import adjoint as ad

NAMES = [name for name in ad.fft.__all__ if "freq" not in name and "shift" not in name]
ONE = [name for name in NAMES if not name.endswith(("2", "n"))]
SEVERAL = [name for name in NAMES if name not in ONE]
NORMS = [None, "backward", "ortho", "forward"]
#: Those that take real numbers.
REAL = {name for name in NAMES if name.startswith(("rfft", "ihfft"))}


def drawn(name, *shape, dtype="float64", complex=None):
    complex = name not in REAL if complex is None else complex
    x = normal(*shape, kind="complex" if complex else "real")
    return x.astype({"float64": x.dtype, "float32": np.complex64 if complex else np.float32}[dtype])


def check(name, x, *args, **kwargs):
    found = array(getattr(ad.fft, name)(tensor(x, getattr(ad, str(x.dtype))), *args, **kwargs))
    names = {"dim": "axis" if name in ONE else "axes"}
    kwargs = {names.get(k, k): v for k, v in kwargs.items()}
    wanted = getattr(scipy.fft, name)(x, *args, **kwargs)
    assert found.dtype == wanted.dtype
    few = 2e-5 if found.dtype in (np.float32, np.complex64) else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=few, atol=few * (1 + np.abs(wanted).max()))


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_along_one_dimension(name, dtype):
    x = drawn(name, 3, 5, 4, dtype=dtype)
    for norm, dim, n in itertools.product(NORMS, (-1, 0, 1), (None, 1, 3, 6, 7)):
        check(name, x, n=n, dim=dim, norm=norm)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_along_several(name, dtype):
    x = drawn(name, 3, 5, 4, dtype=dtype)
    for norm in NORMS:
        check(name, x, norm=norm)
        for dim, s in [((0, 1), None), ((-1, 0), (6, 2)), ((1, 2), (4, 7)), ((2, 0), (5, 5))]:
            check(name, x, s=s, dim=dim, norm=norm)
    if name.endswith("n"):
        check(name, x, dim=(1,))
        check(name, x, s=(4,))


@pytest.mark.parametrize("name", sorted({*NAMES} - REAL))
def test_real_numbers_where_complex_ones_are_meant(name):
    check(name, drawn(name, 4, 6, complex=False))


def test_integers_count_as_the_default_type():
    x = ad.arange(6)
    assert ad.fft.fft(x).dtype is ad.complex64
    assert ad.fft.irfft(x).dtype is ad.float32
    assert ad.fft.rfft(x > 2).dtype is ad.complex64
    np.testing.assert_allclose(array(ad.fft.rfft(x)), np.fft.rfft(np.arange(6)), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_both_orders_in_both_modes(name):
    f = getattr(ad.fft, name)
    for shape, kwargs in [((3, 4), {}), ((4, 5), {"norm": "ortho"})]:
        x = tensor(drawn(name, *shape), requires_grad=True)
        assert ad.autograd.gradcheck(lambda x: f(x, **kwargs), (x,), check_forward_ad=True)
        assert ad.autograd.gradgradcheck(lambda x: f(x, **kwargs), (x,))
    size = {"n": 3} if name in ONE else {"s": (5, 2)}
    assert ad.autograd.gradcheck(lambda x: f(x, **size), (x,))


def test_the_gradient_of_real_numbers_is_real():
    x = tensor(normal(5), requires_grad=True)
    (g,) = ad.autograd.grad(ad.fft.fft(x).abs().square().sum(), x)
    # Parseval: Σ|X|² = n Σ x².
    np.testing.assert_allclose(array(g), 10 * array(x), rtol=1e-12)
    assert g.dtype is ad.float64


@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_the_transform_of_each_sample(name):
    x = tensor(drawn(name, 4, 3, 5))
    wanted = [array(getattr(ad.fft, name)(sample)) for sample in x]
    ad._C._forget_batching_loops()
    found = ad.vmap(getattr(ad.fft, name))(x)
    np.testing.assert_allclose(array(found), np.stack(wanted), atol=1e-12)
    assert not ad._C._batching_loops()


def test_no_tensor_is_kept_for_the_derivative():
    kept = []
    x = ad.randn(4, 6, requires_grad=True)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        ad.fft.fft(ad.fft.rfft(x)).abs()
    assert len(kept) == 1  # that of abs


def test_no_points_are_refused():
    x = ad.ones(3, 4)
    for f, args in [
        (ad.fft.fft, (x, 0)),
        (ad.fft.fft, (ad.ones(3, 0),)),
        (ad.fft.rfft, (x, -1)),
        (ad.fft.irfft, (ad.ones(1),)),
        (ad.fft.hfft, (x, 0)),
        (ad.fft.fftn, (x, (0, 3))),
        (ad.fft.irfft2, (x, (3, 0))),
    ]:
        with pytest.raises(RuntimeError, match=r"Invalid number of data points \(-?\d\) specified"):
            f(*args)


def test_no_signals_are_transformed_to_none():
    assert ad.fft.fft(ad.ones(0, 4)).shape == (0, 4)
    assert ad.fft.rfft(ad.ones(0, 4)).shape == (0, 3)
    assert ad.fft.irfft(ad.ones(0, 4)).shape == (0, 6)
    x = ad.ones(0, 4, requires_grad=True)
    ad.fft.rfft(x).abs().sum().backward()
    assert x.grad.shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ad.fft.fft(x[0, 0]), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        (
            lambda x: ad.fft.fft(x, dim=2),
            IndexError,
            r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)",
        ),
        (lambda x: ad.fft.fft(x, norm="bad"), RuntimeError, 'Invalid normalization mode: "bad"'),
        (
            lambda x: ad.fft.rfft(x + 0j),
            RuntimeError,
            "rfft expects a real input tensor, but got ComplexFloat",
        ),
        (lambda x: ad.fft.ihfft(x + 0j), RuntimeError, "ihfft expects a real input tensor"),
        (lambda x: ad.fft.rfftn(x + 0j), RuntimeError, "rfftn expects a real-valued input tensor"),
        (lambda x: ad.fft.fft2(x, dim=(0, -2)), RuntimeError, "FFT dims must be unique"),
        (lambda x: ad.fft.fft2(x[0]), IndexError, "Dimension out of range"),
        (
            lambda x: ad.fft.fftn(x, s=(1, 2, 3)),
            RuntimeError,
            "Got shape with 3 values but input tensor only has 2 dim",
        ),
        (lambda x: ad.fft.fftn(x, s=(2, 3), dim=(0,)), RuntimeError, "must have the same length"),
        (lambda x: ad.fft.rfftn(x, dim=()), RuntimeError, "rfftn must transform at least one axis"),
        (lambda x: ad.fft.fft(x.half()), RuntimeError, "Unsupported dtype Half"),
        (
            lambda x: ad.fft.fft([1.0]),
            TypeError,
            r"argument 'input' \(position 1\) must be Tensor, not list",
        ),
        (lambda x: ad.fft.fft(x, 2.0), TypeError, "argument 'n' must be int, not float"),
        (
            lambda x: ad.fft.fft(x, out=ad.ones(1)),
            RuntimeError,
            "fft expects a complex output tensor, but got Float",
        ),
        (
            lambda x: ad.fft.irfft(x, out=ad.ones(1) + 0j),
            RuntimeError,
            "irfft expects a floating point output tensor",
        ),
        (
            lambda x: ad.fft.fftfreq(5, dtype=ad.int64),
            RuntimeError,
            "fftfreq requires a floating point or complex",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_known_words(call, error, words):
    with pytest.raises(error, match=words):
        call(ad.ones(2, 3))


def test_out_is_written():
    x, out = ad.randn(4), ad.empty(0, dtype=ad.complex64)
    assert ad.fft.fft(x, out=out) is out
    np.testing.assert_array_equal(array(out), array(ad.fft.fft(x)))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        ad.fft.fft(x.requires_grad_(), out=out)


def test_frequencies_and_shifts():
    for n in range(1, 8):
        for d in (1.0, 0.5):
            np.testing.assert_allclose(array(ad.fft.fftfreq(n, d)), np.fft.fftfreq(n, d), rtol=1e-6)
            np.testing.assert_allclose(array(ad.fft.rfftfreq(n, d)), np.fft.rfftfreq(n, d), rtol=1e-6)
    assert ad.fft.fftfreq(4, dtype=ad.float64, requires_grad=True).requires_grad
    x = normal(3, 4)
    for dim in (None, 1, (0,), (0, -1)):
        for name in ("fftshift", "ifftshift"):
            np.testing.assert_array_equal(
                array(getattr(ad.fft, name)(tensor(x), dim)), getattr(np.fft, name)(x, dim)
            )


WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
import adjoint as ad
try:
    print(ad.fft.fft(ad.tensor([1.0, 0.0])).tolist())
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["scipy", "scipy.fft"], "[(1+0j), (1+0j)]"),
        (["scipy", "scipy.fft", "numpy", "numpy.fft"], "pip install scipy"),
    ],
)
def test_without_the_libraries(missing, said):
    done = run_python("-c", WITHOUT.format(missing=missing))
    assert said in done.stdout, done.stderr
