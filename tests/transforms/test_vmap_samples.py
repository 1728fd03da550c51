"""Inside of vmap: views that see one sample alone, draws from parameters of each sample, and checks that look at all samples."""

import pytest
from helpers import assert_near, torch_values

import adjoint as ad
from adjoint import func

X = ad.arange(24.0).reshape(4, 2, 3)


# --- views ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize(
    "size, stride, offset, same",
    [
        ([3, 2], [1, 3], 0, lambda x: x.transpose(0, 1)),
        ([2], [3], 1, lambda x: x[:, 1]),
        ([5, 2, 3], [0, 3, 1], 0, lambda x: x.expand(5, 2, 3)),
        ([], [], 5, lambda x: x[1, 2]),
        ([0, 9], [100, 100], 5, lambda x: x.new_zeros(0, 9)),
    ],
)
def test_views_by_strides_of_each_sample(size, stride, offset, same, dim):
    samples = X if dim == 0 else X.movedim(0, dim)
    found = func.vmap(lambda x: x.as_strided(size, stride, offset), dim)(samples)
    assert_near(found, ad.stack([same(x) for x in X]))


@pytest.mark.parametrize(
    "samples, size, stride, offset",
    [
        (X, [7], [1], 0),  # one element more than a sample has: the first of the next
        (X, [2, 3], [4, 1], 0),
        (X, [1], [1], 6),
        (X[1:], [1], [1], 5),  # an element before the first sample
        (ad.zeros(4, 0, 3), [1], [1], 0),  # samples of no elements
        (ad.zeros(4), [2], [1], 0),
    ],
)
def test_views_by_strides_do_not_see_other_samples(samples, size, stride, offset):
    with pytest.raises(RuntimeError, match="This is not supported inside of vmap"):
        func.vmap(lambda x: x.as_strided(size, stride, offset))(samples)
    with pytest.raises(RuntimeError, match="This is not supported inside of vmap"):
        func.vmap(func.vmap(lambda x: x.as_strided(size, stride, offset)))(samples.unsqueeze(0))


def test_views_by_strides_of_other_lengths():
    with pytest.raises(RuntimeError, match="size and stride must have the same length"):
        func.vmap(lambda x: x.as_strided([1, 1], [1]))(X)


def test_pairs_are_not_of_two_samples():
    for samples, mapped in ((ad.ones(2), func.vmap), (ad.ones(2, 2), lambda f: func.vmap(func.vmap(f)))):
        with pytest.raises(RuntimeError, match="Input tensor must have one or more dimensions"):
            mapped(ad.view_as_complex)(samples)


def test_what_escaped_says_so():
    kept = []
    func.vmap(lambda x: (kept.append(x), x * 2)[1])(X)
    for use in (lambda x: x.sin(), lambda x: x.mul_(1), lambda x: x.argmin(), lambda x: x @ x.mT):
        with pytest.raises(
            RuntimeError, match="your tensor may have escaped from inside a function being vmapped"
        ):
            use(kept[0])


# --- draws ----------------------------------------------------------------------------------------------------------------


def test_normal_numbers_from_parameters_of_each_sample():
    means, deviations = X[:, 0], ad.full((4, 3), 1e-3)
    for parameters in ((means, deviations), (means[0], deviations), (means, 1e-3)):
        dims = tuple(0 if isinstance(p, ad.Tensor) and p.ndim == 2 else None for p in parameters)
        draws = func.vmap(ad.normal, dims, randomness="different")(*parameters)
        assert draws.shape == (4, 3) and ((draws - parameters[0]).abs() < 0.1).all()
        assert len(set((draws - parameters[0]).flatten().tolist())) == 12
    with pytest.raises(RuntimeError, match="randomness error mode"):
        func.vmap(ad.normal)(means, deviations)
    # The deviations of all samples are looked at.
    deviations[2, 1] = -1.0
    with pytest.raises(RuntimeError, match="std >= 0.0"):
        func.vmap(func.vmap(ad.normal, randomness="different"), randomness="different")(means, deviations)


def test_parts_draw_the_same_numbers_too():
    draw = lambda x: x + ad.rand_like(x)
    for outer, inner in ((None, 1), (3, None), (1, 2)):
        inside = func.vmap(draw, randomness="same", chunk_size=inner)
        found = func.vmap(inside, randomness="same", chunk_size=outer)(ad.zeros(4, 2, 3))
        assert (found == found[0, 0]).all() and len(set(found[0, 0].tolist())) == 3
    # What is drawn afterwards goes on from there.
    ad.manual_seed(1)
    func.vmap(draw, randomness="same", chunk_size=2)(ad.zeros(4, 3))
    after = ad.rand(3)
    ad.manual_seed(1)
    func.vmap(draw, randomness="same")(ad.zeros(4, 3))
    assert (ad.rand(3) == after).all()


def test_the_same_draws_of_other_parameters_are_refused_as_torch():
    assert (
        torch_values(
            """
        import torch
        from torch.func import vmap

        p = torch.full((4, 6), 0.5)
        refused = {
            "bernoulli": torch.bernoulli, "poisson": torch.poisson, "normal": lambda x: torch.normal(x, 1.0),
            "deviation": lambda x: torch.normal(0.0, x), "multinomial": lambda x: torch.multinomial(x, 2),
            "in place": lambda x: torch.zeros(6).bernoulli_(x),
        }
        for name, draw in refused.items():
            try: vmap(draw, randomness="same")(p)
            except RuntimeError as e: show(name, "Vmap does not currently support same randomness with a batched tensor input" in str(e))
        for draw in (torch.rand_like, lambda x: x.clone().normal_(), lambda x: x + torch.normal(torch.zeros(6), 1.0)):
            found = vmap(draw, randomness="same")(p)
            show((found == found[0]).all().item())
        """
        )
        == [
            (name, True)
            for name in ("bernoulli", "poisson", "normal", "deviation", "multinomial", "in place")
        ]
        + [True] * 3
    )


# --- checks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("inside", [func.vmap, lambda f: func.vmap(func.vmap(f))])
def test_anomalies_of_single_samples_are_found(inside):
    x = ad.tensor([[1.0, 4.0], [9.0, -1.0]])
    slope = (lambda f: func.grad(lambda x: f(x).sum())) if inside is func.vmap else func.grad
    with ad.autograd.detect_anomaly():
        assert_near(inside(slope(lambda x: x * x))(x), 2 * x)
        with pytest.raises(
            RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"
        ):
            inside(slope(ad.sqrt))(x)
