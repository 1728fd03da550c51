"""The registry of the forms of operators on sparse tensors; core/bind/sparse.cpp looks them up by the names of rows.

A form takes all arguments of its row, in their order, and gives the row's result, or NotImplemented where it has none for
these. It is written in recorded operators on values, so that derivatives follow. Start reading at `form`.
"""

from __future__ import annotations

from adjoint import _C

__all__ = ["COMPOSITIONS", "FORMS", "WRITES", "composed", "form", "with_values", "write"]

#: By the name of a row: what makes its result.
FORMS: dict = {}
#: By the name of a row: what writes its first argument, in the form with an underscore or in a row that writes.
WRITES: dict = {}
#: By the function itself: forms of compositions, with the same parameters, where their operators have none.
COMPOSITIONS: dict = {}


def _entered(table):
    def enter(*names):
        def add(function):
            table.update(dict.fromkeys(names, function))
            return function

        return add

    return enter


#: For each name of a row: ``@form("neg", "positive")``.
form = _entered(FORMS)
write = _entered(WRITES)
composed = _entered(COMPOSITIONS)


def with_values(x, values):
    """A sparse tensor with other values, of any dtype, for the same entries."""
    return _C._sparse_with(x, values)
