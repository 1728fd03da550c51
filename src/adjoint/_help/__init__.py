"""The documentation of operators and compositions, composed when `__doc__` is read; nothing here is imported before.

What is known is not written again. An operator's row gives its summary, the names, types and defaults of its arguments, its
element types, derivatives and forms (`_operator`); a composition's docstring is completed from its signature
(`_composition`). A sentence about an argument that many functions share stands in `_arguments`. What concerns one function
alone, examples above all, stands in the text of its family beside this file: `sorting.txt` has `sort` and `quantile`; that of a
subpackage has its name, `linalg.txt`. `_texts` says how such a file is written.

Start reading at `of_operator`.
"""

from __future__ import annotations

__all__ = ["of_class", "of_composition", "of_operator"]


def of_operator(operator) -> str:
    """The documentation of an operator, of one of its other names, or of its form that writes."""
    from adjoint._help._operator import document

    return document(operator)


def of_composition(public, written, functions):
    """The documentation of a composition: what is written in its source, completed. `functions` are those of the package itself."""
    from adjoint._help._composition import document

    return document(public, written, functions)


def of_class(cls, written, package):
    """The documentation of a class of a public package: what is written in its source, completed."""
    from adjoint._help._composition import document_class

    return document_class(cls, written, package)
