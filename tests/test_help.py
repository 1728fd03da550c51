"""The documentation that adjoint._help composes: its examples run, what it claims of all operators is so, nothing is missing."""

import doctest
import functools
import pathlib
import subprocess
import sys

import pytest
from documented import DAILY, MODULES, lacking, lacking_of_methods, without_example
from samples import OPERATORS, cases, function_of

import adjoint as ad
from adjoint._help._texts import entries
from adjoint._publish.register import Documentation

PUBLIC = [row for row in OPERATORS if row["name"][0] != "_" and isinstance(function_of(row), ad._C.Operator)]
ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run(name, text):
    test = doctest.DocTestParser().get_doctest(text, {"ad": ad}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    said = []
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
    return runner.tries


def public(name):
    """The object of a text's heading: gather, Tensor.backward, linalg.svd; a row may have another name where it is public."""
    *packages, last = name.split(".")
    owner = functools.reduce(getattr, packages, ad)
    return next(getattr(o, last) for o in (owner, ad.Tensor, ad.nn.functional, ad._C) if hasattr(o, last))


@pytest.mark.parametrize("name", list(entries()))
def test_examples_of_texts(name):
    value = public(name)
    lazy = isinstance(vars(value).get("__doc__"), Documentation) if isinstance(value, type) else None
    assert lazy or isinstance(value, (ad._C.Operator, ad._C.Composition)), "others have it in their docstring"
    text = entries()[name]
    assert not text.examples or run(name, "\n".join(text.examples) + "\n")


@pytest.mark.parametrize("name", [n for n, text in entries().items() if text.raises])
def test_errors_of_texts(name):
    for error, _, call in entries()[name].raises:
        with pytest.raises(Exception) as raised:
            exec(call, {"ad": ad})
        assert raised.type.__name__ == error, (name, call)


def test_examples_of_forms_that_write():
    """They are derived from those of the function."""
    for row in PUBLIC:
        if row["inplace"]:
            assert run(row["name"] + "_", vars(ad.Tensor)[row["name"] + "_"].__doc__ + "\n") > 2


def test_an_error_is_raised_for_every_type_that_is_not_listed():
    every = set().union(*(row["types"] for row in OPERATORS))
    for row in PUBLIC:
        listed = set(row["types"])
        if listed == every or row["gradients"] is None:
            continue
        assert "If the input has another dtype than those below." in _doc(row)
        case = next(iter(cases(row, "float64" if "float64" in listed else row["types"][0])))
        for dtype in every - listed:
            args, kwargs = case.arguments([t.to(getattr(ad, dtype)) for t in case.tensors()])
            with pytest.raises(RuntimeError):
                function_of(row)(*args, **kwargs)


def test_an_error_is_raised_for_dimensions_and_shapes_that_do_not_fit():
    for row in PUBLIC:
        dtype = "float64" if "float64" in row["types"] else row["types"][0]
        for name, meaning in zip(row["arguments"], row["meanings"]):
            if meaning in ("Dim", "Dims"):
                assert f"`{name}`" in _doc(row).partition("IndexError")[2]
                bound = next(iter(cases(row, dtype))).bound() | {name: 9}
                with pytest.raises(IndexError):
                    function_of(row)(**bound)
        if row["kind"] == "elementwise" and row["arity"] > 1:
            tensors = [ad.ones(n, dtype=getattr(ad, dtype)) for n in (2, 3, 2)[: row["arity"]]]
            if row["condition"] >= 0:
                tensors[row["condition"]] = tensors[row["condition"]].bool()
            with pytest.raises(RuntimeError):
                function_of(row)(*tensors)


def test_every_operator_is_batched_that_does_not_say_otherwise():
    for row in PUBLIC:
        dtype = "float64" if "float64" in row["types"] else row["types"][0]
        batched = "Batched by `vmap`" in _doc(row)
        for case in cases(row, dtype):
            tensors = [ad.stack([t, t]) for t in case.tensors()]
            if not batched:
                with pytest.raises(RuntimeError):
                    ad.func.vmap(lambda *xs, case=case: case.call([*xs]), strict=True)(*tensors)
            elif tensors:
                ad.func.vmap(lambda *xs, case=case: case.call([*xs]), strict=True)(*tensors)


def test_forms_that_write_refuse_leaves_and_overlaps():
    for row in PUBLIC:
        if not row["inplace"] or not {"float64", "complex128"} & set(row["types"]):
            continue
        case = next(iter(cases(row, "float64" if "float64" in row["types"] else "complex128")))
        write = getattr(ad.Tensor, row["name"] + "_")
        first, *rest = case.tensors()
        for tensor in (
            first.clone().requires_grad_(),
            ad.zeros(1, dtype=first.dtype).expand(first.shape if first.dim() else (2,)),
        ):
            args, kwargs = case.arguments([tensor, *rest])
            with pytest.raises(RuntimeError):
                write(*args, **kwargs)


def test_an_operator_lacks_nothing():
    for owner in ("adjoint", "Tensor"):
        found = lacking(owner)
        operators = {row["name"] for row in PUBLIC}
        assert not {n: m for n, m in found.items() if n.rstrip("_") in operators}


@pytest.mark.parametrize("module", MODULES)
def test_every_callable_has_parameters_a_result_and_an_example(module):
    assert lacking(module) == {}


@pytest.mark.parametrize("module", [m for m in MODULES if m != "Tensor"])
def test_every_method_has_a_sentence_and_says_what_it_takes_and_returns(module):
    """Its signature does, or its text; a method that overrides another means the same."""
    assert lacking_of_methods(module) == {}


@pytest.mark.parametrize("name", DAILY)
def test_every_method_of_what_is_used_daily_has_an_example(name):
    assert without_example(name) == []


def test_what_compositions_take_is_measured():
    """The table is what tools/composition_types.py measures now, help shows it, and few compositions are without."""
    measured = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "composition_types.py")], capture_output=True, text=True
    )
    assert measured.returncode == 0, "run tools/composition_types.py --write\n" + measured.stderr
    assert "Element types: floating-point.\n\nDerivatives: reverse and forward mode" in ad.quantile.__doc__
    assert "Derivatives: none" in ad.bucketize.__doc__ and "Element types: integer." in ad.lcm.__doc__
    families = (ad.nn.functional, ad.linalg, ad.special)
    names = [(home, n) for home in families for n in home.__all__]
    values = [v for home, n in names if isinstance(v := getattr(home, n), ad._C.Composition)]
    without = [v.__name__ for v in values if "Element types" not in v.__doc__]
    assert len(values) > 150 and len(without) < 20, without


def test_it_is_not_loaded_before_it_is_read():
    program = "import sys, adjoint, adjoint.nn, adjoint.optim; print('adjoint._help' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def _doc(row):
    return function_of(row).__doc__
