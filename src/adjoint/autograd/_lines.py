"""Where the program is: what nodes and writes note while lines are recorded, and while anomalies are looked for."""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

#: Whether the whole stack is noted (for anomalies), or its innermost line outside of this package.
whole_stack = False


def where() -> str:
    frame = sys._getframe(1) if hasattr(sys, "_getframe") else None
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    if frame is None:
        return ""
    if whole_stack:
        from traceback import format_stack

        return "".join(format_stack(frame))
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
