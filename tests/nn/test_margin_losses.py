"""Losses of margins, counts and distances: values against loops in NumPy, gradients against differences, errors."""

import math

import numpy as np
import pytest
from helpers import array, check_gradient, check_second_derivative, tensor

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

RNG = np.random.default_rng(13)


def normal(*shape):
    return RNG.standard_normal(shape)


def signs(*shape):
    return RNG.choice([-1.0, 1.0], shape)


def poisson(x, t, log_input=True, full=False, eps=1e-8):
    loss = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    if full:
        n = np.maximum(t, 1.5)
        loss = loss + np.where(t > 1, n * np.log(n) - n + 0.5 * np.log(2 * np.pi * n), 0)
    return loss


def multi_margin(x, t, p=1, margin=1.0, weight=None):
    loss = np.zeros(len(x))
    for n, (row, y) in enumerate(zip(x, t)):
        for i in range(len(row)):
            if i != y:
                term = max(0.0, margin - row[y] + row[i]) ** p
                loss[n] += term * (1 if weight is None else weight[y]) / len(row)
    return loss


def multilabel_margin(x, t):
    loss = np.zeros(len(x))
    for n, (row, labels) in enumerate(zip(x, t)):
        labels = labels[: list(labels).index(-1)] if -1 in labels else labels
        for y in labels:
            for i in range(len(row)):
                if i not in labels:
                    loss[n] += max(0.0, 1 - row[y] + row[i]) / len(row)
    return loss


