"""Derivatives of functions of tensors: products with the Jacobian and the Hessian, and these matrices themselves.

Each call gives the function inputs of its own (`_inputs`), so that what the function closes over is never taken for an
argument, and then asks `autograd.grad`. Products from the right, J·v, come from reverse mode run twice: vᵀJ is linear in
v, and the gradient of a linear map is its transpose. Start reading at `vjp`, then `jvp`.
"""

from __future__ import annotations

from adjoint._C import Tensor, _requires_grad_anywhere
from adjoint._publish.register import listing
from adjoint._switches import switches
from adjoint._types import Any, Callable
from adjoint.autograd import enable_grad, grad
from adjoint.autograd._batched import block
from adjoint.autograd._convention import complex_convention
from adjoint.autograd._functional_checks import _NOT_STRICT, _refuse_complex, _zeros_for_none
from adjoint.autograd._functional_forward import is_forward, jacobian_by_columns

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
__dir__ = listing(__name__)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """The value of `func` and the product vᵀJ of a vector with its Jacobian.

    Parameters
    ----------
    func : callable
        Takes the tensors of `inputs`, returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        One per output, of its shape; may be left out where there is one output with one element.
    create_graph : bool
        Record the computation, so that both results can be differentiated with respect to `inputs`.
    strict : bool
        Raise where an output does not depend on an input, instead of returning zeros.

    Returns
    -------
    func_output : Tensor or tuple of Tensor
    vjp : Tensor or tuple of Tensor
        Like `inputs`. For complex numbers it is the conjugate Wirtinger derivative, as everywhere: of a holomorphic
        function the product with the conjugated derivative.

    Raises
    ------
    RuntimeError
        `v` does not fit the outputs, or `strict` found an independent input.
    TypeError
        Inputs, outputs or `v` are not tensors.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import vjp
    >>> value, product = vjp(lambda x: x**2, ad.tensor([1.0, 2.0]), ad.tensor([1.0, 10.0]))
    >>> value.tolist(), product.tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    with enable_grad():
        several, given = _tensors(inputs, "inputs", "vjp")
        xs = _inputs(given, create_graph)
        several_outputs, ys = _tensors(func(*xs), _OUTPUTS, "vjp")
        _require_grad(ys, "outputs", strict)
        v = _vector(v, ys, "vjp", "user-provided function returns a single Tensor with a single element")
        rows = _grad(ys, xs, v, create_graph)
        rows = _zeros_for_none(rows, xs, strict, create_graph, "back")
    return _result(ys, several_outputs, create_graph), _result(rows, several, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """The value of `func` and the product J·v of its Jacobian with a vector.

    It takes two passes in reverse mode: vᵀJ for a placeholder v, then the derivative of that by the placeholder.

    Parameters
    ----------
    func, inputs, create_graph, strict
        Like those of `vjp`.
    v : Tensor or tuple of Tensor, optional
        One per input, of its shape; may be left out where there is one input with one element.

    Returns
    -------
    func_output : Tensor or tuple of Tensor
    jvp : Tensor or tuple of Tensor
        Like `func_output`: how it changes when the inputs move along `v`.

    Raises
    ------
    RuntimeError, TypeError
        Like `vjp`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import jvp
    >>> jvp(lambda x: x.sum() * x, ad.tensor([1.0, 2.0]), ad.tensor([1.0, 0.0]))[1].tolist()
    [4.0, 2.0]
    """
    # The same in both conventions; the two passes below would each apply theirs.
    with enable_grad(), complex_convention("conjugate"):
        several, given = _tensors(inputs, "inputs", "jvp")
        v = _vector(v, given, "jvp", _SINGLE_INPUT)
        xs = _inputs(given, create_graph)
        several_outputs, ys = _tensors(func(*xs), _OUTPUTS, "jvp")
        _require_grad(ys, "outputs", strict)
        placeholders = _placeholders(ys)
        rows = _grad(ys, xs, placeholders, True)
        _require_grad(rows, "grad_inputs", strict)
        columns = _grad(rows, placeholders, v, create_graph)
        columns = _zeros_for_none(columns, ys, strict, create_graph, "back_trick")
    return _result(ys, several_outputs, create_graph), _result(columns, several_outputs, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`, row by row in reverse mode or column by column in forward mode.

    Parameters
    ----------
    func, inputs, create_graph, strict
        Like those of `vjp`.
    vectorize : bool
        Compute all rows in one pass over a batch (`adjoint.func.vmap`), which is faster and takes more memory. Complex
        outputs need it, as in torch: each row is then the gradient of the real part of one output, which for a holomorphic function is the conjugate of its
        derivative.
    strategy : str
        ``"reverse-mode"``, with one pass per element of the outputs, or ``"forward-mode"``, with one evaluation per element
        of the inputs.

    Returns
    -------
    Tensor, or tuple or tuple of tuples of Tensor
        Of shape ``output.shape + input.shape``. If there are several outputs, a tuple with one entry per output; if
        there are several inputs, each entry is a tuple with one tensor per input.

    Raises
    ------
    RuntimeError, TypeError
        Like `vjp`; also for a complex output without `vectorize` in reverse mode, and for `strict` together with `vectorize`
        or forward mode.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import jacobian
    >>> jacobian(lambda x: x.sum() * x, ad.tensor([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """
    if is_forward(strategy):
        if strict:
            raise RuntimeError(
                f'{switches.package}.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together '
                '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
            )
        several, given = _tensors(inputs, "inputs", "jacobian")
        outputs_of = lambda ys: _tensors(ys, _OUTPUTS, "jacobian")  # noqa: E731
        return jacobian_by_columns(func, several, _inputs(given, create_graph), outputs_of, create_graph)
    if strict and vectorize:
        raise RuntimeError(
            f"{switches.package}.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        several, given = _tensors(inputs, "inputs", "jacobian")
        xs = _inputs(given, create_graph)
        several_outputs, ys = _tensors(func(*xs), _OUTPUTS, "jacobian")
        _require_grad(ys, "outputs", strict)
        if not vectorize:
            _refuse_complex(ys)
        blocks = tuple(
            block(y, xs, create_graph) if vectorize else _block(i, y, xs, create_graph, strict)
            for i, y in enumerate(ys)
        )
    rows = tuple(_result(block, several, create_graph) for block in blocks)
    return rows if several_outputs else rows[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one real number as its value.

    Parameters
    ----------
    func : callable
        Takes the tensors of `inputs`, returns a tensor with one element.
    inputs, create_graph, strict, vectorize
        Like those of `jacobian`.
    outer_jacobian_strategy : str
        ``"reverse-mode"`` or ``"forward-mode"``: how the gradient, which reverse mode computes, is differentiated.

    Returns
    -------
    Tensor or tuple of tuples of Tensor
        Of shape ``input.shape + input.shape``; for a tuple of inputs, entry ``[i][j]`` holds the derivatives by input i
        and input j.

    Raises
    ------
    RuntimeError, TypeError
        Like `vjp`; also where `func` returns something else than one element.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import hessian
    >>> hessian(lambda x: (x**3).sum(), ad.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    is_forward(outer_jacobian_strategy)
    several, given = _tensors(inputs, "inputs", "hessian")

    def scalar(*xs):
        y = _one_element(func(*xs), "hessian")
        _require_grad((y,), "outputs", strict)
        return y.reshape(())

    def gradient(*xs):
        rows = jacobian(scalar, xs, create_graph=True)
        _require_grad(rows, "jacobian", strict)
        return rows

    blocks = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if several else blocks[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """The value of a function with one real number as its value, and the product vᵀH with its Hessian.

    Parameters
    ----------
    func, inputs, create_graph, strict
        Like those of `hessian`.
    v : Tensor or tuple of Tensor, optional
        One per input, of its shape; may be left out where there is one input with one element.

    Returns
    -------
    func_output : Tensor
    vhp : Tensor or tuple of Tensor
        Like `inputs`.

    Raises
    ------
    RuntimeError, TypeError
        Like `hessian`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import vhp
    >>> vhp(lambda x: (x**3).sum(), ad.tensor([1.0, 2.0]), ad.tensor([1.0, 1.0]))[1].tolist()
    [6.0, 12.0]
    """
    with enable_grad():
        several, v, xs, y, rows = _gradient("vhp", func, inputs, v, create_graph, strict)
        return _hessian_product(several, xs, y, rows, xs, v, create_graph, strict, "double_back")


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """The value of a function with one real number as its value, and the product H·v with its Hessian.

    A Hessian is symmetric, so that `vhp` gives the same with one pass less; prefer it.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        Like those of `vhp`.

    Returns
    -------
    func_output : Tensor
    hvp : Tensor or tuple of Tensor
        Like `inputs`.

    Raises
    ------
    RuntimeError, TypeError
        Like `hessian`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import hvp
    >>> hvp(lambda x: (x**3).sum(), ad.tensor([1.0, 2.0]), ad.tensor([1.0, 1.0]))[1].tolist()
    [6.0, 12.0]
    """
    with enable_grad():
        several, v, xs, y, rows = _gradient("hvp", func, inputs, v, create_graph, strict)
        placeholders = _placeholders(xs)
        twice = _grad(rows, xs, placeholders, True)
        _require_grad(twice, "hessian", strict)
        stage = "double_back_trick"
        return _hessian_product(several, xs, y, twice, placeholders, v, create_graph, strict, stage)


# --- shared steps ------------------------------------------------------------------------------------------------------

_OUTPUTS = "outputs of the user-provided function"
_SINGLE_INPUT = "input to the user-provided function is a single Tensor with a single element"


def _gradient(name, func, inputs, v, create_graph, strict):
    """What `vhp` and `hvp` start with: the value and its gradient, recorded."""
    several, given = _tensors(inputs, "inputs", name)
    v = _vector(v, given, name, _SINGLE_INPUT)
    xs = _inputs(given, create_graph)
    y = _one_element(func(*xs), name)
    _require_grad((y,), "outputs", strict)
    rows = _grad((y,), xs, None, True)
    _require_grad(rows, "jacobian", strict)
    return several, v, xs, y, rows


def _hessian_product(several, xs, y, rows, by, v, create_graph, strict, stage):
    """What `vhp` and `hvp` end with: the derivative of `rows` along `v`, by the tensors `by`, beside the value."""
    products = _zeros_for_none(_grad(rows, by, v, create_graph), xs, strict, create_graph, stage)
    return _result((y,), False, create_graph), _result(products, several, create_graph)


def _tensors(value, what, name):
    """Whether `value` is a tuple, and the tuple of tensors that it stands for."""
    several = isinstance(value, tuple)
    parts = value if several else (value,)
    for i, part in enumerate(parts):
        if not isinstance(part, Tensor):
            found = f"value at index {i}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {found} has type "
                f"{type(part)}."
            )
    return several, parts


def _inputs(tensors, create_graph):
    """New tensors to differentiate by: still part of the caller's graph if that is to be continued."""
    return tuple(
        x.view_as(x) if create_graph and _requires_grad_anywhere(x) else x.detach().requires_grad_()
        for x in tensors
    )


def _result(tensors, several, create_graph):
    if not create_graph:
        tensors = tuple(t.detach() for t in tensors)
    return tuple(tensors) if several else tensors[0]


def _vector(v, like, name, when):
    """`v` as a tuple of the shapes of `like`, or None for a single 1."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {when}.")
        return None
    several, v = _tensors(v, "v", name)
    if len(v) != len(like):
        if several and len(like) > 1:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        if len(like) > 1:
            raise RuntimeError(f"The given v is a single Tensor: should be a tuple of {len(like)} tensors.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (part, other) in enumerate(zip(v, like, strict=True)):
        if part.shape != other.shape:
            where = f"Entry {i} in " if len(like) > 1 else ""
            raise RuntimeError(f"{where}v has invalid size: should be {other.shape} but got {part.shape}.")
    return v


def _placeholders(tensors):
    from adjoint import zeros_like

    return tuple(zeros_like(t.detach()).requires_grad_() for t in tensors)


def _grad(outputs, inputs, v, create_graph):
    """`autograd.grad` that passes over the outputs that nothing depends on, and gives None where there is no path."""
    tracked = [i for i, y in enumerate(outputs) if y is not None and y.requires_grad]
    if not tracked:
        return (None,) * len(inputs)
    return grad(
        tuple(outputs[i] for i in tracked),
        inputs,
        None if v is None else tuple(v[i] for i in tracked),
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )


def _block(i, y, xs, create_graph, strict):
    """The rows of the Jacobian that belong to output `i`: one tensor per input."""
    from adjoint import stack, zeros_like

    rows: list[list] = [[] for _ in xs]
    for k in range(y.numel()):
        seed = y.new_zeros(y.numel())
        seed[k] = 1
        found = _grad((y,), xs, (seed.reshape(y.shape),), create_graph)
        for j, (x, row) in enumerate(zip(xs, found, strict=True)):
            if strict and row is None:
                raise RuntimeError(
                    f"Output {i} of the user-provided function is independent of input {j}. {_NOT_STRICT}."
                )
            if strict and create_graph and not row.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {j}. {_NOT_STRICT} when "
                    "create_graph=True."
                )
            rows[j].append(zeros_like(x.detach()) if row is None else row)
    return tuple(
        stack(column).reshape((*y.shape, *x.shape)) if column else x.new_zeros((*y.shape, *x.shape))
        for x, column in zip(xs, rows, strict=True)
    )


def _one_element(value, name):
    several, ys = _tensors(value, _OUTPUTS, name)
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if ys[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    return ys[0]


def _require_grad(tensors, kind, strict):
    if not strict:
        return
    for i, t in enumerate(tensors):
        if t is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. {_NOT_STRICT}."
            )
        if not t.requires_grad:
            raise RuntimeError(_MISSING[kind].format(i=i))


# What is wrong when something that should depend on the inputs does not.
_MISSING = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the user-provided function. "
    f"{_NOT_STRICT}.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    f"input {{i}} is independent of the input. {_NOT_STRICT}. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example).",
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent of the input. "
    f"{_NOT_STRICT}. You should ensure that your function is thrice differentiable and that the hessian depends on the "
    "inputs.",
}
