"""Gradients inside of `vmap`: what could be mapped is, and what comes out can be differentiated again.

References are the same functions sample by sample. Start reading at `test_gradients_are_those_of_each_sample`.
"""

import pytest

import adjoint as ad
from adjoint.autograd import Function
from adjoint.func import functional_call, grad, vmap
from adjoint.nn import functional as F


def each(f, *args):
    return ad.stack([f(*(a[i] for a in args)) for i in range(args[0].shape[0])])


def matrices():
    ad.manual_seed(2)
    return ad.rand(3, 3, 3, dtype=ad.float64) + ad.eye(3, dtype=ad.float64)


def total(results):
    results = results if isinstance(results, tuple) else (results,)
    return sum(r.abs().sum() for r in results if r.is_floating_point() or r.is_complex())


B = ad.arange(3.0, dtype=ad.float64).reshape(3, 1) + 1
FUNCTIONS = {
    "det": ad.linalg.det,
    "slogdet": lambda a: tuple(ad.linalg.slogdet(a)),
    "lu": lambda a: tuple(ad.linalg.lu(a)),
    "lu_factor": lambda a: tuple(ad.linalg.lu_factor(a)),
    "lu_solve": lambda a: ad.linalg.lu_solve(*ad.linalg.lu_factor(a), B),
    "inv": ad.linalg.inv,
    "cholesky_solve": lambda a: ad.cholesky_solve(B, a),
    "cholesky_inverse": ad.cholesky_inverse,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_each_sample(name):
    f = grad(lambda a: total(FUNCTIONS[name](a)))
    a = matrices()
    assert ad.allclose(vmap(f, strict=True)(a), each(f, a))


def test_gradient_of_a_determinant_of_which_one_sample_is_singular():
    a = matrices()
    a[1, 2] = a[1, 0]
    assert ad.allclose(vmap(grad(ad.linalg.det), strict=True)(a), each(grad(ad.linalg.det), a))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize(
    "weight", [None, ad.tensor([1.0, 0.5, 2.0], dtype=ad.float64)], ids=["even", "weighted"]
)
@pytest.mark.parametrize("shape", [(), (5,), (5, 2)], ids=str)
def test_cross_entropy_of_mapped_classes(reduction, smoothing, weight, shape):
    """Recorded outside, as that of parameters is; and its own derivative."""
    ad.manual_seed(3)
    scores = ad.randn(4, *shape[:1], 3, *shape[1:], dtype=ad.float64, requires_grad=True)
    classes = ad.randint(0, 3, (4, *shape))

    def loss(x, y):
        return F.cross_entropy(
            x, y, weight, reduction=reduction, label_smoothing=smoothing, ignore_index=2
        ).sum()

    mapped = vmap(grad(loss), strict=True)(scores, classes)
    wanted = each(grad(loss), scores, classes)
    assert ad.allclose(mapped, wanted, equal_nan=True)
    kept = mapped.isfinite()
    (again,), (reference,) = (ad.autograd.grad((g[kept] ** 2).sum(), scores) for g in (mapped, wanted))
    assert ad.allclose(again, reference, equal_nan=True)


def test_gradients_for_each_sample_by_parameters_that_need_gradients():
    net = ad.nn.Linear(3, 2)
    x, y = ad.rand(4, 3), ad.tensor([0, 1, 1, 0])

    def loss(p, x, y):
        return F.cross_entropy(functional_call(net, p, (x[None],)), y[None])

    p = dict(net.named_parameters())
    found = vmap(grad(loss), (None, 0, 0), strict=True)(p, x, y)
    for i in range(4):
        for name, g in grad(loss)(p, x[i], y[i]).items():
            assert ad.allclose(found[name][i], g, atol=1e-6)


LOSSES = {
    "binary_cross_entropy": lambda x, y: F.binary_cross_entropy(x, (y > 0).float()),
    "multi_margin_loss": F.multi_margin_loss,
    "multilabel_margin_loss": lambda x, y: F.multilabel_margin_loss(x, y[:, None].expand(x.shape) - 1),
    "histc": lambda x, y: ad.histc(x, 4, 0.2, 0.9),
    "histc of all": lambda x, y: ad.histc(x, 4),
    "linspace": lambda x, y: ad.linspace(x[0, 0], x[1, 1], 5),
    "logspace": lambda x, y: ad.logspace(x[0, 0], 2, 4),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_looked_at_values_is_mapped(name):
    ad.manual_seed(4)
    x, y = ad.rand(3, 4, 3), ad.randint(0, 3, (3, 4))
    f = LOSSES[name]
    y = y if name != "binary_cross_entropy" else ad.randint(0, 2, (3, 4, 3))
    assert ad.allclose(vmap(f, strict=True)(x, y), each(f, x, y), atol=1e-6)


def test_values_of_all_samples_are_checked():
    x = ad.rand(3, 4)
    x[2, 1] = 1.5
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        vmap(lambda x: F.binary_cross_entropy(x, ad.zeros(4)), strict=True)(x)


def test_max_unpool_of_mapped_places():
    ad.manual_seed(5)
    pooled, places = F.max_pool2d(ad.rand(3, 2, 4, 4), 2, return_indices=True)
    f = lambda a, b: F.max_unpool2d(a, b, 2)  # noqa: E731
    assert ad.equal(vmap(f, strict=True)(pooled, places), each(f, pooled, places))


CONSTANTS = {
    "replicate": lambda w, x: F.pad((x * w)[None], (1, 1), mode="replicate").square().sum(),
    "reflect": lambda w, x: F.pad((x * w)[None], (1, 1), mode="reflect").square().sum(),
    **{
        name: lambda w, x, f=getattr(ad, name): (f(x * w + 0.3) * x * w).sum()
        for name in ("floor", "ceil", "round", "trunc", "sign")
    },
    "floor division": lambda w, x: (ad.div(x * w, w * 2, rounding_mode="floor") * w * w).sum(),
    "trunc division": lambda w, x: (ad.div(x * w, w * 2, rounding_mode="trunc") * w * w).sum(),
    "matrix_power": lambda w, x: (ad.linalg.matrix_power(x[:, None] * x * w, 0) * w * w).sum(),
    "vector_norm": lambda w, x: ad.linalg.vector_norm(x * w, 0) * w * w,
    "heaviside": lambda w, x: (ad.heaviside(x * w, w) * w * w).sum(),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_gradients_with_constants_in_them_can_be_differentiated_again(name):
    w, x = ad.ones((), requires_grad=True), ad.arange(6.0).view(2, 3) + 0.25
    f = CONSTANTS[name]
    mapped = vmap(grad(f), (None, 0))(w, x)
    one_by_one = each(lambda x: grad(f)(w, x), x)
    assert ad.allclose(mapped, one_by_one)
    (again,), (wanted,) = (ad.autograd.grad(g.sum(), w) for g in (mapped, one_by_one))
    assert ad.allclose(again, wanted)


class Seen(Function):
    generate_vmap_rule = False
    calls: list = []

    @staticmethod
    def forward(x, y=None):
        return x + (y[0] if y else 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g, None

    @staticmethod
    def vmap(info, in_dims, x, y=None):
        Seen.calls.append((in_dims, tuple(x.shape), y and [tuple(t.shape) for t in y]))
        return (x + y[0] if y else x), in_dims[0]


@pytest.mark.parametrize(
    "call, seen",
    [
        (lambda x: vmap(Seen.apply, in_dims=1)(x), ((1, None), (2, 3), None)),
        (lambda x: vmap(Seen.apply)(x, [x, x]), ((0, [0, 0]), (2, 3), [(2, 3), (2, 3)])),
        (lambda x: vmap(lambda a: Seen.apply(a * 1), in_dims=1)(x), ((0, None), (3, 2), None)),
    ],
    ids=["along another dimension", "a list", "a result"],
)
def test_a_vmap_rule_is_told_where_the_batch_is(call, seen):
    Seen.calls.clear()
    x = ad.arange(6.0).view(2, 3)
    result = call(x)
    assert result.shape == ((2, 3) if isinstance(seen[0][-1], list) else (3, 2))
    assert Seen.calls == [seen]
    if isinstance(seen[0][-1], list):
        assert ad.equal(result, 2 * x)
    else:
        assert ad.equal(result, x.T)


def test_a_function_takes_no_mapped_tensor_by_keyword_only():
    class Sum(ad.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, *, y):
            return x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    with pytest.raises(
        NotImplementedError, match="Run vmap on autograd.Function with kwarg-only Tensor args"
    ):
        ad.vmap(lambda x: Sum.apply(x, y=x))(ad.ones(2))


@pytest.mark.parametrize(
    "name, f",
    {
        "svdvals": ad.linalg.svdvals,
        "eigvalsh": lambda a: ad.linalg.eigvalsh(a + a.T),
        "eigvals": lambda a: ad.linalg.eigvals(a + a.T).real.sort().values,
        "norm 2": lambda a: ad.linalg.matrix_norm(a, 2),
        "nuclear norm": lambda a: ad.linalg.matrix_norm(a, "nuc"),
        "cond": ad.linalg.cond,
    }.items(),
)
def test_gradients_around_a_map_of_spectra(name, f):
    """What a rule needs of a decomposition is computed for a level outside of the map, too."""
    a, w = matrices(), ad.arange(3.0, dtype=ad.float64) + 1
    outside = grad(lambda x: sum((w * ad.vmap(f)(x * s)).sum() for s in (1.0, 2.0)))(a)
    alone = grad(lambda x: sum((w * f(m * s)).sum() for m in x for s in (1.0, 2.0)))(a)
    if f(a[0]).dim() == 0:
        alone = grad(lambda x: sum(v * f(m * s) for m, v in zip(x, w) for s in (1.0, 2.0)))(a)
    ad.testing.assert_close(outside, alone)
    leaf = a.clone().requires_grad_()
    ad.vmap(f)(leaf).sum().backward()
    ad.testing.assert_close(leaf.grad, grad(lambda x: sum(f(m).sum() for m in x))(a))


def test_the_padding_row_of_an_embedding_gets_nothing_of_infinite_cotangents():
    table, rows = ad.ones(3, 4, 2), ad.tensor([[0, 1, 3], [1, 1, 2], [3, 0, 0]])

    def loss(table, rows):
        return (F.embedding(rows, table, padding_idx=1).sum(-1) / (rows != 1)).sum()

    assert ad.equal(vmap(grad(loss), strict=True)(table, rows), each(grad(loss), table, rows))
