"""Every operator that takes complex numbers, by gradcheck: C→C, C→R, R→C, first and second derivatives.

The element-wise operators and their domains come from the core's table; a structured operator needs inputs of its own, so
`CALLS` holds one call for each, and what is neither there nor in `REAL_ONLY` fails by name. Start reading at
`elementwise`.
"""

import numpy as np
import pytest
import reference
from helpers import tensor

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck

ROWS = ad._C.operators()
DIFFERENTIABLE = [r for r in ROWS if r["differentiable"]]
ELEMENTWISE = [r for r in DIFFERENTIABLE if r["kind"] == "elementwise" and "complex128" in r["types"]]
STRUCTURED = [r for r in DIFFERENTIABLE if r["kind"] == "structured" and not r["name"].startswith("_")]
NAMES = [r["name"] for r in ELEMENTWISE]


def check(f, *leaves):
    """First and second derivatives, in both modes."""
    for x in leaves:
        x.requires_grad_()
    for fast in (False, True):
        assert gradcheck(f, leaves, fast_mode=fast, check_batched_grad=True, check_grad_dtypes=True)
    assert gradgradcheck(f, leaves)
    assert gradgradcheck(f, leaves, fast_mode=True, gen_non_contig_grad_outputs=True)


def elementwise(row, kinds):
    """An element-wise operator as a function of its operands, and operands inside its domain: `kinds` says which are
    complex ("c") and which real ("r")."""
    name = row["name"]
    f = next(getattr(p, name) for p in (ad, ad.nn.functional, ad.special, ad._C) if hasattr(p, name))
    options = reference.OPTIONS.get(name, {})
    rng = np.random.default_rng(sum(map(ord, name)))
    mask, fixed, leaves = reference.MASKS.get(name), {}, {}
    for k in range(row["arity"]):
        shape = () if k == reference.NUMBERS.get(name) else (2, 3)
        lo, hi = (row["samples"][k] if isinstance(row["samples"][0], tuple) else row["samples"]) or (-3, 3)
        margin = 0.05 * (hi - lo)
        values = rng.uniform(lo + margin, hi - margin, shape)
        if k == mask:
            fixed[k] = tensor(values > 0)
            continue
        if kinds[k % len(kinds)] == "c":
            values = values + 1j * rng.uniform(0.2, 1, shape) * rng.choice([-1, 1], shape)
        leaves[k] = tensor(values)

    def call(*xs):
        given = dict(zip(leaves, xs, strict=True)) | fixed
        return f(*[given[k] for k in range(row["arity"])], **options)

    return call, list(leaves.values())


@pytest.mark.parametrize("row", ELEMENTWISE, ids=NAMES)
def test_complex_inputs(row):
    f, leaves = elementwise(row, "c")
    check(f, *leaves)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=NAMES)
def test_complex_to_real(row):
    """|f|², Re f and Im f: real functions of complex numbers."""
    f, leaves = elementwise(row, "c")

    def real(*xs):
        y = f(*xs)
        return (y.real, y.imag, (y * y.conj()).real) if y.is_complex() else y * y

    check(real, *leaves)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=NAMES)
def test_real_to_complex(row):
    """A real input of a complex result gets a real gradient."""
    f, leaves = elementwise(row, "r")
    turns = [tensor(0.9 + 0.3j * (k + 1)) for k in range(len(leaves))]
    check(lambda *xs: f(*[x * turn for x, turn in zip(xs, turns, strict=True)]), *leaves)
    y = f(*[x * turn for x, turn in zip(leaves, turns, strict=True)])
    gradients = ad.autograd.grad(y.abs().sum(), leaves)
    assert all(g.dtype is ad.float64 for g in gradients)


@pytest.mark.parametrize("row", [r for r in ELEMENTWISE if r["arity"] > 1], ids=lambda r: r["name"])
def test_one_real_and_one_complex_operand(row):
    for kinds in ("rc", "cr"):
        f, leaves = elementwise(row, kinds)
        if row["name"] == "lerp":  # the ends are of one dtype
            with pytest.raises(RuntimeError, match="for `end` but got dtype"):
                f(*leaves)
            continue
        if row["name"] == "pow" and kinds == "rc":
            leaves[0] = leaves[0].abs() + 0.5
        check(f, *leaves)


