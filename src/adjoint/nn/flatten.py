"""`Flatten` and `Unflatten`: dimensions merged and split again."""

from __future__ import annotations

from adjoint._types import Any, Tensor

from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge the dimensions from `start_dim` to `end_dim`; by default all but the first.

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.Flatten()(ad.ones(32, 5, 7)).shape)
    (32, 35)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the dimension `dim` into `unflattened_size`, one of which may be -1.

    Raises
    ------
    TypeError
        `dim` is not an integer, or `unflattened_size` is not a sequence of integers.

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.Unflatten(1, (5, -1))(ad.ones(32, 35)).shape)
    (32, 5, 7)
    """

    def __init__(self, dim: int | str, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                f"Unflatten: dim must be an int (named dimensions are not provided), got {type(dim).__name__}"
            )
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, "
                    f"but found element of type {type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
