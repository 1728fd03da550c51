"""Threads: independent graphs run backward side by side, shared leaves lose no update, misuse is an error,
no crash.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import array

import adjoint as ad


def run_all(jobs):
    """Run the jobs at the same moment in a thread each; re-raise the first error."""
    barrier = threading.Barrier(len(jobs))

    def start(job):
        barrier.wait(timeout=30)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [f.result(timeout=120) for f in [pool.submit(start, job) for job in jobs]]


def test_independent_graphs():
    def job(seed):
        def work():
            x = ad.full((20, 20), 0.01 * seed, dtype=ad.float64, requires_grad=True)
            for _ in range(8):
                y = x
                for _ in range(10):
                    y = ad.tanh(y @ x) + y.sin()
                y.sum().backward()
            return array(x.grad)

        return work

    together = run_all([job(s) for s in range(1, 5)])
    for seed, found in enumerate(together, start=1):
        # The same additions in the same order: equal to the last bit.
        assert (found == job(seed)()).all()


def test_shared_leaf_loses_no_update():
    w = ad.zeros(100, requires_grad=True)

    def work():
        for _ in range(200):
            (w * 1.0).sum().backward()

    run_all([work] * 4)
    assert w.grad.tolist() == [800.0] * 100


def test_first_gradient_of_a_shared_leaf():
    for _ in range(50):
        w = ad.zeros(10, requires_grad=True)
        run_all([lambda w=w: (w * 2.0).sum().backward()] * 2)
        assert w.grad.tolist() == [4.0] * 10


def test_shared_part_with_retain_graph():
    x = ad.ones(100, dtype=ad.float64, requires_grad=True)
    shared = x.exp()
    expected = array(shared)
    results = run_all(
        [
            lambda k=k: ad.autograd.grad((shared * k).sum(), x, retain_graph=True)[0]
            for k in (1.0, 2.0, 3.0, 4.0)
        ]
    )
    for k, g in enumerate(results, start=1):
        assert abs(array(g) - k * expected).max() < 1e-12


def test_two_threads_that_consume_one_graph():
    """One wins; the other gets the error of a second backward, or none. Never a crash, never a wrong sum."""
    wins = []

    for _ in range(30):
        x = ad.ones(10, requires_grad=True)
        y = x
        for _ in range(50):
            y = y * y.detach().cos().exp().sin()
        y = y.sum()

        def work(y=y):
            try:
                y.backward()
            except RuntimeError as error:
                assert "second time" in str(error)
                return 0
            return 1

        wins.append(sum(run_all([work, work])))
    assert all(w >= 1 for w in wins)


def test_graph_built_in_one_thread_runs_in_another():
    x = ad.ones(3, requires_grad=True)
    y = (x * x).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2, 2, 2]


def test_errors_reach_their_own_thread():
    x = ad.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()

    def bad():
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()

    def good():
        z = ad.ones(3, requires_grad=True)
        (z * z).sum().backward()
        assert z.grad.tolist() == [2, 2, 2]

    run_all([bad, good, bad, good])


def test_other_threads_run_while_a_large_backward_does():
    """The lock of the interpreter is released when the work is worth it."""
    x = ad.rand(1500, 1500, requires_grad=True)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    y = (x @ x @ x).sum()
    before = len(ticks)
    y.backward()
    during = len(ticks) - before
    done.set()
    thread.join()
    assert during >= 2


def test_tensors_die_in_any_thread():
    made = [ad.rand(1000, requires_grad=True).exp() for _ in range(100)]
    halves = made[:50], made[50:]
    made = None
    run_all([half.clear for half in halves])
    assert halves == ([], [])
