"""`typing.get_type_hints` of everything public, for what reads annotations when a program runs: dataclass-like tools, schemas."""

import inspect
import subprocess
import sys
import typing

import pytest
from documented import MODULES, callables, methods

import adjoint as ad

#: Whose annotation names a class of a package that is not imported for that alone; with it imported the name still is a text.
LATER = {
    "autograd.grad": "GradientEdge",
    "func.functional_call": "Module",
    "func.replace_all_batch_norm_modules_": "Module",
    "func.stack_module_state": "Module",
    "amp.GradScaler.step": "Optimizer",
    "amp.GradScaler.unscale_": "Optimizer",
}


def functions(module):
    for name, value, _ in callables(module):
        function = inspect.unwrap(value) if callable(value) else value
        if inspect.isfunction(function) or isinstance(function, type):
            yield f"{module}.{name}", function
    if module != "Tensor":
        for name, function, _ in methods(module):
            yield f"{module}.{name}", function


@pytest.mark.parametrize("module", MODULES)
def test_names_in_annotations_are_there(module):
    missing = {}
    for name, function in functions(module):
        try:
            typing.get_type_hints(function)
        except NameError as error:
            missing[name] = error.name
    there = dict(functions(module))
    assert missing == {name: what for name, what in LATER.items() if name in there}


def test_they_are_what_they_say():
    assert typing.get_type_hints(ad.nn.Linear.forward) == {"input": ad.Tensor, "return": ad.Tensor}


@pytest.mark.parametrize("module", MODULES)
def test_names_in_annotations_of_what_makes_an_object_are_there(module):
    """Of classes that write `__init__` as a function: tools that make command lines or schemas ask for that one."""
    missing = {}
    for name, cls in functions(module):
        made = vars(cls).get("__init__") if isinstance(cls, type) else None
        if inspect.isfunction(made):
            try:
                typing.get_type_hints(made)
            except NameError as error:
                missing[name] = error.name
    # A class that imports the one of transforms, which could not import it back.
    assert missing == (
        {"distributions.CumulativeDistributionTransform": "Distribution"} if module == "distributions" else {}
    )


def test_they_cost_no_import():
    program = "import sys, adjoint; print([m for m in ('typing', 'functools', 're', 'inspect', 'collections.abc') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
