"""Arguments of a wrong type: whatever public function gets them says which function was called, and what it was given."""

import importlib
import inspect
import itertools
import re

import pytest

import adjoint as ad
from adjoint import _C
from adjoint._publish import register

MODULES = {
    "adjoint": ad,
    "linalg": ad.linalg,
    "special": ad.special,
    "functional": ad.nn.functional,
    "init": ad.nn.init,
    "utils": ad.nn.utils,
}
# What changes the process, or takes anything at all.
EXCEPT = (
    "as_torch load manual_seed save seed set_default_device set_default_dtype set_memory_limit set_num_threads "
    "set_printoptions set_rng_state"
).split()
WRONG = [[], 3, None, "x", object()]


def published():
    for place, module in MODULES.items():
        for name in dir(module):
            value = getattr(module, name)
            if name[0] != "_" and name not in EXCEPT and callable(value) and not isinstance(value, type):
                yield pytest.param(name, value, id=f"{place}.{name}")
    for name in dir(ad.Tensor):
        if name[0] != "_" and isinstance(
            inspect.getattr_static(ad.Tensor, name), (_C.Operator, _C.Composition)
        ):
            yield pytest.param(name, getattr(ad.Tensor, name), id=f"Tensor.{name}")


def calls():
    x = ad.ones(2, 3)
    for wrong in WRONG:
        yield from ((wrong,), (x, wrong), (wrong, x), (x, x, wrong), (wrong, wrong), ([wrong],))


def named(function, name, text):
    if any(called.rstrip("_") in text for called in (name, function.__name__)):
        return True
    parameters = inspect.signature(function).parameters
    return any(f"'{p}'" in text for p in parameters)


def others(function, name, text):
    """The functions that a message speaks of and that were not called."""
    spoken = {w.strip("_") for w in re.findall(r"(\w+)\(\)(?::| was given| received)", text)}
    return spoken - {name.strip("_"), function.__name__.strip("_")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, function", published())
def test_wrong_types(name, function):
    for arguments in calls():
        try:
            function(*arguments)
        except IndexError as error:
            # A number that is no dimension, or no index, is of the right type.
            assert "ut of " in str(error) or "indices" in str(error), (arguments, error)
        except AssertionError as error:
            # What torch asserts of its arguments.
            if not isinstance(error, RuntimeError):
                assert "must be within num_embeddings" in str(error), (arguments, error)
        except (TypeError, ValueError, RuntimeError) as error:
            assert not isinstance(error, (UnicodeError, RecursionError)), (arguments, error)
            if isinstance(function, _C.Composition) and function._explain:
                assert named(function, name, str(error)), (arguments, error)
                assert not others(function, name, str(error)), (arguments, error)


#: What Python says of a mistake inside of a function, which tells a caller nothing.
INSIDE = re.compile(
    r"(tuple|list) index out of range|object has no attribute|not subscriptable|unsupported operand|by zero|bad_alloc|object is not"
)
DIMENSIONS = [{"dim": 7}, {"dim": -9}, {"dim": (0, 7)}, {"dim": 0}, {"dim0": 7, "dim1": 0}, {"axis": 7}]
DIMENSIONS += [{"start_dim": 9}, {"dims": (7,)}, {"dims": (0, 9)}]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 3)])
def test_dimensions_that_do_not_exist(shape):
    x, refused = ad.ones(shape), 0
    of_tensors = [p for p in published() if not p.id.startswith(("utils", "init"))]  # those take modules
    for name, function in (p.values for p in of_tensors):
        for given in DIMENSIONS:
            for args in ((x,), (x, 1), (x, x), (x, 0.5), ([x, x],), (x, ad.tensor([0]), x)):
                try:
                    function(*args, **given)
                except IndexError as error:
                    refused += 1
                    assert not INSIDE.search(str(error)), (name, args, given, error)
                except (TypeError, RuntimeError, ValueError) as error:
                    assert not INSIDE.search(str(error)), (name, args, given, error)
    assert refused > 300


