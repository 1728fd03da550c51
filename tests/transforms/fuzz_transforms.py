"""Random compositions of transforms, with captured arguments, views and writes: each value against tagged dual numbers.

    python -m tests.transforms.fuzz_transforms --programs 10000 --seed 0

A program is an expression of numbers in which a derivative of a function, D(v ↦ expression)(expression), may stand anywhere,
its function using all arguments around it. Adjoint computes each D in one of the ways of `WAYS`: a transform, or a pass by
hand. The reference computes all of them with numbers p + t·ε, whose ε are told apart by tags, of which inner ones are larger
(`Dual`); it is a page of Python that shares nothing with the core. Start reading at `check`.
"""

from __future__ import annotations

import math
import os
import random
import sys
from itertools import count

import adjoint as ad
from adjoint import func

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from programs import called, main  # noqa: E402

# --- the reference ----------------------------------------------------------------------------------------------------


class Dual:
    """A number p + t·ε, of the ε that `tag` names."""

    def __init__(self, tag, primal, tangent):
        self.tag, self.primal, self.tangent = tag, primal, tangent


def parts(x, tag):
    return (x.primal, x.tangent) if isinstance(x, Dual) and x.tag == tag else (x, 0.0)


def lifted(f, derivatives):
    """A function of numbers as one of dual numbers, by its derivative for each argument."""

    def g(*xs):
        tag = max((x.tag for x in xs if isinstance(x, Dual)), default=None)
        if tag is None:
            return f(*xs)
        primals, tangents = zip(*[parts(x, tag) for x in xs], strict=True)
        total = 0.0
        for derivative, t in zip(derivatives, tangents, strict=True):
            if isinstance(t, Dual) or t != 0.0:
                total = ADD(total, MUL(derivative(*primals), t))
        return Dual(tag, g(*primals), total)

    return g


ADD = lifted(lambda a, b: a + b, (lambda a, b: 1.0, lambda a, b: 1.0))
MUL = lifted(lambda a, b: a * b, (lambda a, b: b, lambda a, b: a))
SIN = lifted(math.sin, (lambda a: COS(a),))
COS = lifted(math.cos, (lambda a: MUL(-1.0, SIN(a)),))
TANH = lifted(math.tanh, (lambda a: ADD(1.0, MUL(-1.0, MUL(TANH(a), TANH(a)))),))
tags = count(1)


def derivative(f, x):
    tag = next(tags)
    return parts(f(Dual(tag, x, 1.0)), tag)[1]


# --- programs ---------------------------------------------------------------------------------------------------------

#: Operations that have a value by themselves: name → the reference and Adjoint's.
OPERATIONS = {
    "add": (ADD, lambda a, b: a + b),
    "mul": (MUL, lambda a, b: a * b),
    "sin": (SIN, lambda a: a.sin()),
    "tanh": (TANH, lambda a: a.tanh()),
    # Views, writes and products, of which the reference is told what they amount to.
    "write": (lambda a, b: MUL(a, b), lambda a, b: _written(a, b)),
    "view": (lambda a, b: ADD(b, MUL(2.0, a)), lambda a, b: ad.stack([a, b]).flip(0).expand(2, 2)[:, 0].sum() / 2 + _dot(a)),
    "part": (lambda a, b: ADD(a, MUL(2.0, b)), lambda a, b: _in_place(a, b)),
}  # fmt: skip
ARITY = {"sin": 1, "tanh": 1}


def _written(a, b):
    buffer = ad.zeros(3, dtype=ad.float64)
    buffer[1] = a
    buffer[1:].mul_(b)
    return buffer.sum()


def _dot(a):
    return ad.stack([a, a]) @ ad.ones(2, dtype=ad.float64)


def _in_place(a, b):
    both = ad.stack([a, b])
    both[1].add_(b)
    return both.T.sum()


ONE = ad.ones((), dtype=ad.float64)


def by_pass(f, x):
    with ad.enable_grad():
        alias = x.clone().requires_grad_() if not x.requires_grad else x * 1
        y = f(alias)
        if not y.requires_grad:
            return ad.zeros_like(x)
        (g,) = ad.autograd.grad(y, alias, create_graph=True, allow_unused=True)
    return ad.zeros_like(x) if g is None else g


def by_container(f, x):
    g, (_, aux) = func.grad_and_value(lambda p: (f(p["x"][0]), p), has_aux=True)({"x": (x,)})
    assert aux["x"][0] is x
    return g["x"][0]


def by_rows(f, x):
    return func.jacrev(lambda v: ad.stack([f(v[1]), v[0] * 3.0]))(ad.stack([x, x]))[0, 1]


def by_columns(f, x):
    return func.jacfwd(lambda v: ad.stack([f(v[1]), v[0] * 3.0]))(ad.stack([x, x]))[0, 1]


def by_batch(f, x):
    return func.vmap(func.grad(f))(ad.stack([x, x]))[1]


