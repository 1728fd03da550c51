"""What Python composes of operators, by gradcheck: losses, norms, linear algebra, special functions, writes in place.

Operators themselves are covered through the core's table, in tests/ops/test_table.py and test_complex_operators.py. Here
each function has one call, away from its kinks; a name published by one of the modules that is in no list fails. Start
reading at `check`.
"""

import inspect

import pytest
from helpers import normal, tensor, uniform

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.linalg import _decompositions, _solvers

F = ad.nn.functional
TARGET = ad.tensor([2, 0])
SIGNS = ad.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=ad.float64)
THIRDS = ad.full((1, 1, 3), 0.3, dtype=ad.float64)


def check(f, *leaves):
    leaves = tuple(x.detach().requires_grad_() for x in leaves)
    for fast in (False, True):
        assert gradcheck(f, leaves, fast_mode=fast, check_batched_grad=True)
        assert gradgradcheck(f, leaves, fast_mode=fast)


def n(*shape, seed=0):
    return tensor(normal(*shape, seed=seed))


def c(*shape, seed=0):
    return tensor(normal(*shape, seed=seed, kind="complex"))


def u(*shape, seed=0):
    """Between 0.1 and 0.9: probabilities."""
    return tensor(uniform(0.1, 0.9, *shape, seed=seed))


