"""Builds `floor.c` with the C compiler into a temporary folder and imports it: start at `load`."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile


class Unavailable(Exception):
    """There is no C compiler or no Python header to build the floor with."""


@functools.cache
def load():
    """The compiled module `adjoint_floor`."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Unavailable("no C compiler found")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floor.c")
    folder = tempfile.mkdtemp(prefix="adjoint-floor-")
    target = os.path.join(folder, "adjoint_floor" + sysconfig.get_config_var("EXT_SUFFIX"))
    command = [*compiler.split(), "-O2", "-shared", "-fPIC"]
    command += ["-I", sysconfig.get_path("include"), source, "-o", target]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable("the floor did not compile: " + done.stderr.strip().splitlines()[0])
        spec = importlib.util.spec_from_file_location("adjoint_floor", target)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return module
