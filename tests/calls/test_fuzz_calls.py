"""Random calls in short, and that each judge sees what it is there for. Start reading at `test_random_calls_agree_with_themselves`."""

import fuzz_calls
import numpy as np
import pytest

import adjoint as ad


@pytest.mark.parametrize("start", range(0, 1600, 400))
def test_random_calls_agree_with_themselves(start):
    found = [(call, f) for call, f in map(fuzz_calls.judge, range(start, start + 400)) if f]
    assert found == []


def test_random_calls_on_a_device_whose_memory_is_out_of_reach():
    found = [(call, f) for call, f in (fuzz_calls.judge(seed, far=True) for seed in range(400)) if f]
    assert found == []


def test_most_calls_are_valid():
    made = [fuzz_calls.Judged(fuzz_calls.Call(seed, fuzz_calls.FAMILIES), ad) for seed in range(300)]
    assert sum(j.error is None for j in made) > 200
    assert sum(j.gradients is not None for j in made) > 150
    assert sum(j.seconds is not None for j in made) > 80


class WrongTangent(ad.autograd.Function):
    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return 2 * g

    @staticmethod
    def jvp(ctx, t):
        return 3 * t


def by_layout(x):
    return x * 1.0 if x.is_contiguous() else x * 2.0


def on_meta(x):
    return x.sum() if x.is_meta else x * 1.0


def raises(x):
    raise KeyError("x")


@pytest.mark.parametrize(
    "function, kind",
    [
        (WrongTangent.apply, "modes"),
        (by_layout, "by layout: result"),
        (on_meta, "meta"),
        (raises, "raised"),
    ],
)
def test_what_is_wrong_is_found(function, kind, monkeypatch):
    monkeypatch.setattr(ad, "broken", function, raising=False)
    families = {"broken": lambda d: f"ad.broken({d.t((3, 2), 'float64', layout='transposed')})"}
    assert kind in [k for k, _ in fuzz_calls.judge(1, families)[1]]


@pytest.mark.parametrize(
    "a, b, same",
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], True),
        ([1.0, 2.0], [1.0, 2.001], False),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([np.nan, 1.0], [0.0, 1.0], False),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
        ([1.0], [[1.0]], False),
        ([1, 2], [1, 3], False),
    ],
)
def test_when_arrays_differ(a, b, same):
    assert (fuzz_calls.differ(np.array(a), np.array(b), "float64") is None) is same
