"""adjoint.utils.benchmark: what it measures is what ran, and its figures are those of the times."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils.benchmark import Compare, Measurement, TaskSpec, Timer


class Clock:
    """Gives times at which each repetition takes a second."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def made(seconds=1.0, **keywords):
    clock = Clock()

    def run():
        clock.now += seconds

    return Timer("run()", globals={"run": run}, timer=clock, **keywords)


def test_figures():
    times = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]
    m = Measurement(2, [2 * t for t in times], TaskSpec("f()"))
    assert m.times == times and m.mean == pytest.approx(np.mean(times)) and m.median == np.median(times)
    assert m.iqr == pytest.approx(np.subtract(*np.percentile(times, [75, 25]))) and m.has_warnings
    assert m.stmt == "f()" and m.title == "f()" and not hasattr(m, "nothing")
    assert "Median: 3.00 s" in repr(m) and "7 measurements, 2 runs per measurement, 1 thread" in repr(m)


def test_a_run_of_so_many_repetitions():
    m = made(1e-4).timeit(50)
    assert m.number_per_run == 50 and len(m.times) == 1 and m.mean == pytest.approx(1e-4)
    assert "100.00 us" in repr(m)


def test_runs_for_a_time():
    seen = []
    m = made(1e-3).blocked_autorange(callback=lambda *run: seen.append(run), min_run_time=0.5)
    assert m.number_per_run == 1 and len(m.times) == len(seen) and 500 <= len(seen) <= 501
    fast = made(1e-6).blocked_autorange(min_run_time=0.5)
    assert fast.number_per_run * 1e-6 >= 0.5e-3 and fast.median == pytest.approx(1e-6)


def test_runs_until_the_times_agree():
    m = made(1e-3).adaptive_autorange(min_run_time=0.1)
    assert m.median == pytest.approx(1e-3) and m.meets_confidence() and sum(m.raw_times) >= 0.1
    clock, steps = Clock(), iter(range(10**6))

    def run():
        clock.now += 1.0 if next(steps) % 2 else 3.0

    never = Timer("run()", globals={"run": run}, timer=clock).adaptive_autorange(max_run_time=50.0)
    assert 50 < sum(never.raw_times) < 55 and not never.meets_confidence()


def test_threads_are_those_asked_for_and_come_back():
    before = ad.get_num_threads()
    ad.set_num_threads(2)
    try:
        seen = []
        Timer("seen.append(n())", globals={"seen": seen, "n": ad.get_num_threads}).timeit(3)
        assert set(seen) == {1} and ad.get_num_threads() == 2
    finally:
        ad.set_num_threads(before)


def test_setup_and_indented_code():
    m = Timer("\n    y = x + 1\n    y = y * 2\n", setup="\n    x = 1\n").timeit(1)
    assert m.setup == "x = 1" and m.mean > 0
    with pytest.raises(ValueError, match="no compiler"):
        Timer("x", language="c++")


def test_a_table():
    def m(seconds, how, threads=1):
        return Measurement(
            1, [seconds], TaskSpec("f()", label="l", sub_label="row", description=how, num_threads=threads)
        )

    table = Compare([m(2e-6, "a"), m(4e-6, "a"), m(5e-6, "b"), m(6e-6, "b", 2)])
    text = str(table).splitlines()
    assert [line for line in text if "row" in line][0].split() == ["row", "|", "3.0", "|", "5.0"]
    assert "2 threads: " in str(table) and "Times are in microseconds (us)." in text
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([1.0])
