"""The pages under docs/ run: every example on them says what it says."""

import doctest
import pathlib
import re

import pytest

PAGES = sorted((pathlib.Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_examples(page):
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
