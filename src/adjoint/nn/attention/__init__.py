"""Which way attention is computed, under torch's names: here there is one, and choices are taken without effect."""

from __future__ import annotations

import contextlib
import enum

from . import bias

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "bias", "sdpa_kernel"]

#: Kept; nothing warns.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """torch's ways to compute `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Taken without effect: the results of all ways are the same but for rounding.

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
    yield
