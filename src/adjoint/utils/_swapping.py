"""`swap_tensors`: two tensors take each other's place. Start reading at `swap_tensors`."""

from __future__ import annotations

from adjoint import _C
from adjoint._tensor.copying import _slot_names
from adjoint._types import Any

__all__ = ["swap_tensors"]


def swap_tensors(t1: Any, t2: Any) -> None:
    """Swap the tensors of two Python objects, with their attributes, gradients and classes.

    Parameters
    ----------
    t1, t2 : Tensor
        Nothing else may refer to what they stand for: no weak reference, and no graph.

    Raises
    ------
    RuntimeError
        Something else does; or their classes have other slots.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, y = ad.zeros(2), ad.ones(3)
    >>> ad.utils.swap_tensors(x, y)
    >>> x, y
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    from weakref import getweakrefs

    for name, t in (("t1", t1), ("t2", t2)):
        if getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    names = _slot_names(type(t1))
    if names != _slot_names(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    slots = [{name: getattr(t, name) for name in names if hasattr(t, name)} for t in (t1, t2)]
    _C._swap(t1, t2)
    for t, theirs in ((t1, slots[1]), (t2, slots[0])):
        for name in names:
            if name in theirs:
                setattr(t, name, theirs[name])
            elif hasattr(t, name):
                delattr(t, name)
