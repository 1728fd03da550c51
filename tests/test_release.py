"""What tools/release.py is made of: the same bytes twice, a bill of materials, what was not run by name."""

import base64
import csv
import hashlib
import io
import json
import pathlib
import re
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
METADATA = b"Metadata-Version: 2.4\nName: some-name\nVersion: 1.2\nSummary: For a test\nLicense-Expression: BSD-3-Clause\n\ntext\n"


@pytest.fixture
def releasing(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    import releasing.build
    import releasing.page
    import releasing.proofs
    import releasing.targets
    import releasing.wheel

    yield releasing
    for name in [name for name in sys.modules if name.partition(".")[0] == "releasing"]:
        del sys.modules[name]


@pytest.fixture
def wheel(releasing, monkeypatch, tmp_path):
    monkeypatch.setattr(releasing.wheel, "bill_of_materials", lambda *_: b"{}")
    monkeypatch.setattr(
        releasing.wheel, "tracked", lambda name: [ROOT / "LICENSE"] if name == "LICENSE" else []
    )

    def make(files, folder):
        (tmp_path / folder).mkdir()
        target = releasing.targets.TARGETS["linux-aarch64"]
        return releasing.wheel.complete(files, METADATA, ("cp311", target), "c++", tmp_path / folder)

    return make


def test_two_runs_give_the_same_bytes(wheel):
    files = {"adjoint/b.py": b"2", "adjoint/a.py": b"1" * 5000, "adjoint/_C.so": bytes(range(256)) * 9}
    first = wheel(files, "first")
    second = wheel(dict(reversed(files.items())), "second")
    assert first.name == second.name == "some_name-1.2-cp311-cp311-manylinux_2_28_aarch64.whl"
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_the_record_is_of_what_is_there(wheel):
    with zipfile.ZipFile(wheel({"adjoint/a.py": b"1"}, "one")) as archive:
        rows = list(csv.reader(io.StringIO(archive.read("some_name-1.2.dist-info/RECORD").decode())))
        assert {row[0] for row in rows} == set(archive.namelist())
        for name, digest, size in rows:
            if not name.endswith("RECORD"):
                content = archive.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (digest, int(size)) == (f"sha256={expected}", len(content))
        assert "some_name-1.2.dist-info/licenses/LICENSE" in archive.namelist()
        assert b"Tag: cp311-cp311-manylinux_2_28_aarch64" in archive.read("some_name-1.2.dist-info/WHEEL")


def test_the_bill_of_materials(releasing, monkeypatch):
    pytest.importorskip("nanobind")
    monkeypatch.setattr(releasing.wheel, "run", lambda *_, **__: "12.2.0\n")
    made = releasing.wheel.bill_of_materials(METADATA, releasing.targets.TARGETS["linux-x86_64"], "c++")
    bill = json.loads(made)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/some-name@1.2"
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert set(parts) == {"nanobind", "robin-map", "libstdc++"}
    for part in parts.values():
        assert re.match(r"\d+\.\d+", part["version"]) and part["licenses"][0]["expression"]
    assert bill["dependencies"] == [{"ref": "module", "dependsOn": list(parts)}]
    # The texts of their licences are in the repository, from where they go into the wheel.
    assert {path.stem for path in (ROOT / "licenses").iterdir()} == set(parts)


def test_the_page_names_what_was_not_made_and_not_run(releasing):
    page = releasing.page
    made = {"wheel": "w.whl", "size": 3_900_000, "auditwheel": "manylinux_2_28_aarch64"}
    lines = page.wheels({"linux-aarch64 3.11": made})
    assert any("`w.whl` | 3.90 MB" in line and "built, not run" in line for line in lines)
    not_made = {line for line in lines if line.startswith("Not made and proven")}
    every = ", ".join(releasing.build.VERSIONS)
    assert not_made == {
        f"Not made and proven for linux-x86_64 in this release: Python {every}.",
        f"Not made and proven for linux-aarch64 in this release: Python {every.replace('3.11, ', '')}.",
    }
    assert all("not tried" in line for line in page.compiled({})[2:])


def test_workflows_call_scripts_of_the_repository():
    allowed = r"(bash \.ci/run|python tools/release\.py .*|python -m cibuildwheel .*|pip install .*|pytest -n 2 --limits)"
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    commands = [c for path in workflows for c in re.findall(r"^\s*- run: (.*)$", path.read_text(), re.M)]
    assert len(commands) >= 5
    assert [c for c in commands if not re.fullmatch(allowed, c)] == []
    # Nothing that runs spans lines, where this test would not look.
    assert not any(re.search(r"run: [|>]", path.read_text()) for path in workflows)


def test_what_pytest_says_at_its_end(releasing):
    closing = releasing.proofs.closing_line
    assert closing("....\n12 passed, 3 skipped in 4.5s\n") == "12 passed, 3 skipped"
    assert closing("=== 1 xfailed, 12 passed in 4.50s (0:00:04) ===") == "1 xfailed, 12 passed"
    with pytest.raises(SystemExit, match="no test has run"):
        closing("no tests ran in 0.01s")
