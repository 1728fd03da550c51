"""Transforms: inverses, volumes against autograd's Jacobians, caches, shapes; constraints and what leads into them."""

import gc
import pickle
import weakref

import numpy as np
import pytest

import adjoint as ad
from adjoint import distributions as D
from adjoint.distributions import biject_to, constraints, transform_to
from adjoint.distributions import transforms as T

BIJECTIONS = [
    T.ExpTransform(),
    T.SoftplusTransform(),
    T.SigmoidTransform(),
    T.TanhTransform(),
    T.AffineTransform(1.0, -2.0),
    T.AffineTransform(ad.tensor([1.0, 2.0, 3.0]).double(), ad.tensor([0.5, -2.0, 3.0]).double(), event_dim=1),
    T.AffineTransform(0.0, 3.0, event_dim=1),
    T.ComposeTransform([T.ExpTransform(), T.PowerTransform(ad.tensor(-1.5).double())]),
    T.ComposeTransform([T.AffineTransform(1.0, 2.0), T.StickBreakingTransform()]),
    T.ComposeTransform([T.StickBreakingTransform(), T.StickBreakingTransform().inv, T.ExpTransform()]),
    T.StickBreakingTransform(),
    T.CorrCholeskyTransform(),
    T.ReshapeTransform((6,), (2, 3)),
    T.IndependentTransform(T.ExpTransform(), 1),
    T.CatTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2]),
    T.CatTransform([T.ExpTransform(), T.TanhTransform()], dim=0, lengths=[2, 2]),
    T.StackTransform(
        [T.ExpTransform(), T.TanhTransform(), T.AffineTransform(1.0, 2.0), T.identity_transform]
    ),
    T.CumulativeDistributionTransform(D.Normal(ad.tensor(0.5).double(), 2.0)),
    T.identity_transform,
]


def points(transform):
    ad.manual_seed(1)
    last = 6 if isinstance(transform, (T.CorrCholeskyTransform, T.ReshapeTransform)) else 3
    return ad.randn((4, last), dtype=ad.float64)


@pytest.mark.parametrize("transform", BIJECTIONS, ids=repr)
def test_bijections(transform):
    x = points(transform)
    y = transform(x)
    assert transform.bijective and transform.inv.bijective
    assert transform.inv.inv is transform
    assert y.shape == tuple(transform.forward_shape(x.shape))
    assert x.shape == tuple(transform.inverse_shape(y.shape))
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-8, atol=1e-9)
    assert transform.codomain.check(y).all() and transform.domain.check(x).all()
    volume = transform.log_abs_det_jacobian(x, y)
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x).numpy(), -volume.numpy())
    dims = transform.domain.event_dim
    assert volume.shape == x.shape[: x.dim() - dims]
    jacobian = ad.autograd.functional.jacobian(transform, x).reshape(y.numel(), x.numel())
    # As many coordinates of the image as are free.
    if isinstance(transform.codomain, constraints._Simplex):
        kept = [i for i in range(y.numel()) if (i + 1) % y.shape[-1]]
    elif isinstance(transform.codomain, constraints._CorrCholesky):
        rows, columns = np.tril_indices(y.shape[-1], -1)
        kept = [
            int(b * y.shape[-1] ** 2 + r * y.shape[-1] + c)
            for b in range(len(y))
            for r, c in zip(rows, columns)
        ]
    else:
        kept = list(range(y.numel()))
    expected = np.linalg.slogdet(jacobian.numpy()[kept])[1]
    assert volume.sum().item() == pytest.approx(expected, rel=1e-7, abs=1e-7)


MONOTONE = [
    t for t in BIJECTIONS if t.domain.event_dim == 0 and not isinstance(t, (T.CatTransform, T.StackTransform))
]


@pytest.mark.parametrize("transform", MONOTONE, ids=repr)
def test_the_sign_tells_the_direction(transform):
    x = ad.tensor([-1.0, 0.5], dtype=ad.float64)
    y = transform(x)
    assert (y[1] - y[0]).sign() == transform.sign


