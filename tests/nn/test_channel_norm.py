"""Normalisation by channels in the core: layouts that are kept, sizes around what the loops take at once, accuracy far from zero,
threads, second derivatives, batches of samples; one node and one pass."""

import itertools

import numpy as np
import pytest
from helpers import array, assert_close, normal, tensor
from network_reference import channel_norm, channel_norm_backward

import adjoint as ad
from adjoint import nn

F = nn.functional

KINDS = {
    "batch": (0, lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "eval": (0, lambda x, w, b: F.batch_norm(x, mean_of(x), variance_of(x), w, b)),
    "group": (2, lambda x, w, b: F.group_norm(x, 2, w, b)),
    "instance": (None, lambda x, w, b: F.instance_norm(x, None, None, w, b)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def mean_of(x):
    return ad.linspace(-1, 1, x.shape[1], dtype=x.dtype)


def variance_of(x):
    return ad.linspace(0.5, 2, x.shape[1], dtype=x.dtype)


def expected(kind, x, w, b, g):
    """The result and the gradients of x, w and b."""
    groups = KINDS[kind][0]
    groups = x.shape[1] if groups is None else groups
    given = (array(mean_of(tensor(x))), array(variance_of(tensor(x)))) if kind == "eval" else (None, None)
    y, mean, variance = channel_norm(x, w, b, *given, groups, 1e-5)
    mean, variance = given if kind == "eval" else (mean, variance)
    return y, *channel_norm_backward(g, x, w, mean, variance, groups, 1e-5, kind == "eval", 7)


def run(kind, x, w, b, g):
    leaves = [t.requires_grad_() for t in (x, tensor(w), tensor(b))]
    y = KINDS[kind][1](*leaves)
    return y, *ad.autograd.grad(y, leaves, g)


def last(t):
    """Channels as the innermost dimension."""
    axes = (0, *range(2, t.ndim), 1)
    return t.permute(axes).contiguous().permute(*np.argsort(axes).tolist())


SHAPES = [
    (5, 4),
    (130, 6),
    (3, 4, 1, 2),
    (2, 4, 63),
    (2, 4, 8, 8),
    (2, 6, 7, 7),
    (1, 2, 65, 64),
    (2, 258, 3, 3),
    (3, 2, 2, 3, 4),
]


@every_kind
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_in_each_layout(kind, shape):
    if kind == "instance" and len(shape) == 2:
        pytest.skip("a channel of an image has one element, which is refused")
    x, g, w, b = normal(*shape), normal(*shape, seed=1), normal(shape[1], seed=2), normal(shape[1], seed=3)
    want = expected(kind, x, w, b, g)
    for lay_x, lay_g in itertools.product((lambda t: t, last), repeat=2):
        given = lay_x(tensor(x))
        found = run(kind, given, w, b, lay_g(tensor(g)))
        for a, e in zip(found, want, strict=True):
            np.testing.assert_allclose(array(a), e, rtol=1e-9, atol=1e-10)
        # As in torch, instance normalisation alone gives images back row by row.
        assert found[0].is_contiguous() if kind == "instance" else found[0].stride() == given.stride()
        assert found[1].stride() == given.stride()
    strided = tensor(np.repeat(x, 2, -1))[..., ::2]
    assert_close(KINDS[kind][1](strided, tensor(w), tensor(b)), want[0], rtol=1e-9, atol=1e-10)


@every_kind
@pytest.mark.parametrize("lay", [lambda t: t, last], ids=["first", "last"])
def test_far_from_zero(kind, lay):
    """A mean a thousand times the deviation costs no more digits than the input has lost already."""
    x = np.float32(1000 + normal(4, 4, 40, 40)).astype(np.float64)
    x[0, :, 0, 0] = -3e4
    w, b, g = np.ones(4), np.zeros(4), normal(4, 4, 40, 40, seed=1)
    found = KINDS[kind][1](lay(tensor(x)).to(ad.float32), tensor(w).to(ad.float32), None)
    np.testing.assert_allclose(array(found), expected(kind, x, w, b, g)[0], rtol=1e-4, atol=2e-4)


@every_kind
def test_the_number_of_threads_changes_no_bit(kind):
    threads, found = ad.get_num_threads(), []
    x, w, b, g = normal(4, 32, 20, 20), normal(32, seed=1), normal(32, seed=2), normal(4, 32, 20, 20, seed=3)
    try:
        for count in (1, 2, 3):
            ad.set_num_threads(count)
            found.append(
                [*run(kind, tensor(x), w, b, tensor(g)), *run(kind, last(tensor(x)), w, b, tensor(g))]
            )
    finally:
        ad.set_num_threads(threads)
    for other in found[1:]:
        assert all(bool((p == q).all()) for p, q in zip(found[0], other, strict=True))


@every_kind
def test_one_node(kind):
    leaves = [tensor(t, requires_grad=True) for t in (normal(3, 4, 5), normal(4), normal(4))]
    y = KINDS[kind][1](*leaves)
    assert y.grad_fn.name() == (
        "NativeBatchNormBackward0" if kind in ("batch", "eval") else "NativeGroupNormBackward0"
    )
    assert all(node.name() == "AccumulateGrad" for node, _ in y.grad_fn.next_functions if node)


@every_kind
def test_second_and_forward_derivatives(kind):
    f = KINDS[kind][1]
    xs = [tensor(t, requires_grad=True) for t in (normal(3, 4, 3), normal(4, seed=1), normal(4, seed=2))]
    assert ad.autograd.gradcheck(f, xs, check_forward_ad=True, atol=1e-6)
    assert ad.autograd.gradgradcheck(f, xs, atol=1e-5)
    plain = ad.autograd.grad(f(*xs).square().sum(), xs)
    recorded = ad.autograd.grad(f(*xs).square().sum(), xs, create_graph=True)
    for a, b in zip(plain, recorded, strict=True):
        assert_close(a, array(b), rtol=1e-9, atol=1e-11)


def test_running_statistics_that_need_gradients():
    xs = [tensor(t, requires_grad=True) for t in (normal(3, 2, 4), normal(2, seed=1), abs(normal(2, seed=2)))]
    f = lambda x, mean, variance: F.batch_norm(x, mean, variance)  # noqa: E731
    assert ad.autograd.gradcheck(f, xs) and ad.autograd.gradgradcheck(f, xs, atol=1e-5)


@every_kind
def test_batches_of_samples(kind):
    f = KINDS[kind][1]
    x, w, b = (tensor(t) for t in (normal(3, 2, 4, 5), normal(3, 4, seed=1), normal(3, 4, seed=2)))
    gradient = ad.func.grad(lambda *a: f(*a).pow(3).sum(), argnums=(0, 1, 2))
    for g, dims in itertools.product(
        (f, gradient), ((0, 0, 0), (0, None, None), (0, 0, None), (None, 0, None))
    ):
        given = [t if d == 0 else t[0] for t, d in zip((x, w, b), dims)]
        before = dict(ad.func.vmap_fallbacks())
        found = ad.func.vmap(g, in_dims=dims)(*given)
        assert dict(ad.func.vmap_fallbacks()) == before
        each = [g(*(t[k] if d == 0 else t for t, d in zip(given, dims))) for k in range(3)]
        for a, *e in zip(*[r if isinstance(r, tuple) else (r,) for r in (found, *each)], strict=True):
            assert_close(a, np.stack([array(t) for t in e]), rtol=1e-9, atol=1e-10)


def test_several_cotangents_at_once():
    xs = [tensor(t, requires_grad=True) for t in (normal(3, 4, 5), normal(4, seed=1), normal(4, seed=2))]
    for _, f in KINDS.values():
        y = f(*xs)
        seeds = tensor(normal(2, *y.shape, seed=5))
        found = ad.autograd.grad(y, xs, seeds, is_grads_batched=True, retain_graph=True)
        for k, seed in enumerate(seeds):
            for a, e in zip(found, ad.autograd.grad(y, xs, seed, retain_graph=True), strict=True):
                assert_close(a[k], array(e), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_computed_in_single(dtype):
    """Statistics too: a momentum of one leaves exactly those of the input."""
    x = tensor(normal(64, 3, 10) + 30).to(getattr(ad, dtype))
    mean, variance = ad.zeros(3), ad.ones(3)
    y = F.batch_norm(x, mean, variance, training=True, momentum=1.0)
    exact = array(x.double())
    assert y.dtype == x.dtype
    np.testing.assert_allclose(array(mean), exact.mean((0, 2)), rtol=1e-6)
    np.testing.assert_allclose(array(variance), exact.var((0, 2), ddof=0) * 640 / 639, rtol=1e-5)


def test_without_elements():
    for shape in ((0, 4, 5), (2, 4, 0), (0, 4)):
        for kind, (_, f) in KINDS.items():
            if kind == "instance" and len(shape) == 2:
                continue
            leaves = [ad.ones(*s, dtype=ad.float64, requires_grad=True) for s in (shape, (4,), (4,))]
            y = f(*leaves)
            assert tuple(y.shape) == shape
            gradients = ad.autograd.grad(y.sum(), leaves)
            assert [tuple(t.shape) for t in gradients] == [shape, (4,), (4,)]
            assert all(bool((t == 0).all()) for t in gradients[1:])


GOOD = {
    "input": ad.ones(2, 4, 3),
    "weight": None,
    "bias": None,
    "running_mean": None,
    "running_var": None,
    "groups": 0,
    "eps": 1e-5,
}


@pytest.mark.parametrize(
    "text, change",
    [
        ("expected at least 2 dimensions", {"input": ad.ones(3)}),
        ("not implemented for 'int64'", {"input": ad.ones(2, 4, dtype=ad.int64)}),
        ("Expected number of channels in input to be divisible by num_groups", {"groups": 3}),
        ("Expected number of channels in input to be divisible by num_groups", {"groups": -1}),
        ("Expected weight to be a vector of size equal to the number of channels", {"weight": ad.ones(3)}),
        ("Expected bias to be a vector of size equal to the number of channels", {"bias": ad.ones(2, 2)}),
        ("a mean and a variance are given together", {"running_mean": ad.ones(4)}),
        ("not for groups", {"running_mean": ad.ones(4), "running_var": ad.ones(4), "groups": 2}),
    ],
)
def test_wrong_arguments_of_the_row(text, change):
    with pytest.raises(RuntimeError, match=text):
        ad._C._channel_norm(*(GOOD | change).values())
