"""The optimisers that update by tensor operations: 50 steps against their formulas in NumPy; states; LBFGS; options."""

import copy
import inspect
import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim

RNG = np.random.default_rng(5)


def with_decay(p, g, o):
    """The parameter and the gradient after `maximize` and the decay of weights."""
    g = -g if o.get("maximize") else g
    decay = o.get("weight_decay", 0)
    return (p * (1 - o["lr"] * decay), g) if o.get("decoupled_weight_decay") else (p, g + decay * p)


def adadelta(p, g, s, t, o):
    p, g = with_decay(p, g, o)
    s["v"] = o["rho"] * s.get("v", 0) + (1 - o["rho"]) * g**2
    u = s.get("u", 0)
    d = np.sqrt(u + o["eps"]) / np.sqrt(s["v"] + o["eps"]) * g
    s["u"] = o["rho"] * u + (1 - o["rho"]) * d**2
    return p - o["lr"] * d


def adagrad(p, g, s, t, o):
    p, g = with_decay(p, g, o)
    s["s"] = s.get("s", o["initial_accumulator_value"]) + g**2
    return p - o["lr"] / (1 + (t - 1) * o["lr_decay"]) * g / (np.sqrt(s["s"]) + o["eps"])


def adamax(p, g, s, t, o):
    p, g = with_decay(p, g, o)
    b1, b2 = o["betas"]
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["u"] = np.maximum(b2 * s.get("u", 0), np.abs(g) + o["eps"])
    return p - o["lr"] / (1 - b1**t) * s["m"] / s["u"]


def asgd(p, g, s, t, o):
    p, g = with_decay(p, g, o)
    eta, mu = s.get("eta", o["lr"]), s.get("mu", 1.0)
    p = p * (1 - o["lambd"] * eta) - eta * g
    s["ax"] = s.get("ax", 0) + mu * (p - s.get("ax", 0))
    s["eta"] = o["lr"] / (1 + o["lambd"] * o["lr"] * t) ** o["alpha"]
    s["mu"] = 1 / max(1, t - o["t0"])
    return p


def moments(g, s, betas):
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g**2
    return s["m"], s["v"]


def nadam(p, g, s, t, o):
    p, g = with_decay(p, g, o)
    b1, b2 = o["betas"]
    m, v = moments(g, s, o["betas"])
    mu = [b1 * (1 - 0.5 * 0.96 ** (i * o["momentum_decay"])) for i in range(1, t + 2)]
    ahead = mu[t] * m / (1 - np.prod(mu)) + (1 - mu[t - 1]) * g / (1 - np.prod(mu[:t]))
    return p - o["lr"] * ahead / (np.sqrt(v / (1 - b2**t)) + o["eps"])


def radam(p, g, s, t, o):
    p, g = with_decay(p, g, o)
    b1, b2 = o["betas"]
    m, v = moments(g, s, o["betas"])
    limit = 2 / (1 - b2) - 1
    rho = limit - 2 * t * b2**t / (1 - b2**t)
    if rho <= 5:
        return p - o["lr"] * m / (1 - b1**t)
    r = np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
    return p - o["lr"] * r * m / (1 - b1**t) * np.sqrt(1 - b2**t) / (np.sqrt(v) + o["eps"])


def rprop(p, g, s, t, o):
    g = -g if o.get("maximize") else g
    product = g * s.get("g", 0)
    factor = np.where(product > 0, o["etas"][1], np.where(product < 0, o["etas"][0], 1))
    s["d"] = np.clip(s.get("d", o["lr"]) * factor, *o["step_sizes"])
    s["g"] = np.where(product < 0, 0, g)
    return p - np.sign(s["g"]) * s["d"]


def rms(a):
    return np.sqrt(np.mean(a**2))


