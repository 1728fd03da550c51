"""Operators of your own: `primitive` declares one in Python, with its derivative and its rules for transforms.

What is declared has a row in the table of operators like those of the core. The other functions are torch.library's, for programs
and packages that declare their operators by these: each ends in a row too, where its schema allows. Start reading at `_primitive`.
"""

from __future__ import annotations

from adjoint._publish.register import listing
from adjoint.library._custom import CustomOpDef
from adjoint.library._libraries import Library, define, fallthrough_kernel, get_op, impl
from adjoint.library._opcheck import OpCheckError, opcheck
from adjoint.library._primitive import primitive
from adjoint.library._registration import (
    custom_op,
    get_ctx,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from adjoint.library._schemas import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_op",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "primitive",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]
__dir__ = listing(__name__)
