"""Forward mode: tensors that carry a tangent, and operators that compute the result's from theirs.

A level is opened (`dual_level`), inputs are made dual there (`make_dual`), and results are taken apart (`unpack_dual`): the
tangent of a result is the Jacobian of what was computed, times the tangents of the inputs. Levels nest, each with tangents of
its own. What is done with tangents is in the core (core/transforms/forward.h). Start reading at `dual_level`.
"""

from __future__ import annotations

from typing import NamedTuple

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import listing
from adjoint._types import Any
from adjoint.autograd.grad_mode import _Mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
__dir__ = listing(__name__)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: the `primal`, and the `tangent` or None.

    Parameters
    ----------
    primal : Tensor
    tangent : Tensor or None

    Examples
    --------
    >>> import adjoint as ad
    >>> import adjoint.autograd.forward_ad as forward_ad
    >>> forward_ad.unpack_dual(ad.tensor(1.0)).tangent is None
    True
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a level in this thread and return its number, which functions here take to select that level.

    Levels nest: what carries a tangent of an outer level may be made dual at an inner one, and the two never mix.

    Returns
    -------
    int

    See Also
    --------
    dual_level : the same as a context.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    """
    return _C._enter_dual_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level. Every tensor loses its tangent of that level.

    Parameters
    ----------
    level : int, optional
        The number of the level that is expected to be innermost.

    Raises
    ------
    RuntimeError
        No level is open in this thread, or `level` is not the innermost one.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as forward_ad
    >>> outer, inner = forward_ad.enter_dual_level(), forward_ad.enter_dual_level()
    >>> try:
    ...     forward_ad.exit_dual_level(level=outer)
    ... except RuntimeError as error:
    ...     print(str(error)[:72])
    Trying to exit a forward AD level that was not the last one that was cre
    >>> forward_ad.exit_dual_level(level=inner)
    >>> forward_ad.exit_dual_level()
    """
    if level is None:
        level = _C._current_dual_level()
        if level is None:
            raise RuntimeError("exit_dual_level(): no forward AD level is open in this thread")
    _C._exit_dual_level(level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` that carries `tangent`.

    Reverse mode sees the view that it is. What is written to the dual tensor is written to `tensor`, and its tangent to the
    dual tensor alone.

    Parameters
    ----------
    tensor : Tensor
        The primal; floating-point or complex.
    tangent : Tensor
        Of the same shape. One of another floating-point type is converted.
    level : int, optional
        The number of an open level; the innermost one by default.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        No level is open; shapes differ; or `tensor` has a tangent of this level already.
    ValueError
        `tensor` or `tangent` is of an integer type.

    Examples
    --------
    >>> import adjoint as ad
    >>> import adjoint.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ad.tensor([3.0, 4.0]), ad.tensor([1.0, 0.0]))
    ...     print(x * x)
    tensor([ 9., 16.], tangent=tensor([6., 0.]))
    """
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor):
            raise TypeError(f"make_dual(): argument '{name}' must be Tensor, not {type(value).__name__}")
    if level is None:
        level = _C._current_dual_level()
        if level is None:
            raise RuntimeError(
                "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
            )
    if unpack_dual(tangent, level=level).tangent is not None:
        raise RuntimeError(
            f"Setting a forward grad that itself has a forward gradient at the same level {level} is not supported. Give the "
            "primal of the tangent, which unpack_dual() gives"
        )
    return _C._make_dual(tensor, tangent, level)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor without its tangent, and the tangent.

    Parameters
    ----------
    tensor : Tensor
        Dual, or not: then the tangent is None.
    level : int, optional
        The number of an open level; the innermost one by default.

    Returns
    -------
    UnpackedDualTensor
        With `primal`, a view of `tensor`, and `tangent`.

    Examples
    --------
    >>> import adjoint as ad
    >>> import adjoint.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ad.tensor(2.0), ad.tensor(1.0))
    ...     value, slope = forward_ad.unpack_dual(x**3)
    >>> value.item(), slope.item()
    (8.0, 12.0)
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    if level is None:
        level = _C._current_dual_level()
        if level is None:
            return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, level))


class dual_level(_Mode):
    """A context in which tensors can be dual; tangents end with it.

    Parameters
    ----------
    function : callable, optional
        What is decorated, where it is used so.

    Examples
    --------
    >>> import adjoint as ad
    >>> import adjoint.autograd.forward_ad as forward_ad
    >>> x, direction = ad.tensor([0.0, 1.0]), ad.tensor([1.0, 1.0])
    >>> with forward_ad.dual_level():
    ...     y = forward_ad.make_dual(x, direction).exp()
    ...     tangent = forward_ad.unpack_dual(y).tangent
    >>> tangent
    tensor([1.0000, 2.7183])
    """

    __slots__ = ()

    def __enter__(self) -> int:  # type: ignore[override]
        level = enter_dual_level()
        self.before = (level, self.before)
        return level

    def __exit__(self, *exception: Any) -> None:
        if self.before is None:
            raise RuntimeError(
                "dual_level: Dual level must be a positive number: this one is not open, or was left already"
            )
        level, self.before = self.before
        exit_dual_level(level=level)


def __getattr__(name):
    if name == "_current_level":  # -1 where none is open
        level = _C._current_dual_level()
        return -1 if level is None else level
    raise AttributeError(f"module 'adjoint.autograd.forward_ad' has no attribute {name!r}")
