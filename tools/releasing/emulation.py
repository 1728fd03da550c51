"""Wheels installed and tested in a root of another system: of another machine, whose programs qemu-user runs (binfmt_misc knows it),
or of this one with a Python that is not at hand here, or an older C library."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import stat
import sys

from releasing import proofs
from releasing.targets import ROOT, Missing, Target, gnu_compiler, run

#: What qemu emulates: a processor with NEON. On that of its own making, which has SVE, OpenBLAS's SVE loops gave wrong products.
PROCESSOR = "cortex-a72"
#: Versions that a root's Python may be named by.
MINORS = tuple(f".{minor}" for minor in range(14, 9, -1))
#: Tests that say nothing there, by why they do not.
LEFT_OUT = {
    "read the repository, which is the same on every machine": (
        "test_benchmarks.py test_coverage.py test_measured.py test_names_in_texts.py test_pages.py test_reference.py test_release.py "
        "test_rooms.py test_site.py test_structure.py test_unread_parameters.py typing/test_type_hints.py typing/test_typing.py"
    ),
    "run packages that are not laid out there (scikit-learn, matplotlib, torchvision, torchcrepe, Pyro)": (
        "examples/test_examples.py examples/test_gallery.py examples/test_jitted_examples.py test_demo.py test_pyro.py "
        "test_torchcrepe.py test_torchvision.py"
    ),
    "need an MPI library, which is not laid out there": "distributed/test_mpi.py",
    "measure time": "test_benchmark.py",
}


def left_out() -> dict[str, str]:
    """Paths, and why they are left out."""
    return {f"tests/{name}": why for why, names in LEFT_OUT.items() for name in names.split()}


def make_root(root: pathlib.Path, target: Target, suite: str) -> None:
    """A root of Debian for the target's machine. Its packages are laid out, not configured, which no program of ours needs and
    which would take emulated minutes."""
    if not shutil.which("debootstrap"):
        raise Missing("debootstrap and qemu-user-static (apt-get install)")
    architecture = {"aarch64": "arm64", "x86_64": "amd64"}[target.machine]
    # Suites that have no Python 3.14 by that name have theirs as python3.
    package = "python3.14-venv,libpython3.14-dev" if suite in ("forky", "sid") else "python3-venv"
    command = ["debootstrap", "--foreign", f"--arch={architecture}", "--variant=minbase"]
    # Its steps are the same for all suites since sid's, and it does not know all their names.
    run([*command, f"--include={package}", suite, root, "http://deb.debian.org/debian", "sid"])
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        run(["dpkg-deb", "-x", package, root])


def interpreter_in(root: pathlib.Path) -> str:
    """The root's Python, as programs in it name it: one that was compiled there before the system's own."""
    found = [f"/{folder}/bin/python3{minor}" for folder in ("usr/local", "usr") for minor in ("", *MINORS)]
    return next((path for path in found if (root / path[1:]).exists()), found[-1])


def version_in(root: pathlib.Path) -> str:
    """The version of the root's Python."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    return run(["chroot", root, interpreter_in(root), "-c", asked]).strip()


