"""What a jitted function reads of Python is found by its paths, compared at each call, and nothing is kept alive."""

import collections
import gc
import weakref

import pytest
from laid_out import Box, Net, laid_out, matches, module_of, names_of
from twice import in_threads

import adjoint as ad
from adjoint._replay._watch import Watching

x = ad.tensor([1.0, 2.0])


def test_arguments_are_found_by_their_names():
    layout = laid_out(lambda a, b, *, c: a + b + c, x, ad.ones(2), c=ad.ones(2))
    assert names_of(layout) == ["a", "b", "c"]
    assert layout.tensors[0] is x


def test_nested_arguments():
    Pair = collections.namedtuple("Pair", "left right")

    def f(tree):
        return tree["a"][0] + tree["b"].right * tree["n"]

    tree = {"a": [x, ad.ones(2)], "b": Pair(ad.ones(2), ad.zeros(2)), "n": 3}
    layout = laid_out(f, tree)
    assert names_of(layout) == ["tree['a'][0]", "tree['a'][1]", "tree['b'][0]", "tree['b'][1]"]
    assert ("tree['n']", 3) in layout.values
    fresh = {"a": [ad.ones(2), ad.ones(2)], "b": Pair(ad.ones(2), ad.zeros(2)), "n": 3}
    found = layout.match(f, (fresh,), {})
    assert found[0] is fresh["a"][0] and found[3] is fresh["b"].right
    fresh["n"] = 4
    assert not matches(layout, f, fresh)
    assert layout.why == "tree['n'] is 4, was 3"


def test_modules_are_found_by_their_paths():
    net = Net()
    layout = laid_out(net, x)
    names = set(names_of(layout))
    assert {"x", "mean", "first.weight", "layers[0].weight", "layers[1].bias", "first.weight.grad"} <= names
    assert ("scale", 2.0) in layout.numbers
    assert len(layout.tensors) == 1 + 1 + 2 * 6


def test_a_training_step_is_found_through_globals():
    net, optimizer = Net(), None
    optimizer = ad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(x)
    layout = laid_out(step, x)
    names = set(names_of(layout))
    assert {"net.first.weight", "net.first.weight.grad", "x"} <= names
    assert sum("momentum_buffer" in name for name in names) == 6
    assert ("optimizer.param_groups[0]['lr']", 0.1) in layout.numbers
    assert matches(layout, step, x)
    step(x)
    assert matches(layout, step, x), layout.why
    optimizer.param_groups[0]["lr"] = 0.05
    assert not matches(layout, step, x)
    assert "lr" in layout.why


def test_numbers_can_vary():
    def f(x, rate):
        return x * rate

    layout = laid_out(f, x, 0.5)
    assert layout.numbers == [("rate", 0.5)]
    layout.let_vary([0])
    assert layout.match(f, (x, 0.25), {}) == [x, 0.25] or layout.match(f, (x, 0.25), {})[1] == 0.25
    assert layout.match(f, (x, 1), {}) is None
    assert layout.why == "rate is 1, was a float"


grown = ad.ones(2, requires_grad=True)
GEOMETRY = {
    "dtype": (ad.ones(2, dtype=ad.float64), "has dtype float64, was float32"),
    "shape": (ad.ones(3), "has shape"),
    "rank": (ad.ones(2, 1), "has shape"),
    "strides": (ad.ones(4)[::2], "has strides"),
    "requires_grad": (ad.ones(2, requires_grad=True), "requires grad, did not"),
    "history": (grown * 2, "requires grad"),
    "device": (ad.ones(2, device="meta"), "is on meta, was cpu"),
    "class": (ad.nn.Parameter(ad.ones(2), requires_grad=False), "class"),
    "number": (2.0, "x is 2.0, was a tensor"),
    "None": (None, "x is None, was a tensor"),
}


@pytest.mark.parametrize("name", GEOMETRY)
def test_tensors_are_compared_by_what_they_look_like(name):
    def f(x):
        return x

    layout = laid_out(f, x)
    assert matches(layout, f, ad.zeros(2))
    other, why = GEOMETRY[name]
    assert not matches(layout, f, other)
    assert why in layout.why, layout.why


def test_inputs_that_share_memory():
    def f(a, b):
        return a + b

    base = ad.ones(4)
    apart = laid_out(f, ad.ones(2), ad.ones(2))
    together = laid_out(f, base[:2], base[1:3])
    same = laid_out(f, x, x)
    assert matches(apart, f, ad.ones(2), ad.zeros(2))
    assert not matches(apart, f, x, x)
    assert "share memory" in apart.why or "another tensor" in apart.why or "same tensor" in apart.why
    assert not matches(apart, f, x, x.detach())
    assert "share memory otherwise" in apart.why
    other = ad.zeros(4)
    assert matches(together, f, other[:2], other[1:3])
    assert not matches(together, f, other[:2], other[2:])
    assert not matches(together, f, ad.ones(4)[:2], ad.ones(4)[1:3])
    assert matches(same, f, base[:2], base[:2]) is False
    y = ad.ones(2)
    assert matches(same, f, y, y)
    assert same.tensors[0] is x and len(same.tensors) == 1


