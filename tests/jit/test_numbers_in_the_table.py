"""Each operator that takes a number, under `jit`, with another at each call, special ones among them: eager's bits, forward,
gradients of the first and second order, in place.

What the core decides by a number, or makes of it before it computes, is another trace, or none. Start reading at `values`.
"""

import warnings

import pytest
import twice
from samples import OPERATORS, cases, function_of
from test_jit_table import UNDEFINED, outcome

import adjoint as ad

SPECIAL = [0.0, 1.0, 2.0, 0.5, -1.0, 3.0, -0.5, -2.0, float("inf"), float("nan"), -0.0, 1e-300, 1e39]
ROWS = [row for row in OPERATORS if row["name"] not in UNDEFINED]
PIECES = [ROWS[k::8] for k in range(8)]


def values(number):
    """What stands for a number, call by call: near it first, so that it is replayed, and then whatever decides otherwise."""
    near = [number * (1 + 0.07 * k) + 0.013 * k for k in range(6)]
    mixed = [v for k, s in enumerate(SPECIAL) for v in (s, near[k % 6])]
    return near + near[:3] + mixed


def numbers_of(case):
    """Where a case has floats: (position or keyword, value)."""
    args, kwargs = case.arguments()
    return [(k, v) for k, v in [*enumerate(args), *kwargs.items()] if type(v) is float]


def first(f):
    return f


def leaves_of(args, kwargs):
    return [t for t in ad.tree.leaves([args, kwargs]) if isinstance(t, ad.Tensor) and t.is_floating_point()]


def gradients(f):
    def g(*args, **kwargs):
        leaves = leaves_of(args, kwargs)
        results = [
            t for t in ad.tree.leaves(f(*args, **kwargs)) if isinstance(t, ad.Tensor) and t.requires_grad
        ]
        return ad.autograd.grad(results, leaves, [ad.ones_like(t) for t in results], allow_unused=True)

    return g


def second(f):
    def g(*args, **kwargs):
        leaves = leaves_of(args, kwargs)
        results = [
            t for t in ad.tree.leaves(f(*args, **kwargs)) if isinstance(t, ad.Tensor) and t.requires_grad
        ]
        once = ad.autograd.grad(
            results, leaves, [ad.ones_like(t) for t in results], allow_unused=True, create_graph=True
        )
        once = [t for t in once if t is not None and t.requires_grad]
        return once, ad.autograd.grad(once, leaves, [ad.ones_like(t) for t in once], allow_unused=True)

    return g


def in_batches(f):
    def g(*args, **kwargs):
        places = tuple(0 if isinstance(a, ad.Tensor) and a.ndim else None for a in args)
        return ad.func.vmap(lambda *a: f(*a, **kwargs), in_dims=places)(*args)

    return g


FORMS = {
    "forward": (first, False),
    "first": (gradients, True),
    "second": (second, True),
    "batches": (in_batches, False),
}


def check(case, form, by_grad):
    """(words for a difference, replays) of one case; of one that fails None."""
    numbers = numbers_of(case)
    jitted = ad.jit(form(function_of(case.row)))
    for k in range(max(len(values(v)) for _, v in numbers)):
        seen = []
        for f in (jitted.__wrapped__, jitted):
            ad.manual_seed(k)
            args, kwargs = case.arguments()
            args = list(args)
            for place, v in numbers:
                now = values(v)
                (args if type(place) is int else kwargs)[place] = now[k % len(now)]
            if by_grad:
                for t in leaves_of(args, kwargs):
                    if t.is_leaf:
                        t.requires_grad_()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen.append((outcome(lambda: f(*args, **kwargs)), twice.picture(args), ad.rand(1).item()))  # noqa: B023
        if seen[0] != seen[1]:
            return f"{case!r} call {k}: {seen[1]}\nexpected {seen[0]}\n{jitted.stats()}", 0
        if k == 0:
            fails = isinstance(seen[0][0][0], type) and issubclass(seen[0][0][0], Exception)
    return "", None if fails else jitted.stats()["replayed"]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_another_number_at_each_call(piece, name):
    form, by_grad = FORMS[name]
    replays = []
    for row in PIECES[piece]:
        if by_grad and row["written"]:
            continue
        wanted = ("float32", "bfloat16") if name == "forward" else ("float64",)
        types = [t for t in wanted if t in row["types"]]
        for case in [c for t in types for c in cases(row, t)]:
            if numbers_of(case):
                words, again = check(case, form, by_grad)
                assert not words, words
                replays += [again] * (again is not None)
    if name == "forward":
        assert sum(map(bool, replays)) >= len(replays) * 0.7, replays


