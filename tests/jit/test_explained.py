"""`jit.explain` and `graph.draw` of a jitted function: memory, times, pictures; and that traces count as memory."""

import gc
import re
from xml.etree import ElementTree

import pytest
from taken import peak
from twice import numbers

import adjoint as ad
from adjoint.autograd import graph


def replayed(function, *args, calls=5):
    jitted = ad.jit(function)
    for _ in range(calls):
        jitted(*args)
    assert jitted.stats()["replayed"], jitted.stats()
    return jitted


def taken(text, what="a call"):
    """Bytes at most, bytes that stay, and what the function itself holds at least."""
    found = re.search(
        what + r" takes ([\d,]+) bytes at most, of which ([\d,]+) stay; without jit at least ([\d,]+)", text
    )
    return [int(n.replace(",", "")) for n in found.groups()]


def parts(source):
    """The labels of a picture's nodes by name, and its edges as labels."""
    nodes = dict(re.findall(r'^  (n\w+) \[label="(.*?)" fillcolor', source, re.M))
    edges = re.findall(r'^  (n\w+) -> (n\w+) \[label="(.*?)"\];', source, re.M)
    return nodes, {(nodes[a], nodes[b], shape) for a, b, shape in edges}


# --- Memory -------------------------------------------------------------------------------------------------


def test_bytes_at_most_are_what_the_allocator_sees():
    x = numbers(1 << 16)
    bytes_of_x = 4 << 16

    def chain(x):
        for _ in range(5):
            x = x.cumsum(0) * 0.5  # no part of a chain of loops
        return x

    jitted = replayed(chain, x)
    most, stay, eager = taken(ad.jit.explain(jitted))
    assert stay == bytes_of_x and eager == 2 * bytes_of_x
    assert 0.97 * most <= peak(lambda: jitted(x)) <= 1.1 * most


def test_what_stays_in_a_chain_of_loops_takes_no_memory_between():
    x = numbers(1 << 16)
    jitted = replayed(lambda x: (x * 2 + 1).exp().sin(), x)
    assert taken(ad.jit.explain(jitted)) == [4 << 16, 4 << 16, 8 << 16]


def test_what_a_pass_takes_is_told_apart():
    w = numbers(256, requires_grad=True)
    jitted = ad.jit(lambda x: (w * x).exp().sum())
    for _ in range(5):
        jitted(ad.ones(256)).backward()
    text = ad.jit.explain(jitted)
    assert taken(text)[1] == 256 * 4 + 4  # what exp keeps, and the sum
    assert taken(text, "a backward pass")[1] == 256 * 4


def test_traces_count_as_memory_in_use():
    def long(x):
        for _ in range(2000):
            x = x * 1.5
        return x

    jitted = ad.jit(long)
    x = ad.ones(())
    jitted(x)
    gc.collect()
    before = ad.memory_statistics()["allocated_bytes"]
    for _ in range(4):
        jitted(x)
    assert jitted.stats()["replayed"]
    gc.collect()
    held = ad.memory_statistics()["allocated_bytes"] - before
    assert held > 2000 * 50 and held >= jitted.stats()["bytes"]
    ad.jit.clear(jitted)
    gc.collect()
    assert ad.memory_statistics()["allocated_bytes"] - before < held / 10


# --- Times --------------------------------------------------------------------------------------------------


def test_times_are_taken_on_request():
    x = numbers(300, 300)
    w = numbers(300, 300, requires_grad=True)
    jitted = ad.jit(lambda x: (x @ w).tanh().sum())
    for _ in range(5):
        jitted(x).backward()
    plain = ad.jit.explain(jitted)
    assert " ns" not in plain
    assert "times are taken from the next replay on" in ad.jit.explain(jitted, times=True)
    state, versions = jitted.stats(), w.grad._version
    ad.jit.explain(jitted)
    assert jitted.stats() == state and w.grad._version == versions  # explaining runs nothing
    wanted = jitted(x).item()
    for _ in range(3):
        jitted(x).backward()
    text = ad.jit.explain(jitted)
    assert "times are the least of 4 replays" in text
    forward, backward = text.split("  backward\n")
    for part in (forward, backward):
        lines = re.findall(r"^  (?:launch|loop|blocks|move|row) .*", part, re.M)
        times = [int(re.search(r", (\d+) ns$", line)[1]) for line in lines]
        assert lines and max(times) > 1000, part
    assert jitted(x).item() == wanted
    assert ad.jit.explain(jitted, times=False) == ad.jit.explain(jitted)
    assert " ns" not in ad.jit.explain(jitted)


def test_times_of_traces_that_come_later():
    jitted = ad.jit(lambda x: x * 2)
    ad.jit.explain(jitted, times=True)
    for n in (2, 3):
        for _ in range(4):
            jitted(ad.ones(n))
    assert ad.jit.explain(jitted).count("times are the least of") == 2
    ad.jit.clear(jitted)
    for _ in range(4):
        jitted(ad.ones(2))
    assert " ns" not in ad.jit.explain(jitted)


