"""Interpreters written in Python: `TorchDispatchMode`, which gets every call of an operator in its thread.

It stands above recording, beside the interpreters of the core (core/transforms/interpreter.h): what it calls meanwhile
goes to the modes around it, and is recorded as anywhere. See Note: one door.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._types import Any

__all__ = ["TorchDispatchMode"]


class TorchDispatchMode:
    """A context whose `__torch_dispatch__` makes the result of every call of an operator.

    Calls are those of the operators of the table, views, writes, creation and random numbers included, each once; a
    function that is put together from others is seen as these. Modes nest: the innermost is asked, and what it calls
    goes to the one around it. A mode can be entered several times, and is left wherever it stands.

    Notes
    -----
    In PyTorch these modes stand below recording, here above it: what a mode computes by calling `func` has a history.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils._python_dispatch import TorchDispatchMode
    >>> class Log(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = ad.tensor([1.0, 2.0])
    >>> with Log():
    ...     y = x.exp().sum()
    exp
    sum
    """

    _tokens: Any

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Make the result of ``func(*args, **kwargs)``.

        Parameters
        ----------
        func : Operator
            Also in its form in place (its name ends with an underscore); with ``out=``, that is in `kwargs`.
        types : tuple
            Empty: no type of tensors has a dispatch of its own.
        args : tuple
        kwargs : dict

        Returns
        -------
        Tensor, or tuple of Tensors
            As many as the operator has. In place and with ``out=`` it is of no account: the tensor has been written.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_dispatch__(self, func, types, args=(), kwargs=None)"
        )

    def __enter__(self) -> Any:
        def call(func, args, kwargs):
            result = self.__torch_dispatch__(func, (), args, kwargs)
            if result is NotImplemented:
                raise TypeError(
                    f"no implementation found for '{func.__name__}': the mode {type(self).__name__} returned NotImplemented"
                )
            return result

        vars(self).setdefault("_tokens", []).append(_C._push_interpreter(call))
        return self

    def __exit__(self, *exception: Any) -> None:
        _C._pop_interpreter(self._tokens.pop())
