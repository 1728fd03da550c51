"""What a fuzz program consists of: steps, and a table that says how each is written and what it means.

A step names an operation, its operands (names of tensors, or literal values) and its parameters. The table `OPS` gives
for each operation the Python text, which is what runs and what a reproducer prints, and its meaning on NumPy arrays.
Start reading at `Step`, then at the first entries of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided


@dataclass(frozen=True)
class Op:
    """An operation: its text and what it does to arrays."""

    kind: str  #: "view", "views", "pure", "write" or "detach"
    text: str  #: with {a}, {b}, {c} for operands, {p}, {q}, {r} for parameters, {i} for an index
    meaning: Callable  #: of the operands' arrays and the parameters; what a write gives is the new value of the target
    saves: str = ""  #: which of the operands (a, b, c) and result (o) a backward pass may need


@dataclass(frozen=True)
class Step:
    """One line of a program. A write has no `out`: its target is the first operand."""

    op: str
    args: tuple  #: names, or literals: numbers and arrays
    params: tuple = ()
    out: tuple[str, ...] = ()
    grad: bool = True  #: False: inside `with no_grad()`

    def text(self) -> str:
        """The line of Python, without its `with`."""
        op = OPS[self.op]
        names = dict(zip("abcd", (a if isinstance(a, str) else show(a) for a in self.args), strict=False))
        names |= dict(zip("pqr", map(show, self.params), strict=False))
        if "{i}" in op.text:
            names["i"] = show_index(self.params[0])
        if "{list}" in op.text:
            names["list"] = ", ".join(a if isinstance(a, str) else show(a) for a in self.args)
        line = op.text.format(**names)
        return f"{', '.join(self.out)}{',' * (op.kind == 'views')} = {line}" if self.out else line

    @property
    def reads(self) -> set[str]:
        return {a for a in self.args if isinstance(a, str)}


@dataclass
class Program:
    """Leaves that require a gradient, constants, and the lines between them and the terms of the loss."""

    seed: int
    leaves: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    steps: list[Step]
    terms: list[Step] = field(default_factory=list)

    def source(self, gradient: bool = True, second: bool = False) -> str:
        """The program as Python that runs by itself."""
        lines = ["import adjoint as ad", ""]
        lines += [f"{k} = {show(x)[:-1]}, requires_grad=True)" for k, x in self.leaves.items()]
        lines += [f"{k} = {show(x)}" for k, x in self.constants.items()]
        inside = False
        for step in self.steps + self.terms:
            if not step.grad and not inside:
                lines.append("with ad.no_grad():")
            inside = not step.grad
            lines.append("    " * inside + step.text())
        if gradient and self.terms:
            lines.append("loss = " + " + ".join(t.out[0] for t in self.terms))
            leaves = ", ".join(self.leaves)
            lines.append(
                f"g = ad.autograd.grad(loss, [{leaves}], allow_unused=True{', create_graph=True' * second})"
            )
            lines.append("print(g)")
        return "\n".join(lines)


def show(x: Any) -> str:
    """A literal as Python text."""
    if isinstance(x, np.ndarray):
        dtype = {"f": ", dtype=ad.float64", "c": ", dtype=ad.complex128"}.get(x.dtype.kind, "")
        return f"ad.tensor({x.tolist()}{dtype})" if x.size else f"ad.zeros({x.shape}{dtype})"
    return repr(x)


def show_index(index: tuple) -> str:
    def one(i):
        if isinstance(i, slice):
            ends = ["" if e is None else str(e) for e in (i.start, i.stop, i.step)]
            return ":".join(ends if i.step is not None else ends[:2])
        return "..." if i is Ellipsis else show(i)

    return ", ".join(map(one, index))


def _at(d: int, i) -> tuple:
    return (slice(None),) * d + (i, ...)


def _diagonal(x, offset, d1, d2):
    x = np.moveaxis(x, (d1, d2), (-2, -1))
    x = x[..., :, offset:] if offset >= 0 else x[..., -offset:, :]
    shape, strides = (*x.shape[:-2], min(x.shape[-2:])), (*x.strides[:-2], x.strides[-2] + x.strides[-1])
    return as_strided(x, shape, strides)


def _unfold(x, d, size, step):
    shape, strides = list(x.shape), list(x.strides)
    shape[d], strides[d] = (shape[d] - size) // step + 1, strides[d] * step
    return as_strided(x, (*shape, size), (*strides, x.strides[d]))


def _basic(x, i):
    return x[i if Ellipsis in i else (*i, ...)]


def _split(x, size, d):
    return [x[_at(d, slice(k, k + size))] for k in range(0, x.shape[d], size)]


def _as_strided(x, sizes, strides, offset):
    """Of a contiguous array."""
    return as_strided(x.reshape(-1)[offset:], sizes, [s * x.itemsize for s in strides])


def _expand(x, shape):
    return as_strided(x, shape, np.broadcast_to(x, shape).strides)


def _softmax(x, d):
    e = np.exp(x - x.max(d, keepdims=True))
    return e / e.sum(d, keepdims=True)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _relu(x):
    return x * (x > 0)


def _setitem(x, b, i):
    y = x.copy()
    y[i] = b
    return y


def _aug_item(x, b, i):
    y = x.copy()
    y[i] = y[i] * b
    return y


def _accumulate(x, b, i):
    y = x.copy()
    np.add.at(y, i, b)
    return y


def _along(x, d, index, values, add=False):
    y = x.copy()
    if add:
        np.add.at(y, (slice(None),) * d + (index,), values)
    else:
        y[(slice(None),) * d + (index,)] = values
    return y


def _scatter_add(x, b, d, index):
    y = x.copy()
    places = list(np.indices(index.shape, sparse=True))
    places[d] = index
    np.add.at(y, tuple(places), b[tuple(slice(n) for n in index.shape)])
    return y


def _gather(x, d, index):
    places = list(np.indices(index.shape, sparse=True))
    places[d] = index
    return x[tuple(places)]


def _masked_scatter(x, b, mask):
    y = x.copy()
    full = np.broadcast_to(mask, x.shape)
    y[full] = b.reshape(-1)[: int(full.sum())]
    return y


def _part(name):
    def write(x, b):
        y = x.copy()
        setattr(y, name, b)
        return y

    return write


def _new(x, b):
    return np.array(np.broadcast_to(b, x.shape))


OPS: dict[str, Op] = {
    # Views. Their meaning is a NumPy view, so that memory is shared as it is in the program.
    "select": Op("view", "{a}.select({p}, {q})", lambda x, d, i: x[_at(d, i)]),
    "narrow": Op("view", "{a}.narrow({p}, {q}, {r})", lambda x, d, s, n: x[_at(d, slice(s, s + n))]),
    "getitem": Op("view", "{a}[{i}]", _basic),
    "transpose": Op("view", "{a}.transpose({p}, {q})", np.swapaxes),
    "permute": Op("view", "{a}.permute({p})", np.transpose),
    "movedim": Op("view", "{a}.movedim({p}, {q})", np.moveaxis),
    "view": Op("view", "{a}.view({p})", np.reshape),
    "reshape": Op("view", "{a}.reshape({p})", np.reshape),
    "flatten": Op("view", "{a}.flatten()", lambda x: x if x.ndim == 1 else x.reshape(-1)),
    "contiguous": Op("view", "{a}.contiguous()", lambda x: x if x.flags.c_contiguous else x.copy()),
    "as_strided": Op("view", "{a}.as_strided({p}, {q}, {r})", _as_strided),
    "unsqueeze": Op("view", "{a}.unsqueeze({p})", np.expand_dims),
    "squeeze": Op("view", "{a}.squeeze({p})", np.squeeze),
    "diagonal": Op("view", "{a}.diagonal({p}, {q}, {r})", _diagonal),
    "unfold": Op("view", "{a}.unfold({p}, {q}, {r})", _unfold),
    "expand": Op("view", "{a}.expand({p})", _expand),
    "real": Op("view", "{a}.real", lambda x: x.real),
    "imag": Op("view", "{a}.imag", lambda x: x.imag),
    "view_as_real": Op(
        "view", "ad.view_as_real({a})", lambda x: as_strided(x.real, (*x.shape, 2), (*x.strides, 8))
    ),
    "view_as_complex": Op("view", "ad.view_as_complex({a})", lambda x: x.view(np.complex128)[..., 0]),
    "unbind": Op("views", "{a}.unbind({p})", lambda x, d: [x[_at(d, i)] for i in range(x.shape[d])]),
    "split": Op("views", "{a}.split({p}, {q})", _split),
    "detach": Op("detach", "{a}.detach()", lambda x: x),
    # Results with memory of their own.
    "clone": Op("pure", "{a}.clone()", np.copy),
    "neg": Op("pure", "-{a}", np.negative),
    "sin": Op("pure", "{a}.sin()", np.sin, "a"),
    "cos": Op("pure", "{a}.cos()", np.cos, "a"),
    "exp": Op("pure", "{a}.exp()", np.exp, "o"),
    "tanh": Op("pure", "{a}.tanh()", np.tanh, "o"),
    "sigmoid": Op("pure", "{a}.sigmoid()", _sigmoid, "o"),
    "square": Op("pure", "{a}.square()", np.square, "a"),
    "abs": Op("pure", "{a}.abs()", np.abs, "a"),
    "relu": Op("pure", "{a}.relu()", _relu, "o"),
    "length": Op("pure", "({a} * {a} + 1).sqrt()", lambda x: np.sqrt(x * x + 1), "a"),
    "pow": Op("pure", "{a} ** {p}", lambda x, p: x**p, "a"),
    "conj": Op("pure", "{a}.conj_physical()", np.conj),
    "add": Op("pure", "{a} + {b}", np.add),
    "sub": Op("pure", "ad.sub({a}, {b}, alpha={p})", lambda x, y, p: x - p * y),
    "mul": Op("pure", "{a} * {b}", np.multiply, "ab"),
    "ratio": Op("pure", "{a} / ({b} * {b} + 1.5)", lambda x, y: x / (y * y + 1.5), "ab"),
    "maximum": Op("pure", "ad.maximum({a}, {b})", np.maximum, "ab"),
    "where": Op("pure", "ad.where({p}, {a}, {b})", lambda x, y, m: np.where(m, x, y)),
    "lerp": Op("pure", "ad.lerp({a}, {b}, {p})", lambda x, y, p: x + p * (y - x)),
    "complex": Op("pure", "ad.complex({a}, {b})", lambda x, y: x + 1j * y),
    "sum": Op("pure", "{a}.sum({p})", np.sum),
    "mean": Op("pure", "{a}.mean({p})", np.mean),
    "amax": Op("pure", "{a}.amax({p})", np.max, "ao"),
    "prod": Op("pure", "{a}.prod({p})", np.prod, "ao"),
    "cumsum": Op("pure", "{a}.cumsum({p})", np.cumsum),
    "softmax": Op("pure", "{a}.softmax({p})", _softmax, "o"),
    "flip": Op("pure", "{a}.flip({p})", np.flip),
    "roll": Op("pure", "{a}.roll({p}, {q})", np.roll),
    "tril": Op("pure", "{a}.tril()", np.tril),
    "matmul": Op("pure", "{a} @ {b}", np.matmul, "ab"),
    "cat": Op("pure", "ad.cat([{list}], {p})", lambda *a: np.concatenate(a[:-1], a[-1])),
    "stack": Op("pure", "ad.stack([{list}], {p})", lambda *a: np.stack(a[:-1], a[-1])),
    "take": Op("pure", "{a}[{i}]", lambda x, i: np.array(x[i])),
    "index_select": Op("pure", "{a}.index_select({p}, {q})", lambda x, d, i: np.take(x, i, d)),
    "gather": Op("pure", "{a}.gather({p}, {q})", _gather),
    # Writes. Their meaning is the new value of the first operand.
    "sin_": Op("write", "{a}.sin_()", np.sin),
    "cos_": Op("write", "{a}.cos_()", np.cos),
    "exp_": Op("write", "{a}.exp_()", np.exp, "a"),
    "tanh_": Op("write", "{a}.tanh_()", np.tanh, "a"),
    "sigmoid_": Op("write", "{a}.sigmoid_()", _sigmoid, "a"),
    "neg_": Op("write", "{a}.neg_()", np.negative),
    "square_": Op("write", "{a}.square_()", np.square),
    "abs_": Op("write", "{a}.abs_()", np.abs),
    "relu_": Op("write", "{a}.relu_()", _relu, "a"),
    "pow_": Op("write", "{a}.pow_({p})", lambda x, p: x**p),
    "clamp_": Op("write", "{a}.clamp_({p}, {q})", np.clip),
    "tril_": Op("write", "{a}.tril_()", np.tril),
    "cumsum_": Op("write", "{a}.cumsum_({p})", np.cumsum),
    "zero_": Op("write", "{a}.zero_()", np.zeros_like),
    "fill_": Op("write", "{a}.fill_({b})", _new),
    "copy_": Op("write", "{a}.copy_({b})", _new),
    "add_": Op("write", "{a}.add_({b}, alpha={p})", lambda x, y, p: x + p * y),
    "sub_": Op("write", "{a}.sub_({b})", np.subtract),
    "mul_": Op("write", "{a}.mul_({b})", np.multiply, "b"),
    "div_": Op("write", "{a}.div_({b})", np.divide, "b"),
    "iadd": Op("write", "{a} += {b}", np.add),
    "imul": Op("write", "{a} *= {b}", np.multiply, "b"),
    "lerp_": Op("write", "{a}.lerp_({b}, {p})", lambda x, y, p: x + p * (y - x)),
    "addcmul_": Op("write", "{a}.addcmul_({b}, {c}, value={p})", lambda x, y, z, p: x + p * y * z, "bc"),
    "masked_fill_": Op("write", "{a}.masked_fill_({p}, {b})", lambda x, y, m: np.where(m, y, x)),
    "masked_scatter_": Op("write", "{a}.masked_scatter_({p}, {b})", _masked_scatter),
    "setitem": Op("write", "{a}[{i}] = {b}", _setitem),
    "aug_item": Op("write", "{a}[{i}] *= {b}", _aug_item, "b"),
    "index_put_": Op("write", "{a}.index_put_(({i},), {b})", _setitem),
    "index_put_accumulate": Op("write", "{a}.index_put_(({i},), {b}, accumulate=True)", _accumulate),
    "index_add_": Op(
        "write", "{a}.index_add_({p}, {q}, {b})", lambda x, y, d, i: _along(x, d, i, y, add=True)
    ),
    "index_copy_": Op("write", "{a}.index_copy_({p}, {q}, {b})", lambda x, y, d, i: _along(x, d, i, y)),
    "index_fill_": Op("write", "{a}.index_fill_({p}, {q}, {b})", lambda x, y, d, i: _along(x, d, i, y)),
    "scatter_add_": Op("write", "{a}.scatter_add_({p}, {q}, {b})", _scatter_add),
    "set_real": Op("write", "{a}.real = {b}", _part("real")),
    "set_imag": Op("write", "{a}.imag = {b}", _part("imag")),
    # Terms of the loss.
    "weigh": Op("pure", "({a} * {p}).sum()", lambda x, w: (x * w).sum(), "a"),
    "weigh_square": Op("pure", "({a} * {a} * {p}).sum()", lambda x, w: (x * x * w).sum(), "a"),
    "weigh_complex": Op("pure", "({a} * {p}).sum().real", lambda x, w: (x * w).sum().real, "a"),
}
