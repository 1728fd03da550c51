"""Windows of both kinds of names, against SciPy's."""

import numpy as np
import pytest
import scipy.signal.windows as reference
from helpers import array

import adjoint as ad
from adjoint.signal import windows

#: Options that change a window, and what SciPy calls them.
OPTIONS = {
    "bartlett": [{}],
    "blackman": [{}],
    "cosine": [{}],
    "exponential": [{}, {"tau": 2.5}, {"center": 1.5, "tau": 0.7}],
    "gaussian": [{"std": 1.0}, {"std": 0.4}],
    "general_cosine": [{"a": [0.5, 0.3]}, {"a": (0.2, 0.1, 0.05)}],
    "general_hamming": [{"alpha": 0.3}, {"alpha": 0.54}],
    "hamming": [{}],
    "hann": [{}],
    "kaiser": [{"beta": 12.0}, {"beta": 0.0}, {"beta": 80.0}],
    "nuttall": [{}],
}


def test_every_window_is_here():
    assert set(windows.__all__) == set(OPTIONS)


@pytest.mark.parametrize("name", windows.__all__)
def test_against_scipy(name):
    for options in OPTIONS[name]:
        for n in (0, 1, 2, 3, 7, 8, 51):
            for sym in (True, False):
                if sym and options.get("center") is not None:
                    continue
                found = getattr(windows, name)(n, sym=sym, dtype=ad.float64, **options)
                wanted = getattr(reference, name)(n, sym=sym, **options)
                np.testing.assert_allclose(array(found), wanted, rtol=1e-12, atol=1e-14)
                narrow = getattr(windows, name)(n, sym=sym, **options)
                assert narrow.dtype is ad.float32
                np.testing.assert_allclose(array(narrow), wanted.astype(np.float32), rtol=2e-7, atol=1e-14)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_names_at_the_top(name):
    window = getattr(ad, name + "_window")
    options = {"beta": 12.0} if name == "kaiser" else {}
    for n in (0, 1, 2, 9):
        for periodic in (True, False):
            wanted = getattr(reference, name)(n, sym=not periodic, **options)
            np.testing.assert_allclose(
                array(window(n, periodic, dtype=ad.float64)), wanted, rtol=1e-12, atol=1e-14
            )
    assert window(4, dtype=ad.float16).dtype is ad.float16
    assert window(4, requires_grad=True).requires_grad
    with pytest.raises(
        RuntimeError, match=f"{name}_window requires non-negative window_length, got window_length=-1"
    ):
        window(-1)
    with pytest.raises(RuntimeError, match=f"{name}_window expects floating point dtypes"):
        window(4, dtype=ad.int64)
    with pytest.raises(TypeError, match="argument 'window_length' .* must be int, not float"):
        window(4.0)


def test_a_window_that_is_nearly_a_point():
    found = array(windows.kaiser(5, beta=1e4, dtype=ad.float64))
    assert found[2] == 1 and (found[[0, 1, 3, 4]] < 1e-200).all() and np.isfinite(found).all()


def test_options_at_the_top():
    np.testing.assert_allclose(
        array(ad.hamming_window(6, True, 0.6, 0.3, dtype=ad.float64)),
        0.6 - 0.3 * np.cos(np.pi * np.arange(6) / 3),
    )
    np.testing.assert_allclose(
        array(ad.kaiser_window(6, False, 3.0, dtype=ad.float64)), reference.kaiser(6, 3.0), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: windows.hann(-1), ValueError, "requires non-negative window length, got M=-1"),
        (lambda: windows.hann(4, dtype=ad.int64), ValueError, "expects float32 or float64 dtypes, got"),
        (lambda: windows.exponential(4, tau=0), ValueError, "Tau must be positive, got: 0 instead"),
        (lambda: windows.exponential(4, center=1.0), ValueError, "Center must be None for symmetric windows"),
        (
            lambda: windows.gaussian(4, std=-1),
            ValueError,
            "Standard deviation must be positive, got: -1 instead",
        ),
        (lambda: windows.general_cosine(4, a=3), TypeError, "Coefficients must be a list/tuple"),
        (lambda: windows.general_cosine(4, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: windows.kaiser(4, beta=-1), ValueError, "beta must be non-negative, got: -1 instead"),
    ],
)
def test_what_is_no_window_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
