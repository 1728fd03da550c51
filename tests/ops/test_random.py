"""Random numbers: distributions by their moments, determinism, independence of the number of threads,
errors.
"""

import numpy as np
import pytest
import scipy.stats
from helpers import array, assert_same

import adjoint as ad

N = 40_000


def seeded(f, seed=123):
    ad.manual_seed(seed)
    return f()


DRAWS = {
    "rand": (lambda: ad.rand(N, dtype=ad.float64), scipy.stats.uniform()),
    "rand float32": (lambda: ad.rand(N), scipy.stats.uniform()),
    "randn": (lambda: ad.randn(N, dtype=ad.float64), scipy.stats.norm()),
    "randn float32": (lambda: ad.randn(N), scipy.stats.norm()),
    "normal": (lambda: ad.normal(2.0, 3.0, size=(N,)), scipy.stats.norm(2, 3)),
    "normal_": (lambda: ad.empty(N, dtype=ad.float64).normal_(-1, 0.5), scipy.stats.norm(-1, 0.5)),
    "uniform_": (lambda: ad.empty(N, dtype=ad.float64).uniform_(-2, 3), scipy.stats.uniform(-2, 5)),
    "odd length": (lambda: ad.randn(1, 999, 37).reshape(-1), scipy.stats.norm()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_distribution(name):
    draw, law = DRAWS[name]
    x = array(seeded(draw)).astype(np.float64)
    assert scipy.stats.kstest(x, law.cdf).pvalue > 1e-4
    assert abs(x.mean() - law.mean()) < 5 * law.std() / np.sqrt(x.size)
    assert abs(x.std() / law.std() - 1) < 0.03
    # Neighbours are not correlated.
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 5 / np.sqrt(x.size)
    assert not np.array_equal(x, array(draw()))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: ad.rand(1000),
        lambda: ad.randn(1001),
        lambda: ad.randint(0, 1000, (77,)),
        lambda: ad.randperm(500),
        lambda: ad.bernoulli(ad.full((1000,), 0.3)),
        lambda: ad.multinomial(ad.ones(50), 20),
        lambda: ad.empty(100, dtype=ad.float64).normal_(),
        lambda: ad.nn.functional.dropout(ad.ones(1000), 0.5),
    ],
)
def test_same_seed_same_numbers(draw):
    first, second = seeded(draw), seeded(draw)
    assert ad.equal(first, second)
    assert not ad.equal(first, seeded(draw, 124))


def test_any_number_of_threads_gives_the_same_numbers():
    draws = []
    for threads in (1, 2, 4):
        ad.set_num_threads(threads)
        ad.manual_seed(7)
        draws.append(
            [ad.rand(300_000), ad.randn(300_001), ad.bernoulli(ad.full((300_000,), 0.5)), ad.randperm(70_000)]
        )
    for others in draws[1:]:
        for a, b in zip(draws[0], others, strict=True):
            assert ad.equal(a, b)


def test_rand_stays_below_one():
    for dtype in (ad.float16, ad.bfloat16, ad.float32, ad.float64):
        x = ad.rand(100_000, dtype=dtype)
        assert x.min().item() >= 0 and x.max().item() < 1


def test_randint():
    x = array(ad.randint(-3, 4, (20_000,)))
    assert set(np.unique(x)) == set(range(-3, 4))
    assert scipy.stats.chisquare(np.unique(x, return_counts=True)[1]).pvalue > 1e-4
    assert ad.randint(5, (2, 3)).dtype == ad.int64
    assert ad.randint(5, (2,), dtype=ad.uint8).dtype == ad.uint8
    assert ad.randint(0, 2**40, (100,)).max().item() > 2**32
    with pytest.raises(RuntimeError, match="(?i)from|low|to >|range"):
        ad.randint(3, 3, (2,))


