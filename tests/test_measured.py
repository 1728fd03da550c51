"""The numbers on pages are those of docs/numbers, and those were taken of the code as it is (tools/measure.py)."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("measure", ROOT / "tools" / "measure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = "readme", "gallery", "benchmarks"


def test_these_are_all(tool):
    assert set(tool.TABLES) == set(NAMES) == {f.stem for f in tool.FOLDER.glob("*.json")}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_numbers_that_were_measured(tool, name):
    text = (ROOT / tool.TABLES[name][3]).read_text(encoding="utf-8")
    assert tool.pasted(name, text) == text, "run `python tools/measure.py --render`"


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_not_older_than_what_it_measures(tool, name):
    now, then = tool.measured(name), tool.load(name)["files"]
    changed = sorted(f for f in now.keys() | then.keys() if now.get(f) != then.get(f))
    assert not changed, (
        f"run `python tools/measure.py {name}` on a quiet machine: these have changed: {changed}"
    )


def test_comments_and_spaces_change_no_hash(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)

    def digest(text, name="a.cpp"):
        (tmp_path / name).write_text(text)
        return tool.digest(name)

    assert digest("int a;  // one\n") == digest("// two\nint  a;\n") != digest("int b;\n")
    assert digest("a = 1\n", "a.py") == digest("# one\na = 1\n", "a.py") != digest("a = 2\n", "a.py")


def test_a_table_taken_on_a_busy_machine_says_so(tool, monkeypatch):
    table = {"date": "d", "machine": "m", "versions": "v", "rows": [["a", "1", "2", "3"]]}
    monkeypatch.setattr(tool, "load", lambda name: table | {"load": 3.0})
    assert "to be measured again" in tool.rendered("readme")
    monkeypatch.setattr(tool, "load", lambda name: table | {"load": 0.1})
    assert "to be measured again" not in tool.rendered("readme")
