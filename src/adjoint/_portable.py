"""Members of Tensor that portable and older programs use: questions with one answer here, `new`, `sum_to_size`.

Start reading at `Answers`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._device import check_device
from adjoint._register import overload
from adjoint._tensor import Members, extend


@extend
class Answers(Members):
    """What programs ask before they do something that a CPU does not need."""

    def cuda(self, device=None, non_blocking=False, memory_format=None) -> Tensor:
        """Refused: the only device is the CPU."""
        from adjoint._device import device as named

        target = "cuda" if device is None else device if not isinstance(device, int) else f"cuda:{device}"
        if named(target).type != "cuda":
            raise RuntimeError(f"Invalid device, must be cuda device, but got {target}")
        check_device(target)
        return self.to(target)

    def get_device(self) -> int:
        """The number of the device: -1 for the CPU."""
        return -1

    def pin_memory(self, device=None) -> Tensor:
        """Refused: memory is pinned for transfers to a device, and there is none."""
        raise RuntimeError("Tensor.pin_memory(): cannot pin memory: there is no accelerator here")

    def is_pinned(self, device=None) -> bool:
        """Whether the memory is pinned: it is not."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes see the memory: they do not."""
        return False


@overload
def is_conj(input) -> bool:
    """Whether a conjugation is pending: it never is, since conjugates are computed at once."""
    return False


@overload
def is_neg(input) -> bool:
    """Whether a negation is pending: it never is."""
    return False


@overload
def resolve_conj(input) -> Tensor:
    """The tensor itself: see `is_conj`."""
    return input


@overload
def resolve_neg(input) -> Tensor:
    """The tensor itself: see `is_neg`."""
    return input


@extend
class Older(Members):
    """Makers and writers of old."""

    def to_dense(self, dtype=None, masked_grad=None) -> Tensor:
        """The tensor itself, in another dtype if asked for: every tensor is dense."""
        return self if dtype is None else self.to(dtype)

    def multinomial(self, num_samples, replacement=False, *, generator=None) -> Tensor:
        """As `adjoint.multinomial`."""
        from adjoint._random import multinomial

        return multinomial(self, num_samples, replacement, generator=generator)

    def bernoulli(self, p=None, *, generator=None) -> Tensor:
        """As `adjoint.bernoulli`."""
        from adjoint._random import bernoulli

        return bernoulli(self, p, generator=generator)

    def new(self, *args, size=None, device=None, volatile=False) -> Tensor:
        """A tensor of this one's dtype, as the constructors of old made it: of sizes, of data, or of a tensor.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(1).new(2, 3).shape
        adjoint.Size([2, 3])
        >>> ad.ones(1).new([2, 3])
        tensor([2., 3.])
        """
        check_device(device)
        if volatile:
            from adjoint.autograd import refuse_volatile

            refuse_volatile()
        if size is not None:
            args = (_C.Size(size),)
        if not args:
            args = (0,)
        first = args[0]
        if len(args) > 1 or isinstance(first, (_C.Size, int)):
            return _C._empty(args, self.dtype, False)
        if isinstance(first, Tensor):
            if first.dtype is not self.dtype:
                raise TypeError(
                    f"new(): expected a tensor of {self.dtype}, but got one of {first.dtype}; convert it with .to()"
                )
            return first.detach()
        if isinstance(first, (float, complex)):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
        return _C.tensor(first, self.dtype)

    def new_empty_strided(
        self, size, stride, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ) -> Tensor:
        """As `empty_strided`, in this tensor's dtype."""
        from adjoint._creation import empty_strided

        return empty_strided(
            size, stride, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad
        )

    def sum_to_size(self, *sizes, size=None) -> Tensor:
        """Summed over the dimensions that broadcasting would repeat, to a given shape.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
        """
        sizes = sizes if size is None else (size,)
        size = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        lead = self.ndim - len(size)
        if lead < 0 or any(n not in (1, m) for n, m in zip(size, self.shape[lead:])):
            raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(self.shape)}}}.")
        dims = [*range(lead), *(d + lead for d, n in enumerate(size) if n == 1 and self.shape[d + lead] != 1)]
        if not dims:
            return self
        return self.sum(dims, keepdim=True).view(size)

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