FUNCTIONAL = {
    "bilinear": (F.bilinear, n(2, 3), n(2, 2), n(4, 3, 2), n(4)),
    "binary_cross_entropy": (F.binary_cross_entropy, u(2, 3), u(2, 3, seed=1)),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, n(2, 3), u(2, 3)),
    "celu": (lambda x: F.celu(x, 0.5), n(5)),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, 1), n(2, 3), n(2, 3, seed=1)),
    "cross_entropy": (lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1), n(2, 3)),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), n(3)),
    "elu": (lambda x: F.elu(x, 0.5), n(5)),
    "embedding": (lambda w: F.embedding(TARGET, w), n(3, 2)),
    "gelu": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"), n(5)),
    "glu": (F.glu, n(2, 4)),
    "hardshrink": (F.hardshrink, n(5)),
    "hardsigmoid": (F.hardsigmoid, n(5)),
    "hardswish": (F.hardswish, n(5)),
    "hardtanh": (F.hardtanh, n(5)),
    "gaussian_nll_loss": (F.gaussian_nll_loss, n(5), n(5, seed=1), u(5)),
    "huber_loss": (F.huber_loss, n(5), n(5, seed=1)),
    "kl_div": (lambda x, y: F.kl_div(x, y, reduction="batchmean"), n(2, 3), u(2, 3)),
    "l1_loss": (F.l1_loss, n(5), n(5, seed=1)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), n(2, 3), n(3), n(3, seed=1)),
    "leaky_relu": (F.leaky_relu, n(5)),
    "linear": (F.linear, n(2, 3), n(4, 3), n(4)),
    "log_softmax": (lambda x: F.log_softmax(x, 1), n(2, 3)),
    "logsigmoid": (F.logsigmoid, n(5)),
    "mish": (F.mish, n(5)),
    "mse_loss": (F.mse_loss, n(5), n(5, seed=1)),
    "nll_loss": (lambda x: F.nll_loss(x, TARGET, weight=ad.arange(1.0, 4.0, dtype=ad.float64)), n(2, 3)),
    "normalize": (lambda x: F.normalize(x, dim=1), n(2, 3)),
    "pad": (lambda x: F.pad(x, (1, 2)), n(2, 3)),
    "pairwise_distance": (F.pairwise_distance, n(2, 3), n(2, 3, seed=1)),
    "prelu": (F.prelu, n(2, 3), u(3)),
    "relu": (F.relu, n(5)),
    "relu6": (F.relu6, n(5)),
    "relu_": (lambda x: F.relu_(x * 1), n(5)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (3,), w), n(2, 3), n(3)),
    "selu": (F.selu, n(5)),
    "sigmoid": (F.sigmoid, n(5)),
    "silu": (F.silu, n(5)),
    "smooth_l1_loss": (F.smooth_l1_loss, n(5), n(5, seed=1)),
    "softmax": (lambda x: F.softmax(x, 1), n(2, 3)),
    "softmin": (lambda x: F.softmin(x, 1), n(2, 3)),
    "softplus": (lambda x: F.softplus(x, beta=2.0), n(5)),
    "softshrink": (F.softshrink, n(5)),
    "softsign": (F.softsign, n(5)),
    "tanh": (F.tanh, n(5)),
    "tanhshrink": (F.tanhshrink, n(5)),
    "threshold": (lambda x: F.threshold(x, 0.1, 2.0), n(5)),
    "affine_grid": (lambda t: F.affine_grid(t, [2, 1, 3, 2], align_corners=False), n(2, 2, 3)),
    "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.5, training=False), n(3)),
    "cosine_embedding_loss": (
        lambda x, y: F.cosine_embedding_loss(x, y, SIGNS[:2], margin=-2.0),
        n(2, 3),
        n(2, 3, seed=1),
    ),
    "ctc_loss": (
        lambda x: F.ctc_loss(x.log_softmax(2), ad.tensor([[1, 2], [2, 2]]), (5, 5), (2, 1)),
        n(5, 2, 3),
    ),
    "dropout1d": (lambda x: F.dropout1d(x, 0.5, training=False), n(1, 2, 3)),
    "dropout2d": (lambda x: F.dropout2d(x, 0.5, training=False), n(1, 2, 3, 1)),
    "dropout3d": (lambda x: F.dropout3d(x, 0.5, training=False), n(1, 2, 3, 1, 1)),
    "embedding_bag": (lambda w: F.embedding_bag(ad.tensor([[2, 0], [1, 1]]), w), n(3, 2)),
    "feature_alpha_dropout": (lambda x: F.feature_alpha_dropout(x, 0.5, training=False), n(1, 2, 3)),
    "fractional_max_pool2d": (
        lambda x: F.fractional_max_pool2d(x, 2, 2, _random_samples=THIRDS[:, :, :2]),
        n(1, 1, 5, 5),
    ),
    "fractional_max_pool2d_with_indices": (
        lambda x: F.fractional_max_pool2d_with_indices(x, 2, 2, _random_samples=THIRDS[:, :, :2])[0],
        n(1, 1, 5, 5),
    ),
    "fractional_max_pool3d": (
        lambda x: F.fractional_max_pool3d(x, 2, 2, _random_samples=THIRDS),
        n(1, 1, 4, 4, 4),
    ),
    "fractional_max_pool3d_with_indices": (
        lambda x: F.fractional_max_pool3d_with_indices(x, 2, 2, _random_samples=THIRDS)[0],
        n(1, 1, 4, 4, 4),
    ),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), n(1, 1, 3, 4), u(1, 2, 2, 2)),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, SIGNS), n(5)),
    "linear_cross_entropy": (lambda x, w: F.linear_cross_entropy(x, w, TARGET), n(2, 3), n(4, 3)),
    "margin_ranking_loss": (lambda x, y: F.margin_ranking_loss(x, y, SIGNS, margin=0.5), n(5), n(5, seed=1)),
    "multi_head_attention_forward": (
        lambda x, w, v: F.multi_head_attention_forward(
            x, x, x, 4, 2, w, None, None, None, False, 0.0, v, None, need_weights=False
        )[0],
        n(3, 1, 4),
        n(12, 4),
        n(4, 4),
    ),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, TARGET), n(2, 3)),
    "multilabel_margin_loss": (
        lambda x: F.multilabel_margin_loss(x, ad.tensor([[2, 0, -1], [1, -1, 0]])),
        n(2, 3),
    ),
    "multilabel_soft_margin_loss": (lambda x: F.multilabel_soft_margin_loss(x, u(2, 3).round()), n(2, 3)),
    "pdist": (F.pdist, n(3, 2)),
    "poisson_nll_loss": (F.poisson_nll_loss, n(5), u(5)),
    "rrelu": (F.rrelu, n(5)),
    "scaled_dot_product_attention": (
        F.scaled_dot_product_attention,
        n(2, 3, 4),
        n(2, 3, 4, seed=1),
        n(2, 3, 4, seed=2),
    ),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, SIGNS), n(5)),
    "triplet_margin_loss": (F.triplet_margin_loss, n(2, 3), n(2, 3, seed=1), n(2, 3, seed=2)),
    "triplet_margin_with_distance_loss": (
        F.triplet_margin_with_distance_loss,
        n(2, 3),
        n(2, 3, seed=1),
        n(2, 3, seed=2),
    ),
}

