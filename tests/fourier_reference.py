"""What the rows of Fourier transforms compute, as the sums that define them: see structured_reference.py."""

import numpy as np


def factor(n, norm, inverse):
    """What a direction multiplies by: `norm` names the one that divides."""
    return {"ortho": n**-0.5, "backward": 1 / n if inverse else 1, "forward": 1 if inverse else 1 / n}[norm]


def transform(x, dim, norm, inverse):
    """Σ x[m] exp(∓2πi mk/n) along one dimension."""
    n = x.shape[dim]
    places = np.arange(n)
    matrix = np.exp((2j if inverse else -2j) * np.pi * np.outer(places, places) / n)
    return np.moveaxis(np.tensordot(matrix, x, (1, dim)), 0, dim) * factor(n, norm, inverse)


def transforms(x, dims, norm, inverse):
    for d in dims:
        x = transform(x, d, norm, inverse)
    return x + 0j


def half(x, dims, norm, inverse):
    n = x.shape[dims[-1]] // 2 + 1
    return np.take(transforms(x, dims, norm, inverse), range(n), dims[-1])


def from_half(x, dims, norm, inverse, last):
    """The other dimensions first; then the last, with the half that is missing."""
    x = np.moveaxis(transforms(x, dims[:-1], norm, inverse), dims[-1], -1).copy()
    # What would have to be real is taken to be.
    x[..., 0] = x[..., 0].real
    if last % 2 == 0:
        x[..., -1] = x[..., -1].real
    rest = np.conj(x[..., 1 : (last + 1) // 2][..., ::-1])
    y = transform(np.concatenate([x, rest], -1), -1, norm, inverse)
    assert np.allclose(y.imag, 0, atol=1e-6)
    return np.moveaxis(y.real, -1, dims[-1])


REFERENCES = {"_fft_c2c": transforms, "_fft_r2c": half, "_fft_c2r": from_half}
