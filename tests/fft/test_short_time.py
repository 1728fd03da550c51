"""`stft` and `istft`: against sums over pieces written in NumPy, the inverse against the signal, derivatives, refusals."""

import itertools
import warnings

import numpy as np
import pytest
from helpers import array, normal, tensor

import adjoint as ad


def reference(x, n_fft, hop, window, center, mode, normalized, onesided):
    """Each piece by its own transform."""
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode)
    before = (n_fft - len(window)) // 2
    weights = np.pad(window, (before, n_fft - len(window) - before))
    pieces = [x[..., t : t + n_fft] * weights for t in range(0, x.shape[-1] - n_fft + 1, hop)]
    transform = np.fft.rfft if onesided else np.fft.fft
    return np.stack([transform(p, norm="ortho" if normalized else None) for p in pieces], -1)


@pytest.mark.parametrize("shape", [(33,), (2, 40)])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_values_and_the_way_back(shape, kind):
    x = normal(*shape, kind=kind)
    for n_fft, hop, length, center, normalized in itertools.product(
        (8, 7), (1, 3), (None, 5), (True, False), (True, False)
    ):
        window = np.random.default_rng(0).uniform(0.5, 1, length or n_fft)
        options = {"window": tensor(window), "center": center, "normalized": normalized}
        for onesided in (True, False) if kind == "real" else (False,):
            found = ad.stft(tensor(x), n_fft, hop, length, onesided=onesided, return_complex=True, **options)
            wanted = reference(x, n_fft, hop, window, center, "reflect", normalized, onesided)
            np.testing.assert_allclose(array(found), wanted, atol=1e-12)
            if not center and length:
                continue  # nothing is known of the ends
            again = ad.istft(
                found,
                n_fft,
                hop,
                length,
                onesided=onesided,
                return_complex=kind == "complex",
                **options,
            )
            n = min(again.shape[-1], x.shape[-1])
            assert n > x.shape[-1] - n_fft
            np.testing.assert_allclose(array(again)[..., :n], x[..., :n], atol=1e-12)


def test_modes_of_padding_and_parts():
    x = normal(20)
    for mode, numpy_mode in [
        ("reflect", "reflect"),
        ("constant", "constant"),
        ("circular", "wrap"),
        ("replicate", "edge"),
    ]:
        found = x_of(mode, x)
        wanted = reference(x, 8, 2, np.ones(8), True, numpy_mode, False, True)
        np.testing.assert_allclose(array(found), wanted, atol=1e-12)
    parts = ad.stft(tensor(x), 8, return_complex=False)
    assert parts.shape == (5, 11, 2)
    np.testing.assert_array_equal(array(ad.view_as_complex(parts)), array(x_of("reflect", x)))
    assert tensor(x).stft(8, return_complex=True).shape == (5, 11)


def x_of(mode, x):
    return ad.stft(tensor(x), 8, pad_mode=mode, return_complex=True)


def test_a_window_at_the_start():
    x = normal(40)
    found = ad.stft(tensor(x), 8, win_length=4, center=False, align_to_window=True, return_complex=True)
    wanted = reference(np.pad(x, 2), 8, 2, np.ones(4), False, None, False, True)
    np.testing.assert_allclose(array(found), wanted, atol=1e-12)


def test_the_inverse_has_the_length_that_is_asked_for():
    x = normal(37)
    spectra = ad.stft(tensor(x), 8, 3, window=ad.hann_window(8, dtype=ad.float64), return_complex=True)
    window = ad.hann_window(8, dtype=ad.float64)
    for length in (20, 36, 37):
        found = ad.istft(spectra, 8, 3, window=window, length=length)
        assert found.shape == (length,)
        np.testing.assert_allclose(array(found)[:36], x[:length][:36], atol=1e-12)
    plain = ad.stft(tensor(x), 8, return_complex=True)
    with pytest.warns(UserWarning, match="The length of signal is shorter than the length parameter"):
        longer = ad.istft(plain, 8, length=60)
    assert longer.shape == (60,) and longer[50:].tolist() == [0.0] * 10


