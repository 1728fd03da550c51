"""Damaged and crafted files through `load`: see `fuzz_files.py`. ADJOINT_FUZZ_FILES sets how many."""

import os

import fuzz_files


def test_files():
    files = int(os.environ.get("ADJOINT_FUZZ_FILES", "1500"))
    counts, failures = fuzz_files.run(0, files)
    assert not failures, "\n".join(failures)
    # Archives have checksums: few of those that are damaged load.
    assert counts["loaded"] >= 0.015 * files and counts["refused"] >= 0.3 * files, counts
