"""What changes a tensor itself, or looks at its memory, under transforms: shapes in place, `view(dtype)`, `resize_`, copies.

A tensor under a transform is several: all samples and tangents have to change as it does. Start reading at `WAYS`.
"""

import copy
import warnings

import pytest
from helpers import assert_close

import adjoint as ad
from adjoint.func import grad, jvp, vmap

X = (ad.arange(12.0, dtype=ad.float64) * 0.3 - 1).reshape(2, 2, 3)
Y = X.cos()

CHANGES = {
    "unsqueeze_": lambda t: t.unsqueeze_(1),
    "squeeze_": lambda t: t[None].clone().squeeze_(),
    "squeeze_ of one": lambda t: t[:1].squeeze_(0),
    "transpose_": lambda t: t.transpose_(0, 1),
    "t_": lambda t: t.t_(),
    "as_strided_": lambda t: t.contiguous().as_strided_((2, 2), (1, 2)),
    "as_strided_ at an offset": lambda t: t.contiguous().as_strided_((2,), (1,), 1),
    "of a view": lambda t: t[1:].transpose_(0, 1),
    "written afterwards": lambda t: t.t_().mul_(2.0)[0],
    "of a view, written afterwards": lambda t: (t[1:].t_().mul_(2.0), t)[1],
}


def along(f, x, t):
    """The derivative of f along t, in the direction of time, by a pass backward for each number of the result."""
    x = x.clone().requires_grad_()
    y = f(x)
    rows = [ad.autograd.grad(v, x, retain_graph=True)[0] for v in y.reshape(-1)]
    return ad.stack([(r * t).sum() for r in rows]).reshape(y.shape)


def total(f):
    return lambda x: (f(x) * ad.arange(1.0, 1 + f(x).numel(), dtype=ad.float64).reshape(f(x).shape)).sum()


