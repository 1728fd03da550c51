"""The core's samplers against the distributions' own functions, and pathwise derivatives against mpmath."""

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

import adjoint as ad

N = 20000


def draws(f, *parameters):
    ad.manual_seed(1)
    return f(*(ad.full((N,), float(p), dtype=ad.float64) for p in parameters)).numpy()


@pytest.mark.parametrize("a", [0.05, 0.5, 1, 3.7, 50, 1e4, 1e7])
def test_gamma(a):
    assert scipy.stats.kstest(draws(ad._standard_gamma, a), scipy.stats.gamma(a).cdf).pvalue > 1e-3


def counts_fit(x, distribution):
    top = int(x.max()) + 1
    seen, expected = np.bincount(x.astype(int), minlength=top), N * distribution.pmf(np.arange(top))
    often = expected > 5
    expected = expected[often] * seen[often].sum() / expected[often].sum()
    return scipy.stats.chisquare(seen[often], expected).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.3, 4, 9.9, 10, 12, 300])
def test_poisson(rate):
    assert counts_fit(draws(ad.poisson, rate), scipy.stats.poisson(rate))


@pytest.mark.parametrize("n, p", [(10, 0.3), (40, 0.02), (100, 0.5), (1000, 0.9), (300, 0.033)])
def test_binomial(n, p):
    assert counts_fit(draws(ad.binomial, n, p), scipy.stats.binom(n, p))


@pytest.mark.parametrize("a", [0.01, 0.3, 1, 2.5, 10, 100, 1000])
@pytest.mark.parametrize("q", [1e-6, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("dtype", [ad.float64, ad.float32])
def test_the_derivative_of_a_gamma_draw(a, q, dtype):
    x = float(scipy.special.gammaincinv(a, q))
    a, x = ad.tensor([a, x], dtype=dtype).tolist()
    if x < (1e-290 if dtype is ad.float64 else 1e-37):
        pytest.skip("the quantile underflows")
    with mpmath.workdps(40):
        h = mpmath.mpf(10) ** -12
        up, down = (mpmath.gammainc(mpmath.mpf(a) + s * h, 0, x, regularized=True) for s in (1, -1))
        density = mpmath.mpf(x) ** (mpmath.mpf(a) - 1) * mpmath.exp(-mpmath.mpf(x)) / mpmath.gamma(a)
        expected = float(-(up - down) / (2 * h) / density)
    found = ad._C._standard_gamma_grad(ad.tensor([a], dtype=dtype), ad.tensor([x], dtype=dtype)).item()
    assert found == pytest.approx(expected, rel=1e-12 if dtype is ad.float64 else 1e-7)


def test_draws_are_decided_by_the_seed_whatever_the_threads():
    a = ad.rand(5000, generator=ad.Generator().manual_seed(2)) + 0.5
    results = []
    for threads in (1, 2):
        ad.set_num_threads(threads)
        ad.manual_seed(0)
        results.append((ad._standard_gamma(a), ad.poisson(a), ad.rand(3)))
    assert all(ad.equal(x, y) for x, y in zip(*results))
    g = ad.Generator().manual_seed(4)
    assert not ad.equal(ad._standard_gamma(a, generator=g), ad._standard_gamma(a, generator=g))


def test_edges():
    inf, nan = float("inf"), float("nan")
    assert ad._standard_gamma(ad.tensor([-1.0, nan])).isnan().all()
    assert ad._standard_gamma(ad.full((100,), 1e-4)).gt(0).all()
    assert ad.poisson(ad.tensor([0.0])).item() == 0 and ad.poisson(ad.tensor([inf])).item() == inf
    with pytest.raises(RuntimeError, match="non-negative"):
        ad.poisson(ad.tensor([-1.0]))
    assert ad.binomial(ad.tensor([inf, 5.0, 1e30]), ad.tensor([0.5, nan, 0.5])).isnan().tolist() == [
        True,
        True,
        False,
    ]
    with pytest.raises(RuntimeError, match="floating-point"):
        ad.poisson(ad.tensor([1]))
    with pytest.raises(TypeError, match="argument 'input'.* must be Tensor"):
        ad.poisson(1.0)
    assert ad.poisson(ad.zeros(0)).shape == (0,)


def test_wishart_of_degrees_and_a_matrix_of_two_types():
    d = ad.distributions.Wishart(ad.tensor(5.0), ad.eye(3, dtype=ad.float64))
    assert d.sample((2,)).dtype is ad.float64 and d.expand((4,)).sample().shape == (4, 3, 3)
