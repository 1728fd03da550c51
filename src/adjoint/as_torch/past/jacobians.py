"""The two Jacobians by themselves, as legacy programs ask `torch.autograd.gradcheck` for them.

`gradcheck` itself uses `_gradcheck_jacobians`; these give the same numbers in the form that they once had, and say that
they are deprecated. Start reading at `get_numerical_jacobian`.
"""

from __future__ import annotations

from adjoint._C import Tensor
from adjoint._switches import announce
from adjoint._types import Any, Callable
from adjoint.autograd import _gradcheck_jacobians as jacobians

__all__ = ["get_analytical_jacobian", "get_numerical_jacobian"]


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    target: Tensor | None = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> Any:
    """The Jacobians of the first output of ``fn(inputs)`` by differences; deprecated, see `gradcheck`.

    Parameters
    ----------
    fn : callable
        Takes the tuple `inputs` as one argument.
    inputs : Tensor or tuple of Tensor
    target : Tensor or tuple of Tensor, optional
        By which inputs; by all that require a gradient if left out.
    eps : float
        How far inputs are moved.
    grad_out : float
        Only 1.0.

    Returns
    -------
    tuple of Tensor
        One matrix per target: a row per element of the input, a column per element of the output.

    Raises
    ------
    ValueError
        `grad_out` is not 1.0, or the output is complex.
    """
    _say_deprecated("get_numerical_jacobian", grad_out)
    given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    output = jacobians.as_tuple(fn(inputs))[0]
    _refuse_complex("get_numerical_jacobian", output)
    evaluation = jacobians.Evaluation(lambda *_: fn(inputs), given, [(0, output)], eps)
    targets = (
        [x for x in given if isinstance(x, Tensor) and x.requires_grad]
        if target is None
        else jacobians.as_tuple(target)
    )
    return tuple(jacobians.numerical(evaluation, x)[0][0] for x in targets)


def get_analytical_jacobian(inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0) -> Any:
    """The Jacobians of `output` from its graph; deprecated, see `gradcheck`.

    Parameters
    ----------
    inputs : Tensor or tuple of Tensor
    output : Tensor
        Computed from `inputs`.
    nondet_tol : float
        How much two runs of the backward pass may differ.
    grad_out : float
        Only 1.0.

    Returns
    -------
    matrices : tuple of Tensor
        One per input that requires a gradient: a row per element of the input, a column per element of the output.
    reentrant, correct_sizes, correct_types : bool
        Whether two runs of the backward pass agree, and gradients have the shape and the dtype of their input.

    Raises
    ------
    ValueError
        `grad_out` is not 1.0, or `output` is complex.
    """
    _say_deprecated("get_analytical_jacobian", grad_out)
    _refuse_complex("get_analytical_jacobian", output)
    xs = tuple(x for x in jacobians.as_tuple(inputs) if isinstance(x, Tensor) and x.requires_grad)
    (part,) = jacobians.parts([(0, output)])
    first, rows = jacobians.analytical(part, xs)
    again, _ = jacobians.analytical(part, xs)
    same = all(not bool(((a - b).abs() > nondet_tol).any()) for a, b in zip(first, again, strict=True))
    pairs = [(g, x) for row in rows for g, x in zip(row, xs, strict=True) if g is not None]
    sizes = all(g.shape == x.shape for g, x in pairs)
    return tuple(first), same, sizes, all(g.dtype == x.dtype for g, x in pairs)


def _say_deprecated(name, grad_out):
    announce(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. Use "
        "adjoint.autograd.gradcheck, or adjoint.autograd.functional.jacobian",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports other values of grad_out.")


def _refuse_complex(name, output):
    if output.is_complex():
        raise ValueError(
            f"Expected output to be non-complex. {name} does not support functions that return complex outputs."
        )