def test_tensordot_wants_dimensions_that_exist():
    for dims in (([7], [0]), ([0], [-3]), ([0, 1], [0, 2])):
        with pytest.raises(IndexError, match=r"out of range \(expected to be in range of \[-2, 1\]"):
            ad.tensordot(ad.ones(2, 2), ad.ones(2, 2), dims)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: ad.nn.functional.mse_loss([1.0], ad.ones(1)),
            r"mse_loss\(\): argument 'input' \(position 1\) must be Tensor, not list",
        ),
        (lambda: ad.cov(3), r"cov\(\): argument 'input' \(position 1\) must be Tensor, not int"),
        (
            lambda: ad.cdist(ad.ones(1, 1), []),
            r"cdist\(\): argument 'x2' \(position 2\) must be Tensor, not list",
        ),
        (lambda: ad.ones(1).expand_as(2), r"expand_as\(\): argument 'other' .*must be Tensor, not int"),
        (
            lambda: ad.nn.init.zeros_([]),
            r"zeros_\(\): argument 'tensor' \(position 1\) must be Tensor, not list",
        ),
        (lambda: ad.trace([]), r"trace\(\): argument 'input' \(position 1\) must be Tensor, not list"),
        (lambda: ad.cov(input=3), r"cov\(\): argument 'input' must be Tensor, not int"),
    ],
)
def test_the_argument_is_named(call, message):
    with pytest.raises(TypeError, match="^" + message):
        call()


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: ad.histc(ad.ones(2) * ad.inf), "histc"),
        (lambda: ad.trapezoid(ad.ones(2), ad.ones(3)), "trapezoid"),
        (lambda: ad.gcd(ad.tensor([True]), ad.tensor([True])), "gcd"),
        (lambda: ad.nn.functional.bilinear(ad.ones(2, 3), ad.ones(2, 3), ad.ones(2, 2, 3)), "bilinear"),
        (lambda: ad.nn.functional.dropout([1.0]), "dropout"),
        (lambda: ad.hstack([ad.ones(2, 2), ad.ones(3, 3)]), "hstack"),
        (lambda: ad.ones(2).fill_("a"), "fill_"),
        (lambda: ad.tensor_split(ad.ones(3), [1.5]), "tensor_split"),
    ],
)
def test_an_error_begins_with_the_function_that_was_called(call, name):
    with pytest.raises((RuntimeError, TypeError), match=rf"^(?!.*\): \w+\(\):){name}\(\)"):
        call()


def test_errors_of_a_user_s_own_function_stay_as_they_are():
    def distance(x):
        return x.shap

    place = {"__name__": "adjoint._somewhere"}
    exec("def measured(distance, x):\n    return distance(x) if x is not None else x.shape", place)
    call = register.published(place["measured"])
    with pytest.raises(AttributeError, match="has no attribute 'shap'"):
        call(distance, ad.ones(1))
    with pytest.raises(
        TypeError, match=r"^measured\(\): argument 'x' \(position 2\) must be Tensor, not NoneType"
    ):
        call(distance, None)


def test_numpy_s_keywords():
    x = ad.arange(6.0).reshape(2, 3)
    for call in (ad.var, ad.std, ad.nanmean, ad.median, ad.quantile):
        extra = (0.5,) if call is ad.quantile else ()
        by_axis, by_dim = call(x, *extra, axis=0, keepdims=True), call(x, *extra, dim=0, keepdim=True)
        pairs = [(by_axis, by_dim)] if isinstance(by_axis, ad.Tensor) else zip(by_axis, by_dim)
        assert all(ad.equal(a, b) for a, b in pairs), call
    assert ad.equal(x.max(axis=0).values, x.max(dim=0).values)
    assert ad.equal(ad.diff(x=x, axis=0), ad.diff(x, dim=0))
    with pytest.raises(TypeError, match="axis"):
        ad.var(x, dim=0, axis=0)
    with pytest.raises(TypeError, match="nothing"):
        ad.var(x, nothing=0)


def test_a_published_function_is_known_by_its_own_name():
    import copy
    import pickle

    assert pickle.loads(pickle.dumps(ad.hstack)) is ad.hstack is copy.deepcopy(ad.hstack)
    assert ad.hstack.__name__ == "hstack" and ad.hstack.__module__ == "adjoint"
    assert list(inspect.signature(ad.hstack).parameters) == ["tensors", "out"]
    assert "columns" in inspect.getdoc(ad.hstack) and repr(ad.hstack) == "<function hstack>"
    assert ad.ones(3).diff().shape == (2,)


def test_a_warning_names_the_caller_s_line(recwarn):
    ad.nn.functional.mse_loss(ad.ones(3, 3), ad.ones(3))
    assert recwarn[0].filename == __file__
    ad.as_torch()
    ad.cross(ad.ones(3, 3), ad.ones(3, 3))
    ad.as_torch.undo()
    assert recwarn[1].filename == __file__


def test_every_composition_that_a_module_defines_is_published_so():
    for name in ("adjoint.nn.functional", "adjoint.linalg", "adjoint.special", "adjoint.nn.init"):
        module = importlib.import_module(name)
        defined = {n: v for n, v in vars(module).items() if n in module.__all__}
        plain = [n for n, v in defined.items() if inspect.isfunction(v) and n[0] != "_"]
        assert plain == []
    # Several results, or none: what a chain of keyword translations gives is the call's own.
    assert list(itertools.chain(*[ad.median(ad.ones(2, 2), axis=0)]))


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
def test_a_list_that_holds_itself(name):
    endless = []
    endless.append(endless)
    for function, shape in (
        (ad.conv1d, (1, 1, 4)),
        (ad.conv2d, (1, 1, 4, 4)),
        (ad.conv_transpose2d, (1, 1, 4, 4)),
    ):
        with pytest.raises(TypeError, match=function.__name__):
            function(ad.ones(shape), ad.ones(shape), **{name: endless})
