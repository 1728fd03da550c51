"""What tools/release.py is made of: the same bytes twice, a bill of materials, what was not run by name."""

import base64
import csv
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
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
    import releasing.emulation
    import releasing.page
    import releasing.proofs
    import releasing.targets
    import releasing.wheel

    yield releasing
    for name in [name for name in sys.modules if name.partition(".")[0] == "releasing"]:
        del sys.modules[name]


@pytest.fixture
def wheel(releasing, monkeypatch, tmp_path):
    pytest.importorskip("zopfli")
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
    assert any("`w.whl` | unknown | 3.90 MB" in line and "built, not run" in line for line in lines)
    not_made = {line for line in lines if line.startswith("Not made and proven")}
    every = ", ".join(releasing.build.VERSIONS)
    assert not_made == {
        f"Not made and proven for linux-x86_64 in this release: Python {every}.",
        f"Not made and proven for linux-aarch64 in this release: Python {every.replace('3.11, ', '')}.",
    }
    assert "Sources: the source package was not built without a network in this release." in lines
    assert all("not tried" in line for line in page.compiled({})[2:])


def test_the_page_says_which_tests_ran_and_which_did_not(releasing):
    ran = {
        "tests/ops/test_sorting.py": "1200 passed, 3 skipped",
        "tests/ops/test_table.py": "90 passed, 1 xfailed",
        "tests/nn/test_layers.py": "2 failed, 8 passed",
    }
    where = "qemu-user 7.2 (cortex-a72)"
    made = {"wheel": "w.whl", "size": 1, "auditwheel": "a", "first": "the tour", "tests": ran, "where": where}
    made["commit"] = "0123abc"
    (line,) = [
        line for line in releasing.page.wheels({"linux-aarch64 3.11": made}) if line.startswith("| `w.whl`")
    ]
    assert "the tour; tests: 1,298 passed, 3 skipped, 1 xfailed, 2 failed" in line and "0123abc" in line
    lines = releasing.page.tested({"linux-aarch64 3.11": made})
    assert "| `tests/ops` | `sorting`, `table` | 1,290 passed, 3 skipped, 1 xfailed |" in lines
    assert "| | `tests/nn/test_layers.py` | **2 failed, 8 passed** |" in lines
    # Each file of tests has run, is left out for a reason, or is said not to have run.
    at = lines.index("Left out on linux-aarch64:")
    named = re.findall(r"`([\w/]+)`", "\n".join(lines[at:]))
    assert {"typing", "layers"} & set(named) == {"typing"} and "convolution" in named
    every = releasing.proofs.files_of(["tests"])
    assert len(every) > 300 and releasing.emulation.left_out().keys() <= set(every)
    assert all(
        any(line.startswith(f"| {why} |") for line in lines[at:]) for why in releasing.emulation.LEFT_OUT
    )
    assert sum(line.startswith("| `tests/nn` |") for line in lines[at:]) == 1
    # What ran on another wheel of the machine has run there.
    more = {"wheel": "v.whl", "tests": {"tests/nn/test_convolution.py": "1 passed"}, "where": where}
    both = releasing.page.tested({"linux-aarch64 3.11": made, "linux-aarch64 3.13": more})
    (row,) = [line for line in both[both.index(lines[at]) :] if line.startswith("| `tests/nn` |")]
    assert "`convolution`" not in row and "`pooling`" in row
    assert releasing.page.names(["tests/nn/test_a.py", "tests/nn/b_test.py"]) == "`a`, `b_test`"
    assert (
        releasing.proofs.files_of(["tests/nn/test_layers.py", "tests/nn"]).count("tests/nn/test_layers.py")
        == 1
    )


def test_what_runs_tests_tells_failures(releasing, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # options of this suite, which that one lacks
    (tmp_path / "test_one.py").write_text("def test_a(): pass\ndef test_b(): assert False\n")
    (tmp_path / "test_two.py").write_text("def test_a(): pass\n")
    (tmp_path / "test_crash.py").write_text("import os\ndef test_a(): os.abort()\n")
    (tmp_path / "test_hang.py").write_text("import time\ndef test_a(): time.sleep(60)\n")
    (tmp_path / "test_skip.py").write_text("import pytest\npytest.skip('no', allow_module_level=True)\n")
    shutil.copy(ROOT / "tools" / "releasing" / "suite.py", tmp_path)
    monkeypatch.setattr(releasing.proofs, "PATIENCE", 3)
    page, log, name = releasing.page, tmp_path / "log", "linux-x86_64 3.11"
    monkeypatch.setattr(page, "SEEN", tmp_path / "seen.json")
    page.begin(name, wheel="old.whl", tests={"test_old.py": "9 passed"})
    page.begin(name, wheel="w.whl")
    assert "tests" not in page.load()[name]  # what an earlier wheel passed says nothing of this one
    note = functools.partial(page.note, name)
    paths = [f"test_{what}.py" for what in "one crash hang skip two".split()]
    releasing.proofs.run_tests([sys.executable], paths, log, note, {"test_zero.py": "1 passed"}, cwd=tmp_path)
    said = page.load()[name]["tests"]
    assert (said["test_one.py"], said["test_two.py"]) == ("1 failed, 1 passed", "1 passed")
    assert (said["test_skip.py"], said["test_zero.py"]) == ("1 skipped", "1 passed")
    assert (said["test_crash.py"], said["test_hang.py"]) == (
        "failed: ended with -6",
        "failed: ended with -14",
    )
    assert "assert False" in log.read_text()


def test_a_compiler_on_the_path_is_refused(releasing, tmp_path):
    releasing.proofs.refuse_compilers(str(tmp_path))
    (tmp_path / "g++").write_text("#!/bin/sh\n")
    (tmp_path / "g++").chmod(0o755)
    with pytest.raises(SystemExit, match="compiler"):
        releasing.proofs.refuse_compilers(str(tmp_path))


def commands_of_workflows():
    """(file, job, command, the values of its matrix) of each command that the forge would run."""
    yaml = pytest.importorskip("yaml")
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text())
        # YAML 1.1 reads the key `on` as True.
        assert set(workflow) <= {"name", True, "permissions", "jobs"} and workflow[True] and workflow["jobs"]
        for name, job in workflow["jobs"].items():
            assert job["runs-on"] and job["steps"]
            assert set(job) <= set(
                "runs-on needs if strategy steps timeout-minutes environment permissions continue-on-error".split()
            )
            assert job.get("needs", name) in workflow["jobs"]
            matrix = job.get("strategy", {}).get("matrix", {})
            rows = matrix.get("include") or [{}]
            rows = [
                row | {key: value for key, (value, *_) in matrix.items() if key != "include"} for row in rows
            ]
            for used in re.findall(r"\$\{\{ *matrix\.(\w+) *\}\}", str(job)):
                assert all(used in row for row in rows), (path.name, name, used)
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), step
                assert set(step) <= {"run", "uses", "with", "env", "name"}, step
                assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[\w./-]+", step.get("uses", "a/b@v1")), step
                for row in rows if "run" in step else ():
                    yield path.name, re.sub(r"\$\{\{ *matrix\.(\w+) *\}\}", lambda m: row[m[1]], step["run"])  # noqa: B023


