"""The test device: importing this lets there be `far:0` and `far:1`, whose memory the host cannot read (far/far.cpp).

It is a library of its own, which comes to the core as one for real hardware would; a C++ compiler has to be there, or the
library, compiled elsewhere, as the file that the variable ADJOINT_FAR_DEVICE names.
"""

import ctypes
import itertools
import os
import pathlib
import subprocess
import sysconfig
import tempfile

from adjoint import _C

HERE = pathlib.Path(__file__).resolve().parent
#: What the library gives, and the names of their capsules, which do not copy them.
DEVICE, ROUTINES = b"adjoint.device", b"adjoint.routines"


def build(folder):
    """Compile the library into a folder; its path."""
    library = pathlib.Path(folder) / "libfar.so"
    compiler = (sysconfig.get_config_var("CXX") or "c++").split()[0]
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{HERE.parent / 'core'}"]
    subprocess.run([*command, *sorted((HERE / "far").glob("*.cpp")), "-o", library], check=True)
    return library


def register():
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(os.environ.get("ADJOINT_FAR_DEVICE") or str(build(folder)))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    def capsule(name):
        return make(
            ctypes.addressof(ctypes.c_char.in_dll(library, name.decode().replace(".", "_"))), name, None
        )

    _C._register_device(capsule(DEVICE))
    _C._register_routines(capsule(ROUTINES))
    return library


library = register()
library.far_call.restype = ctypes.c_char_p


def own_calls():
    """A call for each routine that the device has of its own, which comes to it alone."""
    return [call.decode() for call in itertools.takewhile(bool, map(library.far_call, itertools.count()))]