#: What a transform gives for two samples, and what it should be.
WAYS = {
    "vmap": (lambda f: vmap(f)(X), lambda f: ad.stack([f(x) for x in X])),
    "vmap along another dimension": (
        lambda f: vmap(f, in_dims=2, out_dims=-1)(X.permute(1, 2, 0).contiguous()),
        lambda f: ad.stack([f(x) for x in X], -1),
    ),
    "jvp": (lambda f: jvp(f, (X[0],), (Y[0],))[1], lambda f: along(f, X[0], Y[0])),
    "vmap of jvp": (
        lambda f: vmap(lambda x, y: jvp(f, (x,), (y,))[1])(X, Y),
        lambda f: ad.stack([along(f, x, y) for x, y in zip(X, Y, strict=True)]),
    ),
    "jvp of vmap": (
        lambda f: jvp(vmap(f), (X,), (Y,))[1],
        lambda f: ad.stack([along(f, x, y) for x, y in zip(X, Y, strict=True)]),
    ),
    "vmap of grad": (
        lambda f: vmap(grad(total(f)))(X),
        lambda f: ad.stack([grad(total(f))(x) for x in X]),
    ),
    "grad of vmap": (
        lambda f: grad(total(vmap(f)))(X),
        lambda f: grad(total(lambda x: ad.stack([f(v) for v in x])))(X),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_shapes_that_change_in_place(change, way):
    def f(x):
        return CHANGES[change](x.sin()) * 1

    found, expected = WAYS[way]
    assert_close(found(f).detach(), expected(f).detach())


@pytest.mark.parametrize("dtype", [ad.int64, ad.int32, ad.uint8, ad.complex128])
@pytest.mark.parametrize("rows", [X, X.permute(1, 0, 2), X.repeat(1, 1, 2)])
def test_bits_of_each_sample(dtype, rows):
    rows = rows.clone() if dtype != ad.complex128 else rows[..., :2].clone()
    found = vmap(lambda x: x.view(dtype))(rows)
    expected = ad.stack([x.view(dtype) for x in rows])
    assert found.dtype == dtype and ad.equal(found, expected)
    nested = vmap(vmap(lambda x: x.view(dtype)))(rows)
    assert ad.equal(nested, expected)


def test_what_is_built_on_bits():
    limit = ad.tensor(5.0, dtype=ad.float64)
    found = vmap(lambda x: ad.nextafter(x, limit))(X)
    assert bool((found > X).all()) and bool((found - X < 1e-14).all())


@pytest.mark.parametrize("dtype", [ad.float32, ad.int32])
def test_bits_are_refused_as_without_vmap(dtype):
    with pytest.raises(RuntimeError, match=r"self.dim\(\) cannot be 0 to view"):
        vmap(lambda x: x.view(dtype))(ad.ones(3, dtype=ad.float64))
    with pytest.raises(RuntimeError, match=r"self.stride\(-1\) must be 1"):
        vmap(lambda x: x.view(dtype), in_dims=2)(X)
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="has no derivative"):
        vmap(lambda v: v.view(dtype))(x)


def test_deep_copies_are_of_all_samples():
    assert_close(vmap(lambda x: copy.deepcopy(x).mul_(2.0))(X), X * 2)
    assert_close(vmap(lambda x: copy.deepcopy({"a": x, "b": [x]})["b"][0])(X), X)


@pytest.mark.parametrize("sizes", [(6,), (3, 2), (2, 2), (4, 3)])
def test_resizing_each_sample(sizes):
    assert_close(vmap(lambda x: x.clone().resize_(sizes))(X), ad.stack([x.clone().resize_(sizes) for x in X]))


def test_other_memory_for_each_sample():
    found = vmap(lambda x, y: x.clone().set_(y.t()))(X, Y)
    assert_close(found, Y.transpose(1, 2))
    with pytest.raises(NotImplementedError, match="only one is mapped over"):
        vmap(lambda x: x.clone().set_(Y[0]))(X)


@pytest.mark.parametrize("change", [lambda t: t.resize_(2), lambda t: t.set_(ad.ones(2, dtype=ad.float64))])
def test_memory_of_duals_stays(change):
    with pytest.raises(RuntimeError, match="cannot resize variables that has a forward grad"):
        jvp(lambda x: change(x.clone()), (X[0],), (Y[0],))


def test_the_memory_of_samples_is_not_given_away():
    with pytest.raises(
        RuntimeError, match="vmap: the memory of a Tensor that is mapped over holds all samples"
    ):
        vmap(lambda x: x.untyped_storage().clone(), strict=True)(X)


# --- out= -----------------------------------------------------------------------------------------------------------------

SQUARE = (lambda x: x @ x.transpose(-1, -2) + 3 * ad.eye(2, dtype=ad.float64))(X)
#: Operators, and compositions, whose result takes the place of an empty tensor.
WITH_OUT = {
    "sin": ad.sin,
    "matmul": lambda x, out: ad.matmul(x, x, out=out),
    "cumsum": lambda x, out: ad.cumsum(x, 0, out=out),
    "stack": lambda x, out: ad.stack([x, x * 2], out=out),
    "inv": ad.linalg.inv,
    "norm": ad.linalg.norm,
    "solve": lambda x, out: ad.linalg.solve(x, x.sin(), out=out),
    "diff": lambda x, out: ad.diff(x, out=out),
    "quantile": lambda x, out: ad.quantile(x, 0.5, dim=0, out=out),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_takes_samples_and_tangents(name):
    def given(x):
        return WITH_OUT[name](x, out=ad.empty(0, dtype=ad.float64))

    def made(x):
        return WITH_OUT[name](x, out=None)

    expected = ad.stack([made(x) for x in SQUARE])
    assert_close(vmap(given)(SQUARE), expected)
    assert_close(vmap(lambda x: WITH_OUT[name](x, out=ad.zeros_like(expected[0])))(SQUARE), expected)
    with ad.no_grad():
        pushed = jvp(made, (SQUARE[0],), (SQUARE[1],))[1]
        assert_close(jvp(given, (SQUARE[0],), (SQUARE[1],))[1], pushed)
        assert_close(
            vmap(lambda x: jvp(given, (x,), (x.sin(),))[1])(SQUARE),
            vmap(lambda x: jvp(made, (x,), (x.sin(),))[1])(SQUARE),
        )
    outside = ad.zeros_like(expected[0])
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda x: WITH_OUT[name](x, out=outside))(SQUARE)


@pytest.mark.parametrize("shape", [(3, 3), (3,), (0,)])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_an_out_from_outside_that_is_refused_stays_as_it_was(shape, dtype):
    """Of another shape than the result, too: it is not resized first, and does not belong to the vmap() afterwards."""
    functions = (
        lambda z, out: ad.add(z, 1.0, out=out),
        lambda z, out: ad.sum(z, 0, True, dtype=dtype, out=out),
        lambda z, out: (ad.add(ad.ones(2, dtype=dtype), 1.0, out=out), out.add_(z[0])),
    )
    for function in functions[: 3 if shape != (0,) else 2]:
        out = ad.ones(shape, dtype=dtype)
        with warnings.catch_warnings(), pytest.raises(RuntimeError, match="made outside of vmap"):
            warnings.simplefilter("ignore")
            ad.func.vmap(lambda z, f=function, out=out: f(z, out))(ad.rand(3, 3))
        assert out.tolist() in (ad.ones(shape).tolist(), [2.0, 2.0])
