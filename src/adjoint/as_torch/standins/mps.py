"""``torch.mps`` where there is no such device."""

from adjoint.as_torch._absent import *
from adjoint.as_torch.standins._refused import refusing

globals().update(
    refusing(
        "torch.mps",
        "current_allocated_memory driver_allocated_memory empty_cache get_rng_state set_rng_state synchronize",
        "there is no such device",
    )
)
