"""Random programs of views and writes under vmap, composed with derivatives: each against a loop over the samples.

    python -m tests.transforms.fuzz_vmap --programs 10000 --seed 0

A program is a list of statements on numbered tensors: two arguments, of which each sample has its own, one that is captured, and
what earlier statements made. A statement makes a tensor, takes a view of one, or writes to one; the result tells of all of
them, so that whatever a write should have reached counts. Statements are drawn while the program runs on the first sample, and
those that raise there are left out. Start reading at `check`.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from functools import partial

import adjoint as ad
from adjoint import func

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from programs import called, main  # noqa: E402

SAMPLES = 3

# --- statements -------------------------------------------------------------------------------------------------------

#: What makes a tensor of others: name → (how many, function of a number drawn once and of these).
MAKES = {
    "sin": (1, lambda n, a: a.sin()),
    "tanh": (1, lambda n, a: a.tanh()),
    "scaled": (1, lambda n, a: a * (0.5 + n)),
    "add": (2, lambda n, a, b: a + b),
    "mul": (2, lambda n, a, b: a * b * 0.5),
    "where": (2, lambda n, a, b: ad.where(a > b, a, b)),
    "sum": (1, lambda n, a: a.sum(int(n * a.ndim), keepdim=n > 0.5)),
    "clone": (1, lambda n, a: a.clone()),
    "stack": (2, lambda n, a, b: ad.stack([a, b], int(n * 2))),
    "cat": (2, lambda n, a, b: ad.cat([a, b], int(n * a.ndim))),
    "matmul": (2, lambda n, a, b: (a @ b).tanh()),
    "gather": (1, lambda n, a: a.index_select(0, ad.tensor([0, a.shape[0] - 1, 0]))),
    "cumsum": (1, lambda n, a: a.cumsum(int(n * a.ndim)) * 0.5),
    "softmax": (1, lambda n, a: a.softmax(-1)),
    "zeros": (1, lambda n, a: ad.zeros(a.shape, dtype=ad.float64)),
    "like": (1, lambda n, a: ad.ones_like(a)),
    "detach": (1, lambda n, a: a.detach() * 1),
}  # fmt: skip
VIEWS = {
    "select": lambda n, a: a.select(int(n * a.ndim), 0),
    "item": lambda n, a: a[-1],
    "part": lambda n, a: a[1:],
    "step": lambda n, a: a[..., ::2],
    "transpose": lambda n, a: a.transpose(0, -1),
    "unsqueeze": lambda n, a: a.unsqueeze(int(n * (a.ndim + 1))),
    "flat": lambda n, a: a.view(-1),
    "reshape": lambda n, a: a.reshape(-1, 1),
    "expand": lambda n, a: a.expand(2, *a.shape),
    "diagonal": lambda n, a: a.diagonal(),
    "split": lambda n, a: a.split(1)[int(n * a.shape[0])],
    "unbind": lambda n, a: a.unbind(0)[int(n * a.shape[0])],
}
#: What writes its first tensor.
WRITES = {
    "mul_": (2, lambda n, a, b: a.mul_(b)),
    "add_": (2, lambda n, a, b: a.add_(b, alpha=0.5)),
    "copy_": (2, lambda n, a, b: a.copy_(b)),
    "sin_": (1, lambda n, a: a.sin_()),
    "scale_": (1, lambda n, a: a.mul_(0.5 + n)),
    "zero_": (1, lambda n, a: a.zero_()),
    "fill_": (1, lambda n, a: a.fill_(n)),
    "set": (2, lambda n, a, b: a.__setitem__(int(n * a.shape[0]), b)),
    "set part": (2, lambda n, a, b: a.__setitem__(slice(1, None), b)),
    "set by index": (2, lambda n, a, b: a.__setitem__(ad.tensor([0, a.shape[0] - 1]), b)),
    "index_add_": (2, lambda n, a, b: a.index_add_(0, ad.tensor([a.shape[0] - 1] * b.shape[0]), b)),
    "masked_fill_": (1, lambda n, a: a.masked_fill_(a > 0.5, n)),
    "clamp_": (1, lambda n, a: a.clamp_(max=0.7)),
}  # fmt: skip


def perform(statement, tensors):
    kind, name, number, which = statement
    given = [tensors[i] for i in which]
    if kind == "write":
        WRITES[name][1](number, *given)
    else:
        tensors.append(VIEWS[name](number, *given) if kind == "view" else MAKES[name][1](number, *given))


def run(program, x, y, captured):
    """A vector that tells of every tensor of the program."""
    tensors = [x * 1.0, y * 1.0, captured]
    for statement in program:
        perform(statement, tensors)
    return ad.stack([t.sum() * (1 + 0.1 * i) for i, t in enumerate(tensors)])


def generate(rng, x, y, captured):
    tensors, program = [x * 1.0, y * 1.0, captured], []
    for _ in range(rng.randint(3, 9)):
        kind = rng.choice(("make", "view", "view", "write", "write"))
        name = rng.choice(list({"make": MAKES, "view": VIEWS, "write": WRITES}[kind]))
        count = {"make": MAKES, "write": WRITES}[kind][name][0] if kind != "view" else 1
        which = [rng.randrange(len(tensors)) for _ in range(count)]
        if kind == "write" and which[0] == 2:
            continue  # from outside
        if kind == "view" and which[0] == 2:
            continue
        statement = (kind, name, rng.random(), which)
        try:
            perform(statement, tensors)
        except (RuntimeError, IndexError, ValueError):
            continue
        if tensors[-1].numel() > 40 or tensors[-1].ndim > 4:
            tensors.pop()
            continue
        program.append(statement)
    return program


# --- ways -------------------------------------------------------------------------------------------------------------


def each(f, *batches):
    return ad.stack([f(*samples) for samples in zip(*batches, strict=True)])


def total(f):
    return lambda x, y: (f(x, y) ** 2).sum()


def along(f):
    return lambda x, y, t: func.jvp(lambda v: f(v, y), (x,), (t,))[1]


def outer_grad(f, mapped):
    return lambda x, y, t: func.grad(lambda v: (mapped(f)(v, y) ** 2).sum())(x)


def recorded(f, mapped):
    def both(x, y, t):
        leaf = x.clone().requires_grad_()
        out = mapped(f)(leaf, y)
        if out.requires_grad:
            (out**2).sum().backward()
        return out.detach().sum() + (ad.zeros_like(leaf) if leaf.grad is None else leaf.grad)

    return both


#: What is computed, given a map over samples: vmap, or the loop.
WAYS = {
    "value": lambda f, mapped: lambda x, y, t: mapped(f)(x, y),
    "gradient inside": lambda f, mapped: lambda x, y, t: mapped(func.grad(total(f)))(x, y),
    "gradient outside": outer_grad,
    "backward": recorded,
    "tangent inside": lambda f, mapped: lambda x, y, t: mapped(along(f))(x, y, t),
    "tangent outside": lambda f, mapped: lambda x, y, t: func.jvp(lambda v: mapped(f)(v, y), (x,), (t,))[1],
    "tangent of gradient": lambda f, mapped: lambda x, y, t: func.jvp(
        lambda v: mapped(func.grad(total(f)))(v, y), (x,), (t,)
    )[1],
    "gradient of tangent": lambda f, mapped: lambda x, y, t: mapped(func.grad(lambda a, b, c: along(f)(a, b, c).sum()))(
        x, y, t
    ),
    "nested": lambda f, mapped: lambda x, y, t: mapped(lambda a: mapped(lambda b: f(a, b))(y))(x),
    "second argument the same": lambda f, mapped: lambda x, y, t: mapped(lambda a: f(a, y[0]))(x),
}  # fmt: skip


def mapped_by_loop(f):
    return partial(each, f)


def check(seed, call=called):
    """Generate a program and run it in two ways; a text that says what was wrong, or None."""
    rng = random.Random(seed)
    generator = ad.Generator().manual_seed(seed)

    def drawn(*shape):
        return ad.rand(*shape, generator=generator, dtype=ad.float64) + 0.1

    x, y, t, captured = drawn(SAMPLES, 3), drawn(SAMPLES, 3), drawn(SAMPLES, 3), drawn(3)
    program = generate(rng, x[0], y[0], captured)

    def f(a, b):
        return run(program, a, b, captured)

    for way in rng.sample(list(WAYS), 3):
        try:
            expected = WAYS[way](f, mapped_by_loop)(x, y, t)
        except RuntimeError:
            continue  # what is written is needed for a gradient
        if not bool(expected.isfinite().all()):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = call(WAYS[way](f, func.vmap), x, y, t)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            return f"seed {seed}: {way} of {program}: {type(error).__name__}: {error}"
        if not ad.allclose(found, expected, rtol=1e-9, atol=1e-9):
            return f"seed {seed}: {way} of {program}: found {found.tolist()}, expected {expected.tolist()}"
    return None


if __name__ == "__main__":
    sys.exit(main(check, __doc__))
