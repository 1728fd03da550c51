"""Programs that rewrite modules by `adjoint.fx`, as libraries and tutorials do: fusion of convolution and normalisation, features
within a network, quantisation-like replacement of modules, profiles, patterns; and the errors of `Graph`.
"""

import copy
import operator
import pathlib
import sys
from collections import OrderedDict

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import fx_modules  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint import fx, nn  # noqa: E402
from adjoint.fx.passes.graph_manipulation import (  # noqa: E402
    get_size_of_all_nodes,
    get_tensor_meta,
    replace_target_nodes_with,
)
from adjoint.fx.passes.shape_prop import ShapeProp  # noqa: E402
from adjoint.fx.passes.utils.matcher_utils import SubgraphMatcher  # noqa: E402

MODULES = fx_modules.modules(ad)


def parent(path):
    head, _, name = path.rpartition(".")
    return head, name


def test_convolution_and_normalisation_become_one_module():
    model, (x,) = MODULES["net"]
    for _ in range(3):
        model(x)  # so that running statistics are not those of the beginning
    model.eval()
    traced = fx.symbolic_trace(copy.deepcopy(model))
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op != "call_module" or not isinstance(modules[node.target], nn.BatchNorm2d):
            continue
        conv = node.args[0]
        assert isinstance(modules[conv.target], nn.Conv2d)
        if len(conv.users) > 1:
            continue
        fused = nn.utils.fuse_conv_bn_eval(modules[conv.target], modules[node.target])
        head, name = parent(conv.target)
        setattr(modules[head], name, fused)
        modules[conv.target] = fused
        node.replace_all_uses_with(conv)
        traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    traced.delete_all_unused_submodules()
    assert not any(isinstance(m, nn.BatchNorm2d) for m in traced.modules())
    assert ad.allclose(traced(x), model(x), rtol=1e-10, atol=1e-12)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in traced.modules())
    model.train()


def features(model, wanted):
    """A module that gives what named nodes compute, as extractors of features do it."""
    tracer = fx.Tracer()
    graph = tracer.trace(model)
    module = fx.GraphModule(tracer.root, graph, "Features")
    for node in reversed(list(module.graph.nodes)):
        if node.op == "output":
            output = node
    found = {n.name: n for n in module.graph.nodes}
    with module.graph.inserting_before(output):
        module.graph.output({word: found[name] for word, name in wanted.items()})
    module.graph.erase_node(output)
    module.graph.eliminate_dead_code()
    module.recompile()
    module.delete_all_unused_submodules()
    return module


def test_features_within_a_network():
    model, (x,) = MODULES["net"]
    model.eval()
    module = features(model, {"stem": "stem", "first": "layers_0_relu_1"})
    found = module(x)
    stem = model.stem(x)
    assert ad.equal(found["stem"], stem) and ad.equal(found["first"], model.layers[0](stem))
    assert not hasattr(module, "fc") and not hasattr(module.layers, "1")
    assert type(module).__name__ == "Features" and repr(module).startswith("Features(")
    model.train()


class Rounded(nn.Module):
    """A linear layer with weights of eight bits."""

    def __init__(self, linear):
        super().__init__()
        self.scale = linear.weight.detach().abs().max() / 127
        self.register_buffer("weight", (linear.weight.detach() / self.scale).round().to(ad.int8))
        self.bias = linear.bias

    def forward(self, x):
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


def test_modules_are_replaced_by_others():
    model, (x,) = MODULES["sequential"]
    traced = fx.symbolic_trace(model)
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), nn.Linear):
            with traced.graph.inserting_after(node):
                assert traced.add_submodule(
                    f"rounded.of_{node.name}", Rounded(traced.get_submodule(node.target))
                )
                new = traced.graph.call_module(f"rounded.of_{node.name}", node.args, node.kwargs)
                node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    assert ad.allclose(traced(x), model(x), atol=0.02) and not ad.equal(traced(x), model(x))
    assert {n for n, _ in traced.named_children()} == {"1", "rounded"}


