"""That the fuzzers' `--threads` runs programs at once, and says what went wrong in one."""

import threading
import time

import pytest
from side_by_side import side_by_side

import adjoint as ad


@pytest.mark.parametrize("threads", [1, 3])
def test_each_seed_is_worked_on_once(threads):
    before = ad.get_num_threads()
    assert sorted(side_by_side(lambda seed: seed * seed, range(20), threads)) == [
        (k, k * k) for k in range(20)
    ]
    assert ad.get_num_threads() == before


def test_programs_run_at_once_and_their_passes_in_several_threads():
    meet = threading.Barrier(3, timeout=20)

    def work(seed):
        meet.wait()  # the first three are under way together, or none goes on
        x, idents = ad.ones(4, requires_grad=True), set()
        branches = [x * k for k in range(64)]

        def hook(g):
            idents.add(threading.get_ident())
            time.sleep(0.001)

        for b in branches:
            b.register_hook(hook)
        sum(branches).sum().backward()
        return len(idents)

    assert max(n for _, n in side_by_side(work, range(3), 3)) > 1


def test_an_error_ends_the_rest():
    def work(seed):
        if seed == 2:
            raise ValueError("the third")
        return seed

    with pytest.raises(ValueError, match="the third"):
        list(side_by_side(work, range(1000), 2))
