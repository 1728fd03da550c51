"""How operators take their arguments: what the table says of them, which form a call gets, by which names and in which
orders, and what is said when nothing fits. Start reading at `test_dimensions_are_declared_as_such`.
"""

import copy
import inspect
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers import array, assert_close, check_gradient, tensor
from samples import ROWS, cases

import adjoint as ad

OPERATORS = ad._C.operators()
STRUCTURED = [o for o in OPERATORS if o["kind"] == "structured"]


def x():
    return ad.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_every_argument_has_a_name_a_meaning_and_a_type(op):
    assert len(op["arguments"]) == len(op["kinds"]) == len(op["meanings"])
    assert len(set(op["arguments"])) == len(op["arguments"])
    assert all(op["meanings"])


def meaning_by_name(name):
    """What an argument of that name has to be declared as; None for names that say nothing."""
    if re.fullmatch(r"dim\d?|dimension|(start|end)_dim|axis", name):
        return {"Dim", "NewDim", "Dims"}
    if name in ("dims", "source", "destination"):
        return {"Dims", "Permutation", "Repeats", "Int", "Tensor"}
    if name == "shape":
        return {"Sizes"}
    return None


@pytest.mark.parametrize("op", STRUCTURED, ids=[o["name"] for o in STRUCTURED])
def test_dimensions_are_declared_as_such(op):
    # Batching will be derived from these types: an int that is a dimension must not pass for a mere number.
    for name, meaning in zip(op["arguments"], op["meanings"]):
        wanted = meaning_by_name(name)
        assert wanted is None or meaning in wanted, f"{op['name']}: {name} is declared as {meaning}"


@pytest.mark.parametrize("op", STRUCTURED, ids=[o["name"] for o in STRUCTURED])
def test_in_place_forms_are_those_that_exist(op):
    # Views in place are Python's, and writes are in place anyway.
    form = vars(ad.Tensor).get(op["name"] + "_")
    if op["method"]:
        assert op["inplace"] == isinstance(form, ad._C.Operator)


def test_forms_of_a_function_are_rows_that_say_so():
    rows = {o["name"]: o for o in OPERATORS}
    forms = {name for o in OPERATORS if (name := o["overloads"])}
    assert {"add", "max", "where", "split"} <= forms
    for name in forms:
        operator = getattr(ad._C, name)
        assert all(form == name or rows[form]["overloads"] == name for form in operator.forms)
        assert len(operator.forms) > 1


# --- forms -----------------------------------------------------------------------------------------------------------

a, b = np.array([1.0, -2.0, 3.0]), np.array([2.0, 0.5, -1.0])

