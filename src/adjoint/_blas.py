"""Where the BLAS is: the core looks beside the package; this tells it when the wheel is installed elsewhere."""

import os
import sys

from adjoint import _C


def _locate():
    parts = (
        "scipy_openblas32",
        "lib",
        "libscipy_openblas" + {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so"),
    )
    beside = os.path.dirname(os.path.dirname(_C.__file__))
    if os.path.isfile(os.path.join(beside, *parts)):
        return
    for folder in sys.path:
        path = os.path.join(folder, *parts)
        if os.path.isfile(path):
            _C.set_blas_path(path)
            return


_locate()
