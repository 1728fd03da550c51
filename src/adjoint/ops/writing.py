"""Attributes and in-place methods of Tensor that stand on operators of the core: T, real, copy_, fill_, view(dtype).

Start reading at `Views`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._tensor import Members, extend
from adjoint.ops.special import polygamma

_view, _real, _imag = Tensor.view, _C.real, _C.imag


def _needs_matrix(x, name):
    if x.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {x.ndim}-D tensor."
        )


def _changing_shape(name):
    """The method that gives a tensor the shape of one of its views."""
    view = getattr(Tensor, name)

    def method(self, *args, **kwargs):
        return _C._become_view(self, view(self, *args, **kwargs), name)

    method.__name__ = name + "_"
    method.__qualname__ = f"Tensor.{name}_"
    method.__doc__ = f"`{name}` in place: the tensor itself is another view of its memory from now on."
    return method


@extend
class Views(Members):
    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order, as a view."""
        return self.permute(tuple(range(self.ndim - 1, -1, -1)))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged, as a view."""
        _needs_matrix(self, "mT")
        return self.transpose(-2, -1)

    @property
    def H(self) -> Tensor:
        """The transposed conjugate of a matrix."""
        if self.ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
                + (" For batches of matrices, consider using tensor.mH" if self.ndim > 2 else "")
            )
        return self.T.conj() if self.is_complex() else self.T

    @property
    def mH(self) -> Tensor:
        """The last two dimensions exchanged, and the complex conjugate."""
        _needs_matrix(self, "mH")
        return self.mT.conj() if self.is_complex() else self.mT

    @property
    def real(self) -> Tensor:
        """The real part, as a view; a real tensor itself."""
        return _real(self) if self.is_complex() else self

    @real.setter
    def real(self, value):
        self.real.copy_(value if isinstance(value, Tensor) else _C.tensor(value))

    @property
    def imag(self) -> Tensor:
        """The imaginary part of a complex tensor, as a view."""
        return _imag(self)

    @imag.setter
    def imag(self, value):
        self.imag.copy_(value if isinstance(value, Tensor) else _C.tensor(value))

    def polygamma(self, n) -> Tensor:
        """The n-th derivative of `digamma`."""
        return self.digamma() if n == 0 else polygamma(n, self)

    def polygamma_(self, n) -> Tensor:
        """`polygamma` in place."""
        if n == 0:
            return self.digamma_()
        recorded = self.requires_grad and _C.is_grad_enabled()
        return _C._become(self, polygamma(n, self.clone() if recorded else self), "polygamma")

    def where(self, condition, other):
        """The elements where the condition holds, those of `other` elsewhere."""
        return _C.where(condition, self, other)

    def view(self, *shape, dtype=None, size=None) -> Tensor:
        """The same elements under another shape, or the same bytes as another dtype, without copying.

        Parameters
        ----------
        shape : int or tuple of int
            One size may be -1. Or a dtype: the last dimension then changes with the size of the elements.

        Raises
        ------
        RuntimeError
            The layout does not allow it; `reshape` copies then.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.arange(6).view(2, 3).shape
        adjoint.Size([2, 3])
        >>> ad.ones(2).view(ad.int32)
        tensor([1065353216, 1065353216], dtype=adjoint.int32)
        """
        if dtype is None and size is None:
            if len(shape) != 1 or not isinstance(shape[0], (_C.dtype, type)):
                return _view(self, *shape)
            dtype = shape[0]
        elif dtype is None:
            return _view(self, size)
        return _reinterpret(self, _C._dtype(dtype))


def _reinterpret(x, dtype):
    if dtype is x.dtype:
        return x.view(x.shape)
    if x.requires_grad:
        raise RuntimeError(
            "view(dtype) has no derivative: use .detach() first, or .to(dtype) to convert values"
        )
    old, new = x.element_size(), dtype.itemsize
    size, stride, offset = list(x.shape), list(x.stride()), x.storage_offset()
    if old != new:
        if not size:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {x.dtype._type_name} as {dtype._type_name} (different element sizes)"
            )
        what = f"to view {x.dtype._type_name} as {dtype._type_name} (different element sizes)"
        if old < new and size[-1] % (new // old):
            raise RuntimeError(f"self.size(-1) must be divisible by {new // old} {what}, but got {size[-1]}")
        if old < new and offset % (new // old):
            raise RuntimeError(
                f"self.storage_offset() must be divisible by {new // old} {what}, but got {offset}"
            )
        if stride[-1] != 1 and size[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {stride[-1]}")
        if old < new:
            ratio = new // old
            for d, step in enumerate(stride[:-1]):
                if step % ratio:
                    raise RuntimeError(
                        f"self.stride({d}) must be divisible by {ratio} {what}, but got {step}"
                    )
            size[-1] //= ratio
            stride, offset = [s // ratio for s in stride[:-1]] + [1], offset // ratio
        else:
            ratio = old // new
            size[-1] *= ratio
            stride, offset = [s * ratio for s in stride[:-1]] + [1], offset * ratio
    return _C._over(_C._storage_bytes(x), dtype, size, stride, offset)


@extend
class Writing(Members):
    def copy_(self, src, non_blocking=False) -> Tensor:
        """Write the values of another tensor, broadcast and converted."""
        return _C._copy(self, src)

    def fill_(self, value) -> Tensor:
        """Write one value everywhere."""
        return _C._fill(self, value)

    def zero_(self) -> Tensor:
        """Write zeros everywhere."""
        return _C._zero(self)

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

    def index_put(self, indices, values, accumulate=False) -> Tensor:
        """A copy with values written, or added, at the positions that index tensors name."""
        return self.clone().index_put_(indices, values, accumulate)

    unsqueeze_ = _changing_shape("unsqueeze")
    squeeze_ = _changing_shape("squeeze")
    transpose_ = swapaxes_ = swapdims_ = _changing_shape("transpose")
    t_ = _changing_shape("t")
    as_strided_ = _changing_shape("as_strided")
