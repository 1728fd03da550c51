"""Where tensors live, and how they lie there: `device`, `layout`, `memory_format`, and members of Tensor that ask for them.

There are the CPU and the meta device, whose tensors have a shape and a dtype and no elements, and those that a library has
registered; others can be named. Start reading at `device`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import ignores
from adjoint._publish.register import Members, extend
from adjoint._switches import switches
from adjoint._types import Any

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "cpu",
    "device",
    "device_number",
    "get_default_device",
    "layout",
    "memory_format",
    "preserve_format",
    "set_default_device",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


#: What a device may be called: torch's names, so that programs can pass devices around which they will not use.
TYPES = "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia privateuseone".split()


#: Kinds of devices that are always there: the CPU and the meta device.
_KINDS = 2


def _registered():
    """The names of kinds that came by a library."""
    return [name for name, _ in _C._device_kinds()[_KINDS:]]


class device:
    """A device by name: ``device('cpu')``, ``device('cuda:1')``, ``device('cuda', 1)``.

    It is a value: any of torch's devices can be named, compared and stored. Only making a tensor there fails where there
    is no such device. As a context it says where tensors are made that no other tensor tells.

    Parameters
    ----------
    type : str or device
        What kind of device, with its number or without: 'cpu', 'cuda:1'.
    index : int, optional
        Its number, where `type` does not say it.

    Raises
    ------
    RuntimeError
        There is no such kind of device, or the number is not one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.ones(1).device == ad.device("cpu")
    True
    >>> ad.device("cuda:1").index
    1
    >>> with ad.device("meta"):
    ...     ad.ones(1000, 1000) @ ad.ones(1000)
    tensor(..., device='meta', size=(1000,))
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: Device, index: int | None = None) -> None:
        if isinstance(type, device) and index is None:
            type, index = type.type, type.index  # type: ignore[assignment]
        elif isinstance(type, int) and not isinstance(type, bool):
            raise RuntimeError(
                f"Cannot access accelerator device when none is available: device({type}) names an accelerator by its index"
            )
        elif not isinstance(type, str):
            raise TypeError(
                f"device(): argument 'type' (position 1) must be str, such as 'cpu', not {_name_of(type)}"
            )
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {_name_of(index)}")
        if not type:
            raise RuntimeError("Device string must not be empty")
        name, colon, number = type.partition(":")
        if colon:
            if not name or not (number.isascii() and number.isdigit()) or number != str(int(number)):
                raise RuntimeError(f"Invalid device string: {type!r}")
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            index = int(number)
        if name not in TYPES and name not in (registered := _registered()):
            raise RuntimeError(
                f"Expected one of {', '.join([*TYPES, *registered])} device type at start of device string: {type}"
            )
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, but got {index}")
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", index)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of a device cannot be changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})"
            if self.index is None
            else f"device(type={self.type!r}, index={self.index})"
        )

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)

    def __enter__(self) -> Any:
        _entered().append(_C._set_default_device(device_number(self)))
        return self

    def __exit__(self, *exception: Any) -> None:
        _C._set_default_device(_entered().pop())


class NoDeviceError(RuntimeError, AssertionError):
    """A tensor was asked for on a device that is not there; programs for torch expect one or the other."""


def _name_of(value):
    return value.__class__.__name__


cpu: device = device("cpu")


class _Places(dict):
    """Devices by the numbers that the core knows them by."""

    def __missing__(self, number):
        self[number] = found = device(_C._device_name(number))
        return found


_PLACES = _Places({0: cpu})


def device_number(value: Any) -> int:
    """The number by which the core knows a device; refuses one that is not there."""
    if value is cpu or value is None:
        return 0
    asked = device(value)
    if asked.type == "cpu":
        return 0
    kinds = _C._device_kinds()
    for kind, (name, count) in enumerate(kinds):
        if name == asked.type:
            if kind < _KINDS:
                return kind
            if (asked.index or 0) < count:
                return kind + 8 * (asked.index or 0)
            raise NoDeviceError(
                f"invalid device ordinal: there is no device {str(asked)!r}: of this kind there are {count}, "
                f"'{name}:0' to '{name}:{count - 1}'"
            )
    known = {"cuda": "CUDA", "xpu": "XPU"}.get(asked.type)
    there = [repr(name) for name, _ in kinds]
    raise NoDeviceError(
        f"this build has no device {str(asked)!r}: the devices are {', '.join(there[:-1])} and {there[-1]}"
        + (f" (Torch not compiled with {known} enabled)" if known else "")
        + "; leave device= out, or pass 'cpu'"
    )


