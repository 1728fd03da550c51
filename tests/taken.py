"""What a call takes of memory. benchmarks/replay.py asks it, too."""

import adjoint as ad


def peak(function):
    """Bytes that a call takes at most beyond what was there, the second time it is made."""
    function()
    before = ad.memory_statistics()["allocated_bytes"]
    ad.reset_peak_memory_statistics()
    function()
    return ad.memory_statistics()["peak_allocated_bytes"] - before
