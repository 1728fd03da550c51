"""Nested containers as trees: forms, orders and texts are those of torch.utils._pytree, written down here."""

import copy
import dataclasses
import doctest
import pickle
import random
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import adjoint as ad
from adjoint.as_torch.standins import _pytree as pytree
from adjoint.tree import _kinds
from adjoint.utils import _pytree

Point = namedtuple("Point", "x y")

TREES = [
    1,
    None,
    "text",
    [],
    (),
    {},
    {"b": 1, "a": 2},
    [1, [2, 3]],
    {"a": [1, None], "b": (2, {"c": 3})},
    OrderedDict(b=1, a=2),
    defaultdict(list, {"a": 1}),
    deque([1, 2], maxlen=3),
    Point(1, [2]),
    [Point(1, 2), {"x": deque([1])}],
    [[[[]]]],
]


def same(a, b):
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_apart_and_together(tree):
    leaves, spec = pytree.tree_flatten(tree)
    assert same(spec.unflatten(leaves), tree)
    assert same(pytree.tree_unflatten(iter(leaves), spec), tree)
    assert spec.num_leaves == len(leaves) == len(list(pytree.tree_iter(tree)))
    assert spec == pytree.tree_structure(tree) == copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec))
    assert hash(spec) == hash(pytree.tree_structure(tree))
    assert spec.is_leaf() == pytree.tree_is_leaf(tree) == (tree is None or isinstance(tree, (int, str)))
    assert same(pytree.tree_map(lambda x: x, tree), tree)
    assert [leaf for _, leaf in pytree.tree_leaves_with_path(tree)] == leaves
    for path, leaf in pytree.tree_leaves_with_path(tree):
        assert pytree.key_get(tree, path) is leaf
        assert eval("tree" + pytree.keystr(path)) is leaf
    for other in TREES:
        if other is not tree and not spec.is_leaf():
            assert pytree.tree_structure(other) != spec


def test_leaves_come_in_the_order_of_the_containers():
    assert pytree.tree_leaves({"b": 1, "a": (2, [None, 3])}) == [1, 2, None, 3]
    assert pytree.arg_tree_leaves(1, [2], k=(3,)) == [1, 2, 3]


def test_form_prints_as_torch_prints_it():
    spec = pytree.tree_structure({"a": [1, None], "b": (2, {"c": 3})})
    assert repr(spec) == (
        "TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,\n    *]),\n"
        "  TreeSpec(tuple, None, [*,\n    TreeSpec(dict, ['c'], [*])])])"
    )
    assert pytree.treespec_pprint(spec) == "{'a': [*, *], 'b': (*, {'c': *})}"
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (8, 4, 2)
    assert repr(pytree.LeafSpec()) == "*"
    assert pytree.LeafSpec() == pytree.treespec_leaf() == spec.child(0).child(0)
    assert pytree.treespec_tuple([spec]).unflatten([1, 2, 3, 4]) == ({"a": [1, 2], "b": (3, {"c": 4})},)
    assert pytree.treespec_dict(a=pytree.LeafSpec()).unflatten([1]) == {"a": 1}


