"""When a recording is made ready to run: not before it runs, and never again."""

import pytest

import adjoint as ad


def calls(f, n, *args):
    return [f(*args) for _ in range(n)]


def test_a_recording_is_planned_when_it_is_replayed_first():
    f = ad.jit(lambda x: (x * 2).sin())
    x = ad.arange(5.0)
    calls(f, 3, x)
    (trace,) = f._traces
    assert not trace.program.planned
    waiting = f.stats()["bytes"]
    assert waiting > 0
    f(x)
    assert trace.program.planned
    assert f.stats()["replayed"] == 1
    assert f.stats()["bytes"] > waiting
    assert "loop" in ad.jit.explain(f)


def test_explain_plans_what_was_not_replayed():
    f = ad.jit(lambda x: x + 1)
    calls(f, 3, ad.ones(3))
    assert "loop   add of 3" in ad.jit.explain(f)
    assert f._traces[0].program.planned


def test_passes_are_planned_when_they_run():
    w = ad.linspace(0.1, 1, 7, requires_grad=True)
    f = ad.jit(lambda: (w * 3).sin().exp())
    calls(f, 4)
    before = f.stats()["bytes"]
    f().sum().backward()
    assert f.stats()["bytes"] > before
    g = ad.arange(7.0)
    f().backward(g)
    expected = (g + 1) * (w * 3).sin().exp().detach() * (w * 3).cos().detach() * 3
    assert ad.allclose(w.grad, expected)


def test_passes_are_right_where_the_default_type_is_another_by_then():
    x = ad.linspace(0.1, 1, 6, requires_grad=True)
    f = ad.jit(lambda: (x * 2.5).sin() / 3)
    calls(f, 3)
    y = f()
    assert f.stats()["replayed"] == 1
    (wanted,) = ad.autograd.grad(((x * 2.5).sin() / 3).sum(), x)
    ad.set_default_dtype(ad.float64)
    try:
        y.sum().backward()
    finally:
        ad.set_default_dtype(ad.float32)
    assert x.grad.dtype is ad.float32
    assert x.grad.tolist() == wanted.tolist()


def read_and_written(x):
    y = ad.tensor(x.sum().item())
    y += 1
    return y


def test_what_cannot_be_planned_runs_as_it_is_and_is_given_up():
    f = ad.jit(read_and_written)
    with pytest.warns(UserWarning, match="read, and then written or returned"):
        for k in range(14):
            assert f(ad.full((3,), 0.5 * k)).item() == 1.5 * k + 1
    stats = f.stats()
    assert stats["replayed"] == 0
    assert stats["traces"] == 0
    assert stats["eager"] > 0
    assert stats["recorded"] < 12
    assert sum(n for why, n in stats["reasons"].items() if "read, and then written" in why) >= 8


def test_what_cannot_be_planned_is_told_by_explain():
    f = ad.jit(read_and_written)
    for k in range(3):
        f(ad.full((3,), 0.5 * k))
    assert "cannot be run: a tensor is made of a number" in ad.jit.explain(f)


def test_threads_that_plan_at_once_get_the_same():
    from concurrent.futures import ThreadPoolExecutor

    w = ad.linspace(0.1, 1, 50, requires_grad=True)
    f = ad.jit(lambda x: (w * x).sin().sum())
    x = ad.full((), 0.5)
    calls(f, 3, x)
    (wanted,) = ad.autograd.grad((w * x).sin().sum(), w)

    def gradient(_):
        return ad.autograd.grad(f(x), w)[0].tolist()

    with ThreadPoolExecutor(4) as pool:
        assert all(g == wanted.tolist() for g in pool.map(gradient, range(40)))
    assert f.stats()["replayed"] == 40


@pytest.mark.parametrize("n", [1, 4, 40])
def test_equal_numbers_beside_a_tensor_are_merged_and_others_are_not(n):
    def f(x):
        y = x * 0
        for k in range(40):
            y = y + (2.0 - x) * (k % n)
        return y

    jitted = ad.jit(f)
    x = ad.linspace(-1, 1, 9)
    assert all(y.tolist() == f(x).tolist() for y in calls(jitted, 5, x))
    assert jitted.stats()["replayed"] == 2
    # One of 40 equal subtractions is left, and one product of each factor.
    assert jitted._traces[0].program.statistics()["loops"] == 1 + 1 + n + 40
