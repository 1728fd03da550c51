"""Imported by the fork server, where it calls `as_torch`; elsewhere it does nothing."""

import sys

if any("multiprocessing.forkserver" in word for word in sys.orig_argv):
    from adjoint.as_torch import as_torch

    as_torch()