CONSTRAINTS = [
    constraints.real,
    constraints.positive,
    constraints.nonnegative,
    constraints.greater_than(2.0),
    constraints.less_than(-1.0),
    constraints.unit_interval,
    constraints.interval(-2.0, 5.0),
    constraints.half_open_interval(0.0, 3.0),
    constraints.simplex,
    constraints.lower_cholesky,
    constraints.corr_cholesky,
    constraints.positive_definite,
    constraints.positive_semidefinite,
    constraints.real_vector,
    constraints.independent(constraints.positive, 1),
    constraints.cat([constraints.positive, constraints.unit_interval], -1, [1, 2]),
    constraints.stack([constraints.positive, constraints.unit_interval, constraints.real], -1),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("registry", [biject_to, transform_to])
def test_transforms_lead_into_the_set(constraint, registry):
    if registry is biject_to and constraint in (
        constraints.lower_cholesky,
        constraints.positive_definite,
        constraints.positive_semidefinite,
    ):
        with pytest.raises(NotImplementedError, match="Cannot transform _.* constraints"):
            registry(constraint)
        return
    transform = registry(constraint)
    ad.manual_seed(0)
    x = ad.randn((4,) + (3,) * max(1, transform.domain.event_dim), dtype=ad.float64)
    y = transform(x)
    assert constraint.check(y).all()
    back = transform.inv(y)
    np.testing.assert_allclose(transform(back).numpy(), y.numpy(), rtol=1e-8)


INSIDE_AND_OUTSIDE = [
    (constraints.boolean, 1.0, 0.5),
    (constraints.one_hot, [0.0, 1.0], [1.0, 1.0]),
    (constraints.integer_interval(1, 3), 3.0, 4.0),
    (constraints.nonnegative_integer, 0.0, 0.5),
    (constraints.positive_integer, 1.0, 0.0),
    (constraints.multinomial(3), [1.0, 2.0], [2.0, 2.0]),
    (constraints.real, float("inf"), float("nan")),
    (constraints.positive, 0.1, 0.0),
    (constraints.nonnegative, 0.0, -0.1),
    (constraints.less_than(2.0), 1.0, 2.0),
    (constraints.greater_than_eq(2.0), 2.0, 1.0),
    (constraints.unit_interval, 1.0, 1.1),
    (constraints.half_open_interval(0.0, 1.0), 0.0, 1.0),
    (constraints.simplex, [0.5, 0.5], [0.5, 0.6]),
    (constraints.lower_triangular, [[0.0, 0.0], [1.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]),
    (constraints.lower_cholesky, [[1.0, 0.0], [1.0, 2.0]], [[1.0, 0.0], [1.0, -2.0]]),
    (constraints.corr_cholesky, [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]),
    (constraints.square, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0]]),
    (constraints.symmetric, [[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [2.1, 4.0]]),
    (constraints.positive_semidefinite, [[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
    (constraints.positive_definite, [[2.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
    (constraints.real_vector, [0.0, 1.0], [0.0, float("nan")]),
    (constraints.cat([constraints.positive, constraints.boolean]), [0.5, 1.0], None),
    (constraints.stack([constraints.positive, constraints.boolean]), [0.5, 1.0], None),
]


@pytest.mark.parametrize(
    "constraint, inside, outside", INSIDE_AND_OUTSIDE, ids=[repr(c[0]) for c in INSIDE_AND_OUTSIDE]
)
def test_constraints(constraint, inside, outside):
    inside = ad.tensor(inside, dtype=ad.float64)
    assert constraint.check(inside).all()
    if outside is not None:
        outside = ad.tensor(outside, dtype=ad.float64)
        found = constraint.check(outside)
        assert not found.any() and found.shape == outside.shape[: outside.dim() - constraint.event_dim]


def test_dependent_constraints():
    assert constraints.is_dependent(D.Uniform.support) and not constraints.is_dependent(constraints.real)
    assert D.Uniform.support.event_dim == 0 and D.Multinomial.support.is_discrete
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        constraints.dependent.check(ad.ones(2))
    with pytest.raises(NotImplementedError, match=".event_dim cannot be determined statically"):
        constraints.dependent.event_dim


def test_the_cache_gives_back_the_same_value():
    for transform in (T.ExpTransform(cache_size=1), T.StickBreakingTransform().with_cache()):
        x = ad.randn(3)
        y = transform(x)
        assert transform(x) is y and transform.inv(y) is x and transform.inv.inv(x) is y
    assert T.ExpTransform().with_cache(0)._cache_size == 0
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        T.ExpTransform(cache_size=2)


def test_an_inverse_is_held_weakly():
    transform = T.ExpTransform()
    inverse = transform.inv
    assert transform.inv is inverse
    gone = weakref.ref(inverse)
    del inverse
    gc.collect()
    assert gone() is None
    assert pickle.loads(pickle.dumps(transform)) == transform


def test_what_is_no_bijection():
    assert not T.AbsTransform().bijective and not T.SoftmaxTransform().bijective
    assert T.AbsTransform()(ad.tensor(-2.0)) == 2
    y = T.SoftmaxTransform()(ad.randn(2, 3))
    assert ad.allclose(T.SoftmaxTransform()(T.SoftmaxTransform().inv(y)), y)
    with pytest.raises(NotImplementedError, match="log_abs_det_jacobian"):
        T.AbsTransform().log_abs_det_jacobian(ad.ones(1), ad.ones(1))


def test_triangles_as_vectors():
    from adjoint.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    for n in (1, 2, 4):
        for diagonal in range(-n + 1, n):
            matrix = ad.randn(2, n, n).tril(diagonal)
            vector = tril_matrix_to_vec(matrix, diagonal)
            if diagonal <= 0:
                assert ad.equal(vec_to_tril_matrix(vector, diagonal), matrix)
    with pytest.raises(ValueError, match="cannot be expressed as the lower triangular part"):
        vec_to_tril_matrix(ad.ones(4))


@pytest.mark.parametrize(
    "family, base, transforms",
    [
        (D.LogNormal, D.Normal(ad.tensor([0.5, 1.0]), ad.tensor([1.0, 2.0])), [T.ExpTransform()]),
        (
            D.InverseGamma,
            D.Gamma(ad.tensor([3.0, 4.0]), ad.tensor([1.0, 2.0])),
            [T.PowerTransform(ad.tensor(-1.0))],
        ),
    ],
)
def test_a_subclass_may_bring_a_base_of_its_own(family, base, transforms):
    class Base(type(base)):
        pass

    base.__class__ = Base

    class Mine(family):
        def __init__(self, base):
            D.TransformedDistribution.__init__(self, base, transforms, validate_args=True)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Mine, _instance)
            return super().expand(batch_shape, _instance=new)

    mine, plain = Mine(base), family(*(getattr(base, name) for name in family.arg_constraints))
    for name in family.arg_constraints:
        assert ad.equal(getattr(mine, name), getattr(plain, name))
    assert ad.allclose(mine.mean, plain.mean)
    assert ad.allclose(mine.log_prob(ad.tensor(0.7)), plain.log_prob(ad.tensor(0.7)))
    larger = mine.expand((3, 2))
    assert type(larger) is Mine and type(larger.base_dist) is Base and larger.batch_shape == (3, 2)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mine.nothing
