"""Makes a release in dist/: the source package and the wheels; proves what is claimed of them and writes docs/platforms.md.

    python tools/release.py                             all that can be made here
    python tools/release.py linux-x86_64 --python 3.11  some of it
    python tools/release.py sdist                       the source package, which is built without a network to prove that it can
    python tools/release.py windows-x86_64 --cpython python3.11_3.11.2.orig.tar.gz
                                                        whether the core and the bindings compile there
    python tools/release.py --check                     short: the source package is whole, dist/'s wheels are as they should be
    python tools/release.py --finish WHEEL FOLDER       completes a wheel that pip built in a container of manylinux
    python tools/release.py linux-aarch64 --root FOLDER --tests tests/ops tests/nn/test_layers.py
                                                        tests in an arm64 root, too; with --resume, of the wheel made last
    python tools/release.py linux-x86_64 --python 3.14 --root FOLDER --suite forky
                                                        by and for the Python of a root of this machine

Needs scikit-build-core, nanobind, cmake, ninja, ziglang, auditwheel and pip (the `release` extra), and for aarch64 GCC's cross
compiler and, to run anything, qemu-user-static. What a tool is missing for is said and left out. Start reading at `main`.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import pathlib
import shutil
import sys
import tarfile
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from releasing import build, emulation, page, proofs, wheel  # noqa: E402
from releasing.targets import BUILD, ROOT, TARGETS, Missing, Target, gnu_compiler, toolchain  # noqa: E402

DIST = ROOT / "dist"


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source_package() -> pathlib.Path:
    """Twice, for two equal files; with all that is tracked but what pyproject.toml leaves out."""
    made = twice(wheel.make_sdist, DIST)
    with tarfile.open(made) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.relative_to(ROOT).as_posix() for path in wheel.tracked(".")}
    lacking = {name for name in wanted - held if not name.startswith((".ci/", ".github/", ".git"))}
    if lacking:
        proofs.refuse(f"{made.name} lacks {sorted(lacking)[:10]}")
    print(f"{made.name}: {made.stat().st_size / 1e6:.2f} MB, {len(held)} files")
    return made


def twice(make: Callable[[pathlib.Path], pathlib.Path], folder: pathlib.Path) -> pathlib.Path:
    """What `make` makes in the folder, if it makes the same once more."""
    again = BUILD / "again"
    for place in (folder, again):
        place.mkdir(parents=True, exist_ok=True)
    made = make(folder)
    if sha256(made) != sha256(make(again)):
        proofs.refuse(f"{made.name} is another file when it is made again")
    return made


def linux(
    target: Target, pythons: dict[str, build.Python], arguments: argparse.Namespace, sdist: pathlib.Path
) -> None:
    compiler, _ = gnu_compiler(target)
    metadata = wheel.metadata(sdist)
    stubs = BUILD / "stubs"
    for version, python in pythons.items():
        installed = build.build(target, python, arguments.jobs, arguments.ccache)
        if target.native:
            shutil.rmtree(stubs, ignore_errors=True)
            stubs.mkdir(parents=True)
            for path in installed.glob("*.pyi"):
                shutil.copy(path, stubs)
        elif not stubs.is_dir():
            raise Missing("stubs, which a build for this machine writes: ask for one before")
        files = wheel.assemble(target, python.tag, installed, stubs)
        made = twice(
            lambda folder: wheel.complete(files, metadata, (python.tag, target), compiler, folder), DIST
        )
        name = f"{target.name} {version}"
        page.begin(
            name,
            wheel=made.name,
            commit=wheel.commit(),
            sha256=sha256(made),
            size=proofs.size(made),
            parts=proofs.packed(made),
            auditwheel=proofs.tag(made, target),
        )
        in_root = bool(arguments.root) and version == emulation.version_in(arguments.root)
        if target.native and not in_root:
            note = functools.partial(page.note, name)
            proofs.install(made, python.executable, version, BUILD, arguments.tests, note)
            refuse_failures(name)
        elif in_root:
            emulate(target, version, arguments)


def emulate(target: Target, version: str, arguments: argparse.Namespace) -> None:
    """Tests the wheel that was made last in a root of its machine; what it is known to pass does not run again."""
    name = f"{target.name} {version}"
    seen = page.load().get(name) or proofs.refuse(f"no wheel for {name} has been made")
    made = DIST / seen["wheel"]
    if sha256(made) != seen["sha256"]:
        proofs.refuse(f"{made.name} is not the wheel that was made last")
    here = seen.get("where", "")

    def note(**what: object) -> None:
        # What was seen on this system stays: the root is one more.
        if here.startswith("here") and "where" in what:
            what = {"also": what["where"]}
        page.note(name, **what)

    emulation.prove(target, made, arguments.root, BUILD, arguments.tests, note, seen.get("tests", {}))
    refuse_failures(name)


def refuse_failures(name: str) -> None:
    seen = page.load()[name]
    print(*(f"{key}: {value}" for key, value in seen.items()), sep="\n  ")
    failed = [path for path, said in seen.get("tests", {}).items() if proofs.FAILED.search(said)]
    if failed:
        proofs.refuse(f"{seen['wheel']} fails {', '.join(failed)}; {BUILD} has the logs")


def finish(made: pathlib.Path, folder: pathlib.Path) -> None:
    """Completes a wheel that pip built in a container of manylinux, and proves it."""
    (target,) = [t for t in TARGETS.values() if t.tag and made.stem.endswith(f"linux_{t.machine}")]
    files, metadata = wheel.package_of(made)
    python_tag = made.stem.split("-")[2]
    done = twice(lambda place: wheel.complete(files, metadata, (python_tag, target), "c++", place), folder)
    print(f"{done.name}: {proofs.size(done)} bytes, {proofs.tag(done, target)}")


def compiles(target: Target, pythons: dict[str, build.Python], arguments: argparse.Namespace) -> None:
    """The core for a system that nothing here runs, and the bindings, where CPython's headers for it are given."""
    what, state = (
        "the core, without the bindings",
        "compiles without warnings, with portable loops; not linked, not run",
    )
    try:
        if arguments.cpython and (target.headers or arguments.cpython.is_dir()):
            version = build.version_of(arguments.cpython)
            what = f"the core and the bindings, with CPython {version}'s headers"
            build.build_bindings(
                target, pythons[version.rpartition(".")[0]], arguments.cpython, arguments.jobs
            )
        else:
            build.build_core(target, arguments.jobs)
    except SystemExit as error:
        if "the build for" not in str(error):
            raise  # configuring failed, which says nothing of the sources
        state = "does not compile yet"
        print(str(error)[-3000:])
    page.begin(target.name, what=what, state=state, commit=wheel.commit())
    print(f"{target.name}: {what}: {state}")


