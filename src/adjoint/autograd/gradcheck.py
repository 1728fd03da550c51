"""Checking derivatives: `gradcheck` compares what the graph gives with differences of values, `gradgradcheck` does so
for the derivative of the derivative.

How the two Jacobians come about is in `_gradcheck_jacobians`; here stand the calls, the comparison, and the checks that
need no differences: that gradients are the same each time, are proportional to the cotangent, have the input's shape and
type, and may be undefined. Start reading at `gradcheck`, then `_slow` and `_fast`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Tensor
from adjoint._moved import find_past
from adjoint._publish.arguments import ignores
from adjoint._switches import switches
from adjoint._types import Any, Callable
from adjoint.autograd._convention import complex_convention

from . import _gradcheck_jacobians as jacobians
from . import _gradcheck_others as others

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative that `gradcheck` or `gradgradcheck` found wrong; the message says which, and by how much."""


@ignores("masked", why="of sparse inputs the stored elements are moved in any case", warns=False)
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: Any = None,
) -> bool:
    """Compare the first derivatives of `func` with central differences of its values.

    They agree where ``|analytical - numerical| <= atol + rtol * |numerical|``. The tolerances are meant for double
    precision. Complex inputs are moved along the real and along the imaginary axis, and the real and the imaginary part
    of complex outputs are checked separately, so that both Wirtinger derivatives are covered.

    Parameters
    ----------
    func : callable
        Takes the tensors of `inputs`, returns a tensor or a tuple of tensors. It may close over the inputs too: they are
        moved in place, and put back.
    inputs : Tensor or tuple of Tensor
        Those that require a gradient are checked.
    eps : float
        How far inputs are moved.
    atol, rtol : float
        The tolerances. In fast mode `atol` is scaled to the sums that are compared there.
    raise_exception : bool
        Raise where the check fails, instead of returning False.
    nondet_tol : float
        How much two runs of the same backward pass may differ.
    check_undefined_grad : bool
        Whether outputs without a gradient must count as outputs with a gradient of zeros.
    check_grad_dtypes : bool
        Whether gradients must have the dtype of their input.
    check_batched_grad : bool
        Whether gradients for several cotangents at once (``is_grads_batched=True``) must be those found one by one.
    check_forward_ad : bool
        Whether forward mode is checked, too.
    check_batched_forward_grad : bool
        Whether tangents for several directions at once, by ``func.vmap``, must be those found one by one.
    check_backward_ad : bool
        Whether reverse mode is checked.
    fast_mode : bool
        Compare one random combination of each Jacobian, at the cost of two evaluations per input, instead of every
        element; after a failure all elements are computed for the message.
    masked : bool, optional
        Sparse inputs are always checked entry by entry, as torch does where this is set.

    Returns
    -------
    bool
        True, or False for a failure with ``raise_exception=False``.

    Raises
    ------
    GradcheckError
        A derivative is wrong. The message holds both Jacobians and says which output and which input they belong to.
    ValueError
        No input requires a gradient.
    TypeError
        `func` returns something, but no tensor.
    RuntimeError
        Elements of an input share memory, so that they cannot be moved one by one.
    AssertionError
        The checks that were asked for exclude each other, or outputs change their shape or type with the inputs.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, 1.5], dtype=ad.float64, requires_grad=True)
    >>> ad.autograd.gradcheck(lambda x: x.sin() * x.sum(), x)
    True
    >>> ad.autograd.gradcheck(lambda x: x.detach() * x, x, raise_exception=False)
    False
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    func, inputs = others.without_sparse(func, jacobians.as_tuple(inputs))
    _check_inputs(inputs)
    tolerances = _Tolerances(rtol, atol, nondet_tol)
    try:
        # Compared with the settled convention, whatever is set.
        with complex_convention("conjugate"):
            results = jacobians.as_tuple(func(*inputs))
            if results and not any(isinstance(y, Tensor) for y in results):
                raise TypeError(
                    f"gradcheck expects func to return a tensor or a tuple of tensors, but {_name(func)} returned {results[0]!r}"
                )
            wanted = (lambda y: y.requires_grad) if check_backward_ad else jacobians.differentiable
            outputs = [(i, y) for i, y in enumerate(results) if isinstance(y, Tensor) and wanted(y)]
            if not outputs:
                _check_constant(func, inputs, results, eps, tolerances, fast_mode)
                return True
            evaluation = jacobians.Evaluation(func, inputs, outputs, eps)
            numerical = None
            if check_backward_ad:
                numerical = (_fast if fast_mode else _slow)(evaluation, tolerances, check_grad_dtypes)
            if check_forward_ad:
                _forward(evaluation, numerical, tolerances, fast_mode, check_undefined_grad)
            if check_batched_forward_grad:
                from . import _gradcheck_forward as forward

                forward.check_batched(evaluation, _generator(), GradcheckError)
            if check_batched_grad:
                others.check_batched(outputs, _checked(inputs), GradcheckError)
            if check_backward_ad:
                others.check_proportional(outputs, _checked(inputs), GradcheckError)
            if check_undefined_grad and check_backward_ad:
                others.check_undefined(func, inputs, _checked(inputs), GradcheckError)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of `func` with central differences of its first derivatives.

    What is checked is the function that takes `inputs` and `grad_outputs` to the gradients of `func`; in a message its
    inputs are numbered in that order, and its outputs are these gradients.

    Parameters
    ----------
    func, inputs
        Like those of `gradcheck`.
    grad_outputs : Tensor or tuple of Tensor, optional
        The cotangents of the outputs that require a gradient; random numbers between -1 and 1 by default.
    gen_non_contig_grad_outputs : bool
        Whether the random cotangents are strided.
    check_fwd_over_rev : bool
        Whether forward mode over reverse mode is checked.
    check_rev_over_rev : bool
        Whether reverse mode over reverse mode is checked.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, \
fast_mode, masked
        Like those of `gradcheck`.

    Returns
    -------
    bool
        Like `gradcheck`.

    Raises
    ------
    GradcheckError, ValueError, RuntimeError, NotImplementedError, AssertionError
        Like `gradcheck`.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, 1.5], dtype=ad.float64, requires_grad=True)
    >>> ad.autograd.gradgradcheck(lambda x: x.sin() * x.sum(), x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    inputs = jacobians.as_tuple(inputs)
    if grad_outputs is None:
        outputs = _tracked(func(*inputs))
        if not outputs:
            raise ValueError(
                "gradgradcheck expects func to return a tensor that requires a gradient, but none does"
            )
        grad_outputs = others.random_cotangents(outputs, gen_non_contig_grad_outputs)
    grad_outputs = jacobians.as_tuple(grad_outputs)
    count = len(inputs)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def gradient(*args):
        # In forward mode they come detached.
        args = tuple(a.requires_grad_() if i in checked else a for i, a in enumerate(args))
        ys = _tracked(func(*args[:count]))
        xs = tuple(args[i] for i in checked)
        found = ad.autograd.grad(ys, xs, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    gradient.__name__ = f"the gradient of {_name(func)}"
    return gradcheck(
        gradient,
        inputs + grad_outputs,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


find_past(__name__)

# `adjoint.autograd.gradcheck` is the function; the error can be had from it without importing the module.
gradcheck.GradcheckError = GradcheckError  # type: ignore[attr-defined]


def _tracked(results):
    return tuple(y for y in jacobians.as_tuple(results) if isinstance(y, Tensor) and y.requires_grad)


def _checked(inputs):
    """The inputs to differentiate by."""
    return tuple(x for x in inputs if isinstance(x, Tensor) and x.requires_grad)


def _name(func):
    return getattr(func, "__name__", None) or type(func).__name__


def _check_inputs(inputs):
    found = False
    for i, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad):
            continue
        found = True
        if x.dtype not in (ad.float64, ad.complex128):
            import warnings

            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex. "
                f"It is of type {x.dtype}: x.double() or x.to({switches.package}.complex128) makes one of double precision.",
                stacklevel=3,
            )
        if jacobians.overlapping(x):
            if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True)):
                fault = "a dimension with stride 0"
            else:
                fault = "several elements at one memory location"
            raise RuntimeError(
                f"The {i}th input has {fault}. gradcheck only supports inputs that are non-overlapping to be able to "
                "compute the numerical gradients correctly. You should call .contiguous on the input before passing it "
                "to gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


def _check_constant(func, inputs, results, eps, tolerances, fast_mode):
    """No output requires a gradient: then none may change with the inputs."""
    outputs = [(i, y) for i, y in enumerate(results) if jacobians.differentiable(y)]
    evaluation = jacobians.Evaluation(func, inputs, outputs, eps)
    generator = _generator()
    for i, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad):
            continue
        if fast_mode:
            u = jacobians.unit_vector(x, x.is_complex(), generator)
            found = [[slopes] for slopes in evaluation.along(x, u)]
        else:
            found = jacobians.numerical(evaluation, x)
        for (position, _), matrices in zip(outputs, found, strict=True):
            for matrix in matrices:
                if matrix.numel() and not matrix.abs().max().item() <= tolerances.nondet:
                    raise GradcheckError(
                        "Numerical gradient for function expected to be zero: no output of "
                        f"{_name(func)} requires a gradient, but output {position} changes with input {i}.\n"
                        f"numerical:{matrix}"
                    )


def _generator():
    """Directions are the same in each run, and drawing them leaves the caller's random numbers alone."""
    return ad.Generator().manual_seed(20)


