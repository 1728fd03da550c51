"""What a server of processes is told to import: it calls `as_torch` there, and does nothing elsewhere."""

import sys

if any("multiprocessing.forkserver" in word for word in sys.orig_argv):
    from adjoint.as_torch import as_torch

    as_torch()
