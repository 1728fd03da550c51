"""Test cases that compare tensors, tests with parameters, and the small things that go with them.

Start reading at `TestCase`; `parametrize` and `instantiate_parametrized_tests` make several tests of one.
"""

from __future__ import annotations

import gc
import sys
import unittest
import warnings
from contextlib import contextmanager
from functools import wraps
from itertools import product

import adjoint
from adjoint import Tensor
from adjoint.as_torch.standins.testing._internal import _names
from adjoint.as_torch.standins.testing._internal._names import chosen_by, identity
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.testing import make_tensor

__all__ = [
    "TestCase",
    "disable_gc",
    "freeze_rng_state",
    "gradcheck",
    "gradgradcheck",
    "instantiate_parametrized_tests",
    "make_tensor",
    "parametrize",
    "run_tests",
    "set_default_dtype",
    "set_warn_always_context",
    "subtest",
]

GRADCHECK_NONDET_TOL = 0.0
SEED = 1234
skipIfNoLapack = slowTest = identity
#: Tests are found as they stand: there are no shards.
load_tests = None


class TestCase(unittest.TestCase):
    """A case whose `assertEqual` compares tensors, and numbers, up to rounding."""

    precision = rel_tol = 0.0
    maxDiff = None

    def setUp(self):
        adjoint.manual_seed(SEED)

    def assertEqual(
        self,
        x,
        y,
        msg=None,
        *,
        atol=None,
        rtol=None,
        equal_nan=True,
        exact_dtype=True,
        exact_device=False,
        exact_layout=False,
        exact_stride=False,
        exact_is_coalesced=False,
    ):
        """Fail unless both are equal: tensors and numbers up to rounding, containers entry by entry."""
        how = {"atol": atol, "rtol": rtol, "equal_nan": equal_nan, "check_dtype": exact_dtype}
        how["check_stride"], how["check_device"] = exact_stride, exact_device
        if exact_layout and isinstance(x, Tensor) and isinstance(y, Tensor) and x.layout != y.layout:
            self.fail(self._told(msg, f"layouts differ: {x.layout} and {y.layout}"))
        try:
            _compare(x, y, how)
        except AssertionError as difference:
            raise self.failureException(self._told(msg, str(difference))) from None

    @staticmethod
    def _told(msg, difference):
        if msg is None:
            return difference
        return msg(difference) if callable(msg) else f"{difference}\n{msg}"

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **keywords):
        """Fail if both are equal."""
        try:
            self.assertEqual(x, y, atol=atol, rtol=rtol, **keywords)
        except self.failureException:
            return
        self.fail(self._told(msg, f"{x!r} equals {y!r}"))

    def assertEqualIgnoreType(self, *args, **keywords):
        """As `assertEqual`, whatever the dtypes."""
        self.assertEqual(*args, exact_dtype=False, **keywords)

    def assertExpectedInline(self, actual, expect, skip=0):
        """Fail unless a text is the one in the program."""
        unittest.TestCase.assertEqual(self, str(actual), expect)

    def assertExpectedRaisesInline(self, kind, call, expect, *args, **keywords):
        """Fail unless a call raises that text."""
        with self.assertRaises(kind) as raised:
            call(*args, **keywords)
        self.assertExpectedInline(raised.exception, expect)

    def assertExpected(self, s, subname=None):
        """Texts in files of their own are not compared: the test is left out from here."""
        self.skipTest("the expected text is in a file")

    @contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        """Fail unless warnings come, all of that kind and text."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
        self.assertTrue(seen, "no warning was given")
        for warning in seen:
            self.assertTrue(issubclass(warning.category, category))
            self.assertRegex(str(warning.message), regex)

    def assertNotWarn(self, callable, msg=""):
        """Fail if a call warns."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(not seen, f"{msg} {[str(w.message) for w in seen]}")

    def assertObjectIn(self, obj, iterable):
        """Fail unless an object itself is there."""
        self.assertTrue(any(o is obj for o in iterable))

    def assertLeaksNoCudaTensors(self, name=None):
        """A context for devices that are not there."""
        from contextlib import nullcontext

        return nullcontext()

    def genSparseTensor(
        self, size, sparse_dim, nnz, is_uncoalesced, device, dtype, dense_dim=None, low=None, high=None
    ):
        """A sparse tensor with entries at random places, its indices and its values."""
        values = make_tensor([nnz, *size[sparse_dim:]], device=device, dtype=dtype, low=low, high=high)
        places = adjoint.rand(sparse_dim, nnz) * adjoint.tensor(size[:sparse_dim]).unsqueeze(1)
        indices = places.to(adjoint.int64)
        if is_uncoalesced:
            values = adjoint.cat([values, adjoint.randn_like(values)])
            indices = adjoint.cat([indices, indices], 1)
        sparse = adjoint.sparse_coo_tensor(indices, values, list(size), dtype=dtype)
        sparse = sparse if is_uncoalesced else sparse.coalesce()
        return sparse, sparse._indices().clone(), sparse._values().clone()