def launcher(root: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A program that runs the root's Python out here, by the root's own C library: a module is compiled for it, and imported for its
    stubs, by the tools that are here."""
    loader, libraries = root / "lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    path = folder / f"python{version_in(root)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Debian's headers name one as it lies among the system's, which are not this system's.
    for header in (root / "usr/include").glob("*-linux-gnu/python3.*/pyconfig.h"):
        beside = root / "usr/include" / header.parent.name / header.relative_to(root / "usr/include")
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, beside)
    command = f'"{loader}" --library-path "{libraries}" "{root}{interpreter_in(root)}"'
    path.write_text(f'#!/bin/sh\nPYTHONHOME="{root}/usr" exec {command} "$@"\n')
    path.chmod(0o755)
    return path


def described(root: pathlib.Path, version: str) -> str:
    """The system that the root has."""
    said = (root / "etc" / "os-release").read_text()
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', said, re.M)
    asked = "import platform; print(platform.libc_ver()[1], platform.machine())"
    library, machine = run(["chroot", root, interpreter_in(root), "-c", asked]).split()
    return f"{name[1] if name else 'Linux'}, {machine}, glibc {library}, Python {version}"


def lay_out_others(root: pathlib.Path, machine: str, version: str) -> None:
    """What tests need, by this machine's pip, which is quicker; the wheel is installed by the root's own."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    command += [f"--platform=manylinux_2_{minor}_{machine}" for minor in (17, 27, 28)]
    command += ["--target", str(root / "others"), f"--python-version={version}"]
    wanted = ("numpy", "scipy", "mpmath", "pytest", "hypothesis", "safetensors")
    if lacking := [name for name in wanted if not (root / "others" / name).is_dir()]:
        run([*command, *lacking])
    # Configuring the packages would write it: without, no program in the root knows this machine's own name.
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
    # So it is with this, which Debian's pip opens even where it reaches no network.
    certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.is_file():
        (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        shutil.copy(certificates, root / "etc/ssl/certs")
    (root / "dev" / "shm").mkdir(exist_ok=True)  # semaphores of processes are files there
    for name, number in {"null": 3, "zero": 5, "full": 7, "urandom": 9}.items():
        if not (root / "dev" / name).exists():
            os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, number))


def lay_out_device(place: pathlib.Path, target: Target) -> str:
    """The device of the tests, which they compile where there is a compiler."""
    compiler, _ = gnu_compiler(target)
    sources = sorted((ROOT / "tests" / "far").glob("*.cpp"))
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-static-libstdc++", "-static-libgcc"]
    run([*command, f"-I{ROOT / 'core'}", *sources, "-o", place / "libfar.so"])
    return "ADJOINT_FAR_DEVICE=/release/libfar.so"


def prove(
    target: Target,
    wheel: pathlib.Path,
    root: pathlib.Path,
    folder: pathlib.Path,
    tests: list[str],
    note: proofs.Note,
    known: dict[str, str],
) -> None:
    """Installs the wheel and runs what users are shown first, then those of the tests that are not known to pass."""
    machine, version = run(["chroot", root, "/bin/uname", "-m"]).strip(), version_in(root)
    wheels = proofs.requirements(folder, machine, version)
    place = root / "release"
    shutil.rmtree(place, ignore_errors=True)
    proofs.copy_suite(place)
    for path in [wheel, *wheels.glob("*.whl")]:
        shutil.copy(path, place)
    proofs.refuse_compilers(f"{root}/usr/bin:{root}/bin")
    lay_out_others(root, machine, version)
    # Seen by what is started here alone, and gone with it: what a process has, which tests look up.
    with_processes = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"',
    ]
    inside = [
        *with_processes,
        root,
        "/usr/bin/env",
        "-i",
        "-C",
        "/release",
        "LC_ALL=C.UTF-8",
        "PATH=/usr/bin:/bin",
    ]
    inside += ["HOME=/release", f"QEMU_CPU={PROCESSOR}", lay_out_device(place, target)]
    run([*inside, interpreter_in(root), "-m", "venv", "venv"])
    run([*inside, "venv/bin/pip", "install", "--quiet", "--no-index", "--find-links", ".", wheel.name])
    python = [*inside, "PYTHONPATH=/others", "venv/bin/python"]
    first = proofs.first_steps(python, "docs")
    where = described(root, version)
    if not target.native:
        qemu = run([f"qemu-{machine}-static", "--version"]).split()[2]
        where = f"qemu-user {qemu} ({PROCESSOR}), {where}"
    note(first=first, where=where)
    passed = {path for path, said in known.items() if not proofs.FAILED.search(said)}
    tests = [path for path in proofs.files_of(tests) if path not in passed and path not in left_out()]
    proofs.run_tests(python, tests, folder / "emulated.log", note, known)
