"""Names of torch.func for machinery that is not needed here: functions and tensors are what they are."""

from __future__ import annotations

__all__ = ["debug_unwrap", "functionalize"]


def functionalize(func, *, remove="mutations"):
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


def debug_unwrap(tensor, *, recurse=True):
    """The tensor that lies in one that a transform made, for a look at its values.

    Parameters
    ----------
    tensor : Tensor
    recurse : bool
        Go on until nothing is left to take off, instead of taking off the innermost transform alone.

    Returns
    -------
    Tensor
        Without its history as an argument of `grad` and without tangents; `tensor` itself where there is nothing to take off.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import debug_unwrap
    >>> x = ad.ones(2)
    >>> debug_unwrap(x) is x
    True
    """
    return tensor
