"""Recordings of calls that read the same: one looks at what an earlier one collected, and no hook looks on where one did before."""

import pytest

import adjoint as ad
from adjoint._replay import traces


def calls(f, *signs):
    """The sums of what it gives for ones and for minus ones."""
    return [float(f(sign * ad.ones(2)).sum()) for sign in signs]


def test_the_second_recording_reads_what_the_first_did(monkeypatch):
    collected, watched = [], []
    collect, watching = traces.collect, traces.Watching
    monkeypatch.setattr(traces, "collect", lambda *given: collected.append(0) or collect(*given))
    monkeypatch.setattr(traces, "Watching", lambda *given: watched.append(0) or watching(*given))
    f = ad.jit(lambda x: x * 2)
    assert calls(f, 1, 1, 1, 1) == [4.0] * 4
    assert f.stats()["replayed"] == 1
    assert len(collected) == 1  # not of the call that only finds out which code runs
    assert len(watched) == 2


@pytest.mark.parametrize("again", range(2, 12))
def test_a_way_that_prints_is_never_replayed(again, capsys):
    def f(x):
        if x.sum() > 0:
            return x * 2
        print("down")
        return x * 3

    f = ad.jit(f)
    assert calls(f, 1, 1) == [4.0] * 2
    assert calls(f, *[-1] * again) == [-6.0] * again
    assert capsys.readouterr().out.count("down") == again


SCALE = 3.0


def test_what_a_new_way_reads_is_known():
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x * SCALE

    global SCALE
    f = ad.jit(f)
    calls(f, 1, 1, 1, 1)
    try:
        for scale in (3.0, 3.0, 3.0, 3.0, 4.0, 5.0, 5.0, 5.0, 6.0, 3.0):
            SCALE = scale
            assert calls(f, -1, 1) == [-2 * scale, 4.0]
    finally:
        SCALE = 3.0


def test_a_new_way_in_code_that_did_not_run_before():
    table = {"factor": 3.0}

    def other(x):
        return x * table["factor"]

    def f(x):
        return x * 2 if x.sum() > 0 else other(x)

    f = ad.jit(f)
    calls(f, 1, 1)
    for factor in (3.0, 3.0, 3.0, 3.0, 3.0, 4.0, 4.0, 5.0, 6.0, 3.0):
        table["factor"] = factor
        assert calls(f, -1, 1) == [-2 * factor, 4.0]
    assert f.stats()["replayed"] > 5


def test_what_changes_is_seen_in_a_layout_that_is_used_again():
    kept = {"last": None, "sum": ad.zeros(2)}

    def f(x):
        kept["last"] = x * 2
        kept["sum"] += x
        return x + 1

    f = ad.jit(f)
    for n in range(1, 8):
        x = ad.full((2,), float(n))
        assert float(f(x).sum()) == 2 * (n + 1)
        assert float(kept["last"].sum()) == 4 * n
        assert float(kept["sum"].sum()) == n * (n + 1)
    assert f.stats()["replayed"] >= 3


def test_arguments_go_when_the_call_is_over():
    import gc
    import weakref

    class Holder:
        def __init__(self):
            self.x = ad.ones(2)

    f = ad.jit(lambda holder: holder.x * 2)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            holder = Holder()
            gone = weakref.ref(holder)
            f(holder)
            del holder
            assert gone() is None
    finally:
        gc.enable()


NUMBER = 2


class Holding:
    """A number, held in several ways."""

    number = 2

    def __init__(self):
        self.list, self.dict, self.own, self.deep = [1, 2], {"a": 5, "n": 2}, 2, {"k": [(2, "n")]}

    def put(self, n):
        self.list[1], self.dict["n"], self.own, self.deep["k"][0] = n, n, n, (n, "n")
        Holding.number = n
        globals()["NUMBER"] = n


READ = {
    "list": lambda h: h.list[1],
    "dict": lambda h: h.dict["n"],
    "attribute": lambda h: h.own,
    "class": lambda h: h.number,
    "global": lambda h: NUMBER,
    "tuple in a list in a dict": lambda h: h.deep["k"][0][0],
}
#: Who asks for the type of something has a trace for each number.
USE = {
    "varies": lambda read, holding: lambda x: x * (read(holding) % 1001),
    "told": lambda read, holding: lambda x: x * (read(holding) % 1001 if type(x) is ad.Tensor else 0),
}
NUMBERS = {
    "some the same": (2, 2, 3, 2, 2, 3, 4, 2, 3, 3, 2),
    "by turns": (2, 3, 2, 3, 2, 2, 2, 3, 3, 3),
    "late": (2, 2, 2, 2, 3, 3, 2, 3, 4, 2),
    "of several types": (2.0, 3.0, 2, 3, 2.5, 2, 2.0, True, 2**70, 2),
    "large": (2, 2**70, 2, 2**70, 3, 2),
}


@pytest.mark.parametrize("where", READ)
@pytest.mark.parametrize("use", USE)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_numbers_that_change_between_recordings(where, use, numbers):
    holding, put = Holding(), None
    f = ad.jit(USE[use](READ[where], holding))
    for n in NUMBERS[numbers] * 2:
        if put is None or put is not n:
            holding.put(n)
            put = n
        assert float(f(ad.ones(2)).sum()) == float((ad.ones(2) * (n % 1001)).sum())
    assert f.stats()["replayed"]
