"""Random programs of views, writes in place and operators. Start reading at `generate`.

The generator runs each step on the reference as it goes, so it knows shapes, layouts and values: numbers stay moderate,
and steps that would be refused (a write to a leaf, to a saved tensor, through one of several views) stay rare without
being excluded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fuzz_reference import Reference, TooLarge, Value, refusal
from fuzz_steps import Program, Step

LIMIT = 20.0
RARE = 0.04  #: relative weight of a target for which the write, or the backward pass later, is refused


class Generator:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng([seed, 20260])
        rng = self.rng
        self.is_complex = rng.random() < 0.3
        shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 4)))
        shapes = [shape, shape[int(rng.integers(len(shape))) :], shape, ()]
        leaves = {
            f"x{k}": self.numbers(shapes[k % 4], self.some_complex()) for k in range(rng.integers(1, 4))
        }
        constants = {}
        for k in range(rng.integers(1, 3)):
            x = self.numbers(shape, self.some_complex())
            constants[f"c{k}"] = np.zeros_like(x) if rng.random() < 0.3 else x
        self.program = Program(seed, leaves, constants, [])
        self.reference = Reference(self.program, limit=LIMIT)
        self.count = 0

    # Choices.

    def some_complex(self) -> bool:
        return self.is_complex and self.rng.random() < 0.7

    def numbers(self, shape, is_complex=False) -> np.ndarray:
        """Of two decimals, none of them 0, where some functions have a kink."""
        x, y = np.round(self.rng.uniform(0.005, 1.5, (2, *shape)) * self.rng.choice([-1, 1], (2, *shape)), 2)
        return np.asarray(x + 1j * y if is_complex else x)

    def mask(self, shape) -> np.ndarray:
        return np.asarray(self.rng.random(shape) < 0.5)

    def number(self) -> float:
        return round(float(self.rng.uniform(0.4, 1.4) * self.rng.choice([-1, 1])), 2)

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p) -> bool:
        return bool(self.rng.random() < p)

    def dim(self, x) -> int:
        return int(self.rng.integers(x.v.ndim))

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def weighted(self, weight) -> str:
        """A tensor, with probability in proportion to `weight(value)`."""
        names = list(self.reference.values)
        w = np.array([weight(self.reference.values[n]) for n in names])
        return names[int(self.rng.choice(len(names), p=w / w.sum()))]

    def source(self, fits=lambda x: True) -> str | None:
        """A tensor to read that fits; later ones and tracked ones are more likely."""
        values = self.reference.values
        names = [n for n in values if fits(values[n]) and (not values[n].stale or self.chance(0.02))]
        if tracked := [n for n in names if values[n].base.tracked and self.chance(0.7)]:
            names = tracked
        return names[int(len(names) * self.rng.random() ** 0.7)] if names else None

    def target(self, grad: bool, fits=lambda x: True) -> str:
        """A tensor to write."""

        def weight(x: Value) -> float:
            bad = (
                x.overlaps
                or x.base.memory.saved
                or (grad and (x.base.leaf or x.no_grad or (x.multi and x.base.tracked)))
                or x.stale
            )
            return RARE if bad else 1.0 + (x.v.size < x.base.memory.values.size) + x.base.tracked

        return self.weighted(weight)

    def operand(self, shape, is_complex, positive=False):
        """Something that can be broadcast to a shape: a tensor, a number or a literal."""

        def fits(x):
            return (is_complex or not x.is_complex) and broadcasts(x.v.shape, shape)

        kind = self.rng.random()
        if kind < 0.65 and (name := self.source(fits)) is not None:
            return name
        if kind < 0.8:
            return self.number()
        smaller = shape[int(self.rng.integers(len(shape) + 1)) :]
        return self.numbers(smaller, is_complex and self.chance(0.5))

    def index(self, x: Value, advanced: bool, empty: bool = False):
        """An index of a tensor, without repetitions; it may hold nothing if `empty` allows."""
        if not x.v.ndim:
            return (Ellipsis,)
        if advanced:
            if self.chance(0.4):
                n = int(self.rng.integers(1, x.v.ndim + 1))
                mask = self.rng.random(x.v.shape[:n]) < 0.6
                if not empty:
                    mask.reshape(-1)[int(self.rng.integers(mask.size))] = True
                return (mask,)
            d = self.dim(x)
            n = x.v.shape[d]
            chosen = self.rng.permutation(n)[: int(self.rng.integers(1, n + 1))]
            return (*(self.slice(x.v.shape[k]) for k in range(d)), chosen)
        if empty and self.chance(0.05):
            return (slice(0, 0),)
        parts: list = []
        for k in range(int(self.rng.integers(1, x.v.ndim + 1))):
            n = x.v.shape[k]
            parts.append(
                int(self.rng.integers(-n, n)) if self.chance(0.4) and n > 0 else self.slice(x.v.shape[k])
            )
        if self.chance(0.1):
            parts.insert(int(self.rng.integers(len(parts) + 1)), None)
        if self.chance(0.15) and len(parts) - parts.count(None) < x.v.ndim:
            parts.insert(0, Ellipsis)
            parts = [p if isinstance(p, slice) or p is None or p is Ellipsis else slice(None) for p in parts]
            parts = [p if not isinstance(p, slice) else slice(None, None, p.step) for p in parts]
        return tuple(parts)

    def slice(self, n: int) -> slice:
        start = int(self.rng.integers(n))
        stop = int(self.rng.integers(start, n)) + 1
        step = self.pick([None, None, 2])
        return slice(start or None, None if stop == n else stop, step)

    # Steps, by kind.

    def view(self, grad: bool) -> Step | None:
        a = self.source(lambda x: not x.stale)
        x = self.reference.values[a]
        shape, nd = x.v.shape, x.v.ndim
        ops = ["getitem", "getitem", "unsqueeze", "expand"] if nd else ["unsqueeze", "expand"]
        if nd:
            ops += ["select", "narrow", "squeeze", "unfold", "unbind", "split"]
        if nd > 1:
            ops += ["transpose", "permute", "movedim", "diagonal"]
        regular = x.base.memory.regular
        if regular:
            ops += ["reshape", "flatten", "view", "contiguous"]
            if x.v.nbytes == x.base.memory.values.nbytes and x.v.flags.c_contiguous:
                ops += ["as_strided"]
        if x.is_complex:
            ops += ["real", "imag", "view_as_real"] * 2
        elif self.is_complex and as_complex(x):
            ops += ["view_as_complex"] * 4
        op = self.pick(ops)
        d = self.dim(x) if nd else 0
        out: tuple[str, ...] = (self.name(),)
        params: tuple = ()
        if op == "getitem":
            params = (self.index(x, advanced=False),)
        elif op == "select":
            params = (d, int(self.rng.integers(shape[d])))
        elif op == "narrow":
            start = int(self.rng.integers(shape[d]))
            params = (d, start, int(self.rng.integers(1, shape[d] - start + 1)))
        elif op in ("transpose", "movedim"):
            params = (d, self.dim(x))
        elif op == "permute":
            params = (tuple(int(i) for i in self.rng.permutation(nd)),)
        elif op in ("view", "reshape"):
            new = self.factors(x.v.size)
            if op == "view" and not np.may_share_memory(x.v.reshape(new), x.v):
                return None
            params = (new,)
        elif op == "as_strided":
            params = self.layout(x.v.size)
        elif op == "unsqueeze":
            params = (int(self.rng.integers(nd + 1)),)
        elif op == "squeeze":
            ones = [k for k in range(nd) if shape[k] == 1]
            if not ones:
                return None
            params = (self.pick(ones),)
        elif op == "diagonal":
            d1, d2 = (int(i) for i in self.rng.permutation(nd)[:2])
            offset = self.pick([0, 0, 1, -1])
            if shape[d2 if offset > 0 else d1] <= abs(offset):
                return None
            params = (offset, d1, d2)
        elif op == "unfold":
            size = int(self.rng.integers(1, shape[d] + 1))
            params = (d, size, size + self.pick([0, 1]))
        elif op == "expand":
            params = (
                ((self.pick([2, 3]), *shape),)
                if 1 not in shape
                else (tuple(3 if n == 1 else n for n in shape),)
            )
        elif op == "unbind":
            params, out = (d,), tuple(self.name() for _ in range(shape[d]))
        elif op == "split":
            size = int(self.rng.integers(1, shape[d] + 1))
            params, out = (size, d), tuple(self.name() for _ in range(-(-shape[d] // size)))
        return Step(op, (a,), params, out, grad)

    def layout(self, size: int):
        """Sizes, strides and offset of some part of a row of numbers, without overlap."""
        offset = int(self.rng.integers(size))
        step = self.pick([1, 1, 2, 3])
        n = int(self.rng.integers(1, (size - offset - 1) // step + 2))
        if (size - offset - 1) // step >= 2 * n - 1:
            return self.pick([((2, n), (n * step, step), offset), ((n, 2), (step, n * step), offset)])
        return (n,), (step,), offset

    def factors(self, size: int) -> tuple[int, ...]:
        shape = []
        while size > 1 and len(shape) < 3 and self.chance(0.7):
            n = self.pick([k for k in range(1, size + 1) if size % k == 0])
            shape.append(n)
            size //= n
        return (*shape, size)

    def pure(self, grad: bool) -> Step | None:
        # Those that save nothing, and so leave what they read free to be written, come up more often.
        a = self.source()
        x = self.reference.values[a]
        nd, z = x.v.ndim, x.is_complex
        ops = ["clone", "neg", "add", "sub", "where"] * 3 + ["mul"] * 4
        ops += ["sin", "cos", "exp", "tanh", "square", "abs", "pow", "mul", "lerp"]
        if z:
            ops += ["conj", "conj"]
        else:
            ops += ["sigmoid", "relu", "length", "ratio", "maximum"] + ["complex"] * (3 * self.is_complex)
        if nd:
            ops += [
                "sum",
                "mean",
                "cumsum",
                "flip",
                "roll",
                "cat",
                "stack",
                "take",
                "index_select",
                "gather",
            ] * 2
            ops += ["prod"] + ["amax", "softmax"] * (not z)
        if nd > 1:
            ops += ["tril"]
        if nd == 2:
            ops += ["matmul"] * 3
        op = self.pick(ops)
        args: tuple = (a,)
        params: tuple = ()
        d = self.dim(x) if nd else 0
        if op == "pow":
            params = (self.pick([2, 3]),)
        elif op in ("add", "mul", "sub", "ratio", "lerp", "maximum", "where", "complex"):
            b = self.operand(x.v.shape, z)
            if op in ("maximum", "lerp", "where", "complex") and isinstance(b, float):
                b = self.numbers(x.v.shape, z)
            if z != bool(isinstance(b, np.ndarray) and b.dtype.kind == "c") and op in ("lerp", "where"):
                if not (isinstance(b, str) and self.reference.values[b].is_complex == z):
                    return None
            args = (a, b)
            if op == "where":
                params = (self.mask(x.v.shape),)
            elif op in ("sub", "lerp"):
                params = (abs(self.number()),)
        elif op in ("sum", "mean", "prod", "cumsum", "amax", "softmax", "flip"):
            params = (d,)
        elif op == "roll":
            params = (1, d)
        elif op == "matmul":
            b = self.source(lambda y: y.v.ndim == 2 and y.v.shape[0] == x.v.shape[1] and y.is_complex == z)
            if b is None:
                return None
            args = (a, b)
        elif op in ("cat", "stack"):
            b = self.source(lambda y: y.v.shape == x.v.shape and y.is_complex == z)
            args = (a, b if b else a)
            params = (d,)
        elif op == "take":
            params = (self.index(x, advanced=True),)
        elif op == "index_select":
            params = (d, self.rng.integers(x.v.shape[d], size=self.rng.integers(1, 4)))
        elif op == "gather":
            params = (d, self.rng.integers(x.v.shape[d], size=x.v.shape))
        return Step(op, args, params, (self.name(),), grad)

    def write(self, grad: bool) -> Step | None:
        a = self.target(grad)
        x = self.reference.values[a]
        nd, z, shape = x.v.ndim, x.is_complex, x.v.shape
        ops = ["add_", "sub_", "mul_", "copy_", "iadd", "imul", "setitem", "div_"] * 3
        ops += [
            "sin_",
            "cos_",
            "exp_",
            "tanh_",
            "neg_",
            "square_",
            "pow_",
            "zero_",
            "fill_",
            "lerp_",
            "addcmul_",
        ]
        ops += ["masked_fill_"] * 2 + ["masked_scatter_", "aug_item", "aug_item"]
        ops += [] if z else ["sigmoid_", "abs_", "relu_", "clamp_"]
        ops += ["set_real", "set_imag"] * 2 if z else []
        if nd:
            ops += ["setadvanced", "index_put_", "index_put_accumulate"] * 2
            ops += ["index_add_", "index_copy_", "index_fill_", "scatter_add_", "cumsum_"]
        if nd > 1:
            ops += ["tril_"]
        op = self.pick(ops)
        args: tuple = (a,)
        params: tuple = ()
        d = self.dim(x) if nd else 0

        def value(like, complex_too=z, number=True):
            b = self.operand(like, complex_too)
            return b if number or not isinstance(b, float) else self.numbers(like, complex_too)

        def same_dtype(like):
            """A tensor or literal of exactly this shape and dtype."""
            b = self.source(lambda y: y.v.shape == like and y.is_complex == z) if self.chance(0.6) else None
            return b if b is not None else self.numbers(like, z)

        if op in ("add_", "mul_", "sub_", "iadd", "imul"):
            args = (a, value(shape))
            params = (self.number(),) if op == "add_" else ()
        elif op == "copy_":
            args = (a, value(shape, number=False))
        elif op == "div_":
            args = (a, value(shape))
            b = self.reference.values[args[1]].v if isinstance(args[1], str) else args[1]
            if np.min(np.abs(b)) < 0.3:
                return None
        elif op == "pow_":
            params = (self.pick([2, 3]),)
        elif op == "clamp_":
            params = (-round(abs(self.number()), 2), round(abs(self.number()), 2))
        elif op == "cumsum_":
            params = (d,)
        elif op in ("fill_", "masked_fill_", "index_fill_"):
            b = self.source(lambda y: not y.v.ndim and y.is_complex == z) if self.chance(0.6) else None
            args = (a, b if b is not None else self.number())
            if op == "masked_fill_":
                params = (self.mask(shape[int(self.rng.integers(nd + 1)) :]),)
            elif op == "index_fill_":
                params = (d, self.rng.permutation(shape[d])[: int(self.rng.integers(1, shape[d] + 1))])
        elif op in ("lerp_", "addcmul_"):
            args = (a, *(same_dtype(shape) for _ in range(1 + (op == "addcmul_"))))
            params = (abs(self.number()),)
        elif op == "masked_scatter_":
            args, params = (a, same_dtype(shape)), (self.mask(shape),)
        elif op in ("setitem", "aug_item", "setadvanced", "index_put_", "index_put_accumulate"):
            advanced = op in ("setadvanced", "index_put_", "index_put_accumulate")
            i = self.index(x, advanced or (op == "aug_item" and self.chance(0.3)), empty=True)
            if "put" in op:
                i = tuple(k for k in i if not isinstance(k, slice))
                if op == "index_put_accumulate" and i[0].dtype.kind == "i":
                    i = (self.rng.integers(shape[0], size=self.rng.integers(1, 4)),)
                elif i[0].dtype.kind == "i":
                    i = (self.rng.permutation(shape[0])[: int(self.rng.integers(1, shape[0] + 1))],)
            part = x.v[i]
            b = same_dtype(part.shape) if "put" in op and self.chance(0.5) else value(part.shape)
            # A write by index takes tensors of one dtype, and index_put_ no numbers.
            if (
                "put" in op
                and isinstance(b, float)
                or advanced
                and not isinstance(b, float)
                and _dtype(self, b) != z
            ):
                b = self.numbers(part.shape, z)
            op = "setitem" if op == "setadvanced" else op
            args, params = (a, b), (i,)
        elif op in ("index_add_", "index_copy_"):
            n = int(self.rng.integers(1, shape[d] + 1))
            index = (
                self.rng.integers(shape[d], size=n)
                if op == "index_add_"
                else self.rng.permutation(shape[d])[:n]
            )
            args, params = (a, same_dtype((*shape[:d], n, *shape[d + 1 :]))), (d, index)
        elif op == "scatter_add_":
            args, params = (a, same_dtype(shape)), (d, self.rng.integers(shape[d], size=shape))
        elif op in ("set_real", "set_imag"):
            args = (a, value(shape, complex_too=False, number=False))
        return Step(op, args, params, (), grad)

    def weigh(self, name: str) -> Step:
        """A term of the loss."""
        x = self.reference.values[name]
        op = "weigh_complex" if x.is_complex else self.pick(["weigh", "weigh", "weigh_square"])
        return Step(op, (name,), (self.numbers(x.v.shape, x.is_complex),), (f"l{self.count}_{name}",))


def _dtype(g: Generator, b) -> bool:
    return g.reference.values[b].is_complex if isinstance(b, str) else b.dtype.kind == "c"


def broadcasts(shape, to) -> bool:
    if len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))


def as_complex(x: Value) -> bool:
    """Whether view_as_complex accepts a tensor."""
    if not x.base.memory.regular or not x.v.ndim or x.v.shape[-1] != 2 or x.v.strides[-1] != 8:
        return False
    offset = x.v.__array_interface__["data"][0] - x.base.memory.values.__array_interface__["data"][0]
    return offset % 16 == 0 and all(s % 16 == 0 for s in x.v.strides[:-1])


def generate(seed: int) -> Program:
    """The program of a seed."""
    g = Generator(seed)
    steps = g.program.steps
    # Something to write: a result, or a buffer.
    for name in g.program.leaves:
        first = Step(g.pick(["clone", "neg", "mul"]), (name,), (), (g.name(),))
        steps.append(replace(first, args=(name, g.number())) if first.op == "mul" else first)
        g.reference.run(steps[-1])
    quiet = 0  # how many steps more are under no_grad
    for _ in range(int(g.rng.integers(8, 26))):
        if not quiet and g.chance(0.06):
            quiet = int(g.rng.integers(1, 4))
        make = g.rng.choice(["view", "write", "pure", "detach"], p=[0.32, 0.39, 0.24, 0.05])
        grad = not quiet
        if make == "detach":
            step = Step("detach", (g.source(),), (), (g.name(),), grad)
        else:
            step = getattr(g, make)(grad)
        if step is None:
            continue
        quiet = max(quiet - 1, 0)
        try:
            if not refusal(g.reference, step):
                with np.errstate(all="ignore"):
                    g.reference.run(step)
        except TooLarge:
            continue
        steps.append(step)
    live = [n for n, x in g.reference.values.items() if x.base.tracked and not x.stale]
    live = [live[int(i)] for i in g.rng.permutation(len(live))[: int(g.rng.integers(2, 6))]]
    # What was made last, and one tensor that may have nothing to do with the leaves.
    live += [n for n in list(g.reference.values)[-2:] if not g.reference.values[n].stale]
    live += [g.source()] if g.chance(0.3) else []
    g.program.terms = [g.weigh(n) for n in dict.fromkeys(live)]
    return g.program
