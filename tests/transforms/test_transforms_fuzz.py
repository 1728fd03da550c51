"""Random compositions of transforms, and random programs under vmap; more of them by
``python -m tests.transforms.fuzz_transforms --programs 10000``, and ``fuzz_vmap`` likewise."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fuzz_transforms  # noqa: E402
import fuzz_vmap  # noqa: E402


@pytest.mark.parametrize("block", range(5))
def test_programs(block):
    found = [fuzz_transforms.check(seed) for seed in range(100 * block, 100 * block + 100)]
    assert [message for message in found if message] == []


def test_the_reference_finds_what_is_wrong(monkeypatch):
    monkeypatch.setitem(fuzz_transforms.WAYS, "grad", lambda f, x: fuzz_transforms.func.grad(f)(x) * 1.001)
    assert any(fuzz_transforms.check(seed) for seed in range(100))


@pytest.mark.parametrize("block", range(5))
def test_views_and_writes_under_vmap(block):
    found = [fuzz_vmap.check(seed) for seed in range(100 * block, 100 * block + 100)]
    assert [message for message in found if message] == []


def test_the_loop_finds_what_is_wrong(monkeypatch):
    vmap = fuzz_vmap.func.vmap
    monkeypatch.setattr(fuzz_vmap.func, "vmap", lambda f: lambda *xs: vmap(f)(*xs) * 1.001)
    assert any(fuzz_vmap.check(seed) for seed in range(10))


def test_programs_in_several_threads_wait_for_each_other_in_no_circle():
    """Tangents of an operator that goes through its reversed rule are a pass within a call, which holds the interpreter's lock."""
    command = [sys.executable, "-W", "ignore", fuzz_vmap.__file__, "--programs", "1000", "--threads", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "1000 programs, 0 wrong" in done.stdout, done.stdout + done.stderr