#: Ways to compute the derivative of a function of one number; those that exist.
WAYS = {
    "grad": lambda f, x: func.grad(f)(x),
    "vjp": lambda f, x: func.vjp(f, x)[1](ONE)[0],
    "linearize": lambda f, x: func.linearize(f, x)[1](ONE),
    "jacrev": lambda f, x: func.jacrev(f)(x),
    "rows": by_rows,
    "pass": by_pass,
    "container": by_container,
}
if hasattr(func, "jvp"):
    WAYS |= {
        "jvp": lambda f, x: func.jvp(f, (x,), (ONE,))[1],
        "jacfwd": lambda f, x: func.jacfwd(f)(x),
        "columns": by_columns,
    }
if hasattr(func, "vmap"):
    WAYS |= {"batch": by_batch}


def generate(rng, depth, arguments):
    """An expression over arguments number 0 to `arguments` - 1; derivatives nest up to `depth`."""
    if depth <= 0 or rng.random() < 0.15:
        return (
            ("argument", rng.randrange(arguments)) if rng.random() < 0.85 else ("number", rng.uniform(-1, 1))
        )
    if rng.random() < 0.45:
        return (
            "D",
            rng.choice(list(WAYS)),
            generate(rng, depth - 1, arguments + 1),
            generate(rng, depth - 2, arguments),
        )
    name = rng.choice(list(OPERATIONS))
    return (name, *[generate(rng, depth - 1, arguments) for _ in range(ARITY.get(name, 2))])


def show(e, arguments=2):
    kind, *rest = e
    if kind == "argument":
        return "xyzuvwabcdefghijk"[rest[0]]
    if kind == "number":
        return f"{rest[0]:.3f}"
    if kind == "D":
        name = "xyzuvwabcdefghijk"[arguments]
        return f"{rest[0]}({name} ↦ {show(rest[1], arguments + 1)})({show(rest[2], arguments)})"
    return f"{kind}({', '.join(show(r, arguments) for r in rest)})"


def expected(e, arguments):
    kind, *rest = e
    if kind == "argument":
        return arguments[rest[0]]
    if kind == "number":
        return rest[0]
    if kind == "D":
        _, body, at = rest
        return derivative(lambda v: expected(body, (*arguments, v)), expected(at, arguments))
    return OPERATIONS[kind][0](*[expected(r, arguments) for r in rest])


def computed(e, arguments):
    kind, *rest = e
    if kind == "argument":
        return arguments[rest[0]]
    if kind == "number":
        return ad.tensor(rest[0], dtype=ad.float64)
    if kind == "D":
        way, body, at = rest
        return WAYS[way](lambda v: computed(body, (*arguments, v)), computed(at, arguments))
    return OPERATIONS[kind][1](*[computed(r, arguments) for r in rest])


# --- one program ------------------------------------------------------------------------------------------------------


def check(seed, call=called):
    """Generate a program and run it; a text that says what was wrong, or None."""
    rng = random.Random(seed)
    program = generate(rng, rng.randint(3, 6), 2)
    at = (rng.uniform(-1, 1), rng.uniform(-1, 1))
    value = parts(expected(program, at), 0)[0]
    slopes = [
        derivative(lambda v: expected(program, (v, at[1])), at[0]),  # noqa: B023
        derivative(lambda v: expected(program, (at[0], v)), at[1]),  # noqa: B023
    ]
    if not all(abs(v) < 1e6 for v in (value, *slopes)):
        return None
    x, y = [ad.tensor(v, dtype=ad.float64) for v in at]
    found = []

    def run(*xs):
        return call(lambda *xs: computed(program, xs), *xs)

    try:
        # Nothing asks for gradients: nothing is left of them.
        plain = run(x, y)
        found.append(("value", plain.item(), value))
        if plain.requires_grad and "'pass'" not in repr(program):
            return f"seed {seed}: {show(program)}: the value requires a gradient"
        # A pass around all of it, by one argument; the other is captured everywhere.
        leaf = ad.tensor(at[0], dtype=ad.float64, requires_grad=True)
        around = run(leaf, y)
        found.append(("recorded value", around.item(), value))
        if around.requires_grad:
            around.backward()
        found.append(("gradient", 0.0 if leaf.grad is None else leaf.grad.item(), slopes[0]))
        with ad.no_grad():
            found.append(("value under no_grad", run(leaf, y).item(), value))
        found.append(
            ("grad", call(func.grad(lambda v: computed(program, (x, v)) + 0.0 * v), y).item(), slopes[1])
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return f"seed {seed}: {show(program)} at {at}: {type(error).__name__}: {error}"
    for what, a, b in found:
        if not math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-9):
            return f"seed {seed}: {show(program)} at {at}: {what} is {a!r}, expected {b!r}"
    return None


if __name__ == "__main__":
    sys.exit(main(check, __doc__))