def test_randperm():
    for n in (0, 1, 2, 1000):
        assert_same(ad.randperm(n).sort().values, np.arange(n))
    first = [seeded(lambda: ad.randperm(3), s).tolist()[0] for s in range(300)]
    assert set(first) == {0, 1, 2}
    with pytest.raises((RuntimeError, ValueError)):
        ad.randperm(-1)


def test_bernoulli():
    p = ad.tensor([0.0, 1.0, 0.25]).expand(20_000, 3)
    x = array(ad.bernoulli(p))
    assert x[:, 0].sum() == 0 and x[:, 1].mean() == 1 and abs(x[:, 2].mean() - 0.25) < 0.02
    y = ad.empty(10_000).bernoulli_(0.5)
    assert abs(y.mean().item() - 0.5) < 0.03
    with pytest.raises(RuntimeError, match="(?i)p|prob"):
        ad.bernoulli(ad.tensor([1.5]))


def test_multinomial():
    weights = ad.tensor([1.0, 0.0, 3.0])
    x = array(ad.multinomial(weights, 20_000, replacement=True))
    counts = np.bincount(x, minlength=3) / x.size
    np.testing.assert_allclose(counts, [0.25, 0, 0.75], atol=0.02)
    assert sorted(ad.multinomial(ad.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]
    assert ad.multinomial(ad.ones(4, 5), 2).shape == (4, 2)
    first = [seeded(lambda: ad.multinomial(weights, 2), s).tolist()[0] for s in range(400)]
    assert abs(first.count(2) / 400 - 0.75) < 0.12
    for bad in (ad.tensor([-1.0, 2.0]), ad.tensor([0.0, 0.0]), ad.tensor([float("nan"), 1.0])):
        with pytest.raises(RuntimeError):
            ad.multinomial(bad, 1, replacement=True)
    with pytest.raises(RuntimeError, match="(?i)sample|replacement"):
        ad.multinomial(ad.ones(3), 4)


def test_generators_are_independent():
    g, h = ad.Generator(), ad.Generator()
    g.manual_seed(5)
    h.manual_seed(5)
    a = ad.rand(10, generator=g)
    ad.rand(100)
    assert ad.equal(a, ad.rand(10, generator=h))
    assert not ad.equal(a, ad.rand(10, generator=g))
    assert g.initial_seed() == 5
    state = g.get_state()
    b = ad.randn(7, generator=g)
    g.set_state(state)
    assert ad.equal(b, ad.randn(7, generator=g))
    assert ad.manual_seed(3) is not None
    assert ad.initial_seed() == 3


def test_global_state():
    state = ad.get_rng_state()
    a = ad.rand(5)
    ad.set_rng_state(state)
    assert ad.equal(a, ad.rand(5))


def test_normal_with_tensors_and_errors():
    mean = ad.arange(4, dtype=ad.float32) * 100
    x = ad.normal(mean, ad.full((4,), 0.01))
    np.testing.assert_allclose(array(x), array(mean), atol=0.2)
    assert ad.normal(mean, 1.0).shape == (4,)
    with pytest.raises(RuntimeError, match="(?i)std"):
        ad.empty(3).normal_(0, -1)
    with pytest.raises(RuntimeError, match="(?i)from|to"):
        ad.empty(3).uniform_(2, 1)


def test_random_numbers_carry_no_graph():
    assert not ad.rand(3).requires_grad
    assert ad.rand(3, requires_grad=True).is_leaf
    p = ad.full((3,), 0.5, requires_grad=True)
    ad.bernoulli(p).sum()
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ):
        p.normal_()


def test_dropout():
    dropout = ad.nn.functional.dropout
    x = ad.ones(20_000, requires_grad=True)
    y = dropout(x, 0.25)
    kept = array(y) != 0
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(array(y)[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    assert ad.equal(x.grad, y.detach())
    assert ad.equal(dropout(x, 0.25, training=False), x)
    assert dropout(x, 1.0).sum().item() == 0
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        dropout(x, 1.5)