def cosine(x, y, t, margin=0.0):
    cos = (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.where(t == 1, 1 - cos, np.maximum(0, cos - margin))


def triplet(a, p, n, margin=1.0, power=2, swap=False):
    def distance(x, y):
        return (np.abs(x - y + 1e-6) ** power).sum(-1) ** (1 / power)

    far = distance(a, n)
    far = np.minimum(far, distance(p, n)) if swap else far
    return np.maximum(0, margin + distance(a, p) - far)


X, Y, T = normal(4, 3), normal(4, 3), signs(4, 3)
COUNTS = np.array([[0.0, 1, 2], [3, 7, 1], [0, 0, 5], [1, 2, 3]])
CLASSES = np.array([2, 0, 1, 1])
LABELS = np.array([[2, 0, -1], [0, 1, 2], [-1, 0, 1], [1, -1, 2]])
WEIGHT = np.array([0.5, 2.0, 1.0])
ROWS = signs(4)
TRIPLE = normal(4, 3), normal(4, 3), normal(4, 3)

# name, differentiable inputs, others, options, what NumPy finds for each element or sample
CASES = [
    ("poisson_nll_loss", [X], [COUNTS], {}, poisson(X, COUNTS)),
    ("poisson_nll_loss", [X], [COUNTS], {"full": True}, poisson(X, COUNTS, full=True)),
    ("poisson_nll_loss", [abs(X)], [COUNTS], {"log_input": False}, poisson(abs(X), COUNTS, False)),
    (
        "poisson_nll_loss",
        [abs(X)],
        [COUNTS],
        {"log_input": False, "eps": 0.5},
        poisson(abs(X), COUNTS, False, eps=0.5),
    ),
    ("margin_ranking_loss", [X, Y], [T], {"margin": 0.3}, np.maximum(0, -T * (X - Y) + 0.3)),
    ("hinge_embedding_loss", [X], [T], {"margin": 0.3}, np.where(T == 1, X, np.maximum(0, 0.3 - X))),
    ("soft_margin_loss", [X], [T], {}, np.log1p(np.exp(-T * X))),
    (
        "multilabel_soft_margin_loss",
        [X],
        [(T + 1) / 2],
        {"weight": WEIGHT},
        (np.log1p(np.exp(-T * X)) * WEIGHT).mean(-1),
    ),
    ("cosine_embedding_loss", [X, Y], [ROWS], {"margin": 0.2}, cosine(X, Y, ROWS, 0.2)),
    ("multi_margin_loss", [X], [CLASSES], {"margin": 0.7}, multi_margin(X, CLASSES, 1, 0.7)),
    (
        "multi_margin_loss",
        [X],
        [CLASSES],
        {"p": 2, "weight": WEIGHT},
        multi_margin(X, CLASSES, 2, 1.0, WEIGHT),
    ),
    ("multilabel_margin_loss", [X], [LABELS], {}, multilabel_margin(X, LABELS)),
    ("triplet_margin_loss", TRIPLE, [], {"margin": 2.0}, triplet(*TRIPLE, 2.0)),
    ("triplet_margin_loss", TRIPLE, [], {"p": 3, "swap": True}, triplet(*TRIPLE, 1.0, 3, True)),
    (
        "triplet_margin_with_distance_loss",
        TRIPLE,
        [],
        {"distance_function": lambda x, y: (x - y).abs().sum(-1), "margin": 3.0},
        np.maximum(0, 3 + np.abs(TRIPLE[0] - TRIPLE[1]).sum(-1) - np.abs(TRIPLE[0] - TRIPLE[2]).sum(-1)),
    ),
    ("triplet_margin_with_distance_loss", TRIPLE, [], {"swap": True}, triplet(*TRIPLE, swap=True)),
]


@pytest.mark.parametrize("name, inputs, others, options, expected", CASES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_values_and_gradients(name, inputs, others, options, expected, reduction):
    options = {n: tensor(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    others = [tensor(o) for o in others]

    def run(*x):
        return getattr(F, name)(*x, *others, **options, reduction=reduction)

    expected = {"none": expected, "mean": expected.mean(), "sum": expected.sum()}[reduction]
    np.testing.assert_allclose(array(run(*map(tensor, inputs))), expected, rtol=1e-7, atol=1e-12)
    check_gradient(run, inputs)
    with pytest.raises(ValueError, match="bad is not a valid value for reduction"):
        getattr(F, name)(*map(tensor, inputs), *others, **options, reduction="bad")


@pytest.mark.parametrize("name, inputs, others, options, expected", CASES[:3] + CASES[6:9])
def test_second_derivatives(name, inputs, others, options, expected):
    options = {n: tensor(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    check_second_derivative(lambda *x: getattr(F, name)(*x, *map(tensor, others), **options), inputs)


def test_single_samples():
    for name, x, t in (
        ("multi_margin_loss", X, CLASSES),
        ("multilabel_margin_loss", X, LABELS),
        ("multilabel_soft_margin_loss", X, (T + 1) / 2),
    ):
        whole = getattr(F, name)(tensor(x), tensor(t), reduction="none")
        alone = getattr(F, name)(tensor(x[1]), tensor(t[1]), reduction="none")
        assert alone.shape == () and alone.item() == pytest.approx(whole[1].item())
    one = F.multi_margin_loss(tensor(X[0]), tensor(CLASSES[:1]), reduction="none")
    assert tuple(one.shape) == (1,)
    alone = F.cosine_embedding_loss(tensor(X[0]), tensor(Y[0]), ad.tensor(1))
    assert alone.item() == pytest.approx(float(cosine(X[0], Y[0], 1)))


def test_no_overflow_and_no_nan():
    assert F.soft_margin_loss(ad.tensor([1e4]), ad.tensor([-1.0])).item() == 1e4
    x = ad.zeros(1, 3, requires_grad=True)
    F.cosine_embedding_loss(x, ad.ones(1, 3), ad.tensor([1])).backward()
    assert bool(x.grad.isfinite().all())


@pytest.mark.parametrize(
    "module, function, options, inputs, others",
    [
        (nn.PoissonNLLLoss, "poisson_nll_loss", {"full": True}, [X], [COUNTS]),
        (nn.GaussianNLLLoss, "gaussian_nll_loss", {"full": True}, [X, Y], [abs(X)]),
        (nn.MarginRankingLoss, "margin_ranking_loss", {"margin": 0.5}, [X, Y], [T]),
        (nn.HingeEmbeddingLoss, "hinge_embedding_loss", {"margin": 0.5}, [X], [T]),
        (nn.CosineEmbeddingLoss, "cosine_embedding_loss", {"margin": 0.5}, [X, Y], [ROWS]),
        (nn.SoftMarginLoss, "soft_margin_loss", {}, [X], [T]),
        (nn.MultiLabelMarginLoss, "multilabel_margin_loss", {}, [X], [LABELS]),
        (nn.MultiLabelSoftMarginLoss, "multilabel_soft_margin_loss", {"weight": WEIGHT}, [X], [T]),
        (nn.MultiMarginLoss, "multi_margin_loss", {"p": 2, "weight": WEIGHT}, [X], [CLASSES]),
        (nn.TripletMarginLoss, "triplet_margin_loss", {"p": 3.0, "swap": True}, TRIPLE, []),
        (nn.TripletMarginWithDistanceLoss, "triplet_margin_with_distance_loss", {"margin": 2.0}, TRIPLE, []),
    ],
)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_modules(module, function, options, inputs, others, reduction):
    options = {n: tensor(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}
    args = [tensor(x) for x in [*inputs, *others]]
    got = module(**options, reduction=reduction)(*args)
    want = getattr(F, function)(*args, **options, reduction=reduction)
    assert bool((got == want).all()) and got.shape == want.shape


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "error, text, call",
    [
        (
            RuntimeError,
            "All input tensors should have same dimension",
            lambda x: F.margin_ranking_loss(x, x, x[0]),
        ),
        (
            RuntimeError,
            "0D target tensor expects 1D input tensors",
            lambda x: F.cosine_embedding_loss(x, x, ad.tensor(1)),
        ),
        (
            RuntimeError,
            "1D target tensor expects 2D input tensors",
            lambda x: F.cosine_embedding_loss(x[0], x[0], ad.ones(3)),
        ),
        (RuntimeError, "multi-target not supported", lambda x: F.cosine_embedding_loss(x, x, x)),
        (
            ValueError,
            "only p == 1 and p == 2 supported",
            lambda x: F.multi_margin_loss(x, ad.tensor([0, 1]), p=3),
        ),
        (
            ValueError,
            "weight must be one-dimensional",
            lambda x: F.multi_margin_loss(x, ad.tensor([0, 1]), weight=x),
        ),
        (
            RuntimeError,
            "inconsistent weight size",
            lambda x: F.multi_margin_loss(x, ad.tensor([0, 1]), weight=ad.ones(2)),
        ),
        (RuntimeError, "Expected target size", lambda x: F.multi_margin_loss(x, ad.tensor([0]))),
        (RuntimeError, "target out of range", lambda x: F.multi_margin_loss(x, ad.tensor([0, 3]))),
        (RuntimeError, "target out of range", lambda x: F.multi_margin_loss(x, ad.tensor([0, -1]))),
        (
            RuntimeError,
            "non-empty vector or matrix",
            lambda x: F.multi_margin_loss(x[None], ad.tensor([0, 1])),
        ),
        (RuntimeError, "inconsistent target size", lambda x: F.multilabel_margin_loss(x, ad.tensor([0, 1]))),
        (
            RuntimeError,
            "'target' is out of range",
            lambda x: F.multilabel_margin_loss(x[0], ad.tensor([0, 3, -1])),
        ),
        (RuntimeError, "the same number of dimensions", lambda x: F.triplet_margin_loss(x, x[0], x)),
        (
            ValueError,
            "margin must be greater than 0, got 0",
            lambda x: F.triplet_margin_loss(x, x, x, margin=0),
        ),
        (ValueError, "TripletMarginLoss: expected margin", lambda x: nn.TripletMarginLoss(0)),
        (
            ValueError,
            "TripletMarginWithDistanceLoss: expected",
            lambda x: nn.TripletMarginWithDistanceLoss(margin=-1),
        ),
        (ValueError, "only p == 1 and p == 2 supported", lambda x: nn.MultiMarginLoss(p=3)),
        (ValueError, "weight must be one-dimensional", lambda x: nn.MultiMarginLoss(weight=x)),
    ],
)
def test_refusals(error, text, call):
    with pytest.raises(error, match=text):
        call(ad.ones(2, 3))


def test_linear_cross_entropy():
    x, w, b = normal(4, 3), normal(5, 3), normal(5)
    target, weight = RNG.integers(0, 5, 4), abs(normal(5))
    z = x @ w.T + b
    logs = z - np.log(np.exp(z).sum(-1, keepdims=True))
    expected = -(logs[range(4), target] * weight[target]).sum() / weight[target].sum()

    def run(x, w, b):
        return F.linear_cross_entropy(x, w, tensor(target), linear_bias=b, weight=tensor(weight))

    np.testing.assert_allclose(run(*map(tensor, (x, w, b))).item(), expected, rtol=1e-12)
    check_gradient(run, [x, w, b])
    inner = F.linear_cross_entropy(
        tensor(x), tensor(normal(5, 2, 3)), tensor(RNG.integers(0, 5, (4, 2))), reduction="none"
    )
    assert tuple(inner.shape) == (4, 2)
    loss = nn.LinearCrossEntropyLoss(3, 5, bias=True, dtype=ad.float64)
    with ad.no_grad():
        loss.linear.weight.copy_(tensor(w))
        loss.linear.bias.copy_(tensor(b))
    want = F.cross_entropy(tensor(z), tensor(target))
    assert loss(tensor(x), tensor(target)).item() == pytest.approx(want.item())
    for text, args, options in [
        ("expected input with dimensionality 1 or 2, got 3", (ad.ones(1, 1, 3), ad.ones(5, 3)), {}),
        ("expected linear_weight with dimensionality at least 2", (ad.ones(1, 3), ad.ones(3)), {}),
        (r"last dimensions \(in_features\), got 3 and 4", (ad.ones(1, 3), ad.ones(5, 4)), {}),
        (
            r"expected linear_bias shape \(5,\), got \(4,\)",
            (ad.ones(1, 3), ad.ones(5, 3)),
            {"linear_bias": ad.ones(4)},
        ),
        ("requires batched input", (ad.ones(3), ad.ones(5, 2, 3)), {}),
    ]:
        with pytest.raises(RuntimeError, match=text):
            F.linear_cross_entropy(*args, ad.tensor([0]), **options)


# --- connectionist temporal classification ----------------------------------------------------------------------------


def spelled(path, blank):
    """What a path over time spells: runs made single, then blanks left out."""
    return [c for i, c in enumerate(path) if (i == 0 or path[i - 1] != c) and c != blank]


def ctc_by_enumeration(logs, target, blank=0):
    from itertools import product

    total = -np.inf
    for path in product(range(logs.shape[1]), repeat=len(logs)):
        if spelled(path, blank) == list(target):
            total = np.logaddexp(total, sum(logs[t, c] for t, c in enumerate(path)))
    return -total


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


TARGETS = [[1], [1, 1], [2, 1], [], [1, 2, 1]]


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("form", ["padded", "joined", "tensors"])
def test_ctc_is_the_sum_over_all_paths(blank, form):
    logs = log_softmax(normal(5, len(TARGETS), 3))
    targets = [[(c + 2) % 3 if blank == 2 else c for c in t] for t in TARGETS]
    given, lengths = [5, 4, 3, 5, 5], [len(t) for t in targets]
    expected = [ctc_by_enumeration(logs[:n, i], t, blank) for i, (n, t) in enumerate(zip(given, targets))]
    padded = ad.tensor([t + [(blank + 1) % 3] * (3 - len(t)) for t in targets])
    joined = ad.tensor([c for t in targets for c in t], dtype=ad.int32)
    args = (padded, given, lengths) if form == "padded" else (joined, given, lengths)
    if form == "tensors":
        args = (padded, ad.tensor(given), ad.tensor(lengths))
    loss = F.ctc_loss(tensor(logs), *args, blank=blank, reduction="none")
    np.testing.assert_allclose(array(loss), expected, rtol=1e-12)
    mean = np.mean(np.array(expected) / np.maximum(lengths, 1))
    assert F.ctc_loss(tensor(logs), *args, blank=blank).item() == pytest.approx(mean)
    assert nn.CTCLoss(blank, "sum")(tensor(logs), *args).item() == pytest.approx(sum(expected))


def test_ctc_gradients():
    x = normal(4, 3, 3)

    def run(x):
        return F.ctc_loss(x, ad.tensor([[1, 2], [1, 1], [2, 0]]), (4, 3, 2), (2, 2, 1), reduction="none")

    check_gradient(run, [x])
    check_gradient(lambda x: run(x.log_softmax(-1)), [x])
    check_second_derivative(lambda x: run(x.log_softmax(-1)), [x[:, :, :]])


def test_ctc_without_a_batch():
    x = log_softmax(normal(4, 3))
    want = ctc_by_enumeration(x, [1, 2])
    for lengths in ((4, 2), ((4,), (2,)), (ad.tensor(4), ad.tensor(2))):
        got = F.ctc_loss(tensor(x), ad.tensor([1, 2]), *lengths, reduction="none")
        assert got.shape == () and got.item() == pytest.approx(want)


def test_ctc_converts_targets_and_flattens_lengths():
    x, targets = tensor(log_softmax(normal(4, 2, 3))), ad.tensor([[1, 1], [1, 1]])
    want = F.ctc_loss(x, targets, (4, 4), (2, 1), reduction="none").tolist()
    lengths = ad.tensor([[4, 4]]), ad.tensor([[2], [1]])
    for given in (targets.double() + 0.5, targets.half(), targets.bool(), targets.int()):
        assert F.ctc_loss(x, given, *lengths, reduction="none").tolist() == want


def test_ctc_of_targets_that_do_not_fit():
    x = tensor(log_softmax(normal(2, 2, 3)), requires_grad=True)
    args = ad.tensor([[1, 1], [1, 2]]), (2, 2), (2, 2)
    assert math.isinf(F.ctc_loss(x, *args).item())
    loss = F.ctc_loss(x, *args, reduction="none", zero_infinity=True)
    assert loss[0].item() == 0 and math.isfinite(loss[1].item())
    loss.sum().backward()
    assert bool((x.grad[:, 0] == 0).all()) and bool((x.grad[:, 1] != 0).any())


def test_second_derivatives_of_ctc_where_ways_are_impossible():
    """Without probability for a class they are numbers; of a target that cannot be spelled they are NaN, as the first, or 0."""
    x = ad.tensor(np.random.default_rng(3).standard_normal((5, 3, 4)).tolist(), dtype=ad.float64).log_softmax(
        -1
    )
    x[1, 0, 2] = x[2, 2, 0] = -math.inf
    x.requires_grad_()
    for zero, impossible in ((True, 0), (False, 1)):
        targets = ad.tensor([[1, 2], [3, 3], [1, 3]])
        args = (5, 2, 4), (2, 2, 2)
        loss = F.ctc_loss(x, targets, *args, reduction="none", zero_infinity=zero)
        (g,) = ad.autograd.grad(loss.sum(), x, create_graph=True)
        (second,) = ad.autograd.grad((g * g).sum(), x)
        for t in (g, second):
            nan = t.isnan()
            assert nan[:2, 1].all().item() == bool(impossible)
            assert not nan[2:, 1].any() and not nan[:, ::2].any() and bool((t[:, ::2] != 0).any())


@pytest.mark.parametrize(
    "text, args",
    [
        ("input_lengths must be of size batch_size", ([[1], [1]], (2,), (1, 1))),
        ("target_lengths must be of size batch_size", ([[1], [1]], (2, 2), (1,))),
        ("Expected input_lengths to have value at most 2, but got value 3", ([[1], [1]], (2, 3), (1, 1))),
        ("Expected target_lengths to be non-negative", ([[1], [1]], (2, 2), (1, -1))),
        ("Expected tensor to have size at least 2 at dimension 1", ([[1], [1]], (2, 2), (1, 2))),
        ("Expected tensor to have size 2 at dimension 0, but got size 3", ([[1]] * 3, (2, 2), (1, 1))),
        ("Expected tensor to have size 2 at dimension 0, but got size 3", ([1, 1, 1], (2, 2), (1, 1))),
        ("targets must have one or two dimensions", ([[[1]]], (2, 2), (1, 1))),
        ("index 7 is out of bounds", ([[1], [7]], (2, 2), (1, 1))),
    ],
)
def test_what_ctc_refuses(text, args):
    targets, *lengths = args
    with pytest.raises((RuntimeError, IndexError), match=text):
        F.ctc_loss(ad.zeros(2, 2, 3), ad.tensor(targets), *lengths)


def test_other_refusals_of_ctc():
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(ad.zeros(2, 1, 3), ad.tensor([[1]]), (2,), (1,), blank=3)
    with pytest.raises(RuntimeError, match=r"log_probs must have shape \(T, N, C\)"):
        F.ctc_loss(ad.zeros(2), ad.tensor([[1]]), (2,), (1,))
    with pytest.raises(ValueError, match="bad is not a valid value for reduction"):
        F.ctc_loss(ad.zeros(2, 1, 3), ad.tensor([[1]]), (2,), (1,), reduction="bad")


def test_ctc_impossible_alignments_have_no_derivative():
    """As in torch: NaN where the sample has steps, unless infinities count 0; in both forms of the derivative."""
    for recorded in (False, True):
        x = tensor(log_softmax(normal(3, 2, 3)), requires_grad=True)
        loss = F.ctc_loss(x, ad.tensor([[1, 1], [1, 2]]), (2, 3), (2, 2), reduction="none")
        (g,) = ad.autograd.grad(loss[1], x, create_graph=recorded, retain_graph=True)
        assert g[:2, 0].isnan().all() and not g[2, 0].any() and g[:, 1].isfinite().all()
        loss = F.ctc_loss(x, ad.tensor([[1, 1], [1, 2]]), (2, 3), (2, 2), zero_infinity=True)
        (g,) = ad.autograd.grad(loss, x, create_graph=recorded)
        assert not g[:, 0].any() and g[:, 1].isfinite().all()


def test_ctc_of_many_steps_in_both_forms():
    """Long targets, halves, lengths of 0, each sample of a vmap: the fused gradient is the recorded one."""
    x = tensor(log_softmax(normal(2, 40, 4, 6))).requires_grad_()
    targets = ad.tensor(RNG.integers(1, 6, (4, 15)))
    steps, letters = (40, 37, 0, 5), (15, 9, 0, 0)

    def run(x):
        return F.ctc_loss(x, targets, steps, letters, reduction="none")

    loss = ad.vmap(run)(x)
    fused, recorded = (
        ad.autograd.grad(loss.sum(), x, create_graph=c, retain_graph=True)[0] for c in (False, True)
    )
    np.testing.assert_allclose(array(fused), array(recorded.detach()), rtol=1e-9, atol=1e-12)
    # Each step has one class.
    np.testing.assert_allclose(
        array(fused.sum(-1))[:, :, 1], np.repeat([[-1.0] * 37 + [0.0] * 3], 2, 0), rtol=1e-9
    )
    assert loss[0, 2].item() == 0 and loss[0, 3].item() == pytest.approx(-array(x)[0, :5, 3, 0].sum())
    for i in range(2):
        np.testing.assert_allclose(array(run(x[i])), array(loss[i]), rtol=1e-12)
        half = run(x[i].detach().half())
        assert half.dtype == ad.float32
        np.testing.assert_allclose(array(half), array(loss[i]), rtol=1e-2)
