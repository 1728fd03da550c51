"""The members of Tensor that are written in Python, and what makes tensors: one file per subject.

`members` has what makes a tensor a sequence and a text. (`adjoint.tensor` is a function; hence the underscore.)
"""

from adjoint._tensor import (
    copying,
    creation,
    data,
    drawing,
    dtypes,
    gradients,
    making,
    members,
    memory,
    random,
    sparse,
    storage,
    typed_storage,
)

__all__ = [
    "copying",
    "creation",
    "data",
    "drawing",
    "dtypes",
    "gradients",
    "making",
    "members",
    "memory",
    "random",
    "sparse",
    "storage",
    "typed_storage",
]
