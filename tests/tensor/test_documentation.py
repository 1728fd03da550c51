"""Every example in the package's docstrings runs and says what it says."""

import doctest
import importlib
import pathlib
import pkgutil

import pytest

import adjoint as ad

MODULES = ["adjoint"] + [
    m.name
    for m in pkgutil.walk_packages([str(pathlib.Path(ad.__file__).parent)], "adjoint.")
    if not m.name.startswith(("adjoint.nn", "adjoint.optim", "adjoint.demo", "adjoint._C"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0


def test_operators_are_documented():
    for row in ad._C.operators():
        assert row["doc"].strip(), row["name"]
        assert len(row["kinds"]) == len([p for p in _split(_parameters(row["signature"])) if p != "*"]), row[
            "name"
        ]


def _parameters(signature):
    return signature[signature.index("(") + 1 : -1]


def _split(parameters):
    """The parts between the commas that are outside of brackets."""
    parts, depth = [""], 0
    for c in parameters:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]
