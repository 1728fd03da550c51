"""What the gradient of a complex function means: `complex_convention`."""

from __future__ import annotations

from adjoint._C import _set_holomorphic
from adjoint._types import Any

__all__ = ["complex_convention"]

_NAMES = {"conjugate": False, "holomorphic": True}


class complex_convention:
    """Choose what complex gradients mean, for this thread, from now on or until the context is left.

    Let f = u + iv be a function of z = x + iy with Jacobian J of (u, v) by (x, y), and let the cotangent be c + id.

    Parameters
    ----------
    name : {'conjugate', 'holomorphic'}
        ``'conjugate'``, the default, gives conjugate Wirtinger derivatives: for a real loss L the gradient is
        ∂L/∂x + i ∂L/∂y, which points uphill. ``'holomorphic'`` gives [c −d] · J · [1; −i], which for a holomorphic
        function and the cotangent 1 is the complex derivative f'(z); `backward` on a complex scalar then needs no
        gradient. Each is the other with cotangents and gradients conjugated. Real inputs have real gradients in both.

    Raises
    ------
    ValueError
        Another name.

    Notes
    -----
    The convention holds for what goes into a pass and comes out of it; hooks on the way see conjugate derivatives. A
    Jacobian-vector product, [1 i] · J · [c; d], is the same in both.

    Examples
    --------
    >>> import adjoint as ad
    >>> z = ad.tensor(1 + 2j, requires_grad=True)
    >>> with ad.autograd.complex_convention("holomorphic"):
    ...     (z**2).backward()
    >>> z.grad.item()
    (2+4j)
    """

    def __init__(self, name: str) -> None:
        if name not in _NAMES:
            raise ValueError(f"complex_convention(): expected one of {sorted(_NAMES)}, but found {name!r}")
        self.before = _set_holomorphic(_NAMES[name])

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        _set_holomorphic(self.before)