INDEX = [2, 0]


def index():
    return ad.tensor(INDEX)


# name → (function of the leaves, their shapes)
CALLS = {
    "index_select": (lambda x: ad.index_select(x, 0, index()), (3, 2)),
    "gather": (lambda x: ad.gather(x, 0, ad.tensor([[2, 0], [1, 1]])), (3, 2)),
    "take": (lambda x: ad.take(x, ad.tensor([0, 5, 5])), (3, 2)),
    "masked_select": (lambda x: ad.masked_select(x, ad.tensor([True, False, True])), (2, 3)),
    "cat": (lambda x, y: ad.cat([x, y * 2], 1), (2, 3), (2, 1)),
    "stack": (lambda x, y: ad.stack([x, y * 2], 1), (2, 3), (2, 3)),
    "embedding": (lambda w: ad.embedding(w, index()), (3, 2)),
    "select": (lambda x: x.select(1, 2), (2, 3)),
    "narrow": (lambda x: x.narrow(1, 1, 2), (2, 3)),
    "unbind": (lambda x: tuple(x.unbind(1)), (2, 3)),
    "chunk": (lambda x: tuple(x.chunk(2, 1)), (2, 3)),
    "diagonal": (lambda x: x.diagonal(1), (3, 3)),
    "unfold": (lambda x: x.unfold(0, 2, 1), (4,)),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 2), 1), (2, 3)),
    "real": (lambda x: x.real, (2, 3)),
    "imag": (lambda x: x.imag, (2, 3)),
    "view_as_real": (lambda x: ad.view_as_real(x) ** 2, (2, 3)),
    "mm": (ad.mm, (2, 3), (3, 2)),
    "bmm": (ad.bmm, (2, 2, 3), (2, 3, 2)),
    "mv": (ad.mv, (2, 3), (3,)),
    "dot": (ad.dot, (3,), (3,)),
    "matmul": (ad.matmul, (2, 1, 3), (3, 2)),
    "outer": (ad.outer, (2,), (3,)),
    "addmm": (lambda a, x, y: ad.addmm(a, x, y, beta=0.5, alpha=2), (2,), (2, 3), (3, 2)),
    "baddbmm": (lambda a, x, y: ad.baddbmm(a, x, y, beta=2, alpha=-1), (2, 2), (1, 2, 3), (1, 3, 2)),
    "addmv": (lambda a, x, y: ad.addmv(a, x, y, beta=0.5, alpha=2), (2,), (2, 3), (3,)),
    "addr": (lambda a, x, y: ad.addr(a, x, y, beta=2, alpha=-1), (3,), (2,), (3,)),
    "rsub": (lambda x, y: ad.rsub(x, y, alpha=3), (2, 3), (3,)),
    "linear": (ad.nn.functional.linear, (2, 3), (2, 3), (2,)),
    "flip": (lambda x: x.flip((0, 1)), (2, 3)),
    "roll": (lambda x: x.roll(1, 1), (2, 3)),
    "repeat": (lambda x: x.repeat((2, 1)), (2, 2)),
    "tile": (lambda x: x.tile((2,)), (2, 2)),
    "tril": (lambda x: x.tril(), (3, 3)),
    "triu": (lambda x: x.triu(1), (3, 3)),
    "diag_embed": (lambda x: ad.diag_embed(x), (2, 2)),
    "constant_pad_nd": (lambda x: ad.constant_pad_nd(x, (1, -1), 2.0), (2, 3)),
    "sum": (lambda x: x.sum(0), (2, 3)),
    "mean": (lambda x: x.mean(1, keepdim=True), (2, 3)),
    "prod": (lambda x: x.prod(1), (2, 3)),
    "var": (lambda x: x.var(1), (2, 3)),
    "std": (lambda x: x.std(1), (2, 3)),
    "var_mean": (lambda x: tuple(ad.var_mean(x, 1)), (2, 3)),
    "std_mean": (lambda x: tuple(ad.std_mean(x, 1)), (2, 3)),
    "cumsum": (lambda x: x.cumsum(1), (2, 3)),
    "cumprod": (lambda x: x.cumprod(1), (2, 3)),
    "expand": (lambda x: x.expand(3, 2, 3), (2, 3)),
    "reshape": (lambda x: x.reshape(3, 2), (2, 3)),
    "view": (lambda x: x.view(3, 2), (2, 3)),
    "transpose": (lambda x: x.transpose(0, 1), (2, 3)),
    "t": (lambda x: x.t(), (2, 3)),
    "permute": (lambda x: x.permute(2, 0, 1), (1, 2, 2)),
    "movedim": (lambda x: x.movedim(0, 2), (1, 2, 2)),
    "squeeze": (lambda x: x.squeeze(1), (2, 1, 2)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (2, 2)),
    "flatten": (lambda x: x.flatten(), (2, 2)),
    "unflatten": (lambda x: x.unflatten(0, (2, 2)), (4,)),
    "contiguous": (lambda x: x.T.contiguous(), (2, 3)),
    "clone": (lambda x: x.clone(), (2, 3)),
    "scatter_add": (lambda x, s: x.scatter_add(0, ad.tensor([[2, 0], [2, 1]]), s), (3, 2), (2, 2)),
    "index_add": (lambda x, s: x.index_add(0, index(), s, alpha=2), (3, 2), (2, 2)),
    "index_fill": (lambda x, v: x.index_fill(0, index(), v), (3, 2), ()),
    "index_copy": (lambda x, s: x.index_copy(0, index(), s), (3, 2), (2, 2)),
    "masked_scatter": (
        lambda x, s: x.masked_scatter(ad.tensor([[True, False], [True, True]]), s),
        (2, 2),
        (4,),
    ),
    "mse_loss": (ad.nn.functional.mse_loss, (2, 3), (2, 3)),
    "logsumexp": (lambda x: ad.logsumexp(x, 1), (2, 3)),
    "logcumsumexp": (lambda x: ad.logcumsumexp(x, 1), (2, 3)),
}

