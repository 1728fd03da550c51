"""Where the BLAS is: the core looks beside the package; this tells it when the wheel is installed elsewhere."""

import os
import sys

from adjoint import _C

_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def _locate():
    asked = os.environ.get("ADJOINT_BLAS", "")
    if asked == "mkl":
        # pip puts it into the environment's folder of libraries, not beside packages.
        for name in ("libmkl_rt.so.3", "libmkl_rt.so.2"):
            path = os.path.join(sys.prefix, "lib", name)
            if os.path.isfile(path):
                _C.set_blas_path(path)
                return
    elif asked in ("", "openblas"):
        parts = ("scipy_openblas32", "lib", "libscipy_openblas" + _suffix)
        beside = os.path.dirname(os.path.dirname(_C.__file__))
        for folder in (beside, *sys.path):
            path = os.path.join(folder, *parts)
            if os.path.isfile(path):
                if folder != beside:
                    _C.set_blas_path(path)
                return


_locate()
