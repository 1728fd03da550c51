"""`Element`, what stands for a tensor while the formulas of a step are written down as a program.

It has those operations of tensors that steps use. Each becomes an instruction of five numbers: the operation, the
register that it writes, and three that it reads (`StepProgram`, core/kernels/cpu/optimizer.h). Registers 0 to 4 are
the parameter, its gradient and three states; then come the numbers of the formulas. An `Element` that Python lets go
gives its register back, so that few blocks of memory are in use. Start reading at `Program`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._types import Any

__all__ = ["Element", "Program"]

_OPERATIONS = {name: i for i, name in enumerate(_C.step_operations)}
_TENSORS = 5


class Program:
    """The instructions so far; a number is named by ~its position until all of them are known."""

    def __init__(self) -> None:
        self.code: list[Any] = []
        #: By the object: a replay may have other values, so that numbers are not joined by theirs.
        self.numbers: dict[int, tuple[int, Any]] = {}
        self.free: list[Any] = []
        self.registers = 0

    def number(self, value) -> int:
        return ~self.numbers.setdefault(id(value), (len(self.numbers), value))[0]

    def add(self, name, to, operands) -> int:
        """Append an instruction; None for `to` takes a register that is free."""
        if to is None:
            if not self.free:
                self.free.append(_TENSORS + self.registers)
                self.registers += 1
            to = self.free.pop()
        a, b, c = (*operands, *operands, *operands)[:3]
        self.code.append((_OPERATIONS[name], to, a, b, c))
        return to

    def finished(self) -> tuple[list[int], list[Any]]:
        """What the core takes: registers above the tensors move up to make room for the numbers."""
        room = len(self.numbers)

        def place(register):
            if register < 0:
                return _TENSORS + ~register
            return register + room if register >= _TENSORS else register

        code = [word for op, *rest in self.code for word in (op, *map(place, rest))]
        return code, [value for _, value in self.numbers.values()]


class Element:
    """An element of the parameter, of its gradient, of its state, or of what is computed from them."""

    __slots__ = ("_at", "_program")
    is_sparse = False

    def __init__(self, program: Any, at: Any) -> None:
        self._program, self._at = program, at

    def __del__(self) -> None:
        if self._at >= _TENSORS:
            self._program.free.append(self._at)

    def _do(self, name, *operands):
        return Element(self._program, self._program.add(name, None, self._places(operands)))

    def _do_(self, name, *operands):
        self._program.add(name, self._at, self._places(operands))
        return self

    def _places(self, operands):
        return [o._at if isinstance(o, Element) else self._program.number(o) for o in operands]

    def __add__(self, other: Any) -> Any:
        return self._do("add", self, other)

    def __sub__(self, other):
        return self._do("sub", self, other)

    def __mul__(self, other: Any) -> Any:
        return self._do("mul", self, other)

    def __truediv__(self, other):
        return self._do("div", self, other)

    def __neg__(self):
        return self._do("mul", self, -1)

    def __lt__(self, other):
        return self._do("less", self, other)

    def __gt__(self, other):
        return self._do("less", other, self)

    def sqrt(self):
        return self._do("sqrt", self)

    def abs(self):
        return self._do("abs", self)

    def sign(self):
        return self._do("sign", self)

    def maximum(self, other):
        return self._do("maximum", self, other)

    def detach(self):
        return self

    def masked_fill(self, mask, value):
        return self._do("where", mask, value, self)

    def where(self, mask, other):
        return self._do("where", mask, self, other)

    def copy_(self, other):
        return self._do_("move", other)

    def mul_(self, other):
        return self._do_("mul", self, other)

    def add_(self, other, alpha=1):
        return self._do_("multiply_add", other, alpha, self)

    def sub_(self, other, alpha=1):
        return self._do_("multiply_add", other, -alpha, self)

    def addcmul_(self, one, other, value=1):
        return self.add_(one * other, alpha=value)

    def lerp_(self, end, weight):
        return self.add_(end - self, alpha=weight)

    def clamp_(self, least, most):
        self._do_("maximum", self, least)
        return self._do_("where", self > most, most, self)