class _Tolerances:
    __slots__ = ("absolute", "nondet", "relative")

    def __init__(self, relative: Any, absolute: Any, nondet: Any) -> None:
        self.relative, self.absolute, self.nondet = relative, absolute, nondet

    def excess(self, analytical, numerical, scale=1.0):
        """How far each element is outside of what is allowed; NaN counts as infinitely far."""
        allowed = self.absolute * scale + self.relative * numerical.abs()
        over = (analytical - numerical).abs() - allowed
        return ad.where(over.isnan(), ad.inf, over)

    def agree(self, analytical, numerical, scale=1.0):
        return not bool((self.excess(analytical, numerical, scale) > 0).any())


def _slow(evaluation, tolerances, check_dtypes):
    """Compare every element of the Jacobian of each part of each output by each input; returns the numerical ones."""
    numbered = [(i, x) for i, x in enumerate(evaluation.inputs) if isinstance(x, Tensor) and x.requires_grad]
    xs = tuple(x for _, x in numbered)
    numerical = [jacobians.numerical(evaluation, x) for x in xs]
    for k, output in enumerate(evaluation.outputs):
        for p, part in enumerate(jacobians.parts([output])):
            first, rows = jacobians.analytical(part, xs)
            again, _ = jacobians.analytical(part, xs)
            others.check_attributes(rows, numbered, part, check_dtypes, GradcheckError)
            agree = True
            for j, (i, x) in enumerate(numbered):
                found, wanted = first[j], numerical[j][k][p]
                agree = tolerances.agree(found, wanted)
                others.check_reentrant(found, again[j], tolerances.nondet, agree, GradcheckError)
                if not agree:
                    unreached = all(row[j] is None for row in rows)
                    raise GradcheckError(
                        _mismatch(part, i, x, wanted, found)
                        + _where(evaluation, tolerances, found, wanted, unreached)
                    )
    return numerical