def test_text_is_that_of_torch():
    # What torch 2.13 writes.
    text = (
        '[1, {"type": "builtins.dict", "context": "[\\"a\\", \\"b\\"]", "children_spec": [{"type": "builtins.list", '
        '"context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}]}, {"type": '
        '"collections.deque", "context": "3", "children_spec": []}]}]'
    )
    spec = pytree.tree_structure({"a": [1], "b": deque(maxlen=3)})
    assert pytree.treespec_dumps(spec) == text
    assert pytree.treespec_loads(text) == spec
    for tree in TREES[:-3]:
        spec = pytree.tree_structure(tree)
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(NotImplementedError, match="didn't register a serializated_type_name"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    named = namedtuple("named", "a")
    pytree._register_namedtuple(named, serialized_type_name="test.named")
    spec = pytree.tree_structure(named(1))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(ValueError, match="Unknown protocol 7"):
        pytree.treespec_dumps(spec, 7)
    with pytest.raises(ValueError, match="Unknown protocol 7"):
        pytree.treespec_loads("[7, {}]")
    with pytest.raises(TypeError, match="to be an instance of PyTreeSpec"):
        pytree.treespec_dumps([1])


def test_text_does_not_choose_what_is_called():
    spec = pytree.tree_structure(defaultdict(list, a=1))
    text = pytree.treespec_dumps(spec)
    for name in ("eval", "print", "no_such_name"):
        with pytest.raises(NotImplementedError, match=name):
            pytree.treespec_loads(text.replace('"list"', f'"{name}"'))
    with pytest.raises(NotImplementedError, match=r"os\.list"):
        pytree.treespec_loads(
            text.replace('"builtins", "default_factory_name"', '"os", "default_factory_name"')
        )


def test_other_trees_are_read_by_the_form_of_the_first():
    spec = pytree.tree_structure({"a": 1, "b": (2, 3)})
    assert spec.flatten_up_to({"b": ([4], None), "a": {"x": 5}}) == [{"x": 5}, [4], None]
    assert spec.flatten_up_to(OrderedDict(b=(4, 5), a=6)) == [6, 4, 5]
    assert pytree.tree_map(lambda a, b: (a, b), [1, (2,)], [{}, ([3],)]) == [(1, {}), ((2, [3]),)]
    cases = [
        ([1, 2], "Node type mismatch; expected <class 'dict'>, but got <class 'list'>"),
        ({"a": 1}, "Node arity mismatch; expected 2, but got 1"),
        ({"a": 1, "c": 2}, r"Node keys mismatch; missing key\(s\): {'b'}; extra key\(s\): {'c'}"),
        ({"a": 1, "b": [2, 3]}, "Node type mismatch; expected <class 'tuple'>"),
    ]
    for tree, message in cases:
        with pytest.raises(ValueError, match=message):
            spec.flatten_up_to(tree)
    other = namedtuple("other", "x y")
    with pytest.raises(ValueError, match="Node context mismatch for node type"):
        pytree.tree_structure(Point(1, 2)).flatten_up_to(other(1, 2))
    with pytest.raises(ValueError, match="holds 3 items"):
        spec.unflatten([1, 2])
    with pytest.raises(TypeError, match="to be an instance of PyTreeSpec"):
        pytree.tree_unflatten([1], [1])


def test_prefixes_spread_over_what_is_below_them():
    spec = pytree.tree_structure(([1, 2], {"a": 3, "b": (4, 5)}))
    spread = pytree._broadcast_to_and_flatten
    assert spread(0, spec) == [0] * 5
    assert spread((0, None), spec) == [0, 0, None, None, None]
    assert spread(([0, 1], {"b": 2, "a": 3}), spec) == [0, 1, 3, 2, 2]
    assert spread(([0], 1), spec) is None
    assert spread([0, 1], spec) is None
    assert spread(([0, (1,)], 1), spec) is None


def test_maps_of_some_leaves():
    tree = [1, "a", (2.5, None)]
    assert pytree.tree_map_only(int, lambda n: n + 1, tree) == [2, "a", (2.5, None)]
    assert pytree.tree_map_only((int, str), lambda n: n * 2, tree) == [2, "aa", (2.5, None)]
    assert pytree.tree_map_only(int | str, lambda n: n * 2, tree) == [2, "aa", (2.5, None)]
    assert pytree.tree_map_only(lambda x: x is None, lambda n: 0, tree) == [1, "a", (2.5, 0)]
    with pytest.raises(TypeError, match="must be a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, lambda n: n, tree)
    seen = []
    assert pytree.tree_map_(seen.append, tree) is tree
    assert pytree.tree_map_only_(str, seen.append, tree) is tree
    assert seen == [1, "a", 2.5, None, "a"]
    assert pytree.tree_any(lambda x: x is None, tree)
    assert not pytree.tree_all(bool, tree)
    assert pytree.tree_all_only(int, bool, tree)
    assert not pytree.tree_any_only(str, str.isdigit, tree)
    assert pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)) == [1, "a", (2.5, None)]
    assert pytree.tree_map_with_path(
        lambda k, a, b: (pytree.keystr(k), a + b), [1, {"z": 2}], [3, {"z": 5}]
    ) == [
        ("[0]", 4),
        {"z": ("[1]['z']", 7)},
    ]


def test_registered_types():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    assert pytree.tree_is_leaf(pair := Pair(1, 2))
    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], "note"), lambda c, context: Pair(*c))
    # What was looked up before is looked up again.
    assert pytree.tree_leaves([pair, 3]) == [1, 2, 3]
    assert pytree.tree_map(lambda x: -x, pair).b == -2
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(Pair, None, None)
    with pytest.raises(ValueError, match="Please pass a flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(pair)
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(pair))
    with pytest.raises(ValueError, match="to_dumpable_context and from_dumpable_context"):
        pytree.register_pytree_node(int, None, None, to_dumpable_context=str)
    pytree._deregister_pytree_node(Pair)
    assert pytree.tree_is_leaf(pair)


