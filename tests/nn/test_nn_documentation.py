"""Every example in the documentation of `nn`, `optim` and the hooks runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import adjoint.nn
import adjoint.optim
import adjoint.utils.hooks


def _modules():
    yield "adjoint.utils.hooks"
    for package in (adjoint.nn, adjoint.optim):
        yield package.__name__
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield info.name


@pytest.mark.parametrize("name", list(_modules()))
def test_examples(name):
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_public_names_are_documented():
    for package in (adjoint.nn, adjoint.nn.functional, adjoint.nn.init, adjoint.nn.utils, adjoint.optim):
        for name in package.__all__:
            member = getattr(package, name)
            assert member.__doc__, f"{package.__name__}.{name} has no docstring"
