"""The state of the default generator as a module: seeding, reading, putting back, and doing so around a block.

Random tensors themselves are in `_random`. Start reading at `fork_rng`.
"""

from __future__ import annotations

from contextlib import contextmanager

from adjoint._publish.register import listing
from adjoint._tensor.random import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from adjoint._types import Any

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
__dir__ = listing(__name__)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> Any:
    """A context that restores the state of the default generator at its end.

    Parameters
    ----------
    devices : sequence, optional
        None, or an empty one: there is one generator.
    enabled : bool
        Without it, the context does nothing.
    device_type : str
        'cpu'.

    Yields
    ------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> generator = ad.manual_seed(0)
    >>> with ad.random.fork_rng():
    ...     x = ad.rand(3)
    >>> ad.equal(x, ad.rand(3))
    True
    """
    if devices and device_type not in ("cpu", "meta"):
        raise AssertionError(
            f"fork_rng(): Torch not compiled with CUDA enabled: there are no devices {[*devices]}, only the default generator"
        )
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
