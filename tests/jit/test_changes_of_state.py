"""What a run stores in Python's state is seen, and can be done again."""

import pytest
from laid_out import Box, Net, laid_out, matches, module_of

import adjoint as ad
from adjoint import _C
from adjoint._replay._paths import collect
from adjoint._replay._watch import Watching

x = ad.tensor([1.0, 2.0])


def run_and_compare(function, *args):
    layout = laid_out(function, *args)
    function(*args)
    return layout, layout.changes()


def test_stores_are_seen_and_can_be_done_again():
    class State:
        __slots__ = ("slot",)

    class Holder:
        total = ad.zeros(2)

    o = Box(h=ad.zeros(2), items=[ad.zeros(2)], table={"k": ad.zeros(2)}, log=[])
    slots = State()
    slots.slot = ad.zeros(2)
    cell = ad.zeros(2)
    module = module_of("def f(x):\n global g\n g = x + 1", g=ad.zeros(2))

    def f(x):
        nonlocal cell
        o.h = x + 1
        o.new = x + 2
        o.items[0] = x + 3
        o.table["k"] = x + 4
        o.table["n"] = x + 5
        o.log.append(x + 6)
        slots.slot = x + 7
        Holder.total = x + 8
        cell = x + 9
        module.f(x)
        return cell

    with Watching(f) as watch:
        f(x)
    del o.new, o.table["n"]
    o.log.clear()
    layout = collect(f, (x,), {}, watch.codes)
    f(x)
    changes = {c.where: c for c in layout.changes()}
    assert sorted(c.kind for c in changes.values()) == sorted(
        [
            "attribute",
            "attribute",
            "item",
            "key",
            "key",
            "append",
            "slot",
            "class attribute",
            "cell",
            "global",
        ]
    )
    assert not any(c.reason for c in changes.values())
    before = dict(zip(changes, (c.value for c in changes.values())))
    # Back to how it was, then again by what was seen.
    del o.new, o.table["n"]
    o.log.clear()
    layout.release_tensors()
    assert matches(layout, f, x), layout.why
    for where, change in changes.items():
        value = before[where]
        value = [v * 2 for v in value] if change.kind == "append" else value * 2
        _C._store(change.kind, change.holder(f, (x,), {}), change.key, value)
    assert [v.tolist() for v in (o.h, o.new, o.items[0], o.table["k"], o.table["n"], o.log[0])] == [
        [2 * (v + k) for v in (1.0, 2.0)] for k in range(1, 7)
    ]
    assert slots.slot.tolist() == [16.0, 18.0] and Holder.total.tolist() == [18.0, 20.0]
    assert cell.tolist() == [20.0, 22.0] and module.g.tolist() == [4.0, 6.0]


def test_a_counter_is_named():
    o = Box(count=0)

    def f(x):
        o.count += 1
        return x

    _, (change,) = run_and_compare(f, x)
    assert change.sentence("line 3") == "o.count was 1 and became 2 in line 3: it changes at each call"


@pytest.mark.parametrize(
    "do",
    (
        lambda o: o.items.pop(),
        lambda o: o.chosen.add(100 + len(o.chosen)),
        lambda o: o.table.pop(next(iter(o.table))),
        lambda o: o.items.reverse(),
        lambda o: delattr(o, f"a{len(vars(o))}"),
        lambda o: o.items.insert(0, len(o.items)),
        lambda o: o.table.update({len(o.table): 1}),
        lambda o: setattr(type(o), "mark", len(o.items)) or o.items.append(1),
    ),
)
def test_other_changes_are_seen(do):
    class Own(Box):
        mark = 0

    o = Own(items=[1, 2, 3, 4, 5], chosen={1}, table=dict.fromkeys(range(5)), a4=1, a5=1)

    def f(x):
        do(o)
        return x

    _, changes = run_and_compare(f, x)
    assert changes
    assert all(c.sentence() for c in changes)


def test_nothing_changed():
    net = Net()
    _, changes = run_and_compare(net, x)
    assert changes == []


def test_gradients_that_appear_are_told():
    net = Net()

    def f(x):
        net(x).sum().backward()

    with Watching(f) as watch:
        f(x)
    net.zero_grad()
    layout = collect(f, (x,), {}, watch.codes)
    f(x)
    assert {c.kind for c in layout.changes()} == {"grad"}
    assert len(layout.changes()) == 6


def switched(x, on):
    x.requires_grad_(on)
    return x.detach() * 2


FLAGS = {
    "on": (lambda x: switched(x, True), lambda: ad.ones(3)),
    "off": (lambda x: switched(x, False), lambda: ad.ones(3, requires_grad=True)),
    "set": (lambda x: (setattr(x, "requires_grad", True), x * 2)[1], lambda: ad.ones(3)),
    "out": (lambda x: ad.ones(3, out=x, requires_grad=True), lambda: ad.ones(3)),
    "retained": (lambda x: (x.retain_grad(), x * 2)[1], lambda: ad.ones(3, requires_grad=True) * 1),
    "both ways": (lambda x: (switched(x, True), switched(x, False))[1], lambda: ad.ones(3)),
    "no change": (lambda x: switched(x, True), lambda: ad.ones(3, requires_grad=True)),
}


@pytest.mark.parametrize("what", FLAGS)
def test_flags_of_tensors_that_a_call_switches(what):
    f, make = FLAGS[what]
    jitted = ad.jit(f)
    for _ in range(6):
        a, b = make(), make()
        x, y = f(a), jitted(b)
        assert (y.requires_grad, b.requires_grad, b.retains_grad) == (
            x.requires_grad,
            a.requires_grad,
            a.retains_grad,
        )
        assert ad.equal(x.detach(), y.detach())
    assert bool(jitted.stats()["replayed"]) == (what in ("both ways", "no change"))


def test_a_version_is_set_where_the_data_was_replaced():
    t = ad.zeros(3)
    t.data = t
    for _ in range(3):
        t.add_(1)
    ad._C._set_version(t, 1)
    assert t._version == 1
    t.add_(1)
    assert t._version == 2
