"""adjoint.func.vmap: arguments, results, errors, writes, randomness, what depends on data, and custom Functions.

That every operator is mapped as a loop would is in test_batching.py.
"""

import dataclasses
import threading
import warnings
from collections import namedtuple

import pytest
from helpers import assert_near

import adjoint as ad
from adjoint.func import grad, vmap

X = ad.arange(12.0).reshape(3, 4)
Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    x: ad.Tensor
    y: ad.Tensor


# --- arguments and results --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_in_dims_and_out_dims_from_either_end(dim):
    y = vmap(lambda x: x * 2, in_dims=dim, out_dims=dim)(X)
    assert_near(y, X * 2)


@pytest.mark.parametrize(
    "tree, in_dims",
    [
        ((X, X), (0, 0)),
        (([X, X],), 0),
        (({"a": X, "b": X[0]},), ({"a": 0, "b": None},)),
        ((Pair(X, X[0]),), (Pair(0, None),)),
        (((X, [X, {"c": X}]),), ((0, 0),)),
        ((Point(X, X),), 0),
    ],
)
def test_containers_of_arguments(tree, in_dims):
    from adjoint.tree import flatten_arguments

    def total(*args):
        leaves = flatten_arguments(args)[0]
        assert all(leaf.shape == (4,) for leaf in leaves)
        return sum(leaf.sum() for leaf in leaves)

    leaves = flatten_arguments(tree)[0]
    expected = [sum(float((leaf if leaf.dim() == 1 else leaf[i]).sum()) for leaf in leaves) for i in range(3)]
    assert_near(vmap(total, in_dims=in_dims)(*tree), expected)


def test_results_keep_their_containers_and_what_is_no_tensor_with_out_dims_none():
    found = vmap(lambda x: {"a": x, "b": (x.sum(), "text")}, out_dims={"a": 1, "b": (0, None)})(X)
    assert found["a"].shape == (4, 3) and found["b"][0].shape == (3,) and found["b"][1] == "text"


def test_results_that_are_the_same_for_all_are_repeated():
    assert vmap(lambda x: ad.ones(2))(X).shape == (3, 2)


def test_keywords_are_handed_on():
    assert_near(vmap(lambda x, scale: x * scale)(X, scale=3), X * 3)


def test_chunks_give_the_same():
    f = vmap(lambda x, y: (x * y, x.sum()), in_dims=(0, None), out_dims=(1, 0), chunk_size=2)
    g = vmap(lambda x, y: (x * y, x.sum()), in_dims=(0, None), out_dims=(1, 0))
    for a, b in zip(f(X, X[0]), g(X, X[0])):
        assert_near(a, b)


def test_an_empty_batch_has_a_shape():
    assert vmap(lambda x: x.sum() + ad.ones(2))(ad.zeros(0, 4)).shape == (0, 2)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: vmap(ad.sin, in_dims="x")(X), ValueError, "expected `in_dims` to be int or a"),
        (lambda: vmap(ad.sin)(), ValueError, "got no inputs"),
        (
            lambda: vmap(ad.mul, in_dims=(0,))(X, X),
            ValueError,
            "in_dims is not compatible with the structure of `inputs`(?s:.*)2 arguments",
        ),
        (lambda: vmap(ad.mul, in_dims=(0, (0, 0)))(X, X), ValueError, "part at argument 1"),
        (lambda: vmap(ad.mul)(X, 3), ValueError, "is of type <class 'int'>.*argument 1"),
        (lambda: vmap(ad.sin, in_dims=2)(X), ValueError, "-2 <= in_dim < 2.*argument 0"),
        (
            lambda: vmap(ad.sin, in_dims=(1.5,))(X),
            ValueError,
            "in_dim must be either an integer dimension or None",
        ),
        (lambda: vmap(ad.mul, in_dims=None)(X, X), ValueError, "expected `in_dims`|at least one Tensor"),
        (lambda: vmap(ad.mul)(X, X.t()), ValueError, r"got sizes \[3, 4\] for the mapped dimension"),
        (lambda: vmap(lambda x: 3)(X), ValueError, "must only return Tensors, got type <class 'int'>"),
        (
            lambda: vmap(lambda x: x, out_dims=None)(X),
            ValueError,
            "can not return a BatchedTensor when out_dim is None",
        ),
        (lambda: vmap(lambda x: x, out_dims=(0, 0))(X), ValueError, "out_dims is not compatible"),
        (lambda: vmap(lambda x: x, out_dims=5)(X), IndexError, "Dimension out of range"),
        (lambda: vmap(ad.sin, randomness="no"), RuntimeError, "Only allowed values for randomness"),
        (lambda: vmap(ad.sin, chunk_size=0), ValueError, "chunk_size should be None or greater than 0"),
    ],
)
def test_wrong_use_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
    assert ad._C._batching() is None