def test_bytes_of_others_that_overlap():
    np = pytest.importorskip("numpy")

    def f(a, b):
        return a + b

    array = np.ones(8, dtype=np.float32)
    first, second = ad.from_numpy(array[:4]), ad.from_numpy(array[4:])
    layout = laid_out(f, first, second)
    assert matches(layout, f, first, second)
    assert not matches(layout, f, first, ad.from_numpy(array[2:6]))
    assert "share memory" in layout.why
    assert laid_out(f, first, ad.from_numpy(array[2:6])).unknown


def test_a_sparse_tensor_is_not_followed():
    s = ad.eye(2).to_sparse()
    layout = laid_out(lambda s: s, s)
    assert "sparse" in layout.unknown[0][1]


def test_the_signature():
    def f(x, k=1, *more, **named):
        return x * k

    layout = laid_out(f, x, k=2)
    assert matches(layout, f, x, k=2)
    for args, kwargs in (
        ((x, 2), {}),
        ((x,), {}),
        ((x,), {"k": 3}),
        ((x,), {"k": 2, "j": 1}),
        ((x,), {"j": 2}),
        ((), {}),
    ):
        assert layout.match(f, args, kwargs) is None
        assert layout.why


def test_one_method_of_two_instances():
    class Own:
        def __init__(self, k):
            self.k = k
            self.w = ad.ones(2)

        def f(self, x):
            return x * self.k * self.w

    one, two, third = Own(2), Own(2), Own(3)
    layout = laid_out(one.f, x)
    assert names_of(layout) == ["x", "self.w"]
    assert layout.match(two.f, (x,), {})[1] is two.w
    assert not matches(layout, third.f, x)
    assert layout.why == "self.k is 3, was 2"


def test_globals_that_nothing_reads_may_change():
    module = module_of("def f(x): return x * k", k=2, i=0)
    layout = laid_out(module.f, x)
    for module.i in range(3):
        assert matches(layout, module.f, x)
    module.k = 2
    assert matches(layout, module.f, x)


def test_class_attributes_that_nothing_reads_may_change():
    class Own:
        k, other = 2, 0

        def f(self, x):
            return x * self.k

    o = Own()
    layout = laid_out(o.f, x)
    for _ in range(3):
        Own.other += 1
        assert matches(layout, o.f, x)
    Own.k = 3
    assert not matches(layout, o.f, x)


def test_layouts_agree():
    net = Net()
    one, two = laid_out(net, x), laid_out(net, ad.zeros(2))
    assert one.same_structure(two) is True
    assert one.same_structure(laid_out(net, ad.zeros(1, 2))) == "x has shape [1, 2], was [2]"
    net.scale = 3.0
    assert one.same_structure(laid_out(net, x)) == "scale is 3.0, was 2.0"
    net.extra = 1
    assert one.same_structure(laid_out(net, x)) is not True


def test_code_that_did_not_run_before_is_told():
    o = Box(on=False)

    def more(x):
        return x * 2

    def f(x):
        return more(x) if o.on else x

    with Watching(f) as watch:
        f(x)
    assert "more" not in [code.co_name for code, _ in watch.codes]
    o.on = True
    with Watching(f) as watch:
        f(x)
    assert "more" in [code.co_name for code, _ in watch.codes]


def test_nothing_is_kept_alive():
    class Own:
        k = 2

        def __init__(self):
            self.w, self.items = ad.ones(2), [ad.ones(2)]

        def f(self, x):
            return x * self.w * self.items[0] * self.k

    o = Own()
    layout = laid_out(o.f, x)
    layout.release_tensors()
    alive = weakref.ref(o), weakref.ref(o.w), weakref.ref(o.items[0])
    gc.collect()
    gc.disable()
    try:
        del o
        assert [ref() for ref in alive] == [None] * 3
        kind = weakref.ref(Own)
        del Own
        gc.collect()
        assert kind() is None
    finally:
        gc.enable()
    assert layout.match(lambda x: x, (x,), {}) is None


def test_threads_match_at_once():
    net = Net()
    layout = laid_out(net, x)
    failed = []

    def work(_):
        for _ in range(300):
            if layout.match(net, (x,), {}) is None:
                failed.append(layout.why)

    in_threads(work, range(4))
    assert not failed