X = twice.numbers(4, 5)
Y = twice.numbers(4, 5, seed=1)
F = ad.nn.functional
FUNCTIONS = {
    "leaky_relu": lambda x, t: F.leaky_relu(x, t),
    "elu": lambda x, t: F.elu(x, t) + F.celu(x, abs(t) + 0.1),
    "softplus": lambda x, t: F.softplus(x, t, 2 * t),
    "shrink": lambda x, t: F.hardshrink(x, t) + F.softshrink(x, abs(t)),
    "threshold": lambda x, t: F.threshold(x, t, t + 1),
    "hardtanh": lambda x, t: F.hardtanh(x, -abs(t) - 0.1, abs(t)),
    "huber": lambda x, t: F.huber_loss(x, Y, delta=abs(t) + 0.01) + F.smooth_l1_loss(x, Y, beta=abs(t)),
    "dropout": lambda x, t: F.dropout(x, t),
    "layer_norm": lambda x, t: F.layer_norm(x, (5,), eps=abs(t)),
    "batch_norm": lambda x, t: F.batch_norm(x, None, None, training=True, momentum=t, eps=abs(t)),
    "normalize": lambda x, t: F.normalize(x, p=t),
    "norm": lambda x, t: x.norm(p=t) + ad.linalg.vector_norm(x, t),
    "norm of rows": lambda x, t: x.norm(p=t, dim=1) + ad.linalg.vector_norm(x, t, dim=1),
    "cdist": lambda x, t: ad.cdist(x, Y, p=t),
    "pdist": lambda x, t: F.pdist(x, p=t) if hasattr(F, "pdist") else x * t,
    "pairwise": lambda x, t: F.pairwise_distance(x, Y, p=t),
    "renorm": lambda x, t: x.renorm(2, 0, t),
    "lerp": lambda x, t: x.lerp(Y, t) + ad.addcdiv(x, x, Y, value=t),
    "clamp": lambda x, t: x.clamp(min=-t, max=t) + x.clip(t),
    "where": lambda x, t: ad.where(x > t, x, t) + (x == t) + (x <= t),
    "quantile": lambda x, t: x.quantile(t),
    "std": lambda x, t: x.std(correction=t) if t == t else x,
    "linspace": lambda x, t: ad.linspace(0, t, 5) + ad.linspace(t, 1, 5),
    "arange": lambda x, t: ad.arange(0, t, 0.3),
    "fill": lambda x, t: x.clone().fill_(t) + ad.full_like(x, t) + x.masked_fill(x > 0, t),
    "uniform": lambda x, t: x.clone().uniform_(0, t) + x.clone().normal_(t, 1),
    "bernoulli": lambda x, t: x.clone().bernoulli_(t),
    "exponential": lambda x, t: x.clone().exponential_(t),
    "isclose": lambda x, t: ad.isclose(x, Y, rtol=t) | ad.isclose(x, Y, atol=t),
    "nan_to_num": lambda x, t: (x / 0).nan_to_num(t, t + 1, t + 2),
    "pad": lambda x, t: F.pad(x, (1, 1), value=t),
    "pow": lambda x, t: x**t + x.abs().pow(t) + ad.pow(abs(t) + 0.5, x),
    "float_power": lambda x, t: x.abs().float_power(t),
    "xlogy": lambda x, t: ad.xlogy(t, x.abs() + 1) + ad.special.xlog1py(t, x.abs()),
    "divided": lambda x, t: ad.div(x, t, rounding_mode="floor") + x // t + x % t + ad.fmod(x, t) + t // x,
    "hypot": lambda x, t: ad.remainder(t, x) + ad.maximum(x, ad.tensor(t)) + ad.atan2(x, ad.tensor(t)),
    "logit": lambda x, t: x.sigmoid().logit(eps=t),
    "smoothing": lambda x, t: F.cross_entropy(x, ad.tensor([0, 1, 2, 3]), label_smoothing=t),
    "gumbel": lambda x, t: F.gumbel_softmax(x, tau=t),
    "addmm": lambda x, t: (
        ad.addmm(ad.zeros(4, 4), x, Y.t(), beta=t, alpha=t)
        + ad.baddbmm(x[None], x[None], Y[None, :, :].mT @ Y, beta=t)[0, :, :4]
    ),
    "interpolate": lambda x, t: F.interpolate(x[None], scale_factor=t),
    "item": lambda x, t: x * ad.tensor(t).item() + ad.tensor([t, 2 * t]).sum(),
    "index": lambda x, t: put(x.clone(), t),
    "scalar tensor": lambda x, t: ad.add(t, x) + ad.mul(t, x) + ad.sub(t, x, alpha=2) + ad.rsub(x, t),
    "of integers": lambda x, t: (ad.arange(5) * t, ad.arange(5) + t, ad.arange(5) > t, ad.arange(5) / t),
    "histc": lambda x, t: x.histc(4, -t, t),
    "gradient": lambda x, t: ad.gradient(x, spacing=t, dim=0)[0],
    "gaussian": lambda x, t: F.gaussian_nll_loss(x, Y, Y.abs(), eps=abs(t) + 1e-6),
    "losses": lambda x, t: (
        F.margin_ranking_loss(x[0], x[1], x[2].sign(), margin=t)
        + F.hinge_embedding_loss(x, Y.sign(), margin=t)
        + F.cosine_embedding_loss(x, Y, ad.ones(4), margin=t)
        + F.triplet_margin_loss(x, Y, x + 1, margin=abs(t) + 0.1, p=abs(t) + 0.5)
    ),
    "attention": lambda x, t: F.scaled_dot_product_attention(x[None], Y[None], x[None], scale=t),
    "gelu": lambda x, t: F.glu(ad.cat([x, x * t], 1)) + F.prelu(x, ad.tensor(t)),
    "std over": lambda x, t: x.var(dim=0, correction=int(abs(t)) if t == t and abs(t) < 3 else 1),
    "trapezoid": lambda x, t: ad.trapezoid(x, dx=t) + ad.cumulative_trapezoid(x, dx=t)[:, 0],
    "rounded": lambda x, t: (
        x * t
        + ad.tensor([t, 1.0]).sum()
        + ad.tensor([t, 1.0], dtype=ad.int8).sum()
        + (x > 0).masked_fill(x > 1, t)
        + ad.tensor([t], dtype=ad.complex64).real
    ),
    "flag": lambda x, t: x * t + x.sum(0, keepdim=bool(t)) + x.sum(1, keepdim=True),
    "heaviside": lambda x, t: (
        ad.heaviside(x, ad.tensor(t)) + ad.copysign(x, t) + ad.nextafter(x, ad.tensor(t))
    ),
}


def put(x, t):
    x[1] = t
    x[:, 2] += t
    x[x > 0.5] = 2 * t
    return x


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_numbers(name, derived):
    """Whatever the library's Python and C++ make of a number; `derived`: with gradients by the tensor, in a function."""
    f = FUNCTIONS[name]

    def gradient(x, t):
        y = sum(v.sum() for v in ad.tree.leaves(f(x, t)) if v.is_floating_point())
        return (y.detach(), *ad.autograd.grad(y, x)) if y.requires_grad else y

    plain = gradient if derived else f
    jitted = ad.jit(plain)
    for k, t in enumerate([*values(0.3), *values(1.4), *values(0.11)]):
        seen = []
        for call in (plain, jitted):
            ad.manual_seed(k)
            x = twice.numbers(4, 5, seed=k % 3).requires_grad_(derived)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen.append((outcome(lambda: call(x, t)), ad.rand(1).item()))  # noqa: B023
        assert seen[0] == seen[1], f"call {k} with {t}: {seen[1]}\nexpected {seen[0]}\n{jitted.stats()}"
