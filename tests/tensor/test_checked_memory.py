"""ADJOINT_CHECKS=1: what reads or writes where it should not is found. Each case is a program that does so, through addresses."""

import os
import signal
import subprocess
import sys

import pytest

#: Programs, and how they end: with a word, or by a signal.
WRONG = {
    "after a small block": (
        "x = ad.zeros(500)\nctypes.memset(x.data_ptr() + 2000, 1, 100)\ndel x",
        "memory after a block was written",
    ),
    "after a large block": (
        "x = ad.zeros(100_001, dtype=ad.uint8)\nctypes.memset(x.data_ptr() + 100_001, 1, 1)\ndel x",
        "memory after a block was written",
    ),
    "in front of a block": (
        "x = ad.zeros(5000)\nctypes.memset(x.data_ptr() - 40, 1, 40)\ndel x",
        "memory in front of a block was written",
    ),
    "beyond the pages after a block": (
        "x = ad.zeros(100_000)\nctypes.memset(x.data_ptr() + 400_000, 1, 4096)",
        signal.SIGSEGV,
    ),
    "in front of the pages of a block": (
        "x = ad.zeros(100_000)\nctypes.memset(x.data_ptr() - 8192, 1, 1)",
        signal.SIGSEGV,
    ),
    "a large block after its return": ("ctypes.string_at(ad.zeros(100_000).data_ptr(), 1)", signal.SIGSEGV),
    "a small block after its return": (
        "ctypes.memset(ad.zeros(500).data_ptr(), 1, 4)\nfor _ in range(20_000): ad.empty(1000)",
        "memory was written after it was returned",
    ),
}


def run(program, checks="1"):
    environment = {**os.environ, "ADJOINT_CHECKS": checks}
    return subprocess.run(
        [sys.executable, "-c", "import ctypes\nimport adjoint as ad\n" + program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="pages are closed by mprotect")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found(case):
    program, end = WRONG[case]
    done = run(program)
    if isinstance(end, str):
        assert done.returncode == -signal.SIGABRT and end in done.stderr
    else:
        assert done.returncode == -end


@pytest.mark.skipif(sys.platform == "win32", reason="pages are closed by mprotect")
@pytest.mark.parametrize("checks, end", [("1", 0), ("2", -signal.SIGSEGV)])
def test_reads_beyond_middle_blocks_are_found_by_closed_pages(checks, end):
    done = run("x = ad.zeros(200)\nctypes.string_at(x.data_ptr() + 1000, 1)", checks)
    assert done.returncode == end


def test_new_memory_is_not_a_number():
    types = "ad.float16, ad.bfloat16, ad.float32, ad.float64, ad.complex64"
    sizes = "1, 100, 1000, 100_000"
    done = run(
        f"for t in [{types}]:\n  for n in [{sizes}]: assert bool(ad.empty(n, dtype=t).isnan().all()), (t, n)"
    )
    assert done.returncode == 0, done.stderr


def test_what_is_right_runs():
    done = run(
        "x = ad.randn(300, 300, requires_grad=True)\nfor _ in range(9): (x @ x).sin().sum().backward()\nprint(x.grad.sum().item())"
    )
    assert done.returncode == 0 and not done.stderr
    assert float(done.stdout) == float(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pieces of memory are counted by Linux")
def test_many_blocks_leave_memory_for_threads():
    done = run(
        "import threading\nx = [ad.empty(100) for _ in range(40_000)]\n"
        "for _ in range(9):\n  t = threading.Thread(target=print, args=('ran',))\n  t.start()\n  t.join()",
        "2",
    )
    assert done.returncode == 0 and done.stdout == "ran\n" * 9, done.stderr