def _forward(evaluation, numerical, tolerances, fast_mode, check_undefined):
    from . import _gradcheck_forward as forward

    if fast_mode:
        forward.fast(evaluation, _generator(), tolerances, GradcheckError)
    else:
        if numerical is None:
            numerical = [jacobians.numerical(evaluation, x) for x in _checked(evaluation.inputs)]
        forward.slow(evaluation, numerical, tolerances, GradcheckError)
    if check_undefined:
        forward.check_undefined(evaluation, GradcheckError)


def _fast(evaluation, tolerances, check_dtypes):
    """Compare vᵀJu for random v and u: a wrong J gives the right number only by a coincidence."""
    generator = _generator()
    numbered = [(i, x) for i, x in enumerate(evaluation.inputs) if isinstance(x, Tensor) and x.requires_grad]
    xs = tuple(x for _, x in numbered)
    us = [jacobians.unit_vector(x, x.is_complex(), generator) for x in xs]
    slopes = [evaluation.along(x, u) for x, u in zip(xs, us, strict=True)]
    for k, output in enumerate(evaluation.outputs):
        for p, part in enumerate(jacobians.parts([output])):
            v = jacobians.unit_vector(part.output, False, generator)
            rows, again = (jacobians.gradients(part, xs, v) for _ in range(2))
            others.check_attributes([rows], numbered, part, check_dtypes, GradcheckError)
            for j, ((i, x), u) in enumerate(zip(numbered, us, strict=True)):
                with ad.no_grad():
                    first, second = (_filled(g, x) for g in (rows[j], again[j]))
                    # The real part of ⟨g, u⟩ is what the input's move changes.
                    found = (first * u.conj()).sum()
                    found = ad.real(found) if found.is_complex() else found
                    wanted = (part.take(slopes[j][k]) * v).sum()
                    # An error of atol in each element adds up to at most this.
                    scale = (_absolute_sum(u) * v.abs().sum()).item()
                agree = tolerances.agree(found, wanted, scale)
                others.check_reentrant(first, second, tolerances.nondet, agree, GradcheckError)
                if not agree:
                    raise GradcheckError(
                        _mismatch(part, i, x, wanted, found)
                        + _slow_after_fast(evaluation, tolerances, part, p, k, xs, j)
                    )


