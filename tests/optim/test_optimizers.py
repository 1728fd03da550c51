"""Every optimiser against its formulas in NumPy, in every combination of options, on both paths."""

import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim

RNG = np.random.default_rng(2)
SHAPES = [(3, 2), (), (700,), (0,)]
STEPS = 4


def sgd(p, g, s, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        s["b"] = momentum * s["b"] + (1 - dampening) * g if "b" in s else g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def adam(
    p,
    g,
    s,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    amsgrad=False,
    maximize=False,
    decoupled=False,
):
    g = -g if maximize else g
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    s["t"] = t = s.get("t", 0) + 1
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    v = s["v"]
    if amsgrad:
        s["x"] = v = np.maximum(s.get("x", 0), v)
    return p - lr * (s["m"] / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw(p, g, s, weight_decay=1e-2, **options):
    return adam(p, g, s, weight_decay=weight_decay, decoupled=True, **options)


def rmsprop(
    p, g, s, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False
):
    g = (-g if maximize else g) + weight_decay * p
    s["v"] = v = alpha * s.get("v", 0) + (1 - alpha) * g * g
    if centered:
        s["a"] = alpha * s.get("a", 0) + (1 - alpha) * g
        v = v - s["a"] ** 2
    d = g / (np.sqrt(v) + eps)
    if momentum:
        s["b"] = d = momentum * s.get("b", 0) + d
    return p - lr * d


def combinations(**options):
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values, strict=True))


CASES = [
    (optim.SGD, sgd, options)
    for options in combinations(
        lr=[0.1], momentum=[0, 0.9], dampening=[0, 0.3], weight_decay=[0, 0.1], maximize=[False, True]
    )
]
CASES += [(optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1})]
for kind, reference in ((optim.Adam, adam), (optim.AdamW, adamw)):
    CASES += [
        (kind, reference, options)
        for options in combinations(
            lr=[0.1],
            betas=[(0.8, 0.95)],
            weight_decay=[0, 0.1],
            amsgrad=[False, True],
            maximize=[False, True],
        )
    ]
CASES += [
    (optim.RMSprop, rmsprop, options)
    for options in combinations(
        alpha=[0.9], weight_decay=[0, 0.1], momentum=[0, 0.8], centered=[False, True], maximize=[False, True]
    )
]
CASES += [
    (optim.SGD, sgd, {}),
    (optim.Adam, adam, {}),
    (optim.AdamW, adamw, {}),
    (optim.RMSprop, rmsprop, {}),
]


def name(case):
    return case[0].__name__ + "-" + "-".join(f"{k}={v}" for k, v in case[2].items())


def as_tensor(array, dtype=ad.float64):
    return ad.tensor(array.tolist(), dtype=dtype).reshape(array.shape)


def as_array(tensor):
    dtype = np.complex128 if tensor.is_complex() else np.float64
    return np.asarray(tensor.detach().tolist(), dtype=dtype).reshape(tuple(tensor.shape))


def run(case, dtype, layout=lambda t: t, draw=lambda shape: RNG.standard_normal(shape), **extra):
    """(parameters after some steps, what NumPy makes of the same gradients)."""
    kind, reference, options = case
    arrays = [draw(shape) for shape in SHAPES]
    params = [nn.Parameter(layout(as_tensor(a, dtype))) for a in arrays]
    optimizer = kind(params, **options, **extra)
    states = [{} for _ in SHAPES]
    for step in range(STEPS):
        for i, p in enumerate(params):
            if step == 0 and i == 1:
                continue  # its first gradient comes a step later
            g = draw(SHAPES[i])
            p.grad = layout(as_tensor(g, dtype))
            arrays[i] = reference(arrays[i], g, states[i], **options)
        optimizer.step()
    return params, arrays, optimizer


@pytest.mark.parametrize("case", CASES, ids=name)
def test_against_the_formulas(case):
    params, arrays, _ = run(case, ad.float64)
    for p, a in zip(params, arrays, strict=True):
        np.testing.assert_allclose(as_array(p), a, rtol=1e-9, atol=1e-11)
        assert p.is_leaf and p.requires_grad


@pytest.mark.parametrize("case", CASES, ids=name)
def test_float32(case):
    params, arrays, _ = run(case, ad.float32)
    for p, a in zip(params, arrays, strict=True):
        assert p.dtype == ad.float32
        # An element whose centred variance nearly vanishes amplifies rounding: compare all but the worst.
        error = np.abs(as_array(p) - a) / (1e-3 + np.abs(a))
        assert error.size == 0 or np.quantile(error, 0.99) < 2e-2 and np.median(error) < 1e-4


