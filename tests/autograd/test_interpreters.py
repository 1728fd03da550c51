"""Interpreters: each call of an operator is seen once, in its form, with its arguments, and its result can be replaced.

Start reading at `Seeing`, a mode that notes what it sees and does it.
"""

import numpy as np
import pytest
from helpers import array
from numpy.testing import assert_allclose
from samples import OPERATORS, cases, function_of

import adjoint as ad
from adjoint.utils._python_dispatch import TorchDispatchMode

_C = ad._C


class Seeing(TorchDispatchMode):
    def __init__(self):
        self.names = []
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        self.calls.append((func, args, kwargs))
        return func(*args, **(kwargs or {}))


def seen(f):
    with Seeing() as mode:
        result = f()
    return mode.names, result


X = ad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

#: What a program writes, and the calls that it is.
CALLS = {
    "element-wise": (lambda: X.exp(), ["exp"]),
    "two operands": (lambda: X * X, ["mul"]),
    "a number": (lambda: X + 2, ["add"]),
    "parameters": (lambda: ad.softplus(X, beta=2.0) if hasattr(ad, "softplus") else X.clamp(2), None),
    "structured": (lambda: X.sum(1, keepdim=True), ["sum"]),
    "several results": (lambda: X.sort(1), ["sort"]),
    "a list of results": (lambda: X.unbind(0), ["unbind"]),
    "a list of arguments": (lambda: ad.cat([X, X], 1), ["cat"]),
    "a view": (lambda: X.transpose(0, 1), ["transpose"]),
    "an index": (lambda: X[0, 1:], ["_basic_index"]),
    "creation": (lambda: ad.zeros(2), ["_zeros"]),
    "random numbers": (lambda: ad.rand(2), ["_rand"]),
    "a composition of the core": (lambda: X.matmul(X.t()), ["t", "mm"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_each_call_is_seen_once(case):
    f, names = CALLS[case]
    expected = f()
    got, result = seen(f)
    assert got if names is None else got == names
    for a, b in zip(
        result if isinstance(result, tuple) else [result],
        expected if isinstance(expected, tuple) else [expected],
    ):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert case == "random numbers" or a.tolist() == b.tolist()


@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_each_row_is_seen_once_with_what_it_makes(op):
    """Over the table: one call, which done again by the mode gives what it gives without."""
    dtype = next(d for d in ("float64", "complex128", "float32", *op["types"]) if d in op["types"])
    for case in cases(op, dtype):
        (args, kwargs), (again, same) = case.arguments(), case.arguments()
        ad.manual_seed(1)
        expected = function_of(op)(*args, **kwargs)
        ad.manual_seed(1)
        names, result = seen(lambda: function_of(op)(*again, **same))
        if _C._is_composite(function_of(op)):
            assert names and op["name"] not in names
        else:
            assert names == [op["name"]]
        if not op["name"].startswith("_empty"):
            listed = [result, expected] if isinstance(result, (tuple, list)) else [[result], [expected]]
            for a, b in zip(*listed, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_array_equal(array(a), array(b))


#: Writes: the tensor is there already, and is written once.
WRITES = {
    "in place": (lambda t: t.exp_(), ["exp_"]),
    "an operator in place": (lambda t: t.__imul__(2), ["mul_"]),
    "a structured operator in place": (lambda t: t.cumsum_(0), ["cumsum_"]),
    "copy_": (lambda t: t.copy_(X), ["_copy"]),
    "an item": (lambda t: t.__setitem__(0, 1.0), ["_set_basic"]),
    "random": (lambda t: t.uniform_(), ["_uniform"]),
    "out=": (lambda t: ad.exp(X, out=t), ["exp"]),
    "out= of a structured operator": (lambda t: ad.cumsum(X, 0, out=t), ["cumsum"]),
    "out= of another type": (lambda t: ad.add(X, X, out=t), ["add"]),
}


# What has out= is not recorded by anybody.
@pytest.mark.parametrize(
    ("case", "recorded"), [(c, r) for c in WRITES for r in (False, True) if not (r and "out=" in c)]
)
def test_each_write_is_seen_once(case, recorded):
    f, names = WRITES[case]
    leaf = X.clone().requires_grad_(recorded)
    plain, t = leaf * 1, leaf * 1
    ad.manual_seed(1)
    f(plain)
    ad.manual_seed(1)
    before = t._version
    got, _ = seen(lambda: f(t))
    assert got == names
    assert t.tolist() == plain.tolist() and t._version == before + 1
    if recorded:
        one, other = (ad.autograd.grad(y.sum(), leaf)[0].tolist() for y in (plain, t))
        assert one == other


def test_arguments_are_as_a_program_writes_them():
    with Seeing() as mode:
        X.cumsum(1, dtype=ad.float64)
        X.sum()
        ad.add(X, 3, out=ad.empty(2, 3))
    (f, args, kwargs), *_ = mode.calls
    assert f is ad.cumsum and args[0] is X and args[1:] == (1,) and kwargs == {"dtype": ad.float64}
    f, args, kwargs = mode.calls[-1]
    assert f is ad.add and args == (X, 3) and kwargs["out"].tolist() == (X + 3).tolist()


def test_a_result_may_be_another():
    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is ad.exp else result

    x = ad.zeros(2, requires_grad=True)
    with Doubling():
        y = x.exp()
    assert y.tolist() == [2.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_modes_nest_and_calls_inside_go_outwards():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        X.exp()
    assert order == [("inner", "exp"), ("outer", "exp")]


def test_a_mode_within_its_own_dispatch():
    class Again(Seeing):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            if func is ad.exp:
                with self:
                    return args[0].sin()
            return func(*args, **(kwargs or {}))

    with Again() as mode:
        X.exp()
    assert mode.names == ["exp", "sin"]


def test_an_error_in_a_mode_leaves_nothing_behind():
    class Failing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError(func.__name__)

    with pytest.raises(ValueError, match="exp"), Failing():
        X.exp()
    assert X.exp().shape == X.shape
    with Failing():
        for f in (lambda: X + X, lambda: X.sum(), lambda: X.clone().exp_(), lambda: ad.zeros(2)):
            with pytest.raises(ValueError):
                f()


def test_results_are_checked():
    class Wrong(TorchDispatchMode):
        def __init__(self, result):
            self.result = result

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return self.result

    for result in (5, None, "ab", NotImplemented):
        with pytest.raises(TypeError), Wrong(result):
            X.exp()
    for result in ((), (X,), (X, X, X)):
        with pytest.raises(ValueError, match=r"2 results of sort\(\)"), Wrong(result):
            X.sort(1)
    with pytest.raises(NotImplementedError, match="must define __torch_dispatch__"), TorchDispatchMode():
        X.exp()


def test_modes_left_out_of_order():
    outer, inner = Seeing(), Seeing()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    X.exp()
    inner.__exit__(None, None, None)
    X.sin()
    assert inner.names == ["exp"] and outer.names == []
    with pytest.raises(IndexError):
        inner.__exit__(None, None, None)


# --- backward passes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "call"),
    [
        (lambda x: x.sin(), "cos"),
        (lambda x: (x * x).tanh(), "sub"),
        (lambda x: x.softmax(1), "_softmax_backward"),
        (lambda x: x @ x.t(), "mm"),
    ],
)
def test_a_backward_pass_is_seen_too(f, call):
    x = X.clone().requires_grad_()
    (expected,) = ad.autograd.grad(f(x).sum(), x)
    y = f(x).sum()
    names, (gradient,) = seen(lambda: ad.autograd.grad(y, x))
    assert call in names, names
    assert_allclose(array(gradient), array(expected), rtol=1e-6, atol=1e-6)
    assert not gradient.requires_grad


def test_the_derivative_of_an_elementwise_operator_is_seen():
    x = X.clone().requires_grad_()
    y = x.sin()
    names, _ = seen(lambda: ad.autograd.grad(y, x, ad.ones(2, 3)))
    assert "cos" in names and "mul" in names


# --- what is no call ---------------------------------------------------------------------------------------------------

READS = {
    "item": lambda t: t.item(),
    "bool": bool,
    "float": float,
    "int": int,
    "index": lambda t: [1, 2, 3][t.to(ad.int64)],
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: memoryview(t),
    "__dlpack__": lambda t: t.__dlpack__(),
    "data_ptr": lambda t: t.data_ptr(),
}


@pytest.mark.parametrize("by", READS)
def test_reads_are_announced(by):
    told = []
    t = ad.tensor(1.0)
    token = _C._push_interpreter(lambda f, args, kwargs: f(*args, **kwargs), lambda t, by: told.append(by))
    try:
        READS[by](t)
    finally:
        _C._pop_interpreter(token)
    assert told == [by]


@pytest.mark.parametrize("by", READS)
def test_reads_can_be_refused(by):
    def refuse(t, by):
        raise RuntimeError(f"not {by}")

    t = ad.tensor(1.0)
    token = _C._push_interpreter(lambda f, args, kwargs: f(*args, **kwargs), refuse)
    try:
        with pytest.raises(Exception, match=f"not {by}"):
            READS[by](t)
    finally:
        _C._pop_interpreter(token)


REPLACEMENTS = {
    "data": lambda t: setattr(t, "data", ad.ones(5)),
    "resize_": lambda t: t.resize_(100),
    "set_": lambda t: t.set_(ad.ones(5)),
    "t_": lambda t: t.t_(),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "out=": lambda t: ad.sum(ad.ones(7, 7), 0, out=t.resize_(0)),
}


@pytest.mark.parametrize("case", REPLACEMENTS)
def test_other_memory_is_announced(case):
    told = []
    t = ad.ones(2, 3)
    token = _C._push_interpreter(
        lambda f, args, kwargs: f(*args, **kwargs), None, lambda t, by: told.append((t, by))
    )
    try:
        REPLACEMENTS[case](t)
    finally:
        _C._pop_interpreter(token)
    assert told and all(x is t for x, _ in told)


def test_an_ordinary_thread_is_not_seen():
    import threading

    with Seeing() as mode:
        thread = threading.Thread(target=lambda: X.exp())
        thread.start()
        thread.join()
    assert mode.names == []


def test_observers_see_below():
    order = []
    token = _C._push_observer(None, lambda op, results: order.append("observer"), None)
    try:
        with Seeing() as mode:
            X.exp()
            order.append(tuple(mode.names))
    finally:
        _C._pop_interpreter(token)
    assert order == ["observer", ("exp",)]
