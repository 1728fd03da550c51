"""Names of torch's test machinery that say one thing each: what is here, and what is to be left out where it is not.

There are dozens of flags and decorators, most of them about devices and compilers. `name` knows them by their form. Start
reading there.
"""

from __future__ import annotations

import os
import sys
import unittest
from importlib.util import find_spec

__all__ = ["chosen_by", "identity", "name"]

_TRUE = {
    "IS_LINUX": sys.platform.startswith("linux"),
    "IS_MACOS": sys.platform == "darwin",
    "IS_WINDOWS": sys.platform == "win32",
    "IS_X86": os.uname().machine in ("x86_64", "i386") if hasattr(os, "uname") else False,
    "IS_ARM64": os.uname().machine in ("arm64", "aarch64") if hasattr(os, "uname") else False,
    "TEST_NUMPY": find_spec("numpy") is not None,
    "TEST_SCIPY": find_spec("scipy") is not None,
}
_FLAGS = ("IS_", "TEST_", "SM", "PLATFORM_SUPPORTS_", "HAS_", "RUN_", "USE_", "NOTEST_")
#: Decorators that leave a test out, since it is of a device that is not there.
_ELSEWHERE = (
    "onlyAccelerator",
    "onlyCUDA",
    "onlyGPU",
    "onlyMPS",
    "onlyXPU",
    "onlyHPU",
    "onlyOn",
    "onlyPRIVATEUSE1",
    "requires_cuda",
)
_DECORATORS = (
    "decorateIf",
    "expectedFailure",
    "largeTensorTest",
    "markDynamo",
    "only",
    "opsToleranceOverride",
    "precisionOverride",
    "requires",
    "scoped_load_inline",
    "skip",
    "tf32_",
    "toleranceOverride",
    "unMarkDynamo",
    "with_tf32_off",
    "xfailIf",
)


def identity(*args, **keywords):
    """A decorator that leaves tests as they are, with arguments of its own or without."""
    if len(args) == 1 and not keywords and callable(args[0]):
        return args[0]
    return lambda test: test


def chosen_by(condition, reason):
    """A decorator, with arguments of its own or without, that leaves a test out where the condition does not hold."""
    if condition:
        return identity

    def left_out(*args, **keywords):
        skip = unittest.skip(reason)
        return skip(args[0]) if len(args) == 1 and not keywords and callable(args[0]) else skip

    return left_out


def name(module, wanted):
    """The flag or decorator of that name."""
    if wanted in _TRUE:
        return _TRUE[wanted]
    if wanted.startswith(_ELSEWHERE) or wanted == "scoped_load_inline":
        return chosen_by(False, f"{wanted}: not here")
    if wanted.startswith(_FLAGS):
        return False
    if wanted.startswith(_DECORATORS):
        return identity
    raise AttributeError(f"module 'torch.testing._internal.{module}' has no attribute {wanted!r}")