def test_functions_are_replaced_by_others():
    traced = fx.symbolic_trace(lambda x, y: ad.add(x, y) * 2)
    replace_target_nodes_with(traced, "call_function", ad.add, "call_function", ad.mul)
    assert traced(ad.tensor(3.0), ad.tensor(4.0)) == 24


class Profile(fx.Interpreter):
    def __init__(self, module):
        super().__init__(module)
        self.calls = []

    def run_node(self, n):
        value = super().run_node(n)
        self.calls.append((n.op, n.name))
        return value


def test_a_profile():
    model, (x,) = MODULES["net"]
    profile = Profile(fx.symbolic_trace(model))
    with ad.no_grad():
        profile.run(x)
    assert [name for _, name in profile.calls] == [n.name for n in profile.graph.nodes]
    assert not [v for k, v in profile.env.items() if k.op not in ("placeholder", "output")]


def test_an_error_names_the_node():
    traced = fx.symbolic_trace(lambda x: ad.reshape(x, (7,)) + 1)
    with pytest.raises(RuntimeError, match=r"(?s)shape.*While executing %reshape"):
        fx.Interpreter(traced).run(ad.ones(2))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(traced).run()
    try:
        traced(ad.ones(2))
    except RuntimeError as error:
        import traceback

        assert "reshape = adjoint.reshape(x, (7,))" in "".join(traceback.format_exception(error))


def test_shapes_are_noted_without_elements_too():
    model = copy.deepcopy(MODULES["sequential"][0]).to("meta")
    traced = fx.symbolic_trace(model)
    with pytest.raises(RuntimeError, match="no tensor metadata"):
        get_tensor_meta(next(iter(traced.graph.nodes)))
    get_size_of_all_nodes(traced, (ad.empty(5, 3, dtype=ad.float64, device="meta"),))
    sizes = {n.name: n.size_bytes for n in traced.graph.nodes if n.op != "output"}
    assert sizes["_0"] == (5 * 4 * 8, (5 * 4 + 3 * 4 + 4) * 8)
    assert '_2: "f64[5, 1]"' in traced.print_readable(print_output=False)
    with pytest.raises(RuntimeError):
        ShapeProp(traced).propagate(ad.empty(5, 4, device="meta"))


# ---- graphs by hand, as libraries generate code ------------------------------------------------------------------


def test_code_generated_by_proxies():
    """A product of tensors by paths, as packages of equivariant networks generate it."""
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    constants = {}
    a = fx.Proxy(graph.placeholder("x1", ad.Tensor), tracer)
    b = fx.Proxy(graph.placeholder("x2", ad.Tensor), tracer)
    weight = fx.Proxy(graph.get_attr("w.first"), tracer)
    constants["w.first"] = nn.Parameter(ad.linspace(0.0, 1.0, 6).reshape(2, 3))
    empty = fx.Proxy(graph.call_function(ad.broadcast_tensors, (a.node, b.node)), tracer)
    left, right = empty[0], empty[1]
    size = left.shape[:-1]
    outer = (left.unsqueeze(-1) * right.unsqueeze(-2)).sum(-1)
    result = ad.einsum("ij,...i,...j->...", weight, outer[..., :2], right) * 0.5
    result = result.reshape(size)
    graph.output(result.node, ad.Tensor)
    graph.lint()
    module = fx.GraphModule(constants, graph, class_name="Product")
    x, y = ad.linspace(0.0, 1.0, 12).reshape(4, 3), ad.linspace(1.0, 2.0, 3)
    products = (x.unsqueeze(-1) * y.expand(4, 3).unsqueeze(-2)).sum(-1)
    expected = ad.einsum("ij,ni,nj->n", constants["w.first"], products[:, :2], y.expand(4, 3)) * 0.5
    assert ad.allclose(module(x, y), expected)
    assert list(module.state_dict()) == ["w.first"] and module.w.first is constants["w.first"]
    assert "def forward(self, x1 : adjoint.Tensor, x2 : adjoint.Tensor) -> adjoint.Tensor:" in module.code
    assert ad.allclose(copy.deepcopy(module)(x, y), expected)
    with pytest.raises(RuntimeError, match="w.first but that target was not provided"):
        fx.GraphModule({}, graph)