def adafactor(p, g, s, t, o):
    g = -g if o.get("maximize") else g
    eps1, eps2 = o["eps"]
    eps1 = np.finfo(np.float64).eps if eps1 is None else eps1
    beta = 1 - t ** o["beta2_decay"]
    alpha = max(eps2, rms(p)) * min(o["lr"], 1 / np.sqrt(t))
    p = p * (1 - o["lr"] * o["weight_decay"])
    if p.ndim < 2:
        s["v"] = v = beta * s.get("v", 0) + (1 - beta) * g**2
    else:
        s["r"] = beta * s.get("r", 0) + (1 - beta) * np.mean(g**2, -1, keepdims=True)
        s["c"] = beta * s.get("c", 0) + (1 - beta) * np.mean(g**2, -2, keepdims=True)
        v = s["r"] * s["c"] / np.maximum(np.mean(s["r"], -2, keepdims=True), eps1)
    u = g / np.sqrt(np.maximum(v, eps1**2))
    return p - alpha * u / max(1, rms(u) / o["d"])


COMMON = {"lr": [0.1], "weight_decay": [0, 0.1], "maximize": [False, True]}
BETAS = {"betas": [(0.8, 0.95)], "decoupled_weight_decay": [False, True]}
TABLE = {
    "Adadelta": (adadelta, {**COMMON, "rho": [0.8]}),
    "Adafactor": (adafactor, {**COMMON, "eps": [(None, 1e-3), (1e-2, 0.1)], "d": [1.0, 1.5]}),
    "Adagrad": (adagrad, {**COMMON, "lr_decay": [0, 0.1], "initial_accumulator_value": [0, 0.5]}),
    "Adamax": (adamax, {**COMMON, "betas": [(0.8, 0.95)]}),
    "ASGD": (asgd, {**COMMON, "lambd": [1e-4, 0.1], "t0": [1e6, 20]}),
    "NAdam": (nadam, {**COMMON, **BETAS, "momentum_decay": [4e-3, 0.5]}),
    "RAdam": (radam, {**COMMON, **BETAS}),
    "Rprop": (rprop, {"lr": [0.1], "maximize": [False, True], "step_sizes": [(1e-6, 50), (0.05, 0.2)]}),
}
CASES = [
    (kind, dict(zip(choices, values, strict=True)))
    for kind, (_, choices) in TABLE.items()
    for values in [[v[0] for v in choices.values()], *itertools.product(*choices.values())][1:]
] + [(kind, {}) for kind in TABLE]


def defaults(kind):
    """The options of an optimiser that nobody gives, from its signature."""
    parameters = inspect.signature(getattr(optim, kind)).parameters
    return {name: p.default for name, p in parameters.items() if name != "params"}


@pytest.fixture(autouse=True)
def double():
    """ASGD and NAdam keep scalars of the default dtype: in float64 they follow the formulas to rounding."""
    ad.set_default_dtype(ad.float64)
    yield
    ad.set_default_dtype(ad.float32)


def name(case):
    return case[0] + "-" + "-".join(f"{k}={v}" for k, v in case[1].items())


@pytest.mark.parametrize("case", CASES, ids=name)
def test_fifty_steps_against_the_formulas(case):
    kind, given = case
    arrays = [RNG.standard_normal(shape) for shape in [(3, 4), (2, 3, 2), (5,), ()]]
    params = [nn.Parameter(ad.tensor(a)) for a in arrays]
    optimizer = getattr(optim, kind)(params, **given)
    assert optimizer.defaults == defaults(kind) | given
    states = [{} for _ in arrays]
    for t in range(1, 51):
        for i, p in enumerate(params):
            g = RNG.standard_normal(p.shape)
            p.grad = ad.tensor(g)
            arrays[i] = TABLE[kind][0](arrays[i], g, states[i], t, defaults(kind) | given)
        optimizer.step()
        for p, a in zip(params, arrays, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), a, rtol=1e-8, atol=1e-10)


REAL_ONLY = ("Adafactor", "Muon")


@pytest.mark.parametrize("kind", [kind for kind in TABLE if kind not in REAL_ONLY])
def test_complex_parameters_are_pairs_of_real_ones(kind):
    z = RNG.standard_normal((6, 2))
    pairs, complexes = nn.Parameter(ad.tensor(z)), nn.Parameter(ad.view_as_complex(ad.tensor(z)).clone())
    first, second = (getattr(optim, kind)([p]) for p in (pairs, complexes))
    for _ in range(10):
        g = ad.tensor(RNG.standard_normal((6, 2)))
        pairs.grad, complexes.grad = g, ad.view_as_complex(g)
        first.step()
        second.step()
    np.testing.assert_allclose(
        ad.view_as_real(complexes.detach()).numpy(), pairs.detach().numpy(), rtol=1e-12
    )


