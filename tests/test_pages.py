"""The pages under docs/ run: every example on them says what it says."""

import doctest
import importlib.util
import pathlib
import re
import shlex

import pytest
from helpers import run_python

import adjoint as ad

PAGES = sorted((pathlib.Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_examples(page, monkeypatch):
    # Other tests of the same process may have registered a device of their own.
    kinds = ad._C._device_kinds
    monkeypatch.setattr(ad._C, "_device_kinds", lambda: kinds()[:2])
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert failed == 0


def test_there_are_pages():
    assert "verifying.md" in {p.name for p in PAGES}


def test_each_mistake_has_its_message_its_cause_and_its_remedy():
    page = next(p for p in PAGES if p.name == "errors.md").read_text(encoding="utf-8")
    title, *sections = re.split(r"^### ", page, flags=re.MULTILINE)
    assert len(sections) >= 20
    for section in sections:
        order = [section.find(part) for part in (">>> ", "refused(", "**Why.** ", "**Do.** ")]
        assert -1 not in order and order == sorted(order), section.splitlines()[0]


def _programs():
    """The fences of Python that are programs, not sessions, on the pages and in README."""
    for page in [PAGES[0].parent.parent / "README.md", *PAGES]:
        fences = re.findall(
            r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for n, fence in enumerate(f for f in fences if ">>>" not in f):
            yield pytest.param(fence, id=f"{page.name}-{n}")


@pytest.mark.parametrize("program", list(_programs()))
def test_programs(program, tmp_path):
    """Each runs; a line that ends in `print(…)  # text` prints the text."""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = run_python(tmp_path / "program.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)


def test_commands_name_modules_that_exist():
    found = []
    for page in PAGES:
        for fence in re.findall(
            r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            for line in fence.splitlines():
                words = shlex.split(line, comments=True)
                found += [words[k + 2] for k in range(len(words) - 2) if words[k : k + 2] == ["python", "-m"]]
    assert {"adjoint.as_torch", "adjoint.distributed.run"} <= set(found)
    assert [name for name in found if importlib.util.find_spec(name) is None] == []
