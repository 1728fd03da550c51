"""``torch.backends``: backends that Adjoint does not use; their settings are accepted and have no effect."""

from __future__ import annotations

from contextlib import contextmanager
from types import ModuleType

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "quantized"]


class _Backend(ModuleType):
    """An absent backend, whose settings have no effect."""

    def __init__(self, name, **switches):
        super().__init__("torch.backends." + name)
        self.__dict__.update(switches)

    def __getattr__(self, name):
        from adjoint.as_torch._finder import missing

        full = f"{self.__name__}.{name}"
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: {missing(full)}")

    def is_available(self) -> bool:
        return False

    def is_built(self) -> bool:
        return False

    def version(self):
        return None


class _Switched(_Backend):
    @contextmanager
    def flags(self, **switches):
        """A context with other settings."""
        before = {name: vars(self)[name] for name in switches if name in vars(self)}
        vars(self).update(switches)
        try:
            yield
        finally:
            vars(self).update(before)


cudnn = _Switched(
    "cudnn", enabled=False, benchmark=False, deterministic=False, allow_tf32=False, benchmark_limit=0
)
cuda = _Backend(
    "cuda", matmul=_Backend("cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=False)
)
mkl, mkldnn, mps, openmp = (
    _Backend("mkl"),
    _Switched("mkldnn", enabled=False),
    _Backend("mps"),
    _Backend("openmp"),
)


quantized = _Backend("quantized", engine="none", supported_engines=["none"])


class _Cpu(_Backend):
    def get_cpu_capability(self) -> str:
        return "DEFAULT"


cpu = _Cpu("cpu")
