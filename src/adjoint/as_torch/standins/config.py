"""``torch.__config__``: the build of Adjoint, as text."""

from __future__ import annotations

import adjoint

__all__ = ["parallel_info", "show"]


def show() -> str:
    """How this was built; the switches that programs look for are all off."""
    return (
        f"Adjoint {adjoint.__version__}, with the interface of torch\n"
        "  - Build settings: BLAS_INFO=open, LAPACK_INFO=open, USE_CUDA=0, USE_CUDNN=OFF, USE_GLOO=OFF, USE_MKL=OFF, "
        "USE_MKLDNN=OFF, USE_MPI=OFF, USE_NCCL=OFF, USE_OPENMP=OFF, USE_ROCM=OFF, USE_XPU=OFF, \n"
    )


def _cxx_flags() -> str:
    """The compiler's flags: none are kept."""
    return ""


def parallel_info() -> str:
    """The number of threads."""
    return f"Adjoint parallel backend: oneTBB, {adjoint.get_num_threads()} threads\n"
