"""What a Tensor can do besides the operators of the core: gradients, NumPy, DLPack, types, sequence manners.

The type itself is made in C++ (core/bind/object.cpp). The classes here are only lists of members: `extend` moves what
they define into Tensor. Copying and pickling are in `_copying`, printing in `_printing`, compositions of operators in
`ops`, random values in `_random`. Start reading at `Gradients`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor, _run_backward
from adjoint._device import check_device, cpu, strided
from adjoint._register import door

__all__ = ["Members", "extend"]

_to_type, _make_subclass = _C._to_type, Tensor._make_subclass

# What `typing` calls so; importing it takes time. Type checkers let a list of members use what Tensor has.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Members = Any
else:
    Members = object


def extend(members):
    """Move what a class body defines into Tensor."""
    for name, value in vars(members).items():
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__"):
            if getattr(value, "__module__", None) == members.__module__:
                value.__qualname__ = "Tensor." + name
            if type(value) is type(extend) and not name.startswith("_") and name != "backward":
                value = door(value)
            setattr(Tensor, name, value)
    return members


@extend
class Gradients(Members):
    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
        """Add the gradient of this tensor to the ``.grad`` of the leaves that it depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            What the pass starts with, of this tensor's shape; 1 for a tensor of one element.
        retain_graph : bool, optional
            Keep saved values, so that the graph can be used again; `create_graph` by default.
        create_graph : bool
            Record the backward pass itself, for derivatives of higher order.
        inputs : Tensor or sequence of Tensor, optional
            Accumulate into these alone.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.tensor(3.0, requires_grad=True)
        >>> (x**2 + 2 * x + 1).backward()
        >>> x.grad
        tensor(8.)
        """
        if inputs is not None or create_graph:
            from adjoint.autograd import backward

            return backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        if gradient is not None:
            gradient = (gradient,) if isinstance(gradient, Tensor) else tuple(gradient)
        _run_backward((self,), gradient, None, bool(retain_graph), False, True, True)

    def register_hook(self, hook):
        """Call ``hook(gradient)`` whenever the gradient of this tensor is known; a returned Tensor replaces it.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook away.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.ones(1, requires_grad=True)
        >>> handle = x.register_hook(lambda g: g * 2)
        >>> (x * 3).sum().backward()
        >>> x.grad
        tensor([6.])
        """
        registered = _C._register_hook(self, hook)
        return _handle(self, registered.id, registered.clear)

    @property
    def _backward_hooks(self):
        """The hooks by number, in the order in which they run; None where there are none."""
        from collections import OrderedDict

        return OrderedDict(_C._hooks_of(self)) or None

    @_backward_hooks.setter
    def _backward_hooks(self, hooks):
        for number in _C._hooks_of(self):
            _C._remove_hook(self, number)
        for hook in (hooks or {}).values():
            _C._register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """Call ``hook(tensor)`` after the gradient of this leaf has been accumulated into ``.grad``."""
        return _handle(self, _C._register_post_accumulate_grad_hook(self, hook))

    def detach_(self) -> Tensor:
        """Forget how this tensor was made: it becomes a leaf that needs no gradient."""
        _C._detach_(self)
        return self

    @property
    def volatile(self) -> bool:
        """Always False; removed: see `no_grad` and `inference_mode`."""
        from warnings import warn

        warn(
            "volatile was removed (Variable.volatile is always False): see adjoint.no_grad and adjoint.inference_mode",
            stacklevel=2,
        )
        return False

    @volatile.setter
    def volatile(self, value):
        if value:
            from adjoint.autograd import refuse_volatile

            refuse_volatile()


def _handle(tensor, number, empty=None):
    from weakref import ref

    # A handle keeps no tensor alive.
    owner = ref(tensor)

    def remove():
        tensor = owner()
        if tensor is not None and (empty is None or number in _C._hooks_of(tensor)):
            _C._remove_hook(tensor, number)
        elif empty is not None:
            # The history that the hook belongs to has outlived the tensor, or been replaced.
            empty()

    return _handle_that(remove)


def _handle_that(remove):
    from adjoint.utils.hooks import handle_that

    return handle_that(remove)


def _register_node_hook(self, fn):
    """Call ``fn(grad_inputs, grad_outputs)`` after this node has run; a returned tuple replaces `grad_inputs`.

    Returns
    -------
    RemovableHandle
    """
    number = _C._register_node_hook(self, fn, False)
    return _handle_that(lambda: _C._remove_node_hook(self, number))


def _register_node_prehook(self, fn):
    """Call ``fn(grad_outputs)`` before this node runs; a returned tuple replaces `grad_outputs`.

    Returns
    -------
    RemovableHandle
    """
    number = _C._register_node_hook(self, fn, True)
    return _handle_that(lambda: _C._remove_node_hook(self, number))


def _input_metadata(self):
    """What the gradients that this node takes look like: one entry with `shape` and `dtype` per result of the call."""
    from adjoint.autograd._show import results

    return results(self)


_C.Node._input_metadata = property(_input_metadata)
_C.Node.register_hook = _register_node_hook
_C.Node.register_prehook = _register_node_prehook


@extend
class Exchange(Members):
    """NumPy and DLPack."""

    __array_priority__ = 1000

    def numpy(self, *, force=False):
        """The values as a NumPy array over the same memory.

        Parameters
        ----------
        force : bool
            Detach first where that is needed.

        Raises
        ------
        RuntimeError
            The tensor needs a gradient, and recording is on.
        TypeError
            The dtype is bfloat16, which NumPy does not have.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2).numpy()
        array([1., 1.], dtype=float32)
        """
        try:
            import numpy
        except ImportError as error:
            raise ImportError(
                "Tensor.numpy() needs NumPy, which is not installed: pip install numpy"
            ) from error
        if self.requires_grad:
            if not force and _C.is_grad_enabled():
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead. It is "
                    + (f"the result of {self.grad_fn.name()}" if self.grad_fn else "a leaf")
                    + f", of shape {list(self.shape)}, {self.dtype.name}; writes to the array would not be recorded."
                )
            self = self.detach()
        if self.dtype is _C.bfloat16:
            raise TypeError(
                "Got unsupported ScalarType BFloat16: NumPy has no bfloat16; use .float().numpy()"
            )
        return numpy.asarray(memoryview(self))

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"a tensor of {self.dtype} cannot become an array of {dtype} without a copy")
        return array.astype(dtype)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.requires_grad:
            raise BufferError(
                "Can't export tensors that require gradient (requires_grad=True): use tensor.detach()"
            )
        if stream is not None:
            raise BufferError(
                f"__dlpack__(): stream must be None for a tensor on the CPU, but got {stream!r}"
            )
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(
                f"__dlpack__(): cannot export to device {tuple(dl_device)}; this tensor is on (1, 0), the CPU"
            )
        versioned = max_version is not None and max_version[0] >= 1
        if copy:
            return _C._to_dlpack(self.clone(), versioned, True)
        if not versioned and self._storage()[2]:
            raise BufferError(
                "__dlpack__(): read-only memory needs max_version=(1, 0) or higher, or copy=True"
            )
        return _C._to_dlpack(self, versioned, False)

    def __dlpack_device__(self):
        return (1, 0)


@extend
class Types(Members):
    """Where a tensor lives and what its elements are."""

    device = property(lambda self: cpu, doc="Where the elements are: the CPU.")
    layout = property(lambda self: strided, doc="How the elements are stored.")
    is_cpu = property(lambda self: True, doc="Whether the elements are in the memory of the CPU.")
    names = property(
        lambda self: (None,) * self.ndim, doc="Names of the dimensions, which are not supported."
    )

    def to(
        self, *args, dtype=None, device=None, other=None, non_blocking=False, copy=False, memory_format=None
    ) -> Tensor:
        """The tensor in another dtype: ``to(dtype)``, ``to(device, dtype)``, ``to(other)``; itself if nothing changes.

        Parameters
        ----------
        dtype : dtype, optional
        device : 'cpu', optional
        other : Tensor, optional
            The dtype is taken from it.
        copy : bool
            Make a new tensor even where nothing changes.
        memory_format : memory_format, optional
            The order of dimensions in memory.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.ones(2).to(ad.int64)
        tensor([1, 1])
        """
        if args:
            first, *rest = args
            if isinstance(first, _C.dtype) or first in _PYTHON_TYPES:
                dtype = first
            elif isinstance(first, Tensor):
                other = first
            else:
                check_device(first)
                if rest:
                    dtype, *rest = rest
            if rest:
                non_blocking, copy = (*rest, copy)[:2]
        if device is not None:
            check_device(device)
        if other is not None:
            dtype = other.dtype
        if memory_format is not None:
            return _to_laid(self, dtype, copy, memory_format, "to")
        if dtype is None or dtype is self.dtype or _C._dtype(dtype) is self.dtype:
            return self.clone() if copy else self
        return _to_type(self, dtype)

    def type(self, dtype=None, non_blocking=False):
        """The tensor in another dtype; without one, the name of its type."""
        if dtype is None:
            return f"{str(self.dtype).partition('.')[0]}.{self.dtype._type_name}Tensor"
        if dtype is Tensor:
            dtype = _C.get_default_dtype()
        if "cuda" in str(dtype):
            raise TypeError(f"type(): {dtype} is not available: there is no CUDA device here")
        if isinstance(dtype, str):
            name = dtype.rpartition(".")[2].removesuffix("Tensor")
            found = [d for d in _DTYPES if d._type_name == name]
            if not found:
                raise ValueError(f"invalid type: {dtype!r}")
            dtype = found[0]
        elif isinstance(dtype, type):
            # A tensor type of old, such as LongTensor, has its dtype as an attribute.
            dtype = _C._dtype(getattr(dtype, "dtype", dtype))
        return self if dtype is self.dtype else _to_type(self, dtype)

    def type_as(self, other) -> Tensor:
        """The tensor in the dtype of `other`."""
        return self.to(other.dtype)

    def cpu(self, memory_format=None) -> Tensor:
        """The tensor itself."""
        return self if memory_format is None else _to_laid(self, None, False, memory_format, "cpu")

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_same_size(self, other) -> bool:
        """Whether the shapes are equal."""
        return self.shape == other.shape

    def as_subclass(self, cls):
        """The same memory, and the same history, as an instance of a subclass of Tensor."""
        if not self.requires_grad or self.is_leaf:
            return _make_subclass(cls, self, self.requires_grad)
        return _C._retype(cls, self.view_as(self))


def _to_laid(x, dtype, copy, memory_format, name):
    from adjoint._memory_format import laid

    converted = x if dtype is None or dtype is x.dtype else _to_type(x, dtype)
    result = laid(converted, memory_format, name)
    return result.clone() if copy and result is x else result


_PYTHON_TYPES = (float, int, bool, complex)
_DTYPES = [value for value in vars(_C).values() if isinstance(value, _C.dtype)]


def _shorthand(name, dtype):
    def convert(self, memory_format=None):
        if memory_format is not None:
            return _to_laid(self, dtype, False, memory_format, name)
        return self if self.dtype is dtype else _to_type(self, dtype)

    convert.__name__, convert.__qualname__ = name, "Tensor." + name
    convert.__doc__ = f"The tensor as {str(dtype).rpartition('.')[2]}."
    setattr(Tensor, name, convert)


for _dtype in _DTYPES:
    _shorthand(_dtype._type_name.lower().replace("complex", "c"), _dtype)


def _sizes(size, keywords, name):
    if not keywords:
        return size
    from adjoint._creation import _size

    return _size(size, keywords, name)


@extend
class Making(Members):
    """Tensors of this one's dtype, and its shape seen otherwise."""

    def new_tensor(
        self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ) -> Tensor:
        """As `tensor`, in this tensor's dtype."""
        check_device(device)
        return _C.tensor(data, dtype or self.dtype, requires_grad)

    def new_empty(
        self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False, **keywords
    ) -> Tensor:
        """As `empty`, in this tensor's dtype."""
        check_device(device)
        return _C._empty(_sizes(size, keywords, "new_empty"), dtype or self.dtype, requires_grad)

    def new_zeros(
        self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False, **keywords
    ) -> Tensor:
        """As `zeros`, in this tensor's dtype."""
        check_device(device)
        return _C._zeros(_sizes(size, keywords, "new_zeros"), dtype or self.dtype, requires_grad)

    def new_ones(
        self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False, **keywords
    ) -> Tensor:
        """As `ones`, in this tensor's dtype."""
        check_device(device)
        return _C._full(_sizes(size, keywords, "new_ones"), 1, dtype or self.dtype, requires_grad)

    def new_full(
        self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ) -> Tensor:
        """As `full`, in this tensor's dtype."""
        check_device(device)
        return _C._full(size, fill_value, dtype or self.dtype, requires_grad)

    def view_as(self, other) -> Tensor:
        """``view(other.shape)``."""
        return self.view(other.shape)

    def reshape_as(self, other) -> Tensor:
        """``reshape(other.shape)``."""
        return self.reshape(other.shape)

    def expand_as(self, other) -> Tensor:
        """``expand(other.shape)``."""
        return self.expand(other.shape)


@extend
class Sequence(Members):
    """A tensor as a sequence along its first dimension, and as text."""

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element):
        if not isinstance(element, (Tensor, *_PYTHON_TYPES)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {element.__class__.__name__}."
            )
        return bool((self == element).any())

    def __reversed__(self):
        return self.flip(0) if self.ndim else self

    def __format__(self, spec):
        if self.ndim == 0 and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents=None):
        from adjoint._printing import text_of

        return text_of(self, tensor_contents)

    def __dir__(self):
        return sorted({*object.__dir__(self)} - {"volatile"})
