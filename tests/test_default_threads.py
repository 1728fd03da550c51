"""How many threads there are where nobody says: no more than the environment asks for and than the system gives."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import adjoint as ad; first = ad.get_num_threads(); ad.set_num_threads(3); print(first, ad.get_num_threads())"


def threads(prefix="", **variables):
    kept = {k: v for k, v in os.environ.items() if k not in ("ADJOINT_NUM_THREADS", "OMP_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", prefix + PROGRAM],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(word) for word in run.stdout.split()]


def test_the_environment():
    (usual, after) = threads()
    assert 1 <= usual <= os.cpu_count() and after == 3
    for variable in ("ADJOINT_NUM_THREADS", "OMP_NUM_THREADS"):
        assert threads(**{variable: "1"}) == [1, 3]
        for ignored in ("", "0", "-1", "many", "1x"):
            assert threads(**{variable: ignored})[0] == usual
        assert threads(**{variable: "1000"})[0] == usual
    assert threads(ADJOINT_NUM_THREADS="1000", OMP_NUM_THREADS="1,2")[0] == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity masks are Linux's")
def test_the_affinity_mask():
    one = min(os.sched_getaffinity(0))
    assert threads(f"import os; os.sched_setaffinity(0, [{one}]); ")[0] == 1