LINALG = {
    "cross": (lambda x, y: ad.linalg.cross(x, y), c(2, 3), c(2, 3, seed=1)),
    "diagonal": (ad.linalg.diagonal, c(2, 3, 3)),
    "matmul": (ad.linalg.matmul, c(2, 3), c(3, 2)),
    "matrix_norm": (ad.linalg.matrix_norm, c(2, 3)),
    "matrix_power": (lambda x: ad.linalg.matrix_power(x, 3), c(2, 2)),
    "multi_dot": (lambda x, y, z: ad.linalg.multi_dot([x, y, z]), c(2, 3), c(3, 2), c(2, 2)),
    "norm": (ad.linalg.norm, c(2, 3)),
    "vecdot": (ad.linalg.vecdot, c(2, 3), c(2, 3, seed=1)),
    "vector_norm": (lambda x: ad.linalg.vector_norm(x, 3, 1), c(2, 3)),
}

SPECIAL = {
    "digamma": (ad.special.digamma, u(3)),
    "entr": (ad.special.entr, u(3)),
    "erf": (ad.special.erf, n(3)),
    "erfc": (ad.special.erfc, n(3)),
    "erfinv": (ad.special.erfinv, u(3)),
    "exp2": (ad.special.exp2, n(3)),
    "expit": (ad.special.expit, n(3)),
    "expm1": (ad.special.expm1, n(3)),
    "gammaln": (ad.special.gammaln, u(3)),
    "lgamma": (ad.special.lgamma, u(3)),
    "log1p": (ad.special.log1p, u(3)),
    "log_ndtr": (ad.special.log_ndtr, n(3)),
    "log_softmax": (lambda x: ad.special.log_softmax(x, 0), n(3)),
    "logit": (ad.special.logit, u(3)),
    "logsumexp": (lambda x: ad.special.logsumexp(x, 0), n(3)),
    "ndtr": (ad.special.ndtr, n(3)),
    "ndtri": (ad.special.ndtri, u(3)),
    "polygamma": (lambda x: ad.special.polygamma(1, x), u(3)),
    "psi": (ad.special.psi, u(3)),
    "sigmoid": (ad.special.sigmoid, n(3)),
    "sinc": (ad.special.sinc, n(3)),
    "softmax": (lambda x: ad.special.softmax(x, 0), n(3)),
    "xlog1py": (ad.special.xlog1py, u(3), u(3, seed=1)),
    "xlogy": (ad.special.xlogy, u(3), u(3, seed=1)),
    "multigammaln": (lambda x: ad.special.multigammaln(x, 2), u(3) + 1),
    "zeta": (lambda x: ad.special.zeta(tensor([2.0, 3.5, 5.0]), x), u(3)),
    **{
        name: (lambda x, f=getattr(ad.special, name): f(tensor([0.5, 2.0, 3.5]), x), u(3))
        for name in ("gammainc", "gammaincc", "igamma", "igammac")
    },
    **{
        name: (getattr(ad.special, name), u(3))
        for name in ad.special.__all__
        if name in ("airy_ai", "erfcx", "i0", "i0e", "i1", "i1e") or "bessel" in name
    },
    **{
        name: (lambda x, f=getattr(ad.special, name): f(x, 3), u(3))
        for name in ad.special.__all__
        if "_polynomial_" in name
    },
}

ROWS = ad.tensor([1, 0])


def written(write):
    """A function that copies its first argument and writes into the copy."""

    def f(x, *more):
        y = x * 1
        write(y, *more)
        return y

    return f