_thread: list = []


def _entered() -> list:
    """What the contexts that this thread has entered replaced, the innermost last."""
    if not _thread:
        from threading import local

        _thread.append(local())
    return _thread[0].__dict__.setdefault("before", [])


def get_default_device() -> device:
    """The device on which tensors are made by default: the CPU, unless it was set.

    Returns
    -------
    device

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.get_default_device()
    device(type='cpu')
    """
    return _PLACES[_C._default_device()]


def set_default_device(device: Device) -> None:
    """Set the device on which this thread makes tensors by default.

    Parameters
    ----------
    device : device, str or None
        The device; None is the CPU.

    Returns
    -------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.set_default_device("meta")
    >>> ad.ones(2).device
    device(type='meta')
    >>> ad.set_default_device(None)
    """
    _C._set_default_device(device_number(device))


class _Named:
    """A constant that prints as it is written."""

    __slots__ = ("name",)

    def __init__(self, name: Any) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{switches.package}.{self.name}"

    def __reduce__(self) -> Any:
        return self.name


class layout(_Named):
    """How elements are stored: `strided` is dense; `sparse_coo`, `sparse_csr` and `sparse_csc` store some and their positions.

    Parameters
    ----------
    name : str
        What it is called.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.zeros(2).layout
    adjoint.strided
    """

    __slots__ = ()


class memory_format(_Named):
    """The order of dimensions in memory, an option of `clone`, `contiguous` and the ``*_like`` functions.

    Parameters
    ----------
    name : str
        What it is called.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.zeros(1, 2, 2, 2).contiguous(memory_format=ad.channels_last).stride()
    (8, 1, 4, 2)
    """

    __slots__ = ()


#: For annotations: see `adjoint._types`.
Device = device | str | int
Layout = layout
MemoryFormat = memory_format


#: By the number that the core knows them by.
LAYOUTS = tuple(layout(name) for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc"))
strided, sparse_coo, sparse_csr, sparse_csc = LAYOUTS
#: As torch's errors write them.
WRITTEN = ("Strided", "Sparse", "SparseCsr", "SparseCsc")
contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")


def _type_of(value):
    return device(value).type


@extend
class Location(Members):
    """Where a tensor lives; what programs ask before they do something that a CPU does not need has one answer here."""

    device = property(lambda self: _PLACES[self._device_number], doc="Where the elements are.")
    is_cpu = property(
        lambda self: not self._device_number, doc="Whether the elements are in the memory of the CPU."
    )

    @ignores("non_blocking", "memory_format", why="there is no CUDA device", warns=False)
    def cuda(
        self,
        device: Device | None = None,
        non_blocking: bool = False,
        memory_format: MemoryFormat | None = None,
    ) -> Tensor:
        """Refused: there is no CUDA device."""
        target = "cuda" if device is None else device if not isinstance(device, int) else f"cuda:{device}"
        if _type_of(target) != "cuda":
            raise RuntimeError(f"Invalid device, must be cuda device, but got {target}")
        return self.to(target)

    def get_device(self) -> int:
        """The number of the device among those of its kind: -1 for the CPU and the meta device, of which there is one."""
        index = self.device.index
        return -1 if index is None else index

    def pin_memory(self, device: Device | None = None) -> Tensor:
        """Refused: memory is pinned for transfers to a device, and there is none."""
        raise RuntimeError("Tensor.pin_memory(): cannot pin memory: there is no accelerator here")

    @ignores("device", why="no memory is pinned", warns=False)
    def is_pinned(self, device: Device | None = None) -> bool:
        """Whether the memory is pinned: always False."""
        return False

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes; see `share_memory_`."""
        import sys

        segments = sys.modules.get("adjoint._tensor.segments")
        return segments is not None and segments.find(self) is not None

    def share_memory_(self) -> Tensor:
        """Move the memory to shared memory, which processes that receive the tensor (by queue, argument or fork) see too.

        Returns
        -------
        Tensor
            The tensor itself; nothing is done if it is shared already.

        Raises
        ------
        RuntimeError
            Other tensors share the memory, which would not move with it.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.zeros(3).share_memory_()
        >>> x.is_shared()
        True
        """
        from adjoint._tensor import segments

        segments.move([self], "share_memory_")
        return self
