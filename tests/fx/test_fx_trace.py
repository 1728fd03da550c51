"""`adjoint.fx`: twenty modules traced, run, copied, written and interpreted, and what cannot be traced.

`listings.txt` holds the nodes that torch 2.13 makes of the same modules: names are part of the interface, since programs look nodes
up by them.
"""

import copy
import io
import math
import pathlib
import pickle
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import fx_modules  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint import fx  # noqa: E402

MODULES = fx_modules.modules(ad)
LISTINGS = {}
for _line in (pathlib.Path(__file__).parent / "listings.txt").read_text().splitlines():
    if _line.startswith("["):
        LISTINGS[_line[1:-1]] = []
    else:
        LISTINGS[list(LISTINGS)[-1]].append(_line)


def called(name, f):
    args = MODULES[name][1]
    if name == "starred":
        return f(args[0], args[1], scale=3.0)
    return f(*[a.clone() if isinstance(a, ad.Tensor) else a for a in args])


def same(a, b):
    leaves, spec = ad.tree.flatten(a)
    others, other_spec = ad.tree.flatten(b)
    assert spec == other_spec
    for x, y in zip(leaves, others, strict=True):
        assert type(x) is type(y)
        assert ad.equal(x, y) if isinstance(x, ad.Tensor) else x == y


@pytest.mark.parametrize("name", MODULES)
def test_nodes_are_torchs(name):
    assert fx_modules.listing(fx, MODULES[name][0]) == LISTINGS[name]


@pytest.mark.parametrize("name", MODULES)
def test_traced_modules_compute_the_same(name):
    f = MODULES[name][0]
    expected = called(name, f)
    traced = fx.symbolic_trace(f)
    traced.graph.lint()
    same(called(name, traced), expected)
    same(called(name, copy.deepcopy(traced)), expected)
    if name not in ("starred",):
        same(called(name, fx.Interpreter(traced).run), expected)
        same(called(name, fx.Transformer(traced).transform()), expected)
    retraced = fx.symbolic_trace(traced) if name != "roots" else traced
    same(called(name, retraced), expected)
    clean = copy.deepcopy(traced)
    clean.graph.eliminate_dead_code()
    clean.recompile()
    same(called(name, clean), expected)


@pytest.mark.parametrize("name", [n for n in MODULES if n not in ("slices",)])
def test_traced_modules_are_written_to_files(name):
    traced = fx.symbolic_trace(MODULES[name][0])
    expected = called(name, traced)
    loaded = pickle.loads(pickle.dumps(traced))
    same(called(name, loaded), expected)
    assert [n.name for n in loaded.graph.nodes] == [n.name for n in traced.graph.nodes]
    assert loaded.state_dict().keys() == traced.state_dict().keys()
    file = io.BytesIO()
    ad.save(traced, file)
    file.seek(0)
    same(called(name, ad.load(file, weights_only=False)), expected)


def test_gradients_reach_the_parameters_of_the_module_that_was_traced():
    model, (x,) = MODULES["net"]
    traced = fx.symbolic_trace(model)
    assert dict(traced.named_parameters()).keys() == dict(model.named_parameters()).keys()
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    traced(x).sum().backward()
    assert all(ad.equal(p.grad, g) for p, g in zip(model.parameters(), expected))
    model.zero_grad()


def test_a_parameter_that_is_used_alone_is_read_at_each_call():
    model = MODULES["shared"][0]
    traced = fx.symbolic_trace(model)
    before = traced(MODULES["shared"][1][0]).sum()
    with ad.no_grad():
        model.lin.weight.add_(1)
    assert traced(MODULES["shared"][1][0]).sum() != before
    with ad.no_grad():
        model.lin.weight.sub_(1)