def test_dataclasses_when_registered():
    @dataclasses.dataclass
    class State:
        a: int
        b: object = None
        c: str = "c"

    assert pytree.tree_leaves([State(1)]) == [State(1)]
    # adjoint.func takes apart all of them.
    assert pytree.flatten_arguments([State(1, 2)])[0] == [1, 2, "c"]
    pytree.register_dataclass(State, drop_field_names=["c"])
    assert pytree.tree_leaves([State(1), State(2, 3, "d")]) == [1, 2, 3]
    assert pytree.tree_map(lambda x: x + 1, State(2, 3, "d")) == State(3, 4, "c")
    assert [pytree.keystr(k) for k, _ in pytree.tree_leaves_with_path([State(1, 2)])] == ["[0].a", "[0].b"]

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        a: int
        twice: int = dataclasses.field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "twice", 2 * self.a)

    leaves, spec = pytree.flatten_arguments(Frozen(1))
    assert leaves == [1, 2]
    assert dataclasses.asdict(spec.unflatten([5, 6])) == {"a": 5, "twice": 6}
    for fields, message in (
        (["a", "b"], r"has \['c'\] too"),
        (["a", "b", "c", "z"], r"\['z'\] are not arguments of"),
    ):
        with pytest.raises(ValueError, match=message):
            pytree.register_dataclass(dataclasses.make_dataclass("Other", "abc"), field_names=fields)
    with pytest.raises(ValueError, match="as it is not a dataclass"):
        pytree.register_dataclass(int)


def test_constants_are_part_of_the_form():
    class Mode(str):
        pass

    pytree.register_constant(Mode)
    assert pytree.is_constant_class(Mode)
    assert pytree.tree_leaves([Mode("a"), 1]) == [1]
    assert pytree.tree_structure([Mode("a")]) != pytree.tree_structure([Mode("b")])
    assert pytree.tree_map(lambda x: x + 1, [Mode("a"), 1]) == ["a", 2]

    class Plain:
        pass

    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(Plain)


def test_kinds_of_named_tuples():
    now = time.localtime()
    assert pytree.is_structseq(now) and pytree.is_structseq_class(time.struct_time)
    assert pytree.is_namedtuple(Point) and pytree.is_namedtuple(Point(1, 2))
    assert not pytree.is_namedtuple_class(time.struct_time)
    assert pytree.tree_is_leaf(now)


def test_any_tree_comes_back():
    rng = random.Random(0)

    def grow(depth):
        kind = rng.randrange(9) if depth else 0
        several = [grow(depth - 1) for _ in range(rng.randrange(4))] if kind else []
        keyed = dict(zip(rng.sample("abcdef", len(several)), several, strict=True))
        return [
            rng.random(), several, tuple(several), keyed, OrderedDict(keyed), defaultdict(int, keyed),
            deque(several, maxlen=5), Point(several, None), [*keyed.items()],
        ][kind]  # fmt: skip

    for _ in range(300):
        tree = grow(4)
        leaves, spec = pytree.tree_flatten(tree)
        assert same(spec.unflatten(leaves), tree)
        assert spec.flatten_up_to(tree) == leaves == pytree._broadcast_to_and_flatten(tree, spec)
        assert (
            pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec if "Point" not in repr(spec) else True
        )


class Forgetting:
    """A key whose hash takes all other keys away."""

    keys = None

    def __hash__(self):
        if self.keys is not None:
            self.keys.clear()
        return 1


def test_keys_that_change_while_a_dict_is_put_together():
    first = Forgetting()
    spec = ad.tree.structure({first: 0, **{f"key {k}": k for k in range(50)}})
    Forgetting.keys = spec.context
    assert list(spec.unflatten(range(51)).values()) == list(range(51))


def test_public_names_are_those_of_torch():
    """Under a name each, `tree_map` and `adjoint.tree.map`, and one registry."""
    for name in ("flatten", "unflatten", "leaves", "map", "structure"):
        assert getattr(pytree, "tree_" + name) is getattr(ad.tree, name) is getattr(_pytree, "tree_" + name)
    assert {*ad.tree.__all__} == {*dir(ad.tree)} and pytree.SUPPORTED_NODES is _kinds.NODES


@pytest.mark.parametrize("module", [ad.tree, _kinds], ids=lambda m: m.__name__)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
