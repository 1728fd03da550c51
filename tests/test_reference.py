"""docs/reference.md says what the package publishes: it is what tools/reference.py prints."""

import importlib.util
import inspect
import pathlib

import pytest

import adjoint as ad

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_up_to_date(tool):
    here = tool.text().splitlines()
    there = tool.PAGE.read_text(encoding="utf-8").splitlines()
    changed = sorted(set(here) ^ set(there))
    assert changed == [], "run `python tools/reference.py --write`"
    assert here == there


def test_everything_public_is_on_it(tool):
    page = tool.text()
    for name in dir(ad):
        value = getattr(ad, name)
        if name[0] != "_" and callable(value) and not isinstance(value, type) and not inspect.ismodule(value):
            assert f"`{name}" in page, name
    for module in (ad.linalg, ad.special, ad.nn.functional, ad.nn.init, ad.optim):
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            value = getattr(module, name)
            if name[0] != "_" and callable(value):
                assert f"`{name}(" in page, name


def test_nothing_on_it_depends_on_the_machine(tool):
    assert " at 0x" not in tool.text() and str(ROOT) not in tool.text()


def test_the_pages_are_up_to_date():
    """Their examples run in test_help.py and test_documentation.py; the tool runs them before it writes."""
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "tools" / "reference_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    there = {f.stem: f.read_text(encoding="utf-8") for f in pages.FOLDER.glob("*.md")}
    for module in ["", "Tensor", *pages.MODULES]:
        text, _, _ = pages.page(module, run=False)
        if "\n## " in text:
            assert there.pop(module or "adjoint") == text, "run `python tools/reference_pages.py --write`"
    assert there == {}


def test_every_function_says_what_it_does(tool):
    silent = [
        line
        for line in tool.text().splitlines()
        if line.startswith("| `") and line.split("|")[-3:-1] == ["", ""]
    ]
    assert silent == []
