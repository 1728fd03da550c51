"""Calls with impossible sizes, strides, ranks and counts: see `fuzz_sizes.py`. ADJOINT_FUZZ_CALLS sets how many run."""

import os

import fuzz_sizes


def test_calls():
    calls = int(os.environ.get("ADJOINT_FUZZ_CALLS", "1500"))
    counts, failures = fuzz_sizes.run(0, calls)
    assert not failures, "\n".join(failures)
    assert counts["returned"] >= 0.1 * calls and counts["refused"] >= 0.2 * calls, counts
