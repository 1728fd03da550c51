"""Members of Tensor that make tensors of its dtype, on its device: `new_zeros` and so on."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, extend
from adjoint._tensor.creation import _size, empty_strided
from adjoint._tensor.creation_keywords import creation
from adjoint._tensor.device import device_number
from adjoint._tensor.storage import _Storage
from adjoint._types import Any, Device, DType, Ints, Number, Sequence


@extend
class Making(Members):
    """Tensors of this one's dtype."""

    @creation(out=False, like=True, consults=True)
    def new_tensor(self, data: Any, *, dtype: DType | None = None) -> Tensor:
        """Like `tensor`, in this tensor's dtype."""
        return _C.tensor(data, dtype or self.dtype)

    @creation(out=False, like=True, consults=True)
    def new_empty(self, *size: Ints, dtype: DType | None = None, **keywords: Any) -> Tensor:
        """Like `empty`, in this tensor's dtype."""
        return _C._empty(_size(size, keywords, "new_empty"), dtype=dtype or self.dtype)

    @creation(out=False, like=True, consults=True)
    def new_zeros(self, *size: Ints, dtype: DType | None = None, **keywords: Any) -> Tensor:
        """Like `zeros`, in this tensor's dtype."""
        return _C._zeros(_size(size, keywords, "new_zeros"), dtype=dtype or self.dtype)

    @creation(out=False, like=True, consults=True)
    def new_ones(self, *size: Ints, dtype: DType | None = None, **keywords: Any) -> Tensor:
        """Like `ones`, in this tensor's dtype."""
        return _C._full(_size(size, keywords, "new_ones"), 1, dtype=dtype or self.dtype)

    @creation(out=False, like=True, consults=True)
    def new_full(self, size: Ints, fill_value: Number | Tensor, *, dtype: DType | None = None) -> Tensor:
        """Like `full`, in this tensor's dtype."""
        return _C._full(size, fill_value, dtype=dtype or self.dtype)

    @creation(out=False, like=True, consults=True)
    def new_empty_strided(
        self, size: Sequence[int], stride: Sequence[int], *, dtype: DType | None = None
    ) -> Tensor:
        """Like `empty_strided`, in this tensor's dtype."""
        return empty_strided(size, stride, dtype=dtype or self.dtype)

    def new(
        self, *args: Any, size: Any = None, device: Device | None = None, volatile: bool = False
    ) -> Tensor:
        """A tensor of this one's dtype, like the legacy constructors: of sizes, of data, or of a tensor.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(1).new(2, 3).shape
        adjoint.Size([2, 3])
        >>> ad.ones(1).new([2, 3])
        tensor([2., 3.])
        """
        if device is not None and device_number(device) != self._device_number:
            raise RuntimeError(f"new(): expected the device of the tensor, {self.device}, but got {device}")
        if volatile:
            from adjoint.autograd import refuse_volatile

            refuse_volatile()
        if size is not None:
            args = (_C.Size(size),)
        if not args:
            args = (0,)
        first = args[0]
        if len(args) > 1 or isinstance(first, (_C.Size, int)):
            return _C._empty(_size(args, {}, "new"), dtype=self.dtype)
        if isinstance(first, Tensor):
            if first.dtype is not self.dtype:
                raise TypeError(
                    f"new(): expected a tensor of {self.dtype}, but got one of {first.dtype}; convert it with .to()"
                )
            return first.detach()
        if isinstance(first, _Storage):
            return self.detach().new_empty(0).set_(first)
        if isinstance(first, (float, complex)):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
        return _C.tensor(first, self.dtype)
