"""Functions that take tensors of one dtype and refuse others, as torch's do, and the dtype of the result where several are taken."""

import pytest

import adjoint as ad

F = ad.nn.functional
X, ROWS = ad.tensor([0.25, 0.5, 0.75]), ad.tensor([[0.25, 0.5, 0.75], [1.0, 0.5, 0.0]])
CLASSES = ad.tensor([0, 2])
IMAGES, FEW = ad.arange(24.0).reshape(2, 3, 4), ad.ones(3)

# Each takes tensors of float32; the function is called with one of them converted.
ONE_TYPE = {
    "binary_cross_entropy": (F.binary_cross_entropy, X, X),
    "prelu": (F.prelu, X, X[:1]),
    "cdist": (ad.cdist, ROWS, ROWS),
    "cdist of another norm": (lambda x, y: ad.cdist(x, y, 3.0), ROWS, ROWS),
    "cross": (lambda x, y: ad.cross(x, y, dim=-1), X, X),
    "linalg.cross": (ad.linalg.cross, X, X),
    "heaviside": (ad.heaviside, X, X),
    "lerp": (lambda x, y: ad.lerp(x, y, 0.5), X, X),
    "lerp in place": (lambda x, y: x.clone().lerp_(y, 0.5), X, X),
    "lerp by tensors": (lambda x, w: ad.lerp(x, x, w), X, X),
    "quantile": (ad.quantile, X, X),
    "nanquantile": (ad.nanquantile, X, X),
    "histogram": (ad.histogram, X, X),
    "bilinear": (lambda x, b: F.bilinear(x, x, x.new_ones(3, 3, 3), b), X, X),
    "cross_entropy": (lambda x, w: F.cross_entropy(x, CLASSES, w), ROWS, FEW),
    "nll_loss": (lambda x, w: F.nll_loss(x, CLASSES, w), ROWS, FEW),
    "multi_margin_loss": (lambda x, w: F.multi_margin_loss(x, CLASSES, weight=w), ROWS, FEW),
    "layer_norm": (lambda x, w: F.layer_norm(x, (3,), w), ROWS, FEW),
    "layer_norm, shift": (lambda x, b: F.layer_norm(x, (3,), None, b), ROWS, FEW),
    "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, training=True), IMAGES, FEW),
    "batch_norm, statistics": (lambda x, s: F.batch_norm(x, s, s), IMAGES, FEW),
    "group_norm": (lambda x, w: F.group_norm(x, 1, w), IMAGES, FEW),
    "instance_norm": (lambda x, w: F.instance_norm(x, weight=w), IMAGES, FEW),
    "x[tensor] = y": (lambda x, y: x.clone().__setitem__(ad.tensor([0, 1, 2]), y), X, X),
    "x[list] = y": (lambda x, y: x.clone().__setitem__([0, 1, 2], y), X, X),
    "x[mask] = y": (lambda x, y: x.clone().__setitem__(x > 0, y), X, X),
    "index_put": (lambda x, y: x.index_put((ad.tensor([0, 1, 2]),), y, True), X, X),
}


@pytest.mark.parametrize("name", ONE_TYPE)
@pytest.mark.parametrize("dtype", [ad.float64, ad.int64])
def test_one_type(name, dtype):
    f, x, y = ONE_TYPE[name]
    f(x, y)
    if dtype.is_floating_point:
        f(x.to(dtype), y.to(dtype))
    with pytest.raises(RuntimeError, match="(?i)type|not implemented"):
        f(x.to(dtype), y)
    with pytest.raises(RuntimeError, match="(?i)type|not implemented"):
        f(x, y.to(dtype))


NORMS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w.repeat(2)[:4], b.repeat(2)[:4]),
    "batch_norm": lambda x, w, b: F.batch_norm(x, w, b, w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 1, w, b),
    "instance_norm": lambda x, w, b: F.instance_norm(x, None, None, w, b),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("half", [ad.float16, ad.bfloat16])