def test_a_replay_that_is_timed_and_undone_counts_for_nothing():
    jitted = ad.jit(lambda x: x * 2 if x.sum() > 0 else x * 3)
    for _ in range(4):
        jitted(ad.ones(2))
    ad.jit.explain(jitted, times=True)
    assert jitted(-ad.ones(2)).tolist() == [-3, -3]
    assert jitted.stats()["undone"] == 1 and "times are the least of" not in ad.jit.explain(jitted)
    assert jitted(ad.ones(2)).tolist() == [2, 2]


# --- Pictures -----------------------------------------------------------------------------------------------


def test_a_picture_has_inputs_constants_instructions_and_results():
    jitted = replayed(lambda x, y: (x * 2, x @ y), numbers(3, 3), numbers(3, 3))
    nodes, edges = parts(graph.draw(jitted).source)
    assert sorted(nodes.values()) == ["2", "launch mm", "loop mul of 9", "result 0", "result 1", "x", "y"]
    assert edges == {
        ("x", "loop mul of 9", "[3, 3]"),
        ("2", "loop mul of 9", "[]"),
        ("loop mul of 9", "result 0", "[3, 3]"),
        ("x", "launch mm", "[3, 3]"),
        ("y", "launch mm", "[3, 3]"),
        ("launch mm", "result 1", "[3, 3]"),
    }


def test_a_picture_shows_chains_writes_stores_and_decisions():
    class Model:
        seen = ad.zeros(64, 64)

        def step(self, x):
            h = (x * 2).tanh() + 1
            self.seen.add_(h)
            if h.sum() < 0:
                return h
            self.last = h.cos()
            return h.item() if h.ndim == 0 else h.sum(1)

    model = Model()
    jitted = replayed(model.step, numbers(64, 64), calls=6)
    nodes, edges = parts(graph.draw(jitted).source)
    names = list(nodes.values())
    assert any(n.startswith("blocks of 4096") and "mul tanh add" in n for n in names), names
    assert "a number must be what it was" in names
    assert {"writes self.seen", "stored: self.last", "result 0"} <= set(names), names
    assert any(b == "writes self.seen" for _, b, _ in edges)


def test_a_picture_goes_on_into_the_backward_pass():
    w = numbers(3, requires_grad=True)
    jitted = ad.jit(lambda x: (w * x).exp().sum())
    for _ in range(5):
        jitted(ad.ones(3)).backward()
    nodes, edges = parts(graph.draw(jitted).source)
    assert {"gradient of result", "gradient of w"} <= set(nodes.values())
    assert any(a.startswith("loop exp") and "backward" in b for a, b, _ in edges), edges  # what exp kept
    assert any(b == "gradient of w" for _, b, _ in edges)


def test_each_trace_has_a_picture():
    jitted = ad.jit(lambda x: x * 2 if x.ndim == 1 else x + 1)
    for x in (ad.ones(2), ad.ones(2, 2)):
        for _ in range(4):
            jitted(x)
    last, first = (parts(graph.draw(jitted, trace=k).source)[0].values() for k in (0, 1))
    assert "loop add of 4" in last and "loop mul of 2" in first
    with pytest.raises(IndexError, match="trace 2 of a function that has 2"):
        graph.draw(jitted, trace=2)


def test_pictures_are_drawn_and_refused(tmp_path):
    def asks(x):
        return print("", end="") or x

    with pytest.raises(RuntimeError, match="has no trace to draw"):
        graph.draw(ad.jit(ad.sin))
    silent = ad.jit(asks)
    silent(ad.ones(1))
    silent(ad.ones(1))
    silent(ad.ones(1))
    with pytest.raises(RuntimeError, match=r"it calls .*print"):
        graph.draw(silent)
    with pytest.raises(TypeError, match="trace= is for functions"):
        graph.draw(ad.ones(1, requires_grad=True) * 2, trace=0)
    jitted = replayed(lambda x: (x * 2).softmax(0), ad.ones(4))
    with pytest.raises(TypeError, match="takes no params"):
        graph.draw(jitted, params={})
    graph.draw(jitted).save(tmp_path / "trace.svg")
    assert ElementTree.parse(tmp_path / "trace.svg").getroot().tag.endswith("svg")


def test_a_method_and_numbers_that_vary_are_drawn():
    class Clock:
        t = 0.0

        @ad.jit
        def advance(self, x):
            self.t += 0.5
            return x * self.t

    clock = Clock()
    for _ in range(8):
        clock.advance(ad.ones(2))
    nodes, edges = parts(graph.draw(clock.advance).source)
    assert "numbers" in nodes.values()
    assert any(a == "numbers" and "mul" in b for a, b, _ in edges), edges
