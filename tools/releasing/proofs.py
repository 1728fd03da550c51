"""What is checked of a wheel, and where: its tag, its size, that it installs where there is no compiler, its tests.

Each proof returns what it saw, for the page; what must not be ends the release with a word.
"""

from __future__ import annotations

import os
import pathlib
import re
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable

from releasing.targets import ROOT, Missing, Target, run

#: Most that a wheel without BLAS may take, and most that is installed with what it needs and bytecode, in bytes. Wanted are
#: 4 and 40 MB: these may only become less.
WHEEL, INSTALLED = 4_370_000, 43_800_000
#: What qemu emulates: a processor with NEON. On that of its own making, which has SVE, OpenBLAS's SVE loops gave wrong products.
PROCESSOR = "cortex-a72"
#: Most seconds of a processor that installing a wheel may take, and milliseconds that importing takes above a bare interpreter.
SECONDS, MILLISECONDS = 3.0, 15.0
#: Where wheels are installed none of these is found.
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cmake", "ninja", "make")
#: What users read first, and what it shows runs.
FIRST_PAGES = ("install.md", "ten_minutes.md", "tour.py")


#: Takes what was seen, by its name on the page.
Note = Callable[..., None]


def refuse(what: str) -> None:
    raise SystemExit(f"refused: {what}")


def tag(wheel: pathlib.Path, target: Target) -> str:
    """What auditwheel says that the wheel runs on: the wheel's own tag, or an older system's."""
    said = run([sys.executable, "-m", "auditwheel", "show", wheel])
    found = re.search(r'following platform tag:\s*"([^"]+)"', said.replace("\n", " "))
    if not found:
        refuse(f"auditwheel finds no tag for {wheel.name}:\n{said}")
    assert found and target.tag
    number = re.match(r"manylinux_(\d+)_(\d+)_" + target.machine + "$", found[1])
    allowed = re.match(r"manylinux_(\d+)_(\d+)_", target.tag)
    assert allowed
    if not number or tuple(map(int, number.groups())) > tuple(map(int, allowed.groups())):
        refuse(f"{wheel.name} runs on {found[1]} only:\n{said}")
    return found[1]


def size(wheel: pathlib.Path) -> int:
    taken = wheel.stat().st_size
    if taken > WHEEL:
        refuse(f"{wheel.name} takes {taken} bytes, and {WHEEL} are allowed")
    return taken


def kind_of(name: str) -> str:
    """What a file is, for the table of where the bytes are."""
    if "openblas" in name:
        return "OpenBLAS"
    if ".dist-info/" in name:
        return "metadata and licences"
    kinds = {".so": "the module", ".pyc": "bytecode, which pip writes", ".py": "Python sources"}
    return kinds.get(pathlib.PurePath(name).suffix, "stubs and texts of `help`")


def sum_by_kind(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    parts: dict[str, int] = {}
    for name, taken in files:
        parts[kind_of(name)] = parts.get(kind_of(name), 0) + taken
    return parts


def packed(wheel: pathlib.Path) -> dict[str, int]:
    """The bytes of a wheel by what they are. Each file's name stands in it twice."""
    with zipfile.ZipFile(wheel) as archive:
        return sum_by_kind(
            (f.filename, f.compress_size + 76 + 2 * len(f.filename)) for f in archive.infolist()
        )


def below(folder: pathlib.Path) -> dict[str, int]:
    """Files that are there, and their sizes."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def processor_seconds(command: list[str | os.PathLike[str]], **options: object) -> tuple[float, float]:
    """Of a processor, and of the clock: the first is the same on a busy machine."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run(command, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - start


def requirements(folder: pathlib.Path, machine: str, version: str) -> pathlib.Path:
    """A folder with the wheel of BLAS that installing needs, so that the network is not measured."""
    folder = folder / f"wheelhouse-{machine}"
    if not list(folder.glob("scipy_openblas32-*.whl")):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            folder,
        ]
        platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (17, 27, 28)]
        run([*command, f"--python-version={version}", *platforms, "scipy-openblas32>=0.3.27"])
    return folder


def import_milliseconds(interpreter: pathlib.Path, environment: dict[str, str], scratch: str) -> float:
    """Of a processor, above a bare interpreter: the least of 15 times, or of up to 60 where others keep the machine busy."""
    least = {"import adjoint": float("inf"), "pass": float("inf")}
    for turn in range(60):
        for program in least:
            spent, _ = processor_seconds([interpreter, "-c", program], env=environment, cwd=scratch)
            least[program] = min(least[program], spent)
        above = (least["import adjoint"] - least["pass"]) * 1000
        if turn >= 14 and above <= MILLISECONDS:
            break
    return above


