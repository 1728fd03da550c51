"""What is checked of a wheel, and where: its tag, its size, that it installs where there is no compiler, its tests.

Each proof returns what it saw, for the page; what must not be ends the release with a word.
"""

from __future__ import annotations

import os
import pathlib
import re
import resource
import shutil
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
WHEEL, INSTALLED = 4_420_000, 43_950_000
#: Most seconds of the clock that one path of tests may take.
PATIENCE = 2400
#: Most seconds of a processor that installing a wheel may take, and milliseconds that importing takes above a bare interpreter.
#: (15 are wanted. Machines and Pythons differ by a fifth: the page says what each took.)
SECONDS, MILLISECONDS = 3.0, 20.0
#: Where wheels are installed none of these is found.
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cmake", "ninja", "make")
#: What users read first, and what it shows runs.
FIRST_PAGES = ("install.md", "ten_minutes.md", "tour.py")


#: What pytest's last line, or `run_tests` for it, says of tests that did not pass.
FAILED = re.compile(r"\b(failed|error)")


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
            run_tests(
                [interpreter], files_of(tests), folder / f"tests-{version}.log", note, env=alone, cwd=suite
            )


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
    if not found or not re.search("passed|failed|error|skipped", found[-1]):
        refuse(f"no test has run:\n{said[-2000:]}")
    return found[-1]


def files_of(tests: list[str]) -> list[str]:
    """Paths of tests, each once, folders by their files."""
    found: dict[str, None] = {}
    for path in tests:
        inside = sorted((ROOT / path).rglob("test_*.py")) if (ROOT / path).is_dir() else []
        found |= dict.fromkeys([file.relative_to(ROOT).as_posix() for file in inside] or [path])
    return list(found)


def run_tests(
    command: list[str | os.PathLike[str]],
    tests: list[str],
    log: pathlib.Path,
    note: Note,
    known: dict[str, str] | None = None,
    **options: object,
) -> None:
    """Runs each path by itself, and notes after each how its tests went: what was seen stays known if the rest takes too long. What
    each said is in the log; `known` is what an earlier run saw of the same wheel."""
    found, said, path = dict(known or {}), "", ""
    command = [*command, "suite.py", str(PATIENCE), *tests]
    with (
        log.open("a" if known else "w") as stream,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,  # type: ignore[call-overload]
        ) as running,
    ):
        for line in running.stdout:
            stream.write(line)
            stream.flush()
            if line.startswith("suite.py: ended with "):
                status = int(line.split()[-1])
                # A file that skips itself as a whole has no tests for pytest, which then ends with 5.
                ended = status in (0, 1) or (status == 5 and re.search(r"^=*\s*\d+ skipped in", said, re.M))
                found[path] = closing_line(said) if ended else f"failed: ended with {status}"
                note(tests=found)
            elif line.startswith("suite.py: runs "):
                said, path = "", line.split()[-1]
            else:
                said += line
    if running.returncode:
        refuse(f"what runs tests ended with {running.returncode}; {log} has its words")


def copy_suite(folder: pathlib.Path) -> None:
    """The tests and the pages and examples that they run, so that what they find of the package is what is installed."""
    for name in ("tests", "docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "tools/releasing/suite.py"):
        shutil.copy(ROOT / name, folder)
    # test_help.py asks it whether the table of compositions is what they measure now.
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "composition_types.py", folder / "tools")
