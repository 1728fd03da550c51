"""The meaning of a fuzz program: its values, and its loss where the leaves are moved by a finite amount.

Memory is shared by views and by detached aliases, but derivatives are not: a value written under no_grad, or through a
detached alias, changes what every other tensor reads and the derivative of none. So a block of memory holds the values
of the program as it ran, and each tensor that is not a view of another (a `Base`) holds a second copy, in which the
leaves are moved. A write

    value <- f(value of operands),    moved copy of the target's base <- f(moved copies of operands)

shifts every other moved copy by as much as the value changed; under no_grad that is all it does. The difference of the
two copies is then, to first order, the tangent of the tensor. Start reading at `Reference.run`.
"""

from __future__ import annotations

import numpy as np
from fuzz_steps import OPS, Program, Step

#: Functions with a kink at 0. A composition may be smooth there, as abs(x) ** 2, and yet its second derivative, by the
#: chain rule and what is agreed on for the first at 0, another one.
KINKED = {"abs", "abs_", "relu", "relu_"}


class TooLarge(Exception):
    """A step would give numbers with which finite differences are of no use."""


class Memory:
    """A block of values, and the moved copies of the tensors that live there."""

    def __init__(self, values: np.ndarray, regular: bool):
        self.values = np.array(values).reshape(-1)
        self.bases: list[Base] = []
        self.regular = regular  #: whether the order of elements in memory is known for sure
        self.version = 0
        self.saved = False  #: whether a backward pass may need these values


class Base:
    """A tensor that is not a view: the moved copy of its memory."""

    def __init__(self, memory: Memory, tracked: bool, leaf: bool = False):
        self.memory, self.tracked, self.leaf = memory, tracked, leaf
        self.moved = memory.values.copy()
        memory.bases.append(self)


class Value:
    """A tensor: an array over the values of its memory, the same array over the moved copy of its base."""

    def __init__(self, v, p, base: Base, multi=False, no_grad=False):
        self.v, self.p, self.base, self.multi, self.no_grad = v, p, base, multi, no_grad
        self.version = base.memory.version

    @property
    def overlaps(self) -> bool:
        return any(n > 1 and s == 0 for n, s in zip(self.v.shape, self.v.strides, strict=True))

    @property
    def is_complex(self) -> bool:
        return self.v.dtype.kind == "c"

    @property
    def stale(self) -> bool:
        """Whether reading it is refused: no history can be made for it after its base was written."""
        return (self.multi or self.no_grad) and self.base_tracked and self.version != self.base.memory.version

    @property
    def base_tracked(self) -> bool:
        return any(b.tracked for b in self.base.memory.bases) if self.no_grad else self.base.tracked

    def alias(self, no_grad: bool) -> Value:
        """The same memory, a tangent of its own."""
        memory = self.base.memory
        base = Base(memory, tracked=False)
        offset = self.v.__array_interface__["data"][0] - memory.values.__array_interface__["data"][0]
        p = np.ndarray(self.v.shape, self.v.dtype, base.moved, offset, self.v.strides)
        return Value(self.v, p, base, self.multi and no_grad, no_grad)


