"""Where storages of a file go: `map_location` in all its forms, and what programs register for devices of their own.

A storage that a file says was on a device that is not here is an error, as in torch, unless `map_location` says where it shall
go. On the meta device nothing is left of it but its size. Start reading at `restorer`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._switches import switches
from adjoint._tensor.device import device, device_number
from adjoint._tensor.storage import UntypedStorage
from adjoint._tensor.typed_storage import TypedStorage

_registry: list = []


def register_package(priority, tagger, deserializer) -> None:
    """Let storages of further devices be written and read.

    Parameters
    ----------
    priority : int
        The lowest is asked first.
    tagger : function of a storage
        Its location as text, or None.
    deserializer : function of a storage and a location
        The storage there, or None.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> serialization.register_package(100, lambda storage: None, lambda storage, location: None)
    """
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda entry: entry[0])


def _moved(storage, location):
    """The storage on a device that is here; on the meta device, a size without bytes."""
    try:
        number = device_number(str(location))
    except RuntimeError:
        return None
    return type(storage)(_owner=_C._to_device(storage._elements, number, 0))


register_package(
    10,
    lambda storage: "cpu" if storage.device.type == "cpu" else None,
    lambda storage, location: storage if location == "cpu" else None,
)
register_package(20, lambda storage: None if storage.device.type == "meta" else str(storage.device), _moved)


def location_tag(storage) -> str:
    """Where a storage is, as files say it.

    Parameters
    ----------
    storage : UntypedStorage

    Returns
    -------
    str

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> serialization.location_tag(ad.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _registry:
        location = tagger(storage)
        if location is not None:
            return location
    raise RuntimeError(
        f"don't know how to determine data location of {type(storage).__name__} on the device {storage.device}"
    )


def default_restore_location(storage, location):
    """The storage at a location that a file or a program names.

    Parameters
    ----------
    storage : UntypedStorage
    location : str

    Returns
    -------
    UntypedStorage

    Raises
    ------
    RuntimeError
        There is no such device here.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import serialization
    >>> storage = ad.ones(2).untyped_storage()
    >>> serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, deserializer in _registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    kind = str(location).partition(":")[0]
    if kind == "cuda":
        reason = (
            f"{switches.package}.cuda.is_available() is False" if switches.torch else "there is none here"
        )
        raise RuntimeError(
            f"Attempting to deserialize object on a CUDA device but {reason}. If you are running on a CPU-only machine, please use "
            f"{switches.package}.load with map_location={switches.package}.device('cpu') to map your storages to the CPU."
        )
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with {location}): there is no such device "
        "here; use map_location='cpu'"
    )


def restorer(map_location):
    """The function of a storage and its location that `map_location` means."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):

        def restore(storage, location):
            return default_restore_location(storage, str(map_location.get(location, location)))

    elif isinstance(map_location, (str, bytes, device)):
        place = map_location.decode("ascii") if isinstance(map_location, bytes) else str(map_location)

        def restore(storage, location):
            return default_restore_location(storage, place)

    elif callable(map_location):

        def restore(storage, location):
            result = map_location(storage, location)
            if result is None:
                return default_restore_location(storage, location)
            if not isinstance(result, (TypedStorage, UntypedStorage)):
                raise TypeError(
                    f"load(): map_location returned a {type(result).__name__}; expected a storage, or None for the usual place"
                )
            return result

    else:
        raise TypeError(
            f"load(): map_location must be None, a str, a device, a dict or a function, not {type(map_location).__name__}"
        )
    return restore
