"""Trees of arguments in generated code: `tree_flatten_spec` and `tree_unflatten`."""

from __future__ import annotations

from typing import Any

from adjoint import tree
from adjoint._publish.arguments import ignores

__all__ = ["tree_flatten_spec", "tree_unflatten"]


@ignores("exact_structural_match", why="structures are compared in any case", warns=False)
def tree_flatten_spec(pytree: Any, spec: tree.TreeSpec, exact_structural_match: bool = False) -> list[Any]:
    """Flatten a tree to the leaves of a given structure."""
    return spec.flatten_up_to(pytree)


def tree_unflatten(leaves: Any, spec: tree.TreeSpec) -> Any:
    """Rebuild the tree of a structure with these leaves."""
    return tree.unflatten(leaves, spec)