def test_arguments_of_all_kinds_are_written():
    def show(*args, **kwargs):
        return args, kwargs

    values = [
        1,
        -2.5,
        float("inf"),
        -float("inf"),
        2j,
        complex("inf"),
        "a'b",
        b"c",
        True,
        None,
        ...,
        slice(1, None, 2),
    ]
    values += [
        ad.float32,
        ad.device("cpu"),
        ad.strided,
        ad.channels_last,
        ad.Size([2, 3]),
        (1,),
        [],
        {"k": [1, (2,)]},
    ]
    values += [
        range(3),
        np.float64(0.1),
        np.complex128(1 + 2j),
        np.str_("d"),
        complex(-0.0, 1),
        complex(1, -0.0),
    ]
    values += [ad.relu, operator.add, int]
    named = {"named": values[-4:], "class": 1, "two words": 2}
    graph = fx.Graph()
    graph.output(graph.call_function(show, tuple(values), named))
    args, kwargs = fx.GraphModule({}, graph)()
    assert list(args) == values and kwargs == named
    assert repr(args[-5:-3]) == repr(tuple(values[-5:-3]))  # with their signs
    held = ad.ones(2)
    graph = fx.Graph()
    graph.output(graph.call_function(show, (held, {1, 2})))
    args, _ = fx.GraphModule({}, graph)()
    assert args[0] is held and args[1] == {1, 2}


def test_names_are_unique_and_no_keywords():
    graph = fx.Graph()
    names = ["x", "x", "class", "sum", "1a", "a-b", "", "x_1", "x_7", "adjoint", "self"]
    made = [graph.create_node("placeholder", "x", name=name).name for name in names]
    assert made[:2] == ["x", "x_1"] and made[2:4] == ["class_1", "sum_1"] and made[4:6] == ["_1a", "a_b"]
    assert len(set(made)) == len(made) and all(name.isidentifier() for name in made)


def negative_power(x):
    return (-2) ** x + (-1.5) * x


def test_signs_stay_where_they_are():
    assert fx.symbolic_trace(negative_power)(2) == negative_power(2)


