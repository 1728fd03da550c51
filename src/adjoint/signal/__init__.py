"""Windows of signals: `adjoint.signal.windows`, with torch.signal.windows's names. Transforms are in `adjoint.fft`."""

from __future__ import annotations

from adjoint._publish.register import listing
from adjoint.signal import windows

__all__ = ["windows"]
__dir__ = listing(__name__)