WRITES = {
    "setitem": (written(lambda y, v: y.__setitem__((slice(None), 1), v)), c(2, 3), c(2)),
    "setitem of a real value": (written(lambda y, v: y.__setitem__(0, v)), c(2, 3), n(3)),
    "setitem by a mask": (written(lambda y, v: y.__setitem__(ad.tensor([True, False]), v)), c(2, 3), c(3)),
    "setitem by indices": (written(lambda y, v: y.__setitem__(ROWS, v)), c(2, 3), c(2, 3, seed=1)),
    "copy_": (written(lambda y, v: y.copy_(v)), c(2, 3), c(3)),
    "copy_ of a real value": (written(lambda y, v: y.copy_(v)), c(2, 3), n(3)),
    "the real part": (written(lambda y, v: y.real.copy_(v)), c(2, 3), n(2, 3)),
    "the imaginary part": (written(lambda y, v: y.imag.mul_(v)), c(2, 3), n(2, 3)),
    "view_as_real": (written(lambda y, v: ad.view_as_real(y)[0].mul_(v)), c(2, 3), n(3, 2)),
    "a view of a view": (written(lambda y, v: y.T[1].mul_(v)), c(2, 3), c(2)),
    "div_": (written(lambda y, v: y.div_(v)), c(2, 3), c(3)),
    "index_add_": (written(lambda y, v: y.index_add_(0, ROWS, v)), c(2, 3), c(2, 3)),
    "index_copy_": (written(lambda y, v: y.index_copy_(0, ROWS, v)), c(2, 3), c(2, 3)),
    "index_fill_": (written(lambda y, v: y.index_fill_(0, ROWS[:1], v)), c(2, 3), c()),
    "index_put_": (written(lambda y, v: y.index_put_((ROWS,), v, accumulate=True)), c(2, 3), c(2, 3)),
    "scatter_": (written(lambda y, v: y.scatter_(0, ad.tensor([[1, 0]]), v)), c(2, 3), c(1, 2)),
    "scatter_add_": (written(lambda y, v: y.scatter_add_(0, ad.tensor([[1, 0]]), v)), c(2, 3), c(1, 2)),
    "masked_fill_": (written(lambda y, v: y.masked_fill_(ad.tensor([True, False, True]), v)), c(2, 3), c()),
    "addmm_": (written(lambda y, a, b: y.addmm_(a, b)), c(2, 2), c(2, 3), c(3, 2)),
    "addcmul_": (written(lambda y, a, b: y.addcmul_(a, b)), c(2, 2), c(2, 2), c(2, 2, seed=1)),
    "cumsum_": (written(lambda y: y.cumsum_(0)), c(2, 3)),
    "zero_ of a row": (written(lambda y: y[0].zero_()), c(2, 3)),
    "fill_ of a row": (written(lambda y, v: y[0].fill_(v)), c(2, 3), c()),
}

# The other operand lies in the memory that is written. Products of matrices are refused by the check of versions.
ALIASES = {
    "mul_ by itself": (written(lambda y: y.mul_(y)), c(2, 2)),
    "mul_ by a view of itself": (written(lambda y: y.mul_(y.T)), c(2, 2)),
    "mul_ by a row of itself": (written(lambda y: y.mul_(y[0])), c(2, 2)),
    "mul_ of a row by itself": (written(lambda y: y[0].mul_(y[0])), c(2, 2)),
    "mul_ of a column by a row": (written(lambda y: y[:, 0].mul_(y[0])), c(2, 2)),
    "pow_ by itself": (written(lambda y: y.pow_(y)), u(2, 2)),
    "hypot_ by itself": (written(lambda y: y.hypot_(y)), u(2, 2)),
    "atan2_ by itself": (written(lambda y: y.atan2_(y)), u(2, 2)),
    "addcmul_ by itself": (written(lambda y: y.addcmul_(y, y)), c(2, 2)),
    "lerp_ by itself": (written(lambda y: y.lerp_(y * 2, y)), c(2, 2)),
    "add_ by a view of itself": (written(lambda y: y.add_(y.T)), c(2, 2)),
    "maximum_ by a view of itself": (written(lambda y: y.maximum_(y.T)), n(2, 2)),
    "addmm_ by itself": (written(lambda y: y.addmm_(y, y)), c(2, 2)),
    "copy_ of a view of itself": (written(lambda y: y.copy_(y.T)), c(2, 2)),
    "setitem of a view of itself": (written(lambda y: y.__setitem__(0, y[:, 1])), c(2, 2)),
    "index_add_ of itself": (written(lambda y: y.index_add_(0, ROWS, y)), c(2, 2)),
    "masked_fill_ by an element": (
        written(lambda y: y.masked_fill_(ad.tensor([True, False]), y[0, 1])),
        c(2, 2),
    ),
}