REFUSED = {
    "if": (lambda x: x if x else -x, fx.proxy.TraceError, "inputs to control flow"),
    "while": (lambda x: [x for _ in x], fx.proxy.TraceError, "cannot be iterated"),
    "in": (lambda x: x in [1], fx.proxy.TraceError, "inputs to control flow"),
    "len": (lambda x: x.__len__(), RuntimeError, "'len' is not supported"),
    "int": (lambda x: int(x), TypeError, "Proxy"),
    "key": (lambda x: {x: 1}, RuntimeError, "Keys for dictionaries"),
    "module": (lambda x: MODULES["shared"][0](x), NameError, "not installed as a submodule"),
    "set": (lambda x: {x, 1}, NotImplementedError, "argument of type: <class 'set'>"),
    "write": (lambda x: (x.__setitem__(0, 1), x)[1], None, None),
    "index": (lambda x: [1, 2][x], TypeError, "list indices"),
    "copy": (lambda x: copy.deepcopy(x), TypeError, "cannot be copied"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_traced_says_so(name):
    f, error, words = REFUSED[name]
    if error is None:
        assert any(n.target == "__setitem__" for n in fx.symbolic_trace(f).graph.nodes)
        return
    with pytest.raises(error, match=words):
        fx.symbolic_trace(f)
    # What tracing changes is as it was.
    assert "__getattr__" not in vars(ad.nn.Module)
    assert ad.nn.Linear(2, 2)(ad.ones(2)).shape == (2,)
    assert ad.ones is MODULES["made"][0].__globals__.get("ones", ad.ones)


@pytest.mark.parametrize("bad", [3, "text", None, math.sin, ad.sin])
def test_what_is_no_function_is_refused(bad):
    with pytest.raises(TypeError, match="expected a"):
        fx.Tracer().trace(bad)


def test_concrete_arguments():
    def f(x, on, extra=None):
        y = x["a"] + x["b"][0] if on else x["a"]
        return {"y": y} if extra is None else y

    fixed = fx.symbolic_trace(f, {"on": True, "extra": None})
    assert fixed({"a": 1, "b": [2]}, True, None) == {"y": 3}
    with pytest.raises(AssertionError, match="on has been specialized to have value True"):
        fixed({"a": 1, "b": [2]}, False, None)
    with pytest.raises(AssertionError, match="value None"):
        fixed({"a": 1, "b": [2]}, True, 3)
    apart = fx.symbolic_trace(f, {"x": {"a": fx.PH, "b": [fx.PH]}, "on": True, "extra": None})
    assert apart({"a": 1, "b": [2]}, True, None) == {"y": 3}
    assert [n.name for n in apart.graph.nodes if n.op == "placeholder"][:2] == ["x_1", "x_2"]
    assert pickle.loads(pickle.dumps(fx.symbolic_trace(lambda a: a + 1)))(1) == 2
    with pytest.raises(RuntimeError, match="concrete_args names"):
        fx.symbolic_trace(f, {"nothing": 1})


@fx.wrap
def leaf(x, n):
    return x * n if x.sum() > 0 else x


fx.wrap("len")


def test_wrapped_functions_are_single_nodes():
    traced = fx.symbolic_trace(lambda x: leaf(x, 2) + len(x) + math.floor(2.5))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"][:2] == [leaf, len]
    assert ad.equal(traced(ad.ones(2)), ad.ones(2) * 6)
    assert ad.equal(traced(-ad.ones(2)), ad.ones(2) * 3)
    assert len([1]) == 1 and not hasattr(leaf, "_fx_wraps")
    assert ad.equal(pickle.loads(pickle.dumps(traced))(ad.ones(2)), ad.ones(2) * 6)
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("len")


def test_other_threads_do_not_see_a_tracer():
    inside, done = threading.Event(), threading.Event()
    model = ad.nn.Linear(2, 2)
    seen = []

    def other():
        inside.wait(10)
        seen.append(
            (type(model.weight), model(ad.ones(2)), ad.ones(2), fx.symbolic_trace(lambda x: x + 1)(1))
        )
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    class Model(ad.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = model

        def forward(self, x):
            inside.set()
            assert done.wait(10)
            return self.lin(x) + self.lin.weight.sum()

    traced = fx.symbolic_trace(Model())
    thread.join()
    kind, result, ones, two = seen[0]
    assert (
        kind is ad.nn.Parameter
        and ad.equal(result, model(ad.ones(2)))
        and ones.tolist() == [1, 1]
        and two == 2
    )
    assert [n.name for n in traced.graph.nodes][1:3] == ["lin", "lin_weight"]


def test_a_tracer_within_a_tracer():
    inner = []

    def f(x):
        inner.append(fx.symbolic_trace(lambda y: ad.sin(y) + ad.ones(2)))
        return x + ad.zeros(x.shape[0])

    outer = fx.symbolic_trace(f)
    assert ad.equal(outer(ad.ones(2)), ad.ones(2))
    assert ad.equal(inner[0](ad.zeros(2)), ad.ones(2))
    assert not fx._symbolic_trace.is_fx_tracing()


class Everything(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return False


@pytest.mark.parametrize("name", ["sequential", "outer", "dropped", "mixer"])
def test_a_tracer_that_looks_into_all_modules(name):
    f = MODULES[name][0].eval()
    graph = Everything().trace(f)
    module = fx.GraphModule(f, graph)
    assert not any(n.op == "call_module" for n in graph.nodes)
    same(called(name, module), called(name, f))
    f.train()


def test_parameters_whose_shapes_are_known():
    class Model(ad.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = ad.nn.Parameter(ad.ones(3, 2))

        def forward(self, x):
            return x @ self.w if self.w.shape[0] == 3 else x

    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(Model())
    graph = fx.Tracer(param_shapes_constant=True).trace(Model())
    assert [n.op for n in graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]


def test_tracers_decide():
    class Recording(fx.Tracer):
        record_stack_traces = True
        trace_asserts = True
        proxy_buffer_attributes = True

    model = fx_modules.asserting(ad)
    graph = Recording().trace(model)
    assert [n.name for n in graph.nodes] == ["x", "sum_1", "gt", "assert_fn", "b", "sum_2", "add", "output"]
    assert all("fx_modules.py" in n.stack_trace for n in graph.nodes if n.op == "call_method")
    module = fx.GraphModule(model, graph)
    assert module(ad.ones(2)).tolist() == [3, 3]
    with pytest.raises(AssertionError, match="Assertion failed"):
        module(-ad.ones(2))
    asked = Recording().trace(fx_modules.asks_of_elements)
    assert [n.name for n in asked.nodes] == ["x", "getitem", "assert_fn", "output"]
    with pytest.raises(fx.proxy.TraceError):
        Recording().trace(fx_modules.fails_where_it_is)  # a branch with an assertion within is none
