"""``torch.utils.cpp_extension``: what is compiled against torch's C++ cannot run, and is refused when it is asked for."""

from __future__ import annotations

from adjoint.as_torch.standins._refused import refused, refusing

__all__: list[str] = []

_WHY = "there is no C++ of torch to compile against"

CUDA_HOME = ROCM_HOME = None
globals().update(refused("torch.utils.cpp_extension", "BuildExtension", _WHY))
globals().update(
    refusing("torch.utils.cpp_extension", "CUDAExtension CppExtension include_paths load load_inline", _WHY)
)