def first_steps(python: list[str | os.PathLike[str]], docs: pathlib.Path | str, **options: object) -> str:
    """Runs what a user is shown first: the page on installing, the ten minutes, the tour."""
    flags = ["-o", "NORMALIZE_WHITESPACE", "-o", "ELLIPSIS"]
    for page in FIRST_PAGES[:-1]:
        run([*python, "-m", "doctest", *flags, f"{docs}/{page}"], **options)
    run([*python, f"{docs}/{FIRST_PAGES[-1]}"], **options)
    return "the first ten minutes, the tour"


def refuse_compilers(path: str) -> None:
    found = [name for name in COMPILERS if shutil.which(name, path=path)]
    if found:
        refuse(f"there is a compiler where there should be none: {', '.join(found)} in {path}")


def install(
    wheel: pathlib.Path, python: str, version: str, folder: pathlib.Path, tests: list[str], note: Note
) -> None:
    """Installs in an empty virtual environment with no compiler on its path, imports, runs the tour and tests."""
    wheels = requirements(folder, "x86_64", version)
    with tempfile.TemporaryDirectory() as scratch:
        venv = pathlib.Path(scratch) / "venv"
        run([python, "-m", "venv", venv])
        interpreter = venv / "bin" / "python"
        alone = {"PATH": str(venv / "bin"), "HOME": scratch, "LANG": "C.UTF-8"}
        refuse_compilers(alone["PATH"])
        packages = venv / "lib" / f"python{version}" / "site-packages"
        before = below(packages)
        reached = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        spent, clock = processor_seconds(
            [*pip, "--no-index", "--find-links", wheels, wheel], env=alone, cwd=scratch
        )
        parts = sum_by_kind((name, taken) for name, taken in below(packages).items() if name not in before)
        taken = sum(parts.values())
        importing = import_milliseconds(interpreter, alone, scratch)
        run([interpreter, "-m", "pip", "install", "--quiet", "numpy"], env=reached)
        first = first_steps([interpreter], ROOT / "docs", env=alone, cwd=scratch)
        if taken > INSTALLED:
            refuse(
                f"{wheel.name} takes {taken} bytes with what it needs and bytecode, and {INSTALLED} are allowed"
            )
        if spent > SECONDS:
            refuse(f"installing {wheel.name} took {spent:.1f} s of a processor, and {SECONDS} are allowed")
        if importing > MILLISECONDS:
            refuse(f"importing {wheel.name} takes {importing} ms, and {MILLISECONDS} are allowed")
        note(
            installed=taken,
            installed_parts=parts,
            install_seconds=round(spent, 1),
            install_clock=round(clock, 1),
            import_ms=round(importing, 1),
            first=first,
            where=f"here, Python {version}, without compiler",
        )
        if tests:
            needed = ["pytest", "hypothesis", "scipy", "mpmath"]
            run([interpreter, "-m", "pip", "install", "--quiet", *needed], env=reached)
            suite = pathlib.Path(scratch) / "suite"
            copy_suite(suite)
            run_tests([interpreter], tests, folder / f"tests-{version}.log", note, env=alone, cwd=suite)


