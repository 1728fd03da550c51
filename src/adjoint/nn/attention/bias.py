"""Causal masks for matrices of scores that are not square: `causal_upper_left`, `causal_lower_right`."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish.register import listing
from adjoint._types import Any

__all__ = ["causal_lower_right", "causal_upper_left"]
__dir__ = listing(__name__)


def causal_upper_left(*size: Any) -> Any:
    """A mask of bool: query i attends to the keys up to i.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.attention.bias.causal_upper_left(2, 3).tolist()
    [[True, False, False], [True, True, False]]
    """
    return _causal(size, 0)


def causal_lower_right(*size: Any) -> Any:
    """A mask of bool: the last query attends to all keys, each one before it to one less.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.attention.bias.causal_lower_right(2, 3).tolist()
    [[True, True, False], [True, True, True]]
    """
    return _causal(size, size[1] - size[0] if len(size) == 2 else 0)


def _causal(size, diagonal):
    if len(size) != 2:
        raise RuntimeError(f"causal masks are of two dimensions, but got {len(size)}")
    return ad.ones(size, dtype=ad.bool).tril(diagonal)
