"""The systems that a release is for, and what compiles for them here.

Linux: GCC of this machine, or its cross compiler, linked against the symbols of glibc 2.28, which `zig cc` writes out (the
`ziglang` wheel), and with the C++ library within the module; `older_glibc.c` has the five functions that this C++ library
asks of a newer C library. GCC, since the wheels are to be what the benchmarks measured.

macOS and Windows: `zig c++`, which is clang with libc++ and each system's headers. That is a check that the core compiles
there: nothing of it was run.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "release"
#: The oldest C library that the Linux wheels run with.
GLIBC = "2.28"


@dataclasses.dataclass(frozen=True)
class Target:
    name: str
    #: As the compiler's prefix and CMake's processor have it.
    machine: str
    zig: str
    #: The wheel's tag; None where only compiling is checked.
    tag: str | None = None
    #: Where CPython's source package has the header that elsewhere is made by configuring.
    headers: pathlib.PurePath | None = None

    @property
    def folder(self) -> pathlib.Path:
        return BUILD.parent / f"release-{self.name}"

    @property
    def native(self) -> bool:
        return self.tag is not None and self.machine == platform.machine() and sys.platform == "linux"


TARGETS = {
    target.name: target
    for target in (
        Target("linux-x86_64", "x86_64", f"x86_64-linux-gnu.{GLIBC}", "manylinux_2_28_x86_64"),
        Target("linux-aarch64", "aarch64", f"aarch64-linux-gnu.{GLIBC}", "manylinux_2_28_aarch64"),
        Target("macos-arm64", "arm64", "aarch64-macos"),
        Target("windows-x86_64", "AMD64", "x86_64-windows-gnu", headers=pathlib.PurePath("PC/pyconfig.h")),
    )
}


class Missing(Exception):
    """A tool that a target needs is not here."""


def run(command: list[str | os.PathLike[str]], **options: object) -> str:
    """What the command prints; its words are shown where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        words = " ".join(map(str, command))
        raise SystemExit(
            f"{words[:400]}\n{(done.stdout + done.stderr)[-8000:]}\nended with {done.returncode}"
        )
    return done.stdout


def zig(*arguments: str | os.PathLike[str]) -> list[str | os.PathLike[str]]:
    try:
        import ziglang
    except ImportError:
        raise Missing("zig (pip install ziglang)") from None
    return [pathlib.Path(ziglang.__file__).parent / "zig", *arguments]


def zig_environment(target: Target) -> dict[str, str]:
    """A cache of its own, so that what zig makes for the target is found there."""
    cache = str(target.folder / "zig")
    return os.environ | {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def gnu_compiler(target: Target) -> tuple[str, str]:
    """The names of GCC's C++ compiler and of strip."""
    prefix = "" if target.native else f"{target.machine}-linux-gnu-"
    names = ["c++"] if target.native else [f"{prefix}g++{s}" for s in ("", "-14", "-13", "-12")]
    compiler = next((path for name in names if (path := shutil.which(name))), None)
    strip = shutil.which(f"{prefix}strip")
    if not compiler or not strip:
        raise Missing(f"{prefix}g++ (apt-get install g++-{target.machine}-linux-gnu)")
    return compiler, strip


def stubs(target: Target, compiler: str) -> pathlib.Path:
    """A folder with the C library's symbols, as modules are linked against them."""
    folder = target.folder / "stubs"
    wanted = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libld.so.2"]
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / name).is_file() for name in wanted):
        source = folder / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        command = zig(
            "cc", "-target", target.zig, source, "-o", folder / "empty", "-O2", "-lm", "-lpthread", "-ldl"
        )
        run(command, env=zig_environment(target))
        made = next((target.folder / "zig").glob("o/*/libc.so.6")).parent
        for name in wanted:
            shutil.copy(made / name, folder / name)
    # Code that every module has to have in itself (`atexit`), of this machine's C library.
    shutil.copy(run([compiler, "-print-file-name=libc_nonshared.a"]).strip(), folder)
    older = [compiler, "-x", "c", "-O2", "-fPIC", "-c", str(HERE / "older_glibc.c")]
    run([*older, "-o", folder / "older_glibc.o"])
    return folder


def toolchain(target: Target) -> list[str]:
    """CMake's arguments for the target."""
    if target.tag is None:
        command = zig("c++", "-target", target.zig)
        system = {"macos": "Darwin", "windows": "Windows"}[target.name.partition("-")[0]]
        return [
            f"-DCMAKE_SYSTEM_NAME={system}",
            f"-DCMAKE_SYSTEM_PROCESSOR={target.machine}",
            f"-DCMAKE_CXX_COMPILER={';'.join(map(str, command))}",
            "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
            # Portable loops alone: zig knows the levels of x86-64 by other names than GCC and clang.
            "-DADJOINT_LEVELS=",
        ]
    compiler, strip = gnu_compiler(target)
    return [
        f"-DCMAKE_TOOLCHAIN_FILE={HERE / 'gnu.cmake'}",
        f"-DRELEASE_MACHINE={target.machine}",
        f"-DRELEASE_COMPILER={compiler}",
        f"-DRELEASE_STRIP={strip}",
        f"-DRELEASE_STUBS={stubs(target, compiler)}",
    ]
