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


HELPERS = """
import os, time, adjoint as ad
ad.set_num_threads(2)
own = set(os.listdir("/proc/self/task"))
x = ad.ones(1_000_000)
allowed = os.sched_getaffinity(0)
masks = set()
for _ in range(50):
    x.exp()
    time.sleep(0.002)  # helpers sleep, and the caller may wake elsewhere
    helpers = set(os.listdir("/proc/self/task")) - own
    masks |= {frozenset(os.sched_getaffinity(int(helper))) for helper in helpers}
assert len(helpers) == 1, helpers
print(all(mask <= allowed for mask in masks), any(len(mask) == len(allowed) - 1 for mask in masks))
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or os.cpu_count() < 2, reason="asks Linux where two threads may run"
)
def test_a_helper_is_kept_off_the_processor_of_its_caller():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may run on one processor alone")
    run = subprocess.run([sys.executable, "-c", HELPERS], capture_output=True, text=True)
    assert run.stdout.split() == ["True", "True"], run.stdout + run.stderr
    # Where there is but one processor, a helper keeps it.
    one = min(os.sched_getaffinity(0))
    pinned = HELPERS.replace("x = ad", f"os.sched_setaffinity(0, [{one}]); x = ad", 1)
    run = subprocess.run([sys.executable, "-c", pinned], capture_output=True, text=True)
    assert run.stdout.split() == ["True", "False"], run.stdout + run.stderr
