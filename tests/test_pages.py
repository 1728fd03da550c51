"""The pages under docs/ run: every example on them says what it says."""

import doctest
import pathlib

import pytest

PAGES = sorted((pathlib.Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_examples(page):
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert failed == 0


def test_there_are_pages():
    assert "verifying.md" in {p.name for p in PAGES}
