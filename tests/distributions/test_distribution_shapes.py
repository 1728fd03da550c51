"""Shapes, expansion, enumeration, validation, representation: over all distributions."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from helpers import announced
from table import IDS, TABLE, defined

import adjoint as ad
from adjoint import distributions as D

ENTRIES = pytest.mark.parametrize("entry", TABLE, ids=IDS)


@ENTRIES
def test_shapes(entry):
    d = entry.distribution()
    for shape in ((), (3,), (2, 3)):
        x = d.sample(shape)
        assert x.shape == (*shape, *d.batch_shape, *d.event_shape)
        assert d.log_prob(x).shape == (*shape, *d.batch_shape)
        assert not x.requires_grad
    for what in (lambda: d.mean, lambda: d.variance, lambda: d.mode):
        value = defined(what)
        if value is not None:
            assert value.shape == d.batch_shape + d.event_shape
    entropy = defined(d.entropy)
    assert entropy is None or entropy.shape == d.batch_shape
    with announced(UserWarning, match="sample_n"):
        assert d.sample_n(2).shape[0] == 2


@ENTRIES
def test_draws_record_only_when_asked(entry):
    tensors = entry.tensors(requires_grad=True)
    d = entry.make(**tensors)
    assert not d.sample((2,)).requires_grad
    if d.has_rsample:
        assert d.rsample((2,)).requires_grad
    elif not isinstance(d, (D.MixtureSameFamily, D.Independent)):
        with pytest.raises(NotImplementedError):
            d.rsample()


@ENTRIES
def test_expand(entry):
    d = entry.distribution()
    big = d.expand((3, *d.batch_shape))
    assert type(big) is type(d)
    assert big.batch_shape == (3, *d.batch_shape) and big.event_shape == d.event_shape
    x = d.sample((3,))
    assert big.sample((2,)).shape == (2, 3, *d.batch_shape, *d.event_shape)
    np.testing.assert_allclose(big.log_prob(x).numpy(), d.log_prob(x).numpy(), rtol=1e-12)
    for f in (lambda p: p.mean, lambda p: p.variance, lambda p: p.entropy()):
        value = defined(lambda: f(d))
        if value is not None:
            np.testing.assert_allclose(
                f(big).numpy(), np.broadcast_to(value.numpy(), f(big).shape), rtol=1e-12
            )
    again = big.expand((2, 3, *d.batch_shape))
    assert again.batch_shape == (2, 3, *d.batch_shape)

    class Mine(type(d)):
        def __init__(self):
            pass

    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        Mine.expand(Mine(), (2,))


@ENTRIES
def test_copies_and_pickles(entry):
    d = entry.distribution()
    x = d.sample()
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert ad.equal(other.log_prob(x), d.log_prob(x)) and repr(other) == repr(d)


@ENTRIES
def test_empty_batches(entry):
    d = entry.distribution().expand((0,) + entry.distribution().batch_shape)
    x = d.sample((2,))
    assert x.shape == (2, *d.batch_shape, *d.event_shape)
    assert d.log_prob(x).shape == (2, *d.batch_shape)
    assert entry.distribution().sample((0,)).shape[0] == 0


@ENTRIES
def test_enumerations_have_all_the_probability(entry):
    d = entry.distribution()
    if not d.has_enumerate_support:
        with pytest.raises(NotImplementedError):
            d.enumerate_support()
        return
    x = d.enumerate_support()
    assert x.shape[1:] == d.batch_shape + d.event_shape
    np.testing.assert_allclose(d.log_prob(x).exp().sum(0).numpy(), 1, rtol=1e-9)
    few = d.enumerate_support(expand=False)
    assert few.shape == (len(x),) + (1,) * len(d.batch_shape) + d.event_shape
    assert ad.equal(few.expand(x.shape), x)


@ENTRIES
def test_what_violates_a_constraint_is_refused_by_its_name(entry):
    for name, (value, constraint) in entry.refused.items():
        tensors = entry.tensors()
        value = np.array(value, float)
        tensors[name] = (
            ad.tensor(value, dtype=ad.float64) if not isinstance(entry.parameters[name], int) else int(value)
        )
        with pytest.raises(ValueError, match="Expected parameter .* to satisfy the constraint") as error:
            entry.make(**tensors)
        assert constraint in str(error.value) and "found invalid values:\n" in str(error.value)
        if name not in ("covariance_matrix", "precision_matrix"):
            entry.make(**tensors, validate_args=False)


@ENTRIES
def test_values_outside_of_the_support_are_refused(entry):
    d = entry.distribution()
    bad = ad.full(d.batch_shape + d.event_shape, float("nan"), dtype=ad.float64)
    with pytest.raises(ValueError, match=r"to be within the support \(.*\) of the distribution"):
        d.log_prob(bad)
    if isinstance(d, ad.distributions.Gamma):  # as torch, these take numbers
        assert ad.equal(d.log_prob(0.5), d.log_prob(ad.full((), 0.5, dtype=ad.float64)))
    else:
        with pytest.raises(ValueError, match="must be a Tensor"):
            d.log_prob(0.5)
    if d.event_shape:
        with pytest.raises(ValueError, match="must match event_shape|not broadcastable"):
            d.log_prob(ad.ones(d.batch_shape + (9,) * len(d.event_shape), dtype=ad.float64))
    elif d.batch_shape:
        with pytest.raises(ValueError, match="not broadcastable"):
            d.log_prob(ad.ones(9, dtype=ad.float64))


def test_the_texts_are_torchs():
    with pytest.raises(ValueError) as error:
        D.Normal(ad.tensor([0.0, float("nan"), 1.0]), 1.0)
    assert str(error.value) == (
        "Expected parameter loc (Tensor of shape (3,)) of distribution Normal(loc: adjoint.Size([3]), scale: "
        "adjoint.Size([3])) to satisfy the constraint Real(), but found invalid values:\ntensor([0., nan, 1.])"
    )
    assert repr(D.Normal(0.0, 2.0)) == "Normal(loc: 0.0, scale: 2.0)"
    for make in (D.Bernoulli, D.Categorical, D.Geometric, D.Multinomial):
        with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both."):
            make(probs=ad.ones(2), logits=ad.ones(2))
    with pytest.raises(ValueError, match="Exactly one of covariance_matrix"):
        D.MultivariateNormal(ad.zeros(2))
    with pytest.raises(AssertionError, match="Exactly one of covariance_matrix"):
        D.Wishart(ad.tensor(3.0))


def test_validation_can_be_switched_off_for_all():
    try:
        D.Distribution.set_default_validate_args(False)
        D.Normal(0.0, -1.0)
        with pytest.raises(ValueError):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Normal(0.0, -1.0)


def test_numbers_take_the_dtype_of_tensors():
    assert D.Normal(ad.zeros(2, dtype=ad.float64), 1.0).sample().dtype is ad.float64
    assert D.Normal(0, 1).sample().dtype is ad.float32
    assert D.Binomial(ad.tensor(3), probs=0.5).probs == 0.5


def test_every_public_distribution_is_in_the_table():
    made = {type(e.distribution()) for e in TABLE}
    missing = {
        name
        for name in D.__all__
        if isinstance(getattr(D, name), type)
        and issubclass(getattr(D, name), D.Distribution)
        and getattr(D, name) not in made
    }
    assert missing == {"Distribution", "ExponentialFamily", "TransformedDistribution"}


def test_importing_adjoint_does_not_import_them():
    program = (
        "import adjoint, sys; assert 'adjoint.distributions' not in sys.modules; adjoint.distributions.Normal"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