def builds_offline(sdist: pathlib.Path, log: pathlib.Path, jobs: int) -> None:
    """Builds the source package where no network is reached, from its build requirements alone, and imports what came of it. Only with
    portable loops: the others are the same sources, and take as long again each."""
    if not shutil.which("unshare"):
        raise Missing("unshare, which takes the network away (util-linux)")
    with tempfile.TemporaryDirectory() as scratch:
        venv, made = pathlib.Path(scratch) / "venv", pathlib.Path(scratch) / "made"
        run([sys.executable, "-m", "venv", venv])
        pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        with tarfile.open(sdist) as archive:
            name = next(n for n in archive.getnames() if n.count("/") == 1 and n.endswith("/pyproject.toml"))
            content = archive.extractfile(name)
            assert content
            required = re.search(r"^requires = \[(.*)\]$", content.read().decode(), re.M)
        assert required
        run([*pip, "install", "--quiet", *re.findall(r'"([^"]+)"', required[1]), "cmake", "ninja"])
        environment = os.environ | {
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
            "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        }
        cut_off = ["unshare", "--map-root-user", "--net"]
        options = [
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--config-settings=cmake.define.ADJOINT_LEVELS=",
        ]
        said = run([*cut_off, *pip, "wheel", *options, "--wheel-dir", made, sdist], env=environment)
        log.write_text(said)
        run([*pip, "install", "--quiet", "--no-index", "--no-deps", *made.glob("*.whl")])
        environment["ADJOINT_BLAS"] = "built-in"
        run(
            [venv / "bin" / "python", "-c", "import adjoint; adjoint.ones(3).sum()"],
            env=environment,
            cwd=scratch,
        )


def closing_line(said: str) -> str:
    """How many tests passed, failed and were skipped, in pytest's words."""
    found = re.findall(r"^=*\s*(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", said, re.M)
    if not found or not re.search("passed|failed|error", found[-1]):
        refuse(f"no test has run:\n{said[-2000:]}")
    return found[-1]


def run_tests(
    command: list[str | os.PathLike[str]], tests: list[str], log: pathlib.Path, note: Note, **options: object
) -> None:
    """Runs each path by itself, and notes after each how its tests went: what was seen stays known if the rest takes too long. What
    each said is in the log."""
    found = {}
    with log.open("w") as stream:
        for path in tests:
            done = subprocess.run(
                [*command, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:warnings", path],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                **options,  # type: ignore[call-overload]
            )
            stream.write(f"== {path}\n{done.stdout}\n")
            stream.flush()
            ended = 0 <= done.returncode <= 1
            found[path] = closing_line(done.stdout) if ended else f"failed: ended with {done.returncode}"
            note(tests=found)


def copy_suite(folder: pathlib.Path) -> None:
    """The tests alone, so that what they find of the package is what is installed."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def make_root(root: pathlib.Path, architecture: str = "arm64") -> None:
    """A root of Debian 12 for another machine. Its packages are laid out, not configured, which no program of ours needs and
    which would take emulated minutes."""
    if not shutil.which("debootstrap"):
        raise Missing("debootstrap and qemu-user-static (apt-get install)")
    command = [
        "debootstrap",
        "--foreign",
        f"--arch={architecture}",
        "--variant=minbase",
        "--include=python3-venv",
    ]
    run([*command, "bookworm", root, "http://deb.debian.org/debian"])
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        run(["dpkg-deb", "-x", package, root])


def version_in(root: pathlib.Path) -> str:
    return run(
        ["chroot", root, "/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    ).strip()


def emulated(
    wheel: pathlib.Path, root: pathlib.Path, folder: pathlib.Path, tests: list[str], note: Note
) -> None:
    """Installs and tests in a root of another machine, whose programs qemu-user runs (binfmt_misc knows it)."""
    machine, version = run(["chroot", root, "/bin/uname", "-m"]).strip(), version_in(root)
    wheels = requirements(folder, machine, version)
    place = root / "release"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path in [wheel, *wheels.glob("*.whl"), *(ROOT / "docs" / page for page in FIRST_PAGES)]:
        shutil.copy(path, place)
    copy_suite(place)
    refuse_compilers(f"{root}/usr/bin:{root}/bin")
    # What tests need is laid out by this machine's pip, which is quicker; the wheel by the root's own.
    others = root / "others"
    if not others.is_dir():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary=:all:",
            "--target",
            others,
        ]
        platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (17, 27, 28)]
        run(
            [
                *command,
                *platforms,
                f"--python-version={version}",
                "numpy",
                "scipy",
                "mpmath",
                "pytest",
                "hypothesis",
            ]
        )
    for name, number in {"null": 3, "zero": 5, "urandom": 9}.items():
        if not (root / "dev" / name).exists():
            os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, number))
    inside = [
        "chroot",
        root,
        "/usr/bin/env",
        "-i",
        "-C",
        "/release",
        "LC_ALL=C.UTF-8",
        "PATH=/usr/bin:/bin",
        "HOME=/release",
        f"QEMU_CPU={PROCESSOR}",
    ]
    run([*inside, "python3", "-m", "venv", "venv"])
    run([*inside, "venv/bin/pip", "install", "--quiet", "--no-index", "--find-links", ".", wheel.name])
    inside.append("PYTHONPATH=/others")
    python = [*inside, "venv/bin/python"]
    first = first_steps(python, ".")
    qemu = run(["qemu-aarch64-static", "--version"]).split()[2]
    note(first=first, where=f"qemu-user {qemu} ({PROCESSOR}), Debian 12 arm64, Python {version}")
    run_tests(python, tests, folder / "emulated.log", note)