def check() -> None:
    source_package()
    for path in sorted(DIST.glob("*.whl")):
        target = next(t for t in TARGETS.values() if t.tag and t.tag in path.name)
        print(f"{path.name}: {proofs.size(path)} bytes, {proofs.tag(path, target)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="*", choices=[*TARGETS, "sdist", []], default=[], help="all, where none is named"
    )
    parser.add_argument("--python", nargs="*", default=list(build.VERSIONS), help="versions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--root",
        type=pathlib.Path,
        help="a root to test in, of the target's machine, made where it is not there; its Python counts as one at hand",
    )
    parser.add_argument("--suite", default="bookworm", help="Debian's suite for a root that is made")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="paths for pytest, which run on each wheel that can be run"
    )
    parser.add_argument(
        "--ccache", action="store_true", help="compile by ccache, which is quicker where it knows the sources"
    )
    parser.add_argument(
        "--resume", action="store_true", help="only test on in the root, where an earlier run was cut off"
    )
    parser.add_argument("--page", action="store_true", help="only write the page, of what was seen so far")
    parser.add_argument(
        "--cpython",
        type=pathlib.Path,
        help="CPython's source package, which has headers for Windows, or a folder of its headers for the target",
    )
    parser.add_argument(
        "--check", action="store_true", help="only look at what is in dist/, and make the source package"
    )
    parser.add_argument(
        "--finish", nargs=2, type=pathlib.Path, metavar=("WHEEL", "FOLDER"), help="complete a wheel of pip's"
    )
    arguments = parser.parse_args()
    if arguments.finish:
        return finish(*arguments.finish)
    if arguments.check:
        return check()
    if arguments.page:
        return page.write()
    if arguments.root and not arguments.root.is_dir():
        (name,) = arguments.targets or [""]  # whose machine the root is of
        emulation.make_root(arguments.root, TARGETS[name], arguments.suite)
    if arguments.resume:
        try:
            for name in arguments.targets:
                emulate(TARGETS[name], emulation.version_in(arguments.root), arguments)
        finally:
            page.write()
        return
    sdist = source_package()
    native = bool(arguments.root) and all(TARGETS[name].native for name in arguments.targets)
    launchers = [str(emulation.launcher(arguments.root, BUILD / "launchers"))] if native else []
    pythons = build.find_pythons(arguments.python, launchers)
    print("Python " + ", ".join(pythons))
    for name in arguments.targets or [*TARGETS, "sdist"]:
        try:
            if name == "sdist":
                proofs.builds_offline(sdist, BUILD / "offline.log", arguments.jobs)
                page.note("sdist", state=f"{sdist.name}: built and imported without a network")
                continue
            target = TARGETS[name]
            toolchain(target)
            linux(target, pythons, arguments, sdist) if target.tag else compiles(target, pythons, arguments)
        except Missing as missing:
            print(f"{name} is left out, for want of {missing}")
    page.write()


if __name__ == "__main__":
    main()
