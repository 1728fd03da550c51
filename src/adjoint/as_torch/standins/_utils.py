"""``torch._utils``: what carries an error from one thread or process to another."""

from __future__ import annotations

import sys
import traceback

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An error as its type and its text, which `reraise` raises again."""

    def __init__(self, exc_info=None, where="in background"):
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self):
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(text)
        except Exception:  # noqa: BLE001 - the type wants other arguments
            raise RuntimeError(text) from None
        raise error
