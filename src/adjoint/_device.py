"""Where tensors live, and how they lie there: `device`, `layout`, `memory_format`. There is one device, the CPU."""

from __future__ import annotations

__all__ = [
    "check_device",
    "contiguous_format",
    "cpu",
    "device",
    "get_default_device",
    "layout",
    "memory_format",
    "preserve_format",
    "set_default_device",
    "strided",
]


class device:
    """A device by name: ``device('cpu')``.

    Parameters
    ----------
    type : str or device
        'cpu', or 'cpu:0'.
    index : int, optional

    Raises
    ------
    RuntimeError
        Any other device.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.ones(1).device == ad.device("cpu")
    True
    """

    __slots__ = ("index", "type")

    def __init__(self, type="cpu", index=None):
        if isinstance(type, device):
            type, index = type.type, type.index
        elif not isinstance(type, str):
            raise TypeError(f"device(): expected a str such as 'cpu' or a device, but got {_name_of(type)}")
        name, colon, number = type.partition(":")
        if name != "cpu":
            raise RuntimeError(f"this build has no device {type!r}: the only device is 'cpu'")
        if colon:
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: {type!r}")
            index = int(number)
        self.type = name
        self.index = index

    def __eq__(self, other):
        return (
            isinstance(other, device) and self.type == other.type and (self.index or 0) == (other.index or 0)
        )

    def __hash__(self):
        return hash((self.type, self.index or 0))

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        return (
            f"device(type={self.type!r})"
            if self.index is None
            else f"device(type={self.type!r}, index={self.index})"
        )

    def __reduce__(self):
        return device, (self.type, self.index)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


def _name_of(value):
    return value.__class__.__name__


cpu = device("cpu")


def check_device(value):
    """Refuse every device but the CPU."""
    if value is not cpu and value is not None:
        device(value)


def get_default_device() -> device:
    """Where new tensors are made: the CPU."""
    return cpu


def set_default_device(device) -> None:
    """Make new tensors on a device: the CPU is the only one, others are refused."""
    check_device(device)


class _Named:
    """A constant that prints as it is written."""

    __slots__ = ("name",)
    namespace = "adjoint"

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"{self.namespace}.{self.name}"

    def __reduce__(self):
        return self.name


class layout(_Named):
    """How elements are stored: `strided` is the only layout."""

    __slots__ = ()


class memory_format(_Named):
    """The order of dimensions in memory, which `clone` and the ``*_like`` functions can be asked for."""

    __slots__ = ()


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