# These order numbers, or are defined for probabilities and real losses; complex inputs are an error.
REAL_ONLY: dict = {
    "nansum": (lambda x: x.nansum(0), (2, 3)),
    "softmax": (lambda x: x.softmax(1), (2, 3)),
    "log_softmax": (lambda x: x.log_softmax(1), (2, 3)),
    "layer_norm": (lambda x, w, b: ad.layer_norm(x, (3,), w, b), (2, 3), (3,), (3,)),
    "view_as_complex": (lambda x: ad.view_as_complex(x), (3, 2)),
    "cross_entropy": (lambda x: ad.nn.functional.cross_entropy(x, index()), (2, 3)),
    "nll_loss": (lambda x: ad.nn.functional.nll_loss(x, index()), (2, 3)),
    "binary_cross_entropy_with_logits": (
        lambda x: ad.nn.functional.binary_cross_entropy_with_logits(x, ad.ones(2, 3, dtype=ad.float64)),
        (2, 3),
    ),
    "amax": (lambda x: x.amax(1), (2, 3)),
    "amin": (lambda x: x.amin(1), (2, 3)),
    "aminmax": (lambda x: tuple(ad.aminmax(x, dim=1)), (2, 3)),
    "cummax": (lambda x: x.cummax(1)[0], (2, 3)),
    "cummin": (lambda x: x.cummin(1)[0], (2, 3)),
    "sort": (lambda x: x.sort(1)[0], (2, 3)),
    "topk": (lambda x: x.topk(2, 1)[0], (2, 3)),
    "kthvalue": (lambda x: x.kthvalue(2, 1)[0], (2, 3)),
}


