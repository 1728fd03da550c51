"""The wheel: the package's files, the module, and what is known of both, in a file that two runs make alike.

Order, dates, modes and compression are fixed; the date is SOURCE_DATE_EPOCH or that of the last commit. Which parts of others
are in the module, with their versions and licences, stands in `sboms/` of the metadata (PEP 770, CycloneDX 1.6).
"""

from __future__ import annotations

import base64
import email
import email.message
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import struct
import time
import zipfile
import zlib

from releasing.targets import ROOT, Target, run


def about(metadata: bytes) -> email.message.Message:
    """What METADATA says: Name, Version, Summary, License-Expression."""
    return email.message_from_bytes(metadata)


def known_as(metadata: bytes) -> str:
    """Name and version, as the names of files have them."""
    said = about(metadata)
    return re.sub(r"[-_.]+", "_", said["Name"]) + "-" + said["Version"]


def date() -> int:
    """Seconds since 1970 that all dates in the files are."""
    stated = os.environ.get("SOURCE_DATE_EPOCH")
    return int(stated or run(["git", "log", "-1", "--format=%ct"], cwd=ROOT))


def commit() -> str:
    """Of what the commit is, and whether it has been changed since."""
    changed = run(["git", "status", "--porcelain", "--untracked-files=no", "src", "core", "tests"], cwd=ROOT)
    return run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT).strip() + ("+" if changed else "")


def tracked(folder: str) -> list[pathlib.Path]:
    names = run(["git", "ls-files", "-z", folder], cwd=ROOT).split("\0")
    return sorted(ROOT / name for name in names if name and (ROOT / name).is_file())


def make_sdist(folder: pathlib.Path) -> pathlib.Path:
    from scikit_build_core.build import build_sdist

    os.environ["SOURCE_DATE_EPOCH"] = str(date())
    here = os.getcwd()
    os.chdir(ROOT)
    try:
        return folder / build_sdist(str(folder))
    finally:
        os.chdir(here)


def metadata(sdist: pathlib.Path) -> bytes:
    """METADATA as the build backend writes it, which is PKG-INFO of the source package."""
    import tarfile

    with tarfile.open(sdist) as archive:
        name = next(n for n in archive.getnames() if n.count("/") == 1 and n.endswith("/PKG-INFO"))
        content = archive.extractfile(name)
        assert content
        return content.read()


def component(name: str, of: str, licence: str, use: str) -> dict:
    return {
        "type": "library",
        "name": name,
        "version": of,
        "licenses": [{"expression": licence}],
        "description": use,
    }


def bill_of_materials(metadata: bytes, target: Target, compiler: str) -> bytes:
    """What of others is in the module, as CycloneDX says it."""
    import nanobind

    said = about(metadata)
    robin_map = (
        pathlib.Path(nanobind.__file__).parent / "ext/robin_map/include/tsl/robin_growth_policy.h"
    ).read_text()
    numbers = re.findall(r"define TSL_RH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", robin_map)
    gcc = run([compiler, "-dumpfullversion"]).strip()
    own = component(said["Name"], said["Version"], said["License-Expression"], said["Summary"])
    bundled = [
        component(
            "nanobind",
            importlib.metadata.version("nanobind"),
            "BSD-3-Clause",
            "bindings; compiled into the module",
        ),
        component(
            "robin-map",
            ".".join(numbers) or "of nanobind",
            "MIT",
            "tables of nanobind; compiled into the module",
        ),
        component(
            "libstdc++",
            gcc,
            "GPL-3.0-or-later WITH GCC-exception-3.1",
            "the C++ library; linked into the module",
        ),
    ]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date())),
            "component": own | {"bom-ref": "module", "purl": f"pkg:pypi/{said['Name']}@{said['Version']}"},
            "properties": [
                {"name": "adjoint:target", "value": target.name},
                {"name": "adjoint:compiler", "value": f"GCC {gcc}"},
            ],
        },
        "components": [part | {"bom-ref": part["name"]} for part in bundled],
        "dependencies": [{"ref": "module", "dependsOn": [part["name"] for part in bundled]}],
    }
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def write_zip(path: pathlib.Path, files: dict[str, bytes]) -> None:
    """The same bytes for the same content; metadata last, as PEP 427 recommends. Zopfli looks longer for what repeats than zlib
    does, a minute for each wheel, which makes wheels 4 % smaller; what unpacks them is the same."""
    import zopfli.zlib

    year, month, day, hour, minute, second = time.gmtime(max(date(), 315532800))[:6]
    when = (hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day)
    order = sorted(files, key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name))
    contents = b""
    with path.open("wb") as archive:
        for name in order:
            # Without the head and the checksum of zlib's format.
            packed, named = zopfli.zlib.compress(files[name])[2:-4], name.encode("ascii")
            # Version needed, flags, method 8 (deflate), time, date, checksum, sizes.
            fields = struct.pack("<5H", 20, 0, 8, *when)
            fields += struct.pack(
                "<3L2H", zlib.crc32(files[name]), len(packed), len(files[name]), len(named), 0
            )
            mode = (0o100755 if name.endswith(".so") else 0o100644) << 16
            contents += b"PK\1\2" + struct.pack("<H", 3 << 8 | 20) + fields
            contents += struct.pack("<3H2L", 0, 0, 0, mode, archive.tell()) + named
            archive.write(b"PK\3\4" + fields + named + packed)
        end = struct.pack("<4H2LH", 0, 0, len(order), len(order), len(contents), archive.tell(), 0)
        archive.write(contents + b"PK\5\6" + end)


def record(files: dict[str, bytes], name: str) -> bytes:
    lines = []
    for path, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return ("\n".join([*lines, f"{name},,"]) + "\n").encode()


def complete(
    files: dict[str, bytes], metadata: bytes, tags: tuple[str, Target], compiler: str, folder: pathlib.Path
) -> pathlib.Path:
    """Writes the wheel: the files of the package, and with them what is said of it."""
    python_tag, target = tags
    name = known_as(metadata)
    info = f"{name}.dist-info"
    tag = f"{python_tag}-{python_tag}-{target.tag}"
    said = ["Wheel-Version: 1.0", "Generator: tools/release.py", "Root-Is-Purelib: false", f"Tag: {tag}"]
    files = files | {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": ("\n".join(said) + "\n").encode(),
        f"{info}/sboms/{name.partition('-')[0]}.cdx.json": bill_of_materials(metadata, target, compiler),
    }
    for path in tracked("LICENSE") + tracked("licenses"):
        files[f"{info}/licenses/{path.relative_to(ROOT).as_posix()}"] = path.read_bytes()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    path = folder / f"{name}-{tag}.whl"
    write_zip(path, files)
    return path


def assemble(target: Target, python_tag: str, built: pathlib.Path, stubs: pathlib.Path) -> dict[str, bytes]:
    """The package's files: `built` holds the module, `stubs` the stubs that the module of a machine like this one gave."""
    files = {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in tracked("src/adjoint")}
    files |= {f"adjoint/{path.name}": path.read_bytes() for path in sorted(stubs.glob("*.pyi"))}
    (module,) = built.glob("_C*.so")
    suffix = f"cpython-{python_tag[2:]}-{target.machine}-linux-gnu.so"
    return files | {f"adjoint/_C.{suffix}": module.read_bytes()}


def package_of(wheel: pathlib.Path) -> tuple[dict[str, bytes], bytes]:
    """The files of the package in a wheel that somebody else made, and its METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    (said,) = [files[name] for name in files if name.endswith(".dist-info/METADATA")]
    return {name: content for name, content in files.items() if ".dist-info/" not in name}, said
