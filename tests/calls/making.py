"""What a random call is made of: tensors of drawn shapes, types, values and layouts, and the text of an expression.

A call is Python text in which `ad` is the library, `F` its `nn.functional`, and x0, x1, … are tensors; so the same call can be
made of Adjoint and, by hand, of a library that it is compared with. Start reading at `Draw`.
"""

import math
import random
import re

import numpy as np

FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
ALL = (*FLOATS, *HALVES, *COMPLEX, *INTEGERS, "bool")
LAYOUTS = ("plain", "plain", "transposed", "strided", "reversed rows", "offset", "expanded", "channels last")


class Spec:
    """One tensor of a call: its values as a NumPy array, its type, how it lies, and whether it is differentiated."""

    def __init__(self, values, dtype, layout="plain", grad=False):
        self.values, self.dtype, self.layout, self.grad = values, dtype, layout, grad

    def __repr__(self):
        return f"{self.dtype}{list(self.values.shape)} {self.layout}{' grad' if self.grad else ''}"

    def make(self, lib, layout=None):
        """(leaf, tensor): the tensor lies as asked in the leaf's memory, or is it."""
        layout, v = layout or self.layout, self.values
        dtype = getattr(lib, self.dtype)
        if layout == "transposed" and v.ndim > 1:
            leaf, view = np.ascontiguousarray(v.T), lambda t: t.permute(*reversed(range(v.ndim)))
        elif layout == "strided" and v.ndim:
            leaf, view = np.repeat(v, 2, axis=-1), lambda t: t[..., ::2]
        elif layout == "reversed rows" and v.ndim > 1 and v.shape[0] > 1:
            leaf = np.ascontiguousarray(np.moveaxis(v, 0, 1))
            view = lambda t: t.transpose(0, 1)  # noqa: E731
        elif layout == "offset" and v.ndim:
            leaf, view = np.concatenate([v[:1], v], axis=0), lambda t: t[min(1, v.shape[0]) :]
        elif layout == "expanded" and v.ndim and v.shape[0] > 0 and (v == v[:1]).all():
            leaf, view = v[:1].copy(), lambda t: t.expand(*v.shape)
        elif layout == "channels last" and v.ndim == 4:
            leaf, view = np.ascontiguousarray(v.transpose(0, 2, 3, 1)), lambda t: t.permute(0, 3, 1, 2)
        else:
            leaf, view = v.copy(), lambda t: t
        t = lib.from_numpy(leaf).to(dtype)
        if self.grad:
            t.requires_grad_()
        return t, view(t)