FORMS = {
    "add with a scale": (lambda x, y: ad.add(x, y, alpha=2), a + 2 * b),
    "add with a fraction": (lambda x, y: x.add(y, alpha=0.5), a + 0.5 * b),
    "add of a number with a scale": (lambda x, y: x.add(3, alpha=2), a + 6),
    "add with a tensor as scale": (lambda x, y: x.add(y, alpha=ad.tensor(2.0)), a + 2 * b),
    "sub with a scale": (lambda x, y: ad.sub(x, y, alpha=2), a - 2 * b),
    "subtract, by its other name": (lambda x, y: ad.subtract(x, y, alpha=2), a - 2 * b),
    "rsub": (lambda x, y: ad.rsub(x, y), b - a),
    "rsub with a scale": (lambda x, y: ad.rsub(x, 1, alpha=3), 1 - 3 * a),
    "div rounded down": (lambda x, y: x.div(y, rounding_mode="floor"), np.floor(a / b)),
    "div rounded to zero": (lambda x, y: ad.div(x, y, rounding_mode="trunc"), np.trunc(a / b)),
    "div not rounded": (lambda x, y: ad.div(x, y, rounding_mode=None), a / b),
    "round to decimals": (lambda x, y: (x / 3).round(decimals=1), np.round(a / 3, 1)),
    "max of all": (lambda x, y: x.max(), a.max()),
    "max along": (lambda x, y: x.max(0).values, a.max(0)),
    "max of two": (lambda x, y: ad.max(x, y), np.maximum(a, b)),
    "max of two by name": (lambda x, y: ad.max(x, other=y), np.maximum(a, b)),
    "max by NumPy's names": (lambda x, y: x.max(axis=0, keepdims=True).values, a.max(0, keepdims=True)),
    "min along": (lambda x, y: x.min(dim=0)[0], a.min()),
    "median of all": (lambda x, y: ad.median(x), 1.0),
    "nanmedian along": (lambda x, y: x.nanmedian(axis=-1).values, 1.0),
    "var, biased": (lambda x, y: x.var(unbiased=False), a.var()),
    "var, biased, by place": (lambda x, y: x.var(False), a.var()),
    "var along, biased": (lambda x, y: x.var(0, False), a.var()),
    "var, correction left open": (lambda x, y: x.var(correction=None), a.var(ddof=1)),
    "std": (lambda x, y: ad.std(x, dim=0, correction=2), a.std(ddof=2)),
    "std_mean, biased": (lambda x, y: ad.std_mean(x, unbiased=False)[0], a.std()),
    "where with numbers": (lambda x, y: ad.where(x > 0, 1.0, 0.0), np.where(a > 0, 1.0, 0.0)),
    "where alone": (lambda x, y: ad.where(x > 0)[0].to(ad.float64), np.where(a > 0)[0]),
    "split by size": (lambda x, y: x.split(split_size=2)[1], a[2:]),
    "split by sizes": (lambda x, y: ad.split(x, split_size_or_sections=[1, 2])[1], a[1:]),
    "split by sizes, as a method": (lambda x, y: x.split([1, 2], dim=0)[0], a[:1]),
    "split_with_sizes": (lambda x, y: ad.split_with_sizes(x, [1, 2])[0], a[:1]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_call_gets_the_form_that_its_arguments_fit(name):
    call, expected = FORMS[name]
    assert_close(call(tensor(a), tensor(b)), np.asarray(expected))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: ad.add(x, y, alpha=2.5),
        lambda x, y: ad.sub(x, y, alpha=2.5),
        lambda x, y: ad.rsub(x, y, alpha=2.5),
        lambda x, y: ad.add(x, y, alpha=y.sum()),
        lambda x, y: x.var(unbiased=False) * y.sum(),
        lambda x, y: ad.max(x, y),
        lambda x, y: x.max(dim=0).values * y,
    ],
)
def test_forms_have_derivatives(call):
    check_gradient(call, [a, b])


def test_a_scale_of_integers_is_exact_and_whole():
    n = ad.tensor([2**62], dtype=ad.int64)
    assert ad.add(n, ad.tensor([1]), alpha=2**60 + 1).item() == 2**62 + 2**60 + 1
    assert ad.add(ad.tensor([1]), ad.tensor([2]), alpha=3).dtype is ad.int64
    with pytest.raises(RuntimeError, match="argument alpha must not be a floating point number"):
        ad.add(ad.tensor([1]), ad.tensor([2]), alpha=0.5)
    with pytest.raises(RuntimeError, match="argument alpha must not be a complex number"):
        ad.add(x(), x(), alpha=1j)
    z = ad.tensor([1 + 2j])
    assert ad.add(z, z, alpha=1j).item() == (1 + 2j) * (1 + 1j)


def test_in_place_forms_write_the_tensor():
    t = x()
    at = t.data_ptr()
    assert t.add_(ad.ones(2, 3), alpha=2) is t and t.data_ptr() == at
    assert_close(t, array(x()) + 2)
    assert_close(t.sub_(1, alpha=2), array(x()))
    assert_close(x().div_(2, rounding_mode="floor"), np.floor(array(x()) / 2))
    assert_close((x() / 3).round_(decimals=1), np.round(array(x()) / 3, 1))


def test_out_takes_every_form():
    out = ad.empty(2, 3)
    ad.add(x(), x(), alpha=2, out=out)
    assert_close(out, 3 * array(x()))
    values, indices = ad.empty(3), ad.empty(3, dtype=ad.int64)
    ad.max(x(), 0, out=(values, indices))
    assert values.tolist() == [4.0, 5.0, 3.0] and indices.tolist() == [1, 1, 0]


# --- names and orders -------------------------------------------------------------------------------------------------

