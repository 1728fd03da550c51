"""`adjoint.tree` by the name and the names of torch's private module; under `as_torch` there are the others, too."""

# ruff: noqa: F401 - what is imported here is published.
from adjoint.tree import TreeSpec, flatten_arguments
from adjoint.tree import flatten as tree_flatten
from adjoint.tree import leaves as tree_leaves
from adjoint.tree import map as tree_map
from adjoint.tree import register as register_pytree_node
from adjoint.tree import register_dataclass as register_dataclass
from adjoint.tree import structure as tree_structure
from adjoint.tree import unflatten as tree_unflatten