class Draw:
    """The draws of one call, and the tensors that it has so far."""

    def __init__(self, seed, modes=()):
        self.r = random.Random(seed)
        self.np = np.random.default_rng(seed & 0xFFFFFFFF)
        self.tensors = {}
        self.smooth = "smooth" in modes

    def pick(self, *options):
        return self.r.choice(options[0] if len(options) == 1 else options)

    def chance(self, p):
        return self.r.random() < p

    def int(self, low, high):
        return self.r.randint(low, high)

    def shape(self, low=0, high=4, most=5):
        """Sizes; one in sixteen is 0, one in eight 1."""
        return tuple(
            self.pick(0, 1, 1) if self.chance(0.12) else self.int(1, most) for _ in range(self.int(low, high))
        )

    def dim(self, n):
        """A dimension, or one that does not exist, rarely."""
        if self.chance(0.02):
            return self.pick(n, -n - 1, 7)
        return self.int(-n, n - 1) if n else self.pick(0, -1)

    def floating(self):
        return self.pick(*FLOATS, "float64", self.pick(HALVES) if self.chance(0.25) else "float32")

    def any(self):
        return self.floating() if self.chance(0.6) else self.pick(ALL)

    def differentiable(self):
        return self.pick(COMPLEX) if self.chance(0.15) else self.floating()

    def values(self, shape, dtype, kind):
        g = self.np
        if dtype == "bool":
            return g.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            low = 0 if dtype == "uint8" or kind in ("positive", "unit") else -9
            return g.integers(low, 10, shape).astype(dtype)
        if kind == "positive":
            v = g.random(shape) * 2 + 0.5
        elif kind == "unit":
            v = g.random(shape) * 0.9 + 0.05
        elif kind == "any":
            v = g.standard_normal(shape) * self.pick(1.0, 1.0, 3.0, 30.0)
            if v.size and self.chance(0.3):
                edges = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 1e30, 1e-30, 2.0]
                for _ in range(self.int(1, 3)):
                    v.reshape(-1)[self.int(0, v.size - 1)] = self.pick(edges)
        else:
            v = g.standard_normal(shape)
        if dtype in COMPLEX:
            v = v + 1j * (g.standard_normal(shape) if kind != "unit" else 0.3 * g.random(shape))
        return np.asarray(v).astype({"float16": "float32", "bfloat16": "float32"}.get(dtype, dtype))

    def t(self, shape=None, dtype=None, kind="normal", grad=None, values=None, layout=None):
        """The name of a new tensor."""
        shape = self.shape() if shape is None else tuple(shape)
        dtype = dtype or self.differentiable()
        v = self.values(shape, dtype, kind) if values is None else np.asarray(values)
        layout = layout or self.pick(LAYOUTS)
        if layout == "expanded" and v.ndim and v.shape[0]:
            v = np.repeat(v[:1], v.shape[0], axis=0)
        grad = (dtype not in INTEGERS and dtype != "bool") if grad is None else grad
        name = f"x{len(self.tensors)}"
        self.tensors[name] = Spec(v, dtype, layout, grad)
        return name

    def index(self, shape, below, dtype="int64", negative=False):
        """Whole numbers below a bound; one call in fifty has one that is too large."""
        low = -below if negative else 0
        v = self.np.integers(low, max(below, low + 1), shape)
        if v.size and self.chance(0.02):
            v.reshape(-1)[0] = below
        return self.t(values=v.astype(dtype), dtype=dtype)

    def mask(self, shape):
        return self.t(shape, "bool")

    def broadcast(self, shape):
        """A shape that broadcasts to this one, or, rarely, does not."""
        out = [1 if self.chance(0.25) else s for s in shape]
        if self.chance(0.25):
            out = out[self.int(0, len(out)) :]
        if out and self.chance(0.02):
            out[-1] += 1
        return tuple(out)

    def number(self, dtype="float32"):
        if dtype in INTEGERS:
            return self.pick(0, 1, 2, 3, 5, -1, -2)
        return self.pick(0.5, 2, -1.5, 3, 1.25, 0, -1, 2.0, 0.25, 1e-3)

    def options(self, **choices):
        """Keywords of which each is given by chance, as text that begins with a comma where there is any."""
        return "".join(f", {k}={self.pick(v)!r}" for k, v in choices.items() if self.chance(0.5))


class Call:
    """A random call: `text`, `tensors` by name, and the family that drew it."""

    def __init__(self, seed, families, modes=()):
        self.seed = seed
        d = Draw(seed, modes)
        self.family = d.pick(sorted(families))
        self.text = families[self.family](d)
        used = set(re.findall(r"x\d+", self.text))
        self.tensors = {name: spec for name, spec in d.tensors.items() if name in used}

    def __repr__(self):
        return f"{self.text}  # seed {self.seed}, {self.family}: {self.tensors}"

    def name(self):
        """What is called: the function that stands first in the text."""
        head = self.text.split("(")[0]
        return head if not head.startswith("x") or "[" in head else head.partition(".")[2] or "index"

    def make(self, lib, layout=None):
        made = {name: spec.make(lib, layout) for name, spec in self.tensors.items()}
        return {n: m[0] for n, m in made.items()}, {n: m[1] for n, m in made.items()}

    def run(self, lib, tensors):
        """The results that are tensors or numbers, flat."""
        names = {
            "ad": lib,
            "F": lib.nn.functional,
            "fill": fill,
            "put": put,
            "at": At(),
            "inf": math.inf,
            "nan": math.nan,
            **tensors,
        }
        return flat(eval(self.text, names), lib)


def flat(result, lib):
    if isinstance(result, lib.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r, lib)]
    if isinstance(result, dict):
        return [t for r in result.values() for t in flat(r, lib)]
    return [] if result is None else [result]


class At:
    """`at[…]` is the index."""

    def __getitem__(self, key):
        return key


def put(t, key, value):
    t[key] = value
    return t


def fill(module):
    """A module whose parameters and buffers are numbers that depend on their order alone."""
    for k, (name, v) in enumerate(module.state_dict().items()):
        if v.is_floating_point():
            numbers = np.sin(1.0 + 0.7 * k + 0.3 * np.arange(v.numel())).reshape(tuple(v.shape)) * 0.5
            v.copy_(v.new_tensor((np.abs(numbers) + 0.5 if "var" in name else numbers).tolist()))
    return module