KEYWORDS = {
    "new_zeros": lambda: x().new_zeros(size=(2,)),
    "new_ones": lambda: x().new_ones(size=(2,)),
    "new_empty": lambda: x().new_empty(size=(2,)),
    "resize_": lambda: x().resize_(size=(2,)),
    "sum_to_size": lambda: x().sum_to_size(size=(1, 3)),
    "randint": lambda: ad.randint(high=3, size=(2,)),
    "randint with both": lambda: ad.randint(low=1, high=3, size=(2,)),
    "randint_like": lambda: ad.randint_like(x(), high=2),
    "swapaxes": lambda: x().swapaxes(axis0=0, axis1=1),
    "transpose": lambda: ad.transpose(input=x(), dim0=0, dim1=1),
    "nanmean": lambda: x().nanmean(axis=0, keepdims=True),
    "diff": lambda: ad.diff(x(), axis=0),
    "quantile": lambda: ad.quantile(x(), 0.5, axis=0),
    "sum": lambda: ad.sum(x=x(), axis=0, keepdims=True),
    "add": lambda: ad.add(input=x(), x2=x()),
    "mean": lambda: ad.mean(a=x()),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_have_the_names_that_torch_takes(name):
    KEYWORDS[name]()


def test_names_that_a_program_puts_together_are_names_too():
    keyword = "".join(["d", "im"])
    assert x().sum(**{keyword: 0}).shape == (3,)
    assert x().sum(**{"".join(["ax", "is"]): 0}).shape == (3,)


class Whole(int):
    pass


class Real(float):
    pass


def in_other_classes(value):
    """The numbers of an argument, as objects of subclasses."""
    if isinstance(value, list):
        return [in_other_classes(v) for v in value]
    return {int: Whole, float: Real}.get(type(value), lambda same: same)(value)


@pytest.mark.parametrize("op", [o for o in STRUCTURED if o["name"] in ROWS], ids=lambda o: o["name"])
def test_numbers_of_other_classes_are_read_alike(op):
    """Builtin ones are matched and read in one go, others one after the other."""
    for case in cases(op, "float64" if "float64" in op["types"] else op["types"][0]):
        other = copy.copy(case)
        other.args = [in_other_classes(a) for a in case.args]
        other.kwargs = {name: in_other_classes(a) for name, a in case.kwargs.items()}
        tensors = case.tensors()
        results = [c.call(tensors) for c in (case, other)]
        results = [[array(t) for t in (r if isinstance(r, (tuple, list)) else [r])] for r in results]
        for found, wanted in zip(*results, strict=True):
            assert found.shape == wanted.shape and found.dtype == wanted.dtype, case
            if not op["name"].startswith("_empty"):
                np.testing.assert_array_equal(found, wanted, err_msg=repr(case))


def test_an_argument_is_given_once():
    with pytest.raises(TypeError, match="multiple values for argument 'dim'"):
        x().sum(0, axis=0)
    with pytest.raises(
        TypeError, match="multiple values for argument 'dim'|unexpected keyword argument 'axis'"
    ):
        ad.quantile(x(), 0.5, dim=0, axis=0)
    with pytest.raises(TypeError, match="multiple values"):
        x().var(unbiased=False, correction=0)


OLD = """
import warnings
import adjoint as ad
ad._C._serve_torch(True)  # who alone is told of old orders
x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
batch = ad.stack([x, x])
def same(a, b):
    assert a.tolist() == b.tolist(), (a, b)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    same(x.clone().add_(0.5, x), x * 1.5)
    same(ad.add(x, 2, x), x * 3)
    same(ad.sub(x, 2, x), -x)
    same(ad.add(ad.tensor([1]), 2, ad.tensor([3])), ad.tensor([7]))
    same(x.clone().addcmul_(0.5, x, x), x + 0.5 * x * x)
    same(x.clone().addcdiv_(0.5, x, x), x + 0.5)
    same(ad.addmm(2, x, 3, x, x), 2 * x + 3 * (x @ x))
    same(ad.addmm(2, x, x, x), 2 * x + x @ x)
    same(x.addmm(2, 3, x, x), 2 * x + 3 * (x @ x))
    same(x.addmm(2, x, x), 2 * x + x @ x)
    same(ad.baddbmm(1, batch, batch, batch), batch + batch @ batch)
    same(ad.addmv(2, x[0], 3, x, x[1]), 2 * x[0] + 3 * (x @ x[1]))
    same(ad.addmv(2, x[0], x, x[1]), 2 * x[0] + x @ x[1])
    same(x[0].addmv(2, x, x[1]), 2 * x[0] + x @ x[1])
    same(ad.addr(2, x, 3, x[0], x[1]), 2 * x + 3 * ad.outer(x[0], x[1]))
    count = len(seen)
    ad.add(x, 2, x)
    assert len(seen) == count
texts = [str(w.message) for w in seen if "This overload of" in str(w.message)]
assert any(t.startswith("This overload of add_ is deprecated:") for t in texts), texts
assert any("addmm(input, mat1, mat2, *, beta=1, alpha=1)" in t for t in texts), texts
print(len(texts))
"""


def test_old_orders_are_taken_and_warned_of_once():
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 9


# --- refusals --------------------------------------------------------------------------------------------------------

REFUSED = {
    "the first argument is the input": (
        lambda: ad.sin("a"),
        r"sin\(\): argument 'input' \(position 1\) must be Tensor, not str",
    ),
    "a number is no tensor alone": (
        lambda: ad.exp(1.0),
        r"exp\(\): argument 'input' \(position 1\) must be Tensor, not float",
    ),
    "in place": (lambda: x().mul_("a"), r"mul_\(\): argument 'other' \(position 2\) must be Tensor, not str"),
    "several forms": (
        lambda: ad.max(x(), "a"),
        r"max\(\) received an invalid combination of arguments - got \(.*Tensor, str\)",
    ),
    "each form with its reason": (
        lambda: ad.max(x(), "a"),
        r"\n \* \(input, dim, keepdim=False\): argument 'dim' \(position 2\) must be int, not str",
    ),
    "in place, of several forms": (lambda: x().add_("a"), r"add_\(\) received an invalid combination"),
    "keywords": (lambda: x().exp(dim=1), r"exp\(\) got an unexpected keyword argument 'dim'"),
    "too many": (lambda: x().exp(1, 2), r"exp\(\) takes 1 positional argument but 3 were given"),
    "missing": (
        lambda: x().cumsum(),
        r"cumsum\(\) missing required argument 'dim' \(position 2\), which must be int",
    ),
    "elements of a list": (
        lambda: ad.cat([x(), 1]),
        r"expected Tensor as element 1 in argument 'tensors', but got int",
    ),
    "a float is no dimension": (
        lambda: x().sum(0.5),
        r"argument 'dim' \(position 2\) must be tuple of ints, not float",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_say_what_was_asked_and_what_is_taken(name):
    call, text = REFUSED[name]
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_no_operator_takes_what_it_does_not_know(op):
    function = getattr(ad._C, op["name"], None)
    if not isinstance(function, ad._C.Operator):
        pytest.skip("a method that Python defines stands in its place")
    with pytest.raises(TypeError), warnings.catch_warnings():
        warnings.simplefilter("error")
        function(x(), there_is_no_such_argument=1)


def test_nodes_name_parameters_that_are_given_by_keyword_only():
    t = ad.ones(2, requires_grad=True)
    assert ad.addcmul(t, t, t, value=2).grad_fn._saved_value == 2
    assert ad.add(t, t, alpha=2).grad_fn._saved_alpha == 2
    assert ad.add(t, t, alpha=2).grad_fn.name() == ad.add(t, t).grad_fn.name()


def test_a_composition_may_use_its_own_operator():
    # What an overload in Python calls is chosen by its arguments alone, even if it is the operator that it belongs to.
    before = ad._C.tanh.overload
    try:
        ad._C.tanh.overload = lambda input: ad._C.tanh(ad.tensor(input))
        assert ad.tanh([0.0, 0.0]).tolist() == [0.0, 0.0]
    finally:
        ad._C.tanh.overload = before


def test_published_compositions_keep_their_signatures():
    assert list(inspect.signature(ad.quantile).parameters)[:2] == ["input", "q"]
    assert ad.quantile.__doc__.startswith("The q-th quantiles")
