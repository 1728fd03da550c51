"""Complex numbers: the parts as members of Tensor, and questions about conjugates, which are computed at once here.

Start reading at `Parts`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import ignores
from adjoint._publish.register import Members, composition, extend
from adjoint._types import Number

_real, _imag = _C.real, _C.imag


@extend
class Parts(Members):
    """Real and imaginary part, which can be assigned to."""

    @property
    def real(self) -> Tensor:
        """The real part, as a view; a real tensor itself."""
        return _real(self) if self.is_complex() else self

    @real.setter
    def real(self, value: Tensor | Number) -> None:
        self.real.copy_(value if isinstance(value, Tensor) else _C.tensor(value))

    @property
    def imag(self) -> Tensor:
        """The imaginary part of a complex tensor, as a view."""
        return _imag(self)

    @imag.setter
    def imag(self, value: Tensor | Number) -> None:
        self.imag.copy_(value if isinstance(value, Tensor) else _C.tensor(value))


@composition
def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is zero."""
    return input.imag == 0 if input.is_complex() else _C._full(input.shape, True)


@composition
@ignores("input", why="results of conj() are computed at once", warns=False)
def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is pending: it never is, since conjugates are computed at once."""
    return False


@composition
@ignores("input", why="negative values are computed at once", warns=False)
def is_neg(input: Tensor) -> bool:
    """Whether a negation is pending: it never is."""
    return False


@composition
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: see `is_conj`."""
    return input


@composition
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: see `is_neg`."""
    return input