def test_a_tensor_that_outlives_its_vmap_says_so():
    kept = []
    vmap(lambda x: (kept.append(x), x)[1])(X)
    for use in (
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.add_(1),
    ):
        with pytest.raises(RuntimeError, match="belongs to a vmap"):
            use(kept[0])
    with pytest.raises(RuntimeError, match="belongs to a vmap"):
        vmap(lambda x: x + kept[0])(X)


def test_an_exception_leaves_nothing_behind():
    def fails(x):
        raise KeyError("stop")

    with pytest.raises(KeyError):
        vmap(vmap(fails))(X)
    assert ad._C._batching() is None
    assert_near(vmap(ad.sin)(X), X.sin())


def test_levels_belong_to_their_thread():
    results, errors = {}, []

    def work(k):
        try:
            for _ in range(20):
                results[k] = vmap(vmap(lambda x: x * k + x.sin()))(X)
        except Exception as e:  # pragma: no cover
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    for k, found in results.items():
        assert_near(found, X * k + X.sin())


# --- writes -----------------------------------------------------------------------------------------------------------


def test_writes_reach_the_argument_through_views():
    x = X.clone()
    vmap(lambda row: row[1:3].mul_(10))(x)
    assert_near(x[:, 1:3], X[:, 1:3] * 10)
    assert_near(x[:, 0], X[:, 0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.zeros(4).copy_(x),
        lambda x: ad.zeros(4).add_(x).mul_(2),
        lambda x: ad.empty(4).copy_(x).sin_(),
    ],
)
def test_a_tensor_made_inside_becomes_one_for_each_sample(f):
    assert_near(vmap(f)(X), ad.stack([f(x) for x in X]))


def test_parts_of_a_tensor_made_inside():
    def f(x):
        out = ad.zeros(2, 4)
        out[0] = x
        out[1, 1:] += x[1:]
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_near(vmap(f)(X), ad.stack([f(x) for x in X]))


def test_a_tensor_made_outside_is_refused_as_in_torch():
    outside = ad.zeros(4)
    with pytest.raises(
        RuntimeError,
        match=r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible because there exists",
    ):
        vmap(lambda x: outside.add_(x))(X)
    assert not outside.any()


def test_gradients_through_writes():
    def f(x):
        z = x.clone()
        z[0] = z[1] * 2
        z.mul_(x)
        return (z**2).sum()

    assert_near(vmap(grad(f))(X), ad.stack([grad(f)(x) for x in X]))
    w = X.clone().requires_grad_()
    assert_near(ad.autograd.grad(vmap(f)(w).sum(), w)[0], vmap(grad(f))(X))


# --- derivatives ------------------------------------------------------------------------------------------------------


def test_per_sample_gradients_of_what_is_the_same_for_all():
    w = ad.ones(4)

    def loss(w, x):
        return ((w * x).sum() - 1) ** 2

    assert_near(vmap(grad(loss), in_dims=(None, 0))(w, X), ad.stack([grad(loss)(w, x) for x in X]))
    assert_near(vmap(lambda x: grad(lambda w: loss(w, x))(w))(X), ad.stack([grad(loss)(w, x) for x in X]))


def test_gradient_outside_of_gradients_inside():
    def inner(w, x):
        return ((w * x).sin()).sum()

    def outer(w):
        return (vmap(grad(inner), in_dims=(None, 0))(w, X) ** 2).sum()

    def by_loop(w):
        return sum((grad(inner)(w, x) ** 2).sum() for x in X)

    assert_near(grad(outer)(X[0]), grad(by_loop)(X[0]))


def test_results_of_gradients_inside_need_no_gradient():
    assert not vmap(grad(lambda x: (x**3).sum()))(X).requires_grad