class Reference:
    """Runs steps; `values` are the live tensors by name."""

    def __init__(
        self, program: Program, moves: dict[str, np.ndarray] | None = None, limit: float | None = None
    ):
        self.values: dict[str, Value] = {}
        self.limit = limit
        self.at_kink = False  #: whether some function was evaluated where it has a kink
        for group in (program.leaves, program.constants):
            for name, x in group.items():
                leaf = group is program.leaves
                moved = x + moves[name] if moves and leaf else x
                self.values[name] = self._fresh(x, moved, tracked=leaf, leaf=leaf)

    def _fresh(self, v, p, tracked=False, leaf=False, regular=True) -> Value:
        memory = Memory(v, regular)
        base = Base(memory, tracked, leaf)
        base.moved[:] = np.reshape(p, -1)
        return Value(memory.values.reshape(np.shape(v)), base.moved.reshape(np.shape(v)), base)

    def _check(self, v):
        if self.limit is not None and not (np.all(np.isfinite(v)) and np.all(np.abs(v) <= self.limit)):
            raise TooLarge

    def loss(self, terms: list[Step]) -> float:
        """The sum of those terms that there are, where the leaves are moved."""
        return float(sum(self.values[t.out[0]].p for t in terms if t.out[0] in self.values))

    def run(self, step: Step) -> None:
        """Do one step. TooLarge is raised before anything is changed."""
        op = OPS[step.op]
        operands = [self.values[a] if isinstance(a, str) else a for a in step.args]
        vs = [x.v if isinstance(x, Value) else x for x in operands]
        ps = [x.p if isinstance(x, Value) else x for x in operands]
        tensors = [x for x in operands if isinstance(x, Value)]
        tracked = step.grad and any(x.base.tracked for x in tensors)
        if step.op in KINKED and step.grad and np.any((vs[0] == 0) & (ps[0] != 0)):
            self.at_kink = True
        if op.kind == "pure":
            v = op.meaning(*vs, *step.params)
            self._check(v)
            p = op.meaning(*ps, *step.params) if step.grad else v
            regular = all(x.v.flags.c_contiguous and x.base.memory.regular for x in tensors)
            result = self.values[step.out[0]] = self._fresh(v, p, tracked, regular=regular)
            result.base.memory.saved = tracked and "o" in op.saves
        elif op.kind == "write":
            self._write(op, step, operands[0], vs, ps, tracked)
        elif op.kind == "detach":
            self.values[step.out[0]] = operands[0].alias(no_grad=False)
        else:
            self._view(op, step, operands[0])
        for letter, x in zip("abc", operands, strict=False):
            if tracked and letter in op.saves and isinstance(x, Value):
                x.base.memory.saved = True

    def _write(self, op, step, target, vs, ps, tracked):
        memory = target.base.memory
        v = np.array(op.meaning(*vs, *step.params))
        self._check(v)
        p = np.array(op.meaning(*ps, *step.params))
        before = memory.values.copy()
        # A part of a tensor that repeats its elements may be written where it repeats none itself.
        at = step.params[-1] if step.op in ("setitem", "aug_item") and target.overlaps else ...
        target.v[at] = v[at]
        change = memory.values - before
        for base in memory.bases:
            if base is target.base and step.grad:
                target.p[at] = p[at]
            else:
                base.moved += change
        # No history could be made for one of several views or a view without recording, whoever wrote it.
        fresh = target.version == memory.version and not (target.multi or target.no_grad)
        memory.version += 1
        if fresh and step.op not in ("set_real", "set_imag", "aug_item"):  # these write through a view
            target.version = memory.version
        if tracked:
            target.base.tracked = True

    def _view(self, op, step, x):
        v, p = op.meaning(x.v, *step.params), op.meaning(x.p, *step.params)
        if v is x.v:  # contiguous() of what is contiguous: the same tensor
            self.values[step.out[0]] = x
            return
        several = op.kind == "views"
        for name, vi, pi in zip(step.out, v if several else [v], p if several else [p], strict=True):
            if not np.may_share_memory(vi, x.base.memory.values):  # a reshape that has to copy
                self.values[name] = self._fresh(vi, pi if step.grad else vi, x.base.tracked and step.grad)
                continue
            y = Value(vi, pi, x.base, x.multi or several, x.no_grad)
            y.version = x.version
            self.values[name] = y if step.grad else y.alias(no_grad=True)


def refusal(reference: Reference, step: Step) -> set[str]:
    """The reasons for which a step is expected to be refused, as far as they can be told."""
    values = [reference.values[a] for a in step.args if isinstance(a, str)]
    target, reasons = values[0], set()
    if OPS[step.op].kind == "write":
        if target.overlaps:
            reasons.add("overlap")
        if step.grad and (any(x.base.tracked for x in values) or target.base_tracked):
            reasons |= {"multi"} if target.multi else set()
            reasons |= {"no_grad"} if target.no_grad else set()
        if step.grad and target.base.leaf:
            reasons.add("leaf")
    if step.grad and any(x.stale for x in values):
        reasons.add("stale")
    return reasons
