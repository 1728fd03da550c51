"""Writing elements: in place (`copy_`, `fill_`, `index_put_`) and into copies (`scatter`, `put`). Start reading at `Writing`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._register import Members, composition, extend


@extend
class Writing(Members):
    """Writes in place."""

    def copy_(self, src, non_blocking=False) -> Tensor:
        """Write the values of another tensor, broadcast and converted."""
        return _C._copy(self, src)

    def fill_(self, value) -> Tensor:
        """Write one value everywhere."""
        return _C._fill(self, value)

    def zero_(self) -> Tensor:
        """Write zeros everywhere."""
        return _C._zero(self)

    def fill_diagonal_(self, fill_value, wrap=False) -> Tensor:
        """Write one value along the main diagonal of a matrix, or where all indices of a cube are equal.

        Parameters
        ----------
        wrap : bool
            In a tall matrix, start again at the top of the columns after each square and one row.
        """
        if self.ndim < 2 or self.ndim > 2 and len({*self.shape}) > 1:
            raise RuntimeError(
                "fill_diagonal_(): all dimensions of input must be of equal length, and there must be two or more, "
                f"but got {list(self.shape)}"
            )
        if self.ndim > 2:
            diagonal = _C._arange(0, self.shape[0], 1, _C.int64, False)
            self[(diagonal,) * self.ndim] = fill_value
            return self
        rows, columns = self.shape
        for start in range(0, rows, columns + 1) if wrap else (0,):
            self[start : start + columns].diagonal().fill_(fill_value)
        return self

    def index_put_(self, indices, values, accumulate=False) -> Tensor:
        """Write values, or add them, at the positions that index tensors name."""
        if isinstance(indices, Tensor):
            raise TypeError(
                "index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not Tensor"
            )
        if not isinstance(values, Tensor):
            values = _C._full((), values, self.dtype)
        if values.dtype is not self.dtype:
            raise RuntimeError(
                "Index put requires the source and destination dtypes match, got "
                f"{self.dtype} for the destination and {values.dtype} for the source."
            )
        if not indices:
            raise RuntimeError(
                f"index_put_(): the tuple of indices is empty: shape mismatch: value tensor of shape {list(values.shape)} "
                f"cannot be broadcast to indexing result of shape {list(self.shape)}. Use copy_() or add_() to write a "
                "whole tensor"
            )
        if accumulate:
            return _C._index_put(self, values, list(indices), True)
        self[tuple(slice(None) if i is None else i for i in indices)] = values
        return self


@composition
def index_put(input, indices, values, accumulate=False) -> Tensor:
    """A copy of `input` with `values` written, or added, at the positions that index tensors name."""
    return input.clone().index_put_(indices, values, accumulate)


@composition(inplace=True)
def put(input, index, source, accumulate=False) -> Tensor:
    """A copy of `input` with the elements of `source` written, or added, at positions of all elements in row-major order."""
    if index.dtype is not _C.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype}")
    if index.numel() != source.numel():
        raise RuntimeError("put_(): Expected source and index to have the same number of elements")
    at = (index.reshape(-1),)
    return input.reshape(-1).index_put(at, source.reshape(-1), accumulate).reshape(input.shape)


@composition(inplace=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None) -> Tensor:
    """A copy of `input` with elements of `src`, or a number, written at the indices along a dimension.

    Parameters
    ----------
    reduce : 'add' or 'multiply', optional
        Combine with what is there instead of writing over it.
    """
    if value is not None:
        src = value
    if src is None:
        raise TypeError("scatter(): missing argument 'src' or 'value'")
    if reduce == "multiply":
        multiply = _C._scatter_multiply if isinstance(src, Tensor) else _C._scatter_multiply_value
        return multiply(input, dim, index, src)
    if isinstance(src, Tensor):
        return _C._scatter(input, dim, index, src, reduce)
    return _C._scatter_value(input, dim, index, src, reduce)
