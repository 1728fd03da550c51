"""`autograd.Variable`, which tensors were wrapped in before they could require a gradient themselves."""

from __future__ import annotations

from adjoint._C import Tensor
from adjoint._types import Any
from adjoint.autograd import refuse_volatile

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """The legacy name of `Tensor`: ``Variable(data, requires_grad=False)`` is `data` itself, seen as a leaf.

    Parameters
    ----------
    data : Tensor
    requires_grad : bool
    volatile : bool
        Only False.

    Raises
    ------
    TypeError
        ``volatile=True`` was given: its successors are `no_grad` and `inference_mode`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.autograd.Variable(ad.ones(2), requires_grad=True).requires_grad
    True
    """

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            refuse_volatile()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {data.__class__.__name__}")
        return data.detach().requires_grad_(requires_grad)

    class _execution_engine:
        """What programs reach of the engine: a callback at the end of the backward pass that is running."""

        @staticmethod
        def queue_callback(callback):
            from adjoint._C import _at_end_of_pass

            _at_end_of_pass(callback)
