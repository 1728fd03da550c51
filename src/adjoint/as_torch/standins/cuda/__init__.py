"""``torch.cuda`` where there is no device: every question is answered, and what would need one is refused.

Start reading at `_refuse`; what it shares with other absent devices is in `_absent`.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from adjoint import OutOfMemoryError
from adjoint.as_torch import _legacy
from adjoint.as_torch._absent import device_count, is_available, manual_seed

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_rng_state_all",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation=True) -> bool:
    return False


# What programs call without asking first, because it does nothing where there is no device.


def manual_seed_all(seed) -> None:
    """Nothing to seed."""


def empty_cache() -> None:
    """Nothing is cached."""


def ipc_collect() -> None:
    """Nothing is shared."""


def reset_peak_memory_stats(device=None) -> None:
    """Nothing is counted."""


def get_arch_list() -> list:
    return []


def _nothing() -> None:
    """Nothing to seed."""


seed = seed_all = _nothing


def get_rng_state_all() -> list:
    return []


def set_rng_state_all(new_states) -> None:
    """No device has a state."""


def memory_allocated(device=None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_stats(device=None) -> dict:
    return {}


def is_current_stream_capturing() -> bool:
    return False


_initialized = False


class device:
    """As a context it chooses a device; without one (None, or a negative number) it does nothing."""

    def __init__(self, device=None):
        if device is not None and not (isinstance(device, int) and device < 0):
            _refuse()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


class stream(device):
    """Like `device`: the stream None is the only one."""


StreamContext = stream


# What needs a device.


def _refuse(*args, **keywords):
    raise AssertionError("Torch not compiled with CUDA enabled: this is Adjoint, which has no CUDA device")


def init() -> None:
    _refuse()


def synchronize(device=None) -> None:
    _refuse()


def current_device() -> int:
    return _refuse()


def set_device(device) -> None:
    if not isinstance(device, int) or device >= 0:
        _refuse()


def get_device_name(device=None) -> str:
    return _refuse()


get_device_properties = get_device_capability = get_rng_state = set_rng_state = cudart = current_stream = (
    mem_get_info
) = _refuse


class _Refused:
    def __init__(self, *args, **keywords):
        raise RuntimeError(
            f"torch.cuda.{type(self).__name__} requires CUDA support: Tried to instantiate dummy base class {type(self).__name__}"
        )


class Stream(_Refused):
    """Needs a device."""


class Event(_Refused):
    """Needs a device."""


class CUDAGraph(_Refused):
    """Needs a device."""


class graph(_Refused):
    """Needs a device."""


#: ``torch.cuda.random``: the functions of random numbers, in a module of their own.
random = ModuleType("torch.cuda.random")
vars(random).update(
    (f.__name__, f) for f in (manual_seed, manual_seed_all, get_rng_state_all, set_rng_state_all)
)
vars(random).update(get_rng_state=_refuse, set_rng_state=_refuse, seed=_nothing, seed_all=_nothing)
graphs = SimpleNamespace(CUDAGraph=CUDAGraph, graph=graph)


class ExternalStream(_Refused):
    """Needs a device."""


class MemPool(_Refused):
    """Needs a device."""


class DeferredCudaCallError(Exception):
    """Never raised."""


def __getattr__(name):
    if name in _legacy.TYPES:
        made = globals()[name] = _legacy.cuda_type(name)
        return made
    if name.endswith("Storage"):
        from adjoint.as_torch.standins.storage import CUDA

        if name in CUDA:
            return CUDA[name]
    raise AttributeError(name)