ERRORS = {
    "an op": (lambda g, x: g.create_node("call", "x"), AssertionError, "op is one of"),
    "a target": (lambda g, x: g.call_function("sin", (x,)), ValueError, "a Callable is expected"),
    "a method": (lambda g, x: g.call_method(ad.sin, (x,)), ValueError, "a str is expected"),
    "args": (lambda g, x: g.call_function(ad.sin, [x]), AssertionError, "args is a tuple"),
    "users": (lambda g, x: g.erase_node(x), RuntimeError, "still had 1 users"),
    "other graph": (lambda g, x: fx.Graph().erase_node(g.output_node()), RuntimeError, "wrong graph"),
    "insert": (lambda g, x: fx.Graph().inserting_before(x), AssertionError, "not in graph"),
    "frozen": (lambda g, x: g.output_node().args[0].append(1), TypeError, "does not support mutation"),
    "frozen dict": (lambda g, x: g.output_node().kwargs.update(a=1), TypeError, "does not support mutation"),
    "order": (
        lambda g, x: (g.output_node().append(x), g.lint()),
        RuntimeError,
        "used before it has been defined",
    ),
    "foreign": (
        lambda g, x: fx.Graph().output(x).graph.lint(),
        RuntimeError,
        "does not belong to this Graph",
    ),
    "no output": (lambda g, x: fx.Graph().output_node(), RuntimeError, "no output node"),
    "map": (lambda g, x: fx.map_arg(x, 3), TypeError, "expected a function of nodes"),
    "root": (lambda g, x: fx.GraphModule(3, g), RuntimeError, "Unsupported type int"),
    "empty pattern": (lambda g, x: SubgraphMatcher(fx.Graph()), ValueError, "empty pattern"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_of_graphs(what):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output([x])
    f, error, words = ERRORS[what]
    with pytest.raises(error, match=words):
        f(graph, x)


def test_a_missing_member_is_told():
    module = fx.symbolic_trace(lambda x: x + 1)
    with (
        module.graph.inserting_before(module.graph.output_node()),
        pytest.warns(UserWarning, match="no underlying reference"),
    ):
        node = module.graph.call_module("absent", (next(iter(module.graph.nodes)),))
    with pytest.raises(RuntimeError, match="references nonexistent attribute absent"):
        module.graph.lint()
    assert module.add_submodule("absent", nn.ReLU()) and not module.delete_submodule("nothing")
    module.graph.lint()
    assert not node.is_impure() and module.graph.eliminate_dead_code()
    module.recompile()
    assert "absent" not in module.code


def test_members_of_any_name():
    names = ["class", 'quo"ted', "back\\slash", "two words", "0", "ü", "🦆", "in"]
    model = nn.Sequential(OrderedDict((name, nn.Linear(1, 1)) for name in names))
    x = ad.ones(1)
    assert ad.equal(fx.symbolic_trace(model)(x), model(x))


def test_what_stands_beside_an_erased_node_stays():
    graph = fx.Graph()
    a, b, c = (graph.placeholder(name) for name in "abc")
    graph.erase_node(b)
    with graph.inserting_after(a):
        graph.placeholder("d")
    with graph.inserting_before(b):
        graph.placeholder("e")
    with pytest.raises(RuntimeError, match="Node b was erased: put in a copy"):
        c.prepend(b)
    assert [n.name for n in graph.nodes] == ["a", "d", "e", "c"] and len(graph.nodes) == 4
    assert [n.name for n in reversed(graph.nodes)] == ["c", "e", "d", "a"]


def test_order_and_moves():
    graph = fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    with graph.inserting_before(b):
        c = graph.call_function(ad.sin, (a,))
    with graph.inserting_after(a):
        d = graph.call_function(ad.cos, (a,))
    graph.output((c, d))
    assert [n.name for n in graph.nodes] == ["a", "cos", "sin", "b", "output"]
    assert a < d < c and not c < d and [n.name for n in reversed(graph.nodes)][0] == "output"
    b.prepend(a)
    assert [n.name for n in graph.nodes] == ["cos", "sin", "a", "b", "output"] and c < a
    assert graph.find_nodes(op="call_function", target=ad.cos) == [d] and len(graph.nodes) == 5
    for n in graph.nodes:  # erased as one goes
        if n.op == "output":
            graph.erase_node(n)
    for n in graph.nodes:
        if not n.users:
            graph.erase_node(n)
    assert list(graph.nodes) == [] and len(graph.nodes) == 0


def test_writes_are_no_dead_code():
    def f(x, y):
        x.add_(1)
        y.exp()
        ad.nn.init.zeros_(y)
        return x

    module = fx.symbolic_trace(f)
    assert module.graph.eliminate_dead_code()
    module.recompile()
    assert [n.name for n in module.graph.nodes if n.op.startswith("call")] == ["add_", "zeros_"]
    x, y = ad.ones(2), ad.ones(2)
    module(x, y)
    assert x.tolist() == [2, 2] and y.tolist() == [0, 0]


def test_lines_of_code_may_be_changed():
    module = fx.symbolic_trace(lambda x: x + 1)
    with module.graph.on_generate_code(lambda before: lambda body: ["seen.append(x)\n", *body]):
        seen = []
        module.graph._codegen.additional_globals = lambda: [("seen", seen)]
        module.recompile()
        module(3)
    assert seen == [3]
    del module.graph._codegen.additional_globals
    module.recompile()
    module(4)
    assert seen == [3]


# ---- patterns ----------------------------------------------------------------------------------------------------


def test_patterns_with_several_places():
    def f(x, w1, w2):
        a = ad.cat([w1, w2]).sum()
        b = ad.cat([w1, w2]).sum()
        return x + a.max() + b.max()

    def pattern(w1, w2):
        return ad.cat([w1, w2]).sum()

    def replacement(w1, w2):
        return ad.stack([w1, w2]).mean()

    module = fx.symbolic_trace(f)
    found = fx.replace_pattern(module, pattern, replacement)
    assert len(found) == 2 and found[0].anchor.name == "sum_1"
    x = ad.ones(2)
    assert ad.equal(module(x, x, x * 3), x + 4)
    module.graph.lint()


def test_overlapping_matches_and_values_that_are_used_elsewhere():
    module = fx.symbolic_trace(lambda x: ad.relu(ad.relu(ad.relu(x))))
    assert len(fx.replace_pattern(module, lambda x: ad.relu(ad.relu(x)), lambda x: ad.sigmoid(x))) == 1
    assert [n.name for n in module.graph.nodes] == ["x", "sigmoid", "relu_2", "output"]
    module = fx.symbolic_trace(lambda x: (lambda y: ad.relu(y) + y)(ad.neg(x)))
    assert fx.replace_pattern(module, lambda x: ad.relu(ad.neg(x)), lambda x: x) == []


def test_chained_matches():
    module = fx.symbolic_trace(lambda x: ad.sin(ad.sin(ad.sin(x))))
    assert len(fx.replace_pattern(module, lambda x: ad.sin(x), lambda x: ad.cos(x))) == 3
    x = ad.tensor(0.5)
    assert module(x) == x.cos().cos().cos()


def test_patterns_with_literals_modules_and_several_results():
    module = fx.symbolic_trace(lambda x: (x * 2, x * 3))
    assert len(fx.replace_pattern(module, lambda x: x * 2, lambda x: x + x)) == 1
    module = fx.symbolic_trace(lambda x: (x * 2, x * 3))
    found = fx.subgraph_rewriter.replace_pattern_with_filters(
        module, lambda x: x * 1, lambda x: -x, ignore_literals=True
    )
    assert len(found) == 2 and module(1) == (-1, -1) and found[0].replacements[0].name == "neg"
    module = fx.symbolic_trace(lambda x: (x * 2, x * 3))
    keep = [lambda match, graph, pattern: match.returning_nodes[0].args[1] == 3]
    fx.subgraph_rewriter.replace_pattern_with_filters(module, lambda x, y: x * y, lambda x, y: x + y, keep)
    assert module(1) == (2, 4)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3).double()

        def forward(self, x):
            return self.inner(x)

    layer = Layer()
    module = fx.symbolic_trace(lambda x: ad.relu(x) + 1)
    fx.replace_pattern(module, lambda x: ad.relu(x), layer)
    x = ad.ones(3, dtype=ad.float64)
    assert ad.equal(module(x), layer(x) + 1) and module.inner is layer.inner
    module = fx.symbolic_trace(lambda x: ad.sin(x) + ad.cos(x))
    fx.replace_pattern(module, lambda x: (ad.sin(x), ad.cos(x)), lambda x: (ad.cos(x), ad.exp(x)))
    assert module(ad.tensor(0.0)) == 2
    with pytest.raises(RuntimeError, match="takes 1 values, and its replacement 2"):
        fx.replace_pattern(module, lambda x: ad.exp(x), lambda x, y: x + y)


def test_nothing_holds_a_module_that_is_gone():
    import gc
    import linecache
    import weakref

    def f(x):
        return x + 1

    module = fx.symbolic_trace(f)
    key = type(module).forward.__code__.co_filename
    assert key in linecache.cache
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None and key not in linecache.cache
