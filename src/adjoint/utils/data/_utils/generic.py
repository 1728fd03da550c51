"""`Generic` for data sets of a type of sample, ``Dataset[tuple[Tensor, int]]``: type checkers see that of `typing`.

When a program runs, the type in brackets means nothing, and the class is its own.
"""

from __future__ import annotations

__all__ = ["Generic", "T", "T_co"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
else:
    T = T_co = None

    class Generic:
        def __class_getitem__(cls, item):
            return cls