def test_half_types_are_normalised_with_parameters_of_theirs_or_of_float32(name, half):
    f, x = NORMS[name], IMAGES.to(half)
    for w in FEW, FEW.to(half):
        assert f(x, w, w).dtype == half
    with pytest.raises(RuntimeError, match="type"):
        f(x, FEW.to(half), FEW)
    with pytest.raises(RuntimeError, match="type"):
        f(x, FEW.double(), FEW.double())
    with pytest.raises(RuntimeError, match="type"):
        f(IMAGES, FEW.to(half), FEW.to(half))


def test_numbers_go_with_every_type():
    mask = ad.tensor([True, False, True])
    half = ad.tensor(0.5, dtype=ad.float64)
    assert ad.lerp(X, X, 0.5).dtype == ad.lerp(X, X, half).dtype == ad.float32
    x = X.clone()
    x[mask] = half
    x[ad.tensor([1])] = 7
    x[:2] = X.double()[:2] + 1  # a slice is a copy
    assert x.tolist() == [1.25, 1.5, 0.5] and x.dtype == ad.float32
    assert X.index_put((mask,), half).tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
        x[ad.tensor([0])] = half


def test_the_type_of_losses():
    wide, logits = X.double(), F.binary_cross_entropy_with_logits
    for reduction in "none", "mean", "sum":
        # In the type of the targets.
        assert logits(wide, X, reduction=reduction).dtype == ad.float32
        assert logits(X, wide, reduction=reduction).dtype == ad.float64
        assert logits(X, X, wide, reduction=reduction).dtype == ad.float32
        assert logits(X, X, pos_weight=wide, reduction=reduction).dtype == ad.float32
        # In the type of the input.
        assert F.binary_cross_entropy(X, X, wide, reduction=reduction).dtype == ad.float32
        assert F.soft_margin_loss(X, wide, reduction=reduction).dtype == ad.float32
    x = X.double().requires_grad_()
    logits(x, X).backward()
    assert x.grad.dtype == ad.float64
    assert F.rms_norm(ROWS, (3,), FEW.double()).dtype == ad.float32


INTEGERS = ad.tensor([0, 1, 1])
REFUSED = {
    "kl_div": lambda: F.kl_div(X, INTEGERS, reduction="sum"),
    "kl_div of complex": lambda: F.kl_div(X.to(ad.complex64), X, reduction="sum"),
    "targets of scores": lambda: F.binary_cross_entropy_with_logits(X, INTEGERS),
    "scores": lambda: F.binary_cross_entropy_with_logits(INTEGERS, X),
    "soft_margin_loss": lambda: F.soft_margin_loss(INTEGERS, X),
    "rms_norm": lambda: F.rms_norm(INTEGERS, (3,)),
    "isin": lambda: ad.isin(X > 0, X > 0),
    "isin a number": lambda: ad.isin(X, True),
    "trapezoid": lambda: ad.trapezoid(X > 0),
    "trapezoid, places": lambda: ad.trapezoid(X, X > 0),
    "cumulative_trapezoid": lambda: ad.cumulative_trapezoid(X > 0),
    "cross of bool": lambda: ad.cross(X > 0, X > 0, dim=0),
    "cdist of integers": lambda: ad.cdist(INTEGERS[None], INTEGERS[None]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_are_refused(name):
    with pytest.raises(RuntimeError):
        REFUSED[name]()


def test_autocast_brings_them_together():
    with ad.autocast("cpu", dtype=ad.bfloat16):
        low = ROWS.bfloat16()
        assert F.cross_entropy(low, CLASSES, FEW).dtype == ad.float32
        assert F.nll_loss(low, CLASSES, FEW).dtype == ad.float32
        assert ad.cdist(low, ROWS).dtype == ad.float32
        assert F.layer_norm(low, (3,), FEW, FEW).dtype == ad.bfloat16
        assert F.prelu(ROWS, FEW[:1].bfloat16()).dtype == ad.bfloat16