@pytest.mark.parametrize("kind", REAL_ONLY)
def test_complex_parameters_refused(kind):
    p = nn.Parameter(ad.ones(2, 2, dtype=ad.complex128))
    p.grad = ad.ones_like(p)
    with pytest.raises(RuntimeError, match=f"{kind} does not support complex parameters"):
        getattr(optim, kind)([p]).step()


LAYOUT = {  # facts about torch's state dicts: the keys in order; "step" and scalars are zero-dimensional tensors
    "Adadelta": ["step", "square_avg", "acc_delta"],
    "Adafactor": ["step", "row_var", "col_var"],
    "Adagrad": ["step", "sum"],
    "Adam": ["step", "exp_avg", "exp_avg_sq"],
    "AdamW": ["step", "exp_avg", "exp_avg_sq"],
    "Adamax": ["step", "exp_avg", "exp_inf"],
    "ASGD": ["step", "eta", "mu", "ax"],
    "Muon": ["momentum_buffer"],
    "NAdam": ["step", "mu_product", "exp_avg", "exp_avg_sq"],
    "RAdam": ["step", "exp_avg", "exp_avg_sq"],
    "RMSprop": ["step", "square_avg"],
    "Rprop": ["step", "prev", "step_size"],
}


def loss_of(p):
    return ((p - 1) ** 2 * ad.arange(1.0, 7.0).reshape(3, 2)).sum()


def train(p, optimizer, steps):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(p)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


@pytest.mark.parametrize("kind", [*LAYOUT, "LBFGS", "SGD"])
def test_resumed_training_equals_uninterrupted(kind):
    start = ad.tensor(RNG.standard_normal((3, 2)))
    options = {"max_iter": 2} if kind == "LBFGS" else {"lr": 0.01}
    through, p = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    train(through, getattr(optim, kind)([through], **options), 6)
    first = getattr(optim, kind)([p], **options)
    train(p, first, 3)
    saved = copy.deepcopy(first.state_dict())
    assert set(saved) == {"state", "param_groups"} and saved["param_groups"][0]["params"] == [0]
    if kind in LAYOUT:
        assert list(saved["state"][0]) == LAYOUT[kind]
        assert all(isinstance(value, ad.Tensor) for value in saved["state"][0].values())
    resumed = nn.Parameter(p.detach().clone())
    second = getattr(optim, kind)([resumed], lr=0.5)
    second.load_state_dict(saved)
    train(resumed, second, 3)
    assert resumed.tolist() == through.tolist()
    assert not (resumed == start).any()


@pytest.mark.parametrize("kind", [kind for kind in TABLE if "differentiable" in defaults(kind)])
def test_a_differentiable_step(kind):
    """Three recorded steps: the derivative of the last parameters by the rate and by the first ones."""

    def after(start, lr):
        p = start.clone()
        optimizer = getattr(optim, kind)([p], lr=lr, differentiable=True)
        for _ in range(3):
            q = p.clone()  # the step writes p, which the power would save
            p.grad = q * 2 + q**3
            optimizer.step()
        return p

    start, lr = ad.tensor([0.7, -1.3, 2.1], requires_grad=True), ad.tensor(0.1, requires_grad=True)
    if kind in ("Rprop", "ASGD"):  # the rate enters their first state as a number
        assert ad.autograd.gradcheck(lambda s: after(s, 0.1), (start,))
    else:
        assert ad.autograd.gradcheck(after, (start, lr))