def transposed(t):
    """The same values, but not contiguous: what the core leaves to tensor operations."""
    return t.mT.contiguous().mT if t.dim() == 2 else ad.stack([t, t], -1)[..., 0]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_tensor_operations_do_the_same(case):
    params, arrays, _ = run(case, ad.float64, layout=transposed)
    for p, a in zip(params, arrays, strict=True):
        np.testing.assert_allclose(as_array(p), a, rtol=1e-9, atol=1e-11)


ONE_EACH = [case for case in CASES if not case[2]] + [
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (optim.Adam, adam, {"lr": 0.1, "amsgrad": True}),
    (optim.RMSprop, rmsprop, {"momentum": 0.8, "centered": True}),
]


@pytest.mark.parametrize("case", ONE_EACH, ids=name)
def test_complex_parameters_are_pairs_of_real_ones(case):
    """Adam and its kin treat real and imaginary parts as two parameters; SGD is linear, so it does too."""
    kind, reference, options = case
    z, g = (RNG.standard_normal(6) + 1j * RNG.standard_normal(6) for _ in range(2))
    p = nn.Parameter(ad.tensor(z.tolist(), dtype=ad.complex128))
    optimizer = kind([p], **options)
    real, imag, s, t = z.real, z.imag, {}, {}
    for _ in range(STEPS):
        p.grad = ad.tensor(g.tolist(), dtype=ad.complex128)
        optimizer.step()
        real, imag = reference(real, g.real, s, **options), reference(imag, g.imag, t, **options)
    np.testing.assert_allclose(as_array(p), real + 1j * imag, rtol=1e-9)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop])
def test_half_precision_moves_the_right_way(kind):
    p = nn.Parameter(ad.ones(3, dtype=ad.float16))
    optimizer = kind([p], lr=0.03125)
    p.grad = ad.ones(3, dtype=ad.float16)
    optimizer.step()
    assert p.dtype == ad.float16 and all(0.0 <= v < 1.0 for v in p.tolist())


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop])
def test_minimises_rosenbrock(kind):
    options = {optim.SGD: {"lr": 1e-3, "momentum": 0.9}, optim.RMSprop: {"lr": 2e-3}}.get(kind, {"lr": 0.02})
    x = nn.Parameter(ad.tensor([-1.2, 1.0], dtype=ad.float64))
    optimizer = kind([x], **options)
    if kind is optim.AdamW:
        optimizer.param_groups[0]["weight_decay"] = 0.0

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    for _ in range(3000):
        last = optimizer.step(closure).item()
    assert first == pytest.approx(24.2) and last < 1e-2


@pytest.mark.parametrize("case", ONE_EACH, ids=name)
def test_a_differentiable_step(case):
    """d(parameter after two steps) / d(parameter before), against a central difference."""
    kind, _, options = case

    def after(start):
        p = start * 1.0
        optimizer = kind([p], **options, differentiable=True)
        for factor in (1.0, 0.5):
            p.grad = (start**3) * factor
            optimizer.step()
        return (p * ad.tensor([1.0, -2.0], dtype=ad.float64)).sum()

    values = [0.7, -1.3]
    start = ad.tensor(values, dtype=ad.float64, requires_grad=True)
    (grad,) = ad.autograd.grad(after(start), start)
    h = 1e-6
    for i in range(2):
        ends = []
        for sign in (1, -1):
            moved = list(values)
            moved[i] += sign * h
            ends.append(after(ad.tensor(moved, dtype=ad.float64, requires_grad=True)).item())
        np.testing.assert_allclose(grad[i].item(), (ends[0] - ends[1]) / (2 * h), rtol=1e-5)


def test_steps_are_not_recorded_and_bump_the_version():
    w = nn.Parameter(ad.ones(2))
    y = (w * w).sum()
    w.grad = ad.ones(2)
    optim.SGD([w], lr=0.1).step()
    assert w.grad_fn is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_infinite_parameter_without_decay_stays_infinite():
    w = nn.Parameter(ad.tensor([float("inf"), 1.0]))
    w.grad = ad.ones(2)
    optim.SGD([w], lr=0.5).step()
    assert w.tolist() == [float("inf"), 0.5]