def _filled(g, x):
    return jacobians.wide(ad.zeros_like(x) if g is None else g)


def _absolute_sum(u):
    return ad.view_as_real(u).abs().sum() if u.is_complex() else u.abs().sum()


def _slow_after_fast(evaluation, tolerances, part, p, k, xs, j):
    """The elements that explain a failure in fast mode."""
    wanted = jacobians.numerical(evaluation, xs[j])[k][p]
    matrices, rows = jacobians.analytical(part, xs)
    found = matrices[j]
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed in fast mode: each is one "
        "random combination of all elements. In slow mode the Jacobians are:\n\n"
        f"Numerical:\n {wanted}\nAnalytical:\n{found}\n\n"
        f"The max per-element difference (slow mode) is: {_largest(found, wanted)}.\n"
    )
    if tolerances.agree(found, wanted):
        return text + (
            "Every element is within its tolerance there, so that the check passes with fast_mode=False: either the "
            "tolerances are too tight for this sum, or errors within the tolerance all point the same way.\n"
        )
    return text + _where(evaluation, tolerances, found, wanted, all(row[j] is None for row in rows))


def _largest(found, wanted):
    return (found - wanted).abs().max().item() if found.numel() else 0.0


def _mismatch(part, i, x, wanted, found):
    prefix = f"While considering the {part.name} part of complex outputs only, " if part.name else ""
    return (
        f"{prefix}Jacobian mismatch for output {part.position} with respect to input {i},\n"
        f"numerical:{wanted}\nanalytical:{found}\n"
    )


def _where(evaluation, tolerances, found, wanted, unreached):
    """Where the worst element of a Jacobian is, and what it should be."""
    worst = int(tolerances.excess(found, wanted).reshape(-1).argmax())
    row, column = divmod(worst, wanted.shape[1])
    a, n = found[row, column].item(), wanted[row, column].item()
    text = (
        f"These are the derivatives by {_name(evaluation.func)}'s inputs: one row per element of the input, one column per "
        f"element of the output. Furthest off is the derivative of output element {column} by input element {row} "
        f"(numbers in row-major order): analytical {a!r}, numerical {n!r}, which differ by {abs(a - n)!r}, where "
        f"{tolerances.absolute + tolerances.relative * abs(n)!r} is allowed.\n"
    )
    if unreached:
        text += "No gradient at all reached this input: the graph has no path from the output to it.\n"
    return text