@pytest.mark.parametrize("kind", [kind for kind in LAYOUT if "lr" in defaults(kind)])
def test_a_rate_that_is_a_tensor(kind):
    p, q = (nn.Parameter(ad.tensor([[1.0, 2.0], [3.0, 4.0]])) for _ in range(2))
    for param, lr in ((p, ad.tensor(0.5)), (q, 0.5)):
        param.grad = ad.ones_like(param)
        getattr(optim, kind)([param], lr=lr).step()
    assert p.tolist() == q.tolist() != [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(optim, kind)([p], lr=ad.ones(2))


def test_muon_makes_its_steps_orthogonal():
    for shape in [(4, 6), (6, 4)]:
        p = nn.Parameter(ad.zeros(shape))
        p.grad = ad.tensor(RNG.standard_normal(shape))
        optim.Muon([p], lr=1.0, weight_decay=0, adjust_lr_fn="match_rms_adamw").step()
        values = np.linalg.svd(p.detach().numpy() / (0.2 * 6**0.5), compute_uv=False)
        assert values.min() > 0.6 and values.max() < 1.3
        # What is near to U Vᵀ turns the gradient into a symmetric positive matrix.
        u, _, v = np.linalg.svd(p.grad.numpy(), full_matrices=False)
        assert np.abs(-p.detach().numpy() / (0.2 * 6**0.5) - u @ v).max() < 0.35
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([nn.Parameter(ad.ones(3))])


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("history", [2, 100])
def test_lbfgs_on_a_quadratic_bowl(search, history):
    matrix = RNG.standard_normal((6, 6))
    matrix = ad.tensor(matrix @ matrix.T + np.eye(6))
    goal = ad.tensor(RNG.standard_normal(6))
    p = nn.Parameter(ad.zeros(6))
    optimizer = optim.LBFGS(
        [p], history_size=history, line_search_fn=search, max_iter=40, max_eval=100, tolerance_change=1e-15
    )
    evaluations = 0

    def closure():
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        loss = (p - goal) @ matrix @ (p - goal)
        loss.backward()
        return loss

    for _ in range(6):
        optimizer.step(closure)
    assert np.abs((p - goal).tolist()).max() < 1e-5
    assert optimizer.state[p]["func_evals"] == evaluations
    assert len(optimizer.state[p]["old_dirs"]) <= history


def test_lbfgs_on_rosenbrock():
    p = nn.Parameter(ad.tensor([-1.5, 2.0]))
    optimizer = optim.LBFGS(
        [p], line_search_fn="strong_wolfe", max_iter=60, max_eval=200, tolerance_change=1e-15
    )

    def closure():
        optimizer.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(2.5**2 + 100 * 0.25**2)
    assert p.tolist() == pytest.approx([1, 1], abs=1e-6)


P = [nn.Parameter(ad.ones(2, 2))]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: optim.SparseAdam(P, lr=0.0), ValueError, "Invalid learning rate: 0.0"),
        (lambda: optim.SparseAdam(P, eps=0.0), ValueError, "Invalid epsilon value: 0.0"),
        (
            lambda: optim.SparseAdam([ad.ones(2).to_sparse().requires_grad_()]),
            ValueError,
            r"Sparse params at indices \[\[0, 0\]\]: SparseAdam requires dense parameter tensors",
        ),
        (
            lambda: optim.LBFGS([{"params": P}, {"params": [nn.Parameter(ad.ones(1))]}]),
            ValueError,
            "per-parameter",
        ),
        (lambda: optim.Adadelta(P, rho=2), ValueError, "Invalid rho value: 2"),
        (lambda: optim.Adafactor(P, lr=-1), ValueError, "Learning rate should be >= 0 but is: -1"),
        (lambda: optim.Adafactor(P, beta2_decay=1), ValueError, "beta2_decay should be <= 0 but is: 1"),
        (lambda: optim.Adafactor(P, eps=(-1, 1)), ValueError, "epsilon1 should be >= 0"),
        (lambda: optim.Adafactor(P, eps=(1, -1)), ValueError, "epsilon2 should be >= 0"),
        (lambda: optim.Adafactor(P, d=0.5), ValueError, "Clipping threshold d should be >= 1"),
        (lambda: optim.Adagrad(P, lr_decay=-1), ValueError, "Invalid lr_decay value: -1"),
        (lambda: optim.Adamax(P, betas=(1, 0)), ValueError, "Invalid beta parameter at index 0: 1"),
        (lambda: optim.NAdam(P, momentum_decay=-1), ValueError, "Invalid momentum_decay value: -1"),
        (lambda: optim.Rprop(P, etas=(2, 1)), ValueError, "Invalid eta values: 2, 1"),
        (
            lambda: optim.Muon(P, adjust_lr_fn="x"),
            ValueError,
            "Adjust learning rate function x is not supported",
        ),
        (lambda: optim.SGD(P, fused=True, foreach=True), RuntimeError, "cannot be `True` together"),
        (lambda: optim.Adam(P, fused=True, differentiable=True), RuntimeError, "`fused` does not support"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
