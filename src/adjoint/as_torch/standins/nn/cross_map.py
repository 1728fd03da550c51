"""The older layer of `LocalResponseNorm`, which libraries name in `isinstance`.

torch's keeps the square of the first channel in the sums of all others.
"""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refused

__all__ = ["CrossMapLRN2d"]

CrossMapLRN2d = refused("torch.nn", "CrossMapLRN2d", "use LocalResponseNorm")["CrossMapLRN2d"]