def test_batched_cotangents_in_one_pass():
    x = X.clone().requires_grad_()
    y = (x.sin() @ ad.ones(4, 2)).cumsum(0)
    gs = ad.stack([ad.ones(3, 2) * k for k in range(5)])
    together = ad.autograd.grad(y, x, gs, retain_graph=True, is_grads_batched=True)[0]
    assert_near(together, ad.stack([ad.autograd.grad(y, x, g, retain_graph=True)[0] for g in gs]))
    jacobian = ad.autograd.functional.jacobian
    assert_near(jacobian(lambda x: x.sin().sum(0), X, vectorize=True), jacobian(lambda x: x.sin().sum(0), X))


def test_backward_into_what_is_the_same_for_all_is_refused():
    w = ad.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward"):
        vmap(lambda x: ((w * x).sum().backward(), x)[1])(X)
    assert w.grad is None


# --- what depends on data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, name, words",
    [
        (lambda x: x * x.sum().item(), "item", r"calling .item\(\) on a Tensor"),
        (lambda x: x if x.sum() > 10 else -x, "bool", "data-dependent control flow"),
        (lambda x: x[x > 5].sum(), "nonzero", "dynamic shape"),
        (lambda x: ad.tensor(x.tolist()), "tolist", "memory"),
        (lambda x: ad.from_numpy(x.numpy()) * 1, "numpy", "memory"),
    ],
)
def test_runs_sample_by_sample_with_one_warning(f, name, words):
    with pytest.warns(UserWarning, match=name) as caught:
        found = vmap(f)(X)
    assert len([w for w in caught if "vmap" in str(w.message)]) == 1
    assert caught[0].filename == __file__
    assert_near(found, ad.stack([f(x) for x in X]))
    with pytest.raises(RuntimeError, match=words):
        vmap(f, strict=True)(X)


def test_what_has_written_outside_cannot_run_again():
    x = X.clone()

    def f(row):
        row.add_(1)
        return row * row.sum().item()

    with pytest.raises(RuntimeError, match="has written memory from outside"):
        vmap(f)(x)


def test_an_inner_vmap_leaves_to_the_outer_what_is_its():
    def f(x):
        scale = x.sum()
        return vmap(lambda e: e * scale.item())(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_near(vmap(f)(X), X * X.sum(1, keepdim=True))


# --- random numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: ad.rand(2),
        lambda x: ad.randn_like(x),
        lambda x: ad.zeros(4).normal_(),
        lambda x: ad.bernoulli(ad.sigmoid(x * 0)),
        lambda x: ad.nn.functional.dropout(x + 1),
        lambda x: ad.randint(0, 100, (4,)) * 1.0,
        lambda x: ad.randperm(10) * 1.0,
        lambda x: ad.poisson(x + 50),
        lambda x: ad.multinomial(ad.ones(50), 3) * 1.0,
    ],
)
def test_randomness(draw):
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(draw)(X)
    same = X[:1].expand(3, 4)
    ad.manual_seed(3)
    a = vmap(draw, randomness="same")(same)
    assert all((row == a[0]).all() for row in a)
    ad.manual_seed(3)
    b = vmap(draw, randomness="different")(same)
    assert b.shape == a.shape and not all((row == b[0]).all() for row in b)
    ad.manual_seed(3)
    assert (vmap(draw, randomness="different")(same) == b).all()


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("mapped", [True, False])
def test_draws_keep_the_history_of_what_they_are_drawn_from(randomness, mapped):
    def slope(x):
        x = (x if mapped else ad.tensor([2.0, 3.0])).clone().requires_grad_()
        draw = ad._standard_gamma(x * 1)
        return ad.autograd.grad(draw.sum(), x)[0], draw.detach()

    concentrations = ad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found, draws = vmap(slope, randomness=randomness)(concentrations)
    wanted = concentrations if mapped else ad.tensor([2.0, 3.0]).expand(3, 2)
    assert ad.allclose(found, ad._C._standard_gamma_grad(wanted.contiguous(), draws), rtol=1e-5)


def test_different_numbers_cannot_be_written_to_what_is_outside():
    outside = ad.zeros(4)
    with pytest.raises(
        RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"
    ):
        vmap(lambda x: outside.normal_() + x, randomness="different")(X)
