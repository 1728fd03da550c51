"""Names of torch.func for machinery that is not needed here: functions and tensors are what they are."""

from __future__ import annotations

from adjoint import _C
from adjoint._types import Any, Callable, Tensor

__all__ = ["debug_unwrap", "functionalize"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Any:
    """`func` itself.

    torch rewrites a function without writes and views before it hands it to a compiler. Here writes and views are recorded and
    transformed as they are, and nothing needs them removed; what `func` computes is the same, and so is what it writes to.

    Parameters
    ----------
    func : callable
    remove : str
        ``"mutations"`` or ``"mutations_and_views"``.

    Returns
    -------
    callable
        `func`.

    Raises
    ------
    RuntimeError
        `remove` is something else.

    Examples
    --------
    >>> from adjoint.func import functionalize
    >>> functionalize(abs) is abs
    True
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations', remove='mutations_and_views'"
        )
    return func


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Any:
    """The tensor that lies in one that a transform made, for a look at its values.

    Parameters
    ----------
    tensor : Tensor
    recurse : bool
        Go on until nothing is left to take off, instead of taking off the innermost transform alone.

    Returns
    -------
    Tensor
        All samples of one that stands for a batch; else the values, without history and tangents. `tensor` itself where there is
        nothing to take off.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import debug_unwrap
    >>> x = ad.ones(2)
    >>> debug_unwrap(x) is x
    True
    >>> ad.func.vmap(lambda row: (print(debug_unwrap(row)), row)[1])(ad.ones(2, 1)).shape
    tensor([[1.],
            [1.]])
    adjoint.Size([2, 1])
    """
    batch = _C._batch_of(tensor)
    if batch is not None:
        return debug_unwrap(batch[0]) if recurse else batch[0]
    if _C._requires_grad_anywhere(tensor) or _C._tangent(tensor) is not None:
        return tensor.data
    return tensor