def test_workflows_call_scripts_of_the_repository(releasing):
    commands = list(commands_of_workflows())
    assert {file for file, _ in commands} == {"test.yml", "release.yml"}
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.M))
    known = (
        r"bash (?P<script>\.ci/run)|python (?P<tool>tools/release\.py)(?: (?P<target>[\w-]+))? --check|"
        r"python -m cibuildwheel --output-dir dist|pip install \"\.\[(?P<extras>[\w,]+)\]\"(?: cibuildwheel)?|"
        r"pytest -n 2 --limits"
    )
    for file, command in commands:
        said = re.fullmatch(known, command)
        assert said, f"{file} runs {command!r}, which is no script of the repository"
        for name in filter(None, (said["script"], said["tool"])):
            assert (ROOT / name).is_file()
        assert said["target"] is None or said["target"] in releasing.targets.TARGETS
        assert set((said["extras"] or "test").split(",")) <= extras


def test_what_pytest_says_at_its_end(releasing):
    closing = releasing.proofs.closing_line
    assert closing("....\n12 passed, 3 skipped in 4.5s\n") == "12 passed, 3 skipped"
    assert closing("=== 2 failed, 1 error in 61.20s (0:01:01) ===") == "2 failed, 1 error"
    assert closing("=== 1 xfailed, 12 passed in 4.50s (0:00:04) ===") == "1 xfailed, 12 passed"
    with pytest.raises(SystemExit, match="no test has run"):
        closing("no tests ran in 0.01s")


def test_a_root_has_what_tests_ask_for(releasing, tmp_path, monkeypatch):
    """Names of this machine, the packages that are not there yet, and the script that a test runs."""
    asked = []
    monkeypatch.setattr(releasing.emulation, "run", asked.append)
    monkeypatch.setattr(releasing.emulation.os, "mknod", lambda *_: None)
    for name in ("dev", "etc", "others/numpy"):
        (tmp_path / name).mkdir(parents=True)
    releasing.emulation.lay_out_others(tmp_path, "aarch64", "3.11")
    (command,) = asked
    assert "safetensors" in command and "numpy" not in command
    assert "localhost" in (tmp_path / "etc" / "hosts").read_text()
    releasing.proofs.copy_suite(tmp_path / "suite")
    assert (tmp_path / "suite" / "tools" / "composition_types.py").is_file()


def test_the_python_of_a_root(releasing, tmp_path, monkeypatch):
    """What was compiled there goes before the system's, and what has no plain name is found by its version; a launcher starts it by the
    root's own C library."""
    emulation = releasing.emulation
    for folder in ("usr/bin", "usr/local/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/bin/python3.14").touch()
    assert emulation.interpreter_in(tmp_path) == "/usr/bin/python3.14"
    (tmp_path / "usr/local/bin/python3").touch()
    assert emulation.interpreter_in(tmp_path) == "/usr/local/bin/python3"
    monkeypatch.setattr(emulation, "run", lambda command: "3.14\n")
    path = emulation.launcher(tmp_path, tmp_path / "launchers")
    assert path.name == "python3.14" and os.access(path, os.X_OK)
    words = path.read_text()
    assert (
        f'"{tmp_path}/lib64/ld-linux-x86-64.so.2"' in words and f'"{tmp_path}/usr/local/bin/python3"' in words
    )


def test_a_second_system_stands_beside_the_first(releasing):
    seen = {
        "wheel": "w.whl",
        "size": 1,
        "auditwheel": "t",
        "where": "here, Python 3.11",
        "also": "an old one",
    }
    assert any(
        "here, Python 3.11; an old one" in line for line in releasing.page.wheels({"linux-x86_64 3.11": seen})
    )