# Options that may be complex numbers; each is called with leaves of shape (2, 2).
OPTIONS = {
    "add": lambda x, y: ad.add(x, y, alpha=2j),
    "sub": lambda x, y: ad.sub(x, y, alpha=1 + 2j),
    "rsub": lambda x, y: ad.rsub(x, y, alpha=2j),
    "lerp": lambda x, y: ad.lerp(x, y, 0.3j),
    "mul": lambda x, y: x * 2j + y * (1 - 1j),
    "div": lambda x, y: x / 2j + (1 - 1j) / y,
    "pow": lambda x, y: x ** (1 + 2j) + (0.5 + 1j) ** y,
    "where": lambda x, y: ad.where(ad.tensor([True, False]), x, 2j) * y,
    "masked_fill": lambda x, y: x.masked_fill(ad.tensor([True, False]), 2j) * y,
    "constant_pad_nd": lambda x, y: ad.constant_pad_nd(x * y, (1, 0), 2j),
    "addmv": lambda x, y: ad.addmv(x[0], x, y[0], beta=1j, alpha=2j),
    "addr": lambda x, y: ad.addr(x, y[0], y[1], beta=1j, alpha=2j),
    "addmm, beta": lambda x, y: ad.addmm(x, x, y, beta=1j),
    "addmm, alpha": lambda x, y: ad.addmm(x, x, y, alpha=2j),
    "baddbmm, beta": lambda x, y: ad.baddbmm(x[None], x[None], y[None], beta=1j),
    "baddbmm, alpha": lambda x, y: ad.baddbmm(x[None], x[None], y[None], alpha=2j),
    "index_add": lambda x, y: x.index_add(0, ad.tensor([1, 0]), y, alpha=2j),
}


def leaf(shape, seed, real=False):
    rng = np.random.default_rng([seed, 7])
    values = rng.standard_normal(shape)
    return tensor(values if real else values + 1j * rng.standard_normal(shape))


def test_every_structured_operator_is_called():
    assert {r["name"] for r in STRUCTURED} == {*CALLS, *REAL_ONLY}
    assert not {*CALLS} & {*REAL_ONLY}


@pytest.mark.parametrize("kind", ["complex", "real"])
@pytest.mark.parametrize("name", CALLS)
def test_structured_operators(name, kind):
    if kind == "real" and name in ("view_as_real", "imag"):
        return
    f, *shapes = CALLS[name]
    check(f, *[leaf(shape, k, real=kind == "real") for k, shape in enumerate(shapes)])


@pytest.mark.parametrize("name", OPTIONS)
def test_complex_options(name):
    check(OPTIONS[name], leaf((2, 2), 1), leaf((2, 2), 2))


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"view_as_real", "imag"}))
def test_structured_operators_of_real_inputs_into_complex_numbers(name):
    f, *shapes = CALLS[name]
    turn = tensor(0.7 - 0.4j)
    check(
        lambda *xs: f(*[x * turn for x in xs]), *[leaf(shape, k, real=True) for k, shape in enumerate(shapes)]
    )


@pytest.mark.parametrize("name", REAL_ONLY)
def test_what_takes_real_numbers_only_says_so(name):
    f, *shapes = REAL_ONLY[name]
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        f(*[leaf(shape, k) for k, shape in enumerate(shapes)])
    check(f, *[leaf(shape, k, real=True) for k, shape in enumerate(shapes)])


@pytest.mark.parametrize("name", ["abs", "angle", "sgn"])
@pytest.mark.parametrize("kind", ["complex128", "float64"])
def test_the_gradient_at_zero_is_zero(name, kind):
    """Of the least norm where there is none; see design: kinks."""
    z = ad.zeros(3, dtype=getattr(ad, kind), requires_grad=True)
    y = getattr(ad, name)(z)
    (first,) = ad.autograd.grad(y, z, ad.ones_like(y), create_graph=True)
    assert (first == 0).all()
    if first.requires_grad:
        (second,) = ad.autograd.grad(first, z, ad.ones_like(first), allow_unused=True, materialize_grads=True)
        assert (second == 0).all()


@pytest.mark.parametrize("base", [0.0, 0j])
def test_a_base_of_zero(base):
    """0ˣ is constant for x > 0."""
    check(lambda x: base**x, tensor([0.5, 2.0]))


@pytest.mark.parametrize("name", ["sqrt", "square", "exp"])
def test_composed_to_a_real_loss_and_back(name):
    """R→C→R: a real function of real numbers by way of complex ones."""
    f = getattr(ad, name)
    turn = tensor(0.6 + 0.8j)
    check(lambda x: f(x * turn).abs().sum(), leaf((2, 3), 1, real=True))
    check(lambda x: f(ad.polar(x.square() + 0.1, x)).imag, leaf((2, 3), 1, real=True))
