"""Replay: a function that was recorded runs again without Python. See docs/replay.md and Note: replay.

``ad.jit(f)`` gives a function that does what ``f`` does. Its first calls run ``f`` itself and record what happens to
elements, what the function reads (`_paths`), what it returns and what it changes. Once two recordings in a row agree,
later calls that find everything as it was run the recording. Whatever else comes runs ``f``.

    jitted.py   the function that users hold: which trace fits, when to record, when to give up
    traces.py   one trace: a call as data, and how it is done again
    _agree.py   whether two recordings are the same
    _results.py what a function returns
    _tracked.py what Python does with numbers that change
    _memory.py  memory, put back
    _again.py   the state of a call, put back for a pass that needs the function once more
    _paths.py   what a function reads, found again at each call
    _codes.py   what code can read
    _watch.py   which code ran
    _explain.py what people are shown of it

A call that is replayed comes to none of this: core/bind/replay_entry.cpp. Start reading at `jitted.Jitted._call`, to which others come.
"""

from adjoint._replay.jitted import Jitted, jit

__all__ = ["Jitted", "jit"]
