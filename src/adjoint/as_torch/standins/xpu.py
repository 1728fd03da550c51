"""``torch.xpu`` where there is no such device."""

from adjoint.as_torch._absent import *
from adjoint.as_torch.standins._refused import refusing

globals().update(
    refusing(
        "torch.xpu",
        "current_device get_device_capability get_device_name get_device_properties get_rng_state mem_get_info "
        "set_rng_state synchronize",
        "there is no such device",
    )
)


def empty_cache() -> None:
    """Nothing is cached."""
