"""Moving a module to another dtype or device: `Conversion`, one of the bases of `Module`.

Everything goes through `_apply`, which maps a function over every parameter, gradient and buffer. A
parameter stays the same object, so an optimiser that holds it goes on holding the right one.
"""

from __future__ import annotations

import warnings
from types import NoneType

import adjoint as ad
from adjoint._publish.arguments import ignores
from adjoint._switches import switches
from adjoint._types import Any, Device, DType, Self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint._C import ModuleMembers
else:
    ModuleMembers = object

__all__ = ["Conversion"]

#: Whether a conversion makes other parameters, instead of giving those there are other memory: ``torch.__future__`` sets it.
overwrites = False


class Conversion(ModuleMembers):
    """`to`, `float`, `double`, `half`, `bfloat16`, `type`, `cpu`, `cuda`, `to_empty`."""

    def _apply(self, fn, recurse=True):
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in list(self._parameters.items()):
            if parameter is None:
                continue
            grad = parameter.grad
            with ad.no_grad():
                # The parameter itself is what `fn` sees, and may write: it and its gradient stay who they are.
                applied = fn(parameter)
                if overwrites or applied.device != parameter.device or applied.layout != parameter.layout:
                    # Memory of one kind cannot take the place of another's: another parameter does.
                    made = ad.Tensor._make_subclass(
                        type(parameter), applied.detach(), parameter.requires_grad
                    )
                    made.__dict__.update(parameter.__dict__)
                    if grad is not None:
                        made.grad = fn(grad).detach().requires_grad_(grad.requires_grad)
                    self._parameters[name] = made
                    continue
                parameter.data = applied
                if grad is not None:
                    grad.data = fn(grad)
        for name, buffer in list(self._buffers.items()):
            if buffer is not None:
                persistent = getattr(buffer, "persistent", None)
                converted = fn(buffer)
                if converted is not buffer and persistent is not None:
                    converted = ad.Tensor._make_subclass(type(buffer), converted, buffer.requires_grad)
                    converted.persistent = persistent
                self._buffers[name] = converted
        return self

    @ignores("non_blocking", why="a copy is done when the call returns", warns=False)
    def to(
        self,
        *args: Any,
        device: Device | None = None,
        dtype: DType | None = None,
        non_blocking: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Convert parameters and buffers in place; return the module.

        Called as ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(tensor)``, which gives both. The
        dtype applies to floating-point and complex tensors only.

        Raises
        ------
        TypeError
            When the dtype is neither floating-point nor complex.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 3).to(ad.float64).weight.dtype == ad.float64
        True
        """
        memory_format = kwargs.pop("memory_format", None)
        if "copy" in kwargs:
            raise RuntimeError(".to() does not accept copy argument")
        if kwargs:
            raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if args:
            first, rest = args[0], args[1:]
            if isinstance(first, (ad.dtype, type)):
                dtype = first
            elif isinstance(first, ad.Tensor):
                device, dtype = first.device, first.dtype
            else:
                device = first
                if rest:
                    dtype, rest = rest[0], rest[1:]
            wrong = (
                not isinstance(dtype, (ad.dtype, type, NoneType))
                or not isinstance(device, (str, int, ad.device, NoneType))
                or isinstance(device, bool)
                or len(rest) > 1
                or not all(isinstance(blocking, bool) for blocking in rest)
            )
            if wrong:
                said = ", ".join(type(arg).__name__ for arg in args)
                raise TypeError(
                    f"to() received an invalid combination of arguments - got ({said}), but expected one of: (device, dtype, "
                    "non_blocking), (dtype, non_blocking), (tensor, non_blocking)"
                )
        if dtype is not None:
            dtype = ad._C._dtype(dtype)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules might "
                "not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(tensor):
            # As in torch, it is for weights of convolutions: those with four or five dimensions.
            if memory_format is not None and tensor.ndim in (4, 5):
                tensor = tensor.to(memory_format=memory_format)
            if device is not None:
                if tensor.is_meta and ad.device(device).type != "meta":
                    raise NotImplementedError(
                        f"Cannot copy out of meta tensor; no data! Please use {switches.package}.nn.Module.to_empty() instead of "
                        f"{switches.package}.nn.Module.to() when moving module from meta to a different device."
                    )
                tensor = tensor.to(device)
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                tensor = tensor.to(dtype)
            return tensor

        return self._apply(convert)

    def _cast_floating(self, dtype):
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1, dtype=ad.float64).float().weight.dtype
        adjoint.float32
        """
        return self._cast_floating(ad.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1).double().weight.dtype
        adjoint.float64
        """
        return self._cast_floating(ad.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1).half().weight.dtype
        adjoint.float16
        """
        return self._cast_floating(ad.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1).bfloat16().weight.dtype
        adjoint.bfloat16
        """
        return self._cast_floating(ad.bfloat16)

    def type(self, dst_type: Any) -> Self:
        """Convert every parameter and buffer to the dtype `dst_type`, or to a legacy tensor type.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1).type(ad.float64).weight.dtype
        adjoint.float64
        """
        return self._apply(lambda tensor: tensor.type(dst_type))

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that processes share; see `Tensor.share_memory_`.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 3).share_memory()
        >>> layer.weight.is_shared()
        True
        """
        from adjoint._tensor import segments

        tensors = [*self.parameters(), *self.buffers()]
        for tensor in tensors:
            if hasattr(tensor, "cls_to_become"):
                tensor.share_memory_()  # which says that it has no memory yet
        segments.move(tensors, "share_memory")
        return self

    def cpu(self) -> Self:
        """Move to the CPU.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Linear(2, 1).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda tensor: tensor.to("cpu"))

    def cuda(self, device: Device | None = None) -> Self:
        """Move to a CUDA device.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Module().cuda()  # has nothing to move
        Module()
        """
        target = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
        return self._apply(lambda tensor: tensor.to(target))

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Move to `device` without copying: the values are undefined until they are initialised.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1, device="meta").to_empty(device="cpu")
        >>> layer.weight.device
        device(type='cpu')
        """
        return self._apply(lambda tensor: ad.empty_like(tensor, device=device), recurse=recurse)
