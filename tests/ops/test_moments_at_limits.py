"""Mean and variance of float32 whose squares no float32 holds, or with few digits, against NumPy in float64."""

import numpy as np
import pytest

import adjoint as ad

NUMBERS = np.random.default_rng(3).normal(2, 1, (70, 300))


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("scale", [1e-37, 1e-24, 1e-21, 1e-18, 1.0, 1e17, 1e19, 1e25, 3e37])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_deviations_at_every_scale(scale, dim, kind):
    x = (NUMBERS * scale).astype(np.float32)
    if kind == "complex":
        x = x + 1j * x[::-1]
    wide = x.astype(np.complex128 if kind == "complex" else np.float64)
    std, mean = ad.std_mean(ad.tensor(x), dim)
    np.testing.assert_allclose(std.numpy(), wide.std(dim, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(mean.numpy(), wide.mean(dim), rtol=1e-5)
    np.testing.assert_array_equal(ad.std(ad.tensor(x), dim).numpy(), std.numpy())
    if 1e-18 <= scale <= 1e17:
        np.testing.assert_allclose(ad.var(ad.tensor(x), dim).numpy(), wide.var(dim, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_what_has_no_variance_keeps_none(dim):
    for value in (0.0, 1e-30, 1.0, -3e38):
        x = ad.full((40, 50), value)
        assert (ad.std(x, dim) == 0).all()
    for value in (np.nan, np.inf, -np.inf):
        x = ad.ones(40, 50)
        x[3, 4] = value
        found = ad.std(x, dim)
        assert found.isnan().sum() == 1 and (found.isnan() | (found == 0)).all()