MORE = {
    "einsum": (lambda x, y: ad.einsum("bij,bkj->ik", x, y), c(2, 2, 3), c(2, 2, 3, seed=1)),
    "einsum of a diagonal": (lambda x: ad.einsum("ii->i", x), c(3, 3)),
    "tensordot": (lambda x, y: ad.tensordot(x, y, 1), c(2, 3), c(3, 2)),
    "kron": (ad.kron, c(2, 2), c(2, 1)),
    "inner": (ad.inner, c(2, 3), c(2, 3, seed=1)),
    "vdot": (ad.vdot, c(3), c(3, seed=1)),
    "trace": (ad.trace, c(3, 3)),
    "diff": (ad.diff, c(4)),
    "dist": (ad.dist, c(4), c(4, seed=1)),
    "trapezoid": (ad.trapezoid, c(4)),
    "prod with one zero": (lambda x: (x * tensor([0.0, 1.0, 1.0])).prod(), c(3)),
    "prod with two zeros": (lambda x: (x * tensor([0.0, 0.0, 1.0])).prod(), c(3)),
    "cumprod with a zero": (lambda x: (x * tensor([1.0, 0.0, 1.0])).cumprod(0), c(3)),
    "norms": (lambda x: tuple(ad.linalg.vector_norm(x, p) for p in (0.5, 1, 2, 3, ad.inf, -1)), c(3)),
    "median": (lambda x: (x.median(), x.median(0)[0], x.nanmedian()), n(3, 3)),
    "max and min": (lambda x: (x.max(), x.max(0)[0], x.min(), x.min(1)[0]), n(3, 3)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), c(2, 2)),
    "nansum": (lambda x: (x.exp() + tensor([0.0, ad.nan])).nansum(1), n(2, 2)),
}


@pytest.mark.parametrize(
    ("f", "leaves"),
    [
        pytest.param(f, leaves, id=f"{room} {name}")
        for room, table in (
            ("nn", FUNCTIONAL),
            ("linalg", LINALG),
            ("special", SPECIAL),
            ("write", WRITES),
            ("", MORE),
        )
        for name, (f, *leaves) in table.items()
    ],
)
def test_derivatives(f, leaves):
    check(f, *leaves)


@pytest.mark.parametrize("name", ALIASES)
def test_operands_in_the_memory_that_is_written(name):
    f, x = ALIASES[name]
    if name == "addmm_ by itself":
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            check(f, x)
    else:
        check(f, x)


@pytest.mark.parametrize(
    ("module", "table", "constant"),
    [
        (F, FUNCTIONAL, {"one_hot", "gumbel_softmax"}),
        # What factors and solves is differentiated in tests/linalg.
        (
            ad.linalg,
            LINALG,
            {*_decompositions.__all__, *_solvers.__all__, "cond", "matrix_exp", "matrix_rank", "vander"},
        ),
        (ad.special, SPECIAL, {"round"}),
    ],
    ids=["nn.functional", "linalg", "special"],
)
def test_every_published_name_is_in_a_table(module, table, constant):
    names = {k for k in dir(module) if not k.startswith("_") and k.islower() and callable(getattr(module, k))}
    if module is F:  # convolution, pooling, normalisation and rearranging are differentiated in tests/nn
        families = (
            "ops.convolution",
            *(f"nn.{family}.functions" for family in ("normalization", "pooling", "rearranging")),
        )
        elsewhere = {f"adjoint.{family}" for family in families}
        names = {k for k in names if inspect.unwrap(getattr(F, k)).__module__ not in elsewhere or k in table}
    # Forms in place are those of operators, which tests of the table write.
    names = {k for k in names if not k.endswith("_")}
    # What a module imports and does not publish is the package's under that name.
    imported = {*vars(module)} - {*dir(module)}
    assert names == {k for k in (*table, *constant) if not k.endswith("_")} - imported
