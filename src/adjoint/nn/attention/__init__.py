"""Which way attention is computed, under torch's names: here there is one, and choices are taken without effect."""

from __future__ import annotations

import contextlib
import enum

from adjoint._publish.arguments import ignores
from adjoint._publish.register import listing
from adjoint._types import Any

from . import bias

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "bias", "sdpa_kernel"]
__dir__ = listing(__name__)

#: Kept; nothing warns.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """torch's ways to compute `scaled_dot_product_attention`.

    Parameters
    ----------
    value : int
    names, module, qualname, type, start, boundary
        Those of `enum.IntEnum`.

    Examples
    --------
    >>> from adjoint.nn.attention import SDPBackend
    >>> SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_OURS = {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION}


@contextlib.contextmanager
@ignores("set_priority", why="there is one way", warns=False)
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Any:
    """A context in which attention may be computed in these ways; the results of all are the same but for rounding.

    There is one way, in blocks that never hold the whole table of scores: it is what `MATH`, `FLASH_ATTENTION` and
    `EFFICIENT_ATTENTION` permit. With `set_priority` their order matters, of which nothing follows here.

    Parameters
    ----------
    backends : SDPBackend, or list of SDPBackend
    set_priority : bool
        Without effect.

    Yields
    ------
    None

    Raises
    ------
    RuntimeError
        None of the three is among `backends`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     ad.nn.functional.scaled_dot_product_attention(ad.ones(1, 2), ad.ones(1, 2), ad.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """
    backends = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(backends, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in backends):
        raise TypeError(f"sdpa_kernel(): Expected SDPBackend or a list of them, got {backends!r}")
    if not _OURS.intersection(backends):
        raise RuntimeError(
            "sdpa_kernel(): No viable backend for scaled_dot_product_attention was found. This is likely due to turning off "
            f"both the math kernel and the fused kernels: got {[b.name for b in backends]}, and expected at least one of "
            f"{', '.join(sorted(b.name for b in _OURS))}"
        )
    yield
