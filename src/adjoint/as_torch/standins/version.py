"""``torch.version``: which interface this is, and that no CUDA, ROCm or XPU is below it."""

from __future__ import annotations

from adjoint.as_torch.standins.torch_version import VERSION

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = str(VERSION)
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