def test_derivatives():
    window = tensor(np.linspace(0.5, 1, 4), requires_grad=True)
    x = tensor(normal(2, 12), requires_grad=True)

    def forth(x, window):
        return ad.stft(x, 4, window=window, return_complex=True)

    assert ad.autograd.gradcheck(forth, (x, window), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(forth, (x, window))

    def back(spectra, window):
        return ad.istft(spectra, 4, window=window)

    spectra = tensor(normal(3, 6, kind="complex"), requires_grad=True)
    assert ad.autograd.gradcheck(back, (spectra, window), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(back, (spectra, window))


def test_vmap():
    x = tensor(normal(3, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ad.vmap(lambda x: ad.stft(x, 8, return_complex=True))(x)
        again = ad.vmap(lambda y: ad.istft(y, 8), strict=False)(found)
    np.testing.assert_allclose(array(found), array(ad.stft(x, 8, return_complex=True)), atol=1e-12)
    np.testing.assert_allclose(array(again), array(x), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ad.stft(x, 8), "stft requires the return_complex parameter be given for real inputs"),
        (
            lambda x: ad.stft(x + 0j, 8, onesided=True),
            "Cannot have onesided output if window or input is complex",
        ),
        (
            lambda x: ad.stft(x.int(), 8, return_complex=True),
            "expected a tensor of floating point or complex values",
        ),
        (lambda x: ad.stft(x[None, None], 8, return_complex=True), "expected a 1D or 2D tensor"),
        (lambda x: ad.stft(x, 0, return_complex=True), "expected 0 < n_fft < 40, but got n_fft=0"),
        (
            lambda x: ad.stft(x, 41, center=False, return_complex=True),
            "expected 0 < n_fft < 40, but got n_fft=41",
        ),
        (lambda x: ad.stft(x, 80, return_complex=True), "Padding size should be less than"),
        (lambda x: ad.stft(x, 8, 0, return_complex=True), "expected hop_length > 0, but got hop_length=0"),
        (
            lambda x: ad.stft(x, 8, win_length=9, return_complex=True),
            "expected 0 < win_length <= n_fft, but got win_length=9",
        ),
        (
            lambda x: ad.stft(x, 8, window=x[:7], return_complex=True),
            "1D window tensor of size equal to win_length=8, but got",
        ),
        (
            lambda x: ad.stft(x, 8, align_to_window=True, return_complex=True),
            "only be set when center = false",
        ),
        (lambda x: ad.istft(x[None], 8), "istft requires a complex-valued input tensor"),
        (lambda x: ad.istft(spectrum(x)[0], 8), "expected a tensor of 2 or 3 dimensions"),
        (lambda x: ad.istft(spectrum(x)[:, :0], 8), "input tensor cannot be empty"),
        (lambda x: ad.istft(spectrum(x), 8, 9), "expected 0 < hop_length <= win_length"),
        (lambda x: ad.istft(spectrum(x), 8, win_length=9), "expected 0 < win_length <= n_fft"),
        (lambda x: ad.istft(spectrum(x), 8, window=x[:7]), "Invalid window shape"),
        (lambda x: ad.istft(spectrum(x), 8, onesided=False), "to match n_fft when onesided=False, but got 5"),
        (lambda x: ad.istft(spectrum(x), 12), "to match n_fft / 2 \\+ 1 when onesided=True, but got 5"),
        (lambda x: ad.istft(spectrum(x), 8, window=ad.zeros(8)), "window overlap add min: 1"),
        (
            lambda x: ad.istft(spectrum(x), 8, center=False, window=ad.hann_window(8)),
            "window overlap add min: 1",
        ),
        (lambda x: ad.istft(spectrum(x), 8, length=0), "expected length > 0"),
        (lambda x: ad.istft(spectrum(x), 8, window=ad.ones(8) + 0j), "Complex windows are incompatible"),
    ],
)
def test_what_does_not_fit_is_refused_in_known_words(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(ad.linspace(-1, 1, 40))


def spectrum(x):
    return ad.stft(x, 8, return_complex=True)
