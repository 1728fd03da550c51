"""The dtype to which autocast casts each function's arguments: the lists that torch documents for the CPU.

A name stands for the function of that name wherever the package has one: at its top, in `nn.functional` or in `linalg`. What is not
named gets its arguments as they are. Where a product is several rows here, all of them are named, so that `mv` and `dot` are
among the products. Start reading at `declare`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._types import Any

__all__ = ["FLOAT32", "LOWER", "WIDEST", "declare", "functions"]

LOWER = (
    "mm bmm mv dot _matmul linear addmm addbmm baddbmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "prelu scaled_dot_product_attention lstm rnn_tanh rnn_relu vecdot"
)
FLOAT32 = (
    "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss "
    "hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss "
    "multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss "
    "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d fractional_max_pool2d fractional_max_pool3d max_pool3d "
    "max_unpool2d max_unpool3d grid_sample cdist polar prod quantile nanquantile trace view_as_complex "
    "cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf householder_product inv "
    "inv_ex inverse lstsq lu_solve matrix_rank orgqr ormqr pinverse qr solve svd svdvals tensorinv tensorsolve "
    "triangular_solve"
)
WIDEST = "index_copy"
#: Like `Precision` in core/transforms/autocast.h.
KINDS = {LOWER: 1, FLOAT32: 2, WIDEST: 3}


def functions(name: str) -> Any:
    """The functions of a name, in all places that have one."""
    import adjoint
    from adjoint import linalg
    from adjoint.nn import functional

    # What torch has at its top level in a form of its own calls the function of `nn.functional`.
    other_form = vars(adjoint)["_LATER"].get(name, "").startswith("adjoint.as_torch")
    places = (_C, functional, linalg) if other_form else (_C, adjoint, functional, linalg)
    found = {id(f): f for place in places if callable(f := getattr(place, name, None))}
    if not found:
        raise AttributeError(f"autocast names {name!r}, which is not a function")
    return list(found.values())


def declare() -> None:
    """Tell the core, once."""
    for names, kind in KINDS.items():
        for name in names.split():
            for function in functions(name):
                if isinstance(function, _C.Operator):
                    _C._set_precision(function, kind)
                else:
                    function._precision = kind
    from importlib.util import find_spec

    if find_spec("adjoint.fft"):
        from adjoint import fft

        for name in fft.__all__:
            if "fft" in name and isinstance(function := getattr(fft, name), _C.Composition):
                function._precision = KINDS[FLOAT32]


declare()