def _compare(x, y, how):
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        one_is_plain = not (isinstance(x, Tensor) and isinstance(y, Tensor))
        x, y = (
            t.to_dense() if isinstance(t, Tensor) and t.layout is not adjoint.strided else t for t in (x, y)
        )
        x, y = (t if isinstance(t, Tensor) else adjoint.as_tensor(t) for t in (x, y))
        if one_is_plain:
            # A number is compared with the only element.
            x, y = (
                (t.reshape(()) if t.numel() == 1 else t for t in (x, y))
                if not (x.dim() and y.dim())
                else (x, y)
            )
            how = how | {"check_dtype": False}
        if how["atol"] is None != (how["rtol"] is None):
            how = how | {"atol": how["atol"] or 0.0, "rtol": how["rtol"] or 0.0}
        adjoint.testing.assert_close(x, y, **how)
    elif isinstance(x, dict) and isinstance(y, dict):
        assert x.keys() == y.keys(), f"keys differ: {[*x]} and {[*y]}"
        for key in x:
            _compare(x[key], y[key], how)
    elif isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        assert len(x) == len(y), f"{x!r} and {y!r} have different lengths"
        for one, other in zip(x, y):
            _compare(one, other, how)
    elif _is_number(x) and _is_number(y):
        adjoint.testing.assert_close(
            adjoint.tensor(x, dtype=adjoint.complex128),
            adjoint.tensor(y, dtype=adjoint.complex128),
            **how | {"atol": how["atol"] or 1e-7, "rtol": how["rtol"] or 1e-7},
        )
    else:
        assert x == y, f"{x!r} is not {y!r}"


def _is_number(x):
    return isinstance(x, (int, float, complex)) and not isinstance(x, bool)


def run_tests(argv=None):
    """Run the tests of the program."""
    unittest.main(argv=argv)


# --- tests with parameters --------------------------------------------------------------------------------------------------


class subtest:
    """One set of values of a parameter, with a name and decorators of its own."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class parametrize:
    """Make a test for each value of a parameter, or for each tuple of values of several."""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = [*arg_values], name_fn

    def __call__(self, test):
        made = []
        for number, value in enumerate(self.values):
            one = value.arg_values if isinstance(value, subtest) else value
            values = (one,) if len(self.names) == 1 else tuple(one)
            if isinstance(value, subtest) and value.name is not None:
                name = value.name
            elif self.name_fn is not None:
                name = self.name_fn(*values)
            else:
                name = "_".join(_name_of(n, v, number) for n, v in zip(self.names, values))
            around = value.decorators if isinstance(value, subtest) else []
            made.append((f"_{name}", dict(zip(self.names, values)), [*around]))
        test.parametrized = [
            (a + b, given | more, around + further)
            for (a, given, around), (b, more, further) in product(variants(test), made)
        ]
        return test


def _name_of(name, value, number):
    simple = isinstance(value, (bool, int, float, str)) or value is None
    return f"{name}_{value if simple else getattr(value, '__name__', number)}".replace(".", "_")


def variants(test):
    """The ends of names, the keywords and the decorators of the tests that are made of one."""
    return getattr(test, "parametrized", [("", {}, [])])


def bound(test, name, given, decorators):
    """A test as a method that is called without arguments."""

    @wraps(test)
    def run(self, *args, **keywords):
        return test(self, *args, **given, **keywords)

    run.__name__ = run.__qualname__ = name
    # What runs tests looks at what they take.
    del run.__wrapped__
    for decorate in decorators:
        run = decorate(run)
    return run


def instantiate_parametrized_tests(generic_cls):
    """Put into a class, in place of each test with parameters, the tests that are made of it."""
    for attribute in dir(generic_cls):
        test = getattr(generic_cls, attribute)
        if not attribute.startswith("test") or not hasattr(test, "parametrized"):
            continue
        setattr(generic_cls, attribute, None)
        for suffix, given, around in variants(test):
            setattr(generic_cls, attribute + suffix, bound(test, attribute + suffix, given, around))
    return generic_cls


# --- contexts ---------------------------------------------------------------------------------------------------------------


@contextmanager
def disable_gc():
    """Without the collector."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


@contextmanager
def freeze_rng_state():
    """Draw inside without changing what is drawn outside."""
    state = adjoint.get_rng_state()
    try:
        yield
    finally:
        adjoint.set_rng_state(state)


@contextmanager
def set_default_dtype(dtype):
    """With another default."""
    before = adjoint.get_default_dtype()
    adjoint.set_default_dtype(dtype)
    try:
        yield
    finally:
        adjoint.set_default_dtype(before)


@contextmanager
def set_warn_always_context(new_val):
    """With warnings that are given each time, or once."""
    from adjoint import autograd

    before = getattr(autograd, "_warn_always", False)
    autograd._warn_always = bool(new_val)
    with warnings.catch_warnings():
        warnings.simplefilter("always" if new_val else "default")
        try:
            yield
        finally:
            autograd._warn_always = before


def suppress_warnings(function):
    """Without warnings."""

    @wraps(function)
    def quiet(*args, **keywords):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **keywords)

    return quiet


# --- examples ---------------------------------------------------------------------------------------------------------------


def random_symmetric_matrix(n, *batch, dtype=adjoint.float64, device=None):
    """A symmetric matrix, or a batch of such."""
    a = adjoint.randn(*batch, n, n, dtype=dtype)
    return (a + a.mH) / 2


def random_symmetric_pd_matrix(n, *batch, dtype=adjoint.float64, device=None):
    """A symmetric positive definite matrix, or a batch of such."""
    a = adjoint.randn(*batch, n, n, dtype=dtype)
    return a @ a.mH + 0.1 * adjoint.eye(n, dtype=dtype)


random_hermitian_matrix, random_hermitian_pd_matrix = random_symmetric_matrix, random_symmetric_pd_matrix


def first_sample(self, samples):
    """The first of several."""
    return next(iter(samples))


def is_iterable_of_tensors(iterable):
    """Whether all of several are tensors."""
    return isinstance(iterable, (list, tuple)) and all(isinstance(t, Tensor) for t in iterable)


def skipIfWindows(func=None, *, msg=""):
    """Leave a test out on Windows."""
    decorate = chosen_by(sys.platform != "win32", msg)
    return decorate if func is None else decorate(func)


def __getattr__(wanted):
    return _names.name("common_utils", wanted)
