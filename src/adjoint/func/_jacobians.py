"""Whole Jacobians and Hessians: `jacrev` row by row in reverse mode, `jacfwd` column by column in forward mode.

A row is what a unit cotangent is pulled back to, a column what a unit tangent is pushed to; many of them are computed in one
pass over a batch. Where outputs are fewer than inputs `jacrev` is cheaper, else `jacfwd`.
Start reading at `jacrev`.
"""

from __future__ import annotations

from adjoint import cat, eye, zeros
from adjoint._publish.arguments import wraps
from adjoint._types import Any, Callable
from adjoint.func._arguments import chosen, need_randomness, refuse_complex
from adjoint.func._forward import _JVP, Transposed, pushed, writes_to_saved
from adjoint.func._reverse import Recorded
from adjoint.func._vmap import vmap
from adjoint.tree import flatten_arguments

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that computes the Jacobian of `func`, by passes backward.

    Parameters
    ----------
    func : callable
        Takes tensors and containers of tensors, returns a real tensor or a container of such.
    argnums : int or tuple of int
        By which positional arguments.
    has_aux : bool
        `func` returns a pair, of which the second part is not differentiated.
    chunk_size : int, optional
        How many rows are computed at once, where memory is short: all by default.

    Returns
    -------
    callable
        With the arguments of `func`. Returns, in the form of the output, for each of its tensors the derivatives in the form of
        the argument (a tuple of these for a tuple of `argnums`), each of shape ``output.shape + input.shape`` and the dtype of
        the input; with `has_aux` a pair of that and the rest.

    Raises
    ------
    RuntimeError
        When called: complex tensors, outputs that are no tensors, `argnums` that do not fit.
    ValueError
        `chunk_size` is not positive; or, when called, an argument is no tensor.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import jacrev
    >>> jacrev(lambda x: x.sin())(ad.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    _check_chunk_size("jacrev", chunk_size)

    @wraps(func)
    def jacobian(*args, **kwargs):
        refuse_complex("jacrev", "inputs", args)
        tree, replaced = chosen(args, argnums)
        recorded = Recorded(func, tree, replaced, kwargs, has_aux)
        refuse_complex("jacrev", "outputs", recorded.outputs)
        own = recorded.arguments
        found = [own.spec.unflatten(_rows(recorded, i, chunk_size)) for i in range(len(recorded.outputs))]
        result = recorded.spec.unflatten(found)
        return (result, recorded.aux) if has_aux else result

    return jacobian


def _rows(recorded, number, chunk_size):
    """The derivatives of one output by each argument."""
    own, y = recorded.arguments, recorded.outputs[number]
    count = y.numel()
    if recorded.edges[number] is None or not count:
        return [zeros((*y.shape, *x.shape), dtype=x.dtype, device=x.device) for x in own.inside]
    if count == 1:
        seed = zeros((), dtype=y.dtype, device=y.device) + 1
        found = recorded.pull_one(number, seed.reshape(y.shape))
        return [g.reshape((*y.shape, *x.shape)) for g, x in zip(found, own.inside, strict=True)]
    seeds = eye(count, dtype=y.dtype, device=y.device).reshape((count, *y.shape))
    size = chunk_size or count
    chunks = [recorded.pull_many(number, seeds[start : start + size]) for start in range(0, count, size)]
    columns = [cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*chunks, strict=True)]
    return [g.reshape((*y.shape, *x.shape)) for g, x in zip(columns, own.inside, strict=True)]


def jacfwd(
    func: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that computes the Jacobian of `func` column by column, or row by row where those are much fewer.

    The function runs once, and its derivative is pushed forward as `linearize` does it: what it computes is kept once, and not
    once per column.

    Parameters
    ----------
    func, argnums, has_aux
        Like those of `jacrev`.
    randomness : str
        Is not needed: all columns see the same random numbers, since `func` runs once.
    chunk_size : int, optional
        How many columns are computed at once, where memory is short: all by default.

    Returns
    -------
    callable
        Like those of `jacrev`; the derivatives have the dtype of the output.

    Raises
    ------
    RuntimeError, ValueError
        Like `jacrev`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import jacfwd
    >>> jacfwd(lambda x: x.sin())(ad.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    need_randomness(randomness)
    _check_chunk_size("jacfwd", chunk_size)

    @wraps(func)
    def jacobian(*args, **kwargs):
        refuse_complex("jacfwd", "inputs", args)
        tree, replaced = chosen(args, argnums)
        try:
            return _columns(func, tree, replaced, kwargs, has_aux, chunk_size)
        except RuntimeError as error:
            if not writes_to_saved(error):
                raise
            return _columns_of_duals(func, tree, replaced, kwargs, has_aux, chunk_size)

    return jacobian


def hessian(
    func: Callable[..., Any], argnums: Any = 0, *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The function that computes the Hessian of `func`: ``jacfwd(jacrev(func))``.

    Where `func` gives one number, that is passes backward through its recorded gradient, which are cheaper than forward mode over it; where
    it gives many, the gradient is pushed forward, in as many passes as there are inputs.

    Parameters
    ----------
    func : callable
        Like those of `jacrev`; mostly with one number as its value.
    argnums : int or tuple of int
        By which positional arguments.
    chunk_size : int, optional
        How many rows are computed at once.

    Returns
    -------
    callable
        For one argument a tensor of shape ``output.shape + input.shape + input.shape``; for several, tuples of tuples.

    Raises
    ------
    RuntimeError, ValueError
        Like `jacrev`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import hessian
    >>> hessian(lambda x: (x**3).sum())(ad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums, chunk_size=chunk_size)


def _columns(func, tree, replaced, kwargs, has_aux, chunk_size):
    recorded = Recorded(func, tree, replaced, kwargs, has_aux, _JVP, "f(*primals)")
    refuse_complex("jacfwd", "outputs", recorded.outputs)
    own, outputs = recorded.arguments, recorded.outputs
    count = sum([y.numel() for y in outputs])
    # What is recorded can be pulled as well as pushed; a push costs about two pulls. Types would be rounded on another way.
    if (
        count <= 2 * sum([x.numel() for x in own.inside])
        and len({t.dtype for t in (*own.inside, *outputs)}) == 1
    ):
        rows = [_rows(recorded, i, chunk_size) for i in range(len(outputs))]
    else:
        linear = Transposed(recorded)
        blocks = [_blocks(linear, i, outputs, chunk_size) for i in range(len(own.inside))]
        rows = [[block[i] for block in blocks] for i in range(len(outputs))]
    result = recorded.spec.unflatten([own.spec.unflatten(row) for row in rows])
    return (result, recorded.aux) if has_aux else result


def _blocks(linear, number, outputs, chunk_size):
    """The derivatives of each output by argument `number`."""
    x = linear.arguments.inside[number]
    count = x.numel()
    if linear.roots[number] is None or not count:
        return [zeros((*y.shape, *x.shape), dtype=y.dtype, device=y.device) for y in outputs]
    directions = eye(count, dtype=x.dtype, device=x.device).reshape((count, *x.shape))
    size = chunk_size or count
    chunks = [linear.push_many(number, directions[start : start + size]) for start in range(0, count, size)]
    columns = [cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*chunks, strict=True)]
    return [c.movedim(0, -1).reshape((*y.shape, *x.shape)) for c, y in zip(columns, outputs, strict=True)]


def _columns_of_duals(func, tree, replaced, kwargs, has_aux, chunk_size):
    """By forward mode, for a function that writes to what a pass backward would need: it runs again, for all columns at once."""
    leaves, spec = flatten_arguments(tree)

    def push(number, direction):
        directions = [direction if i == number else None for i in range(len(leaves))]
        return pushed(
            func, leaves, directions, lambda d: replaced(spec.unflatten(d)), kwargs, has_aux=has_aux
        )

    blocks = []
    for i, x in enumerate(leaves):
        units = eye(x.numel(), dtype=x.dtype, device=x.device).reshape((x.numel(), *x.shape))
        columns = vmap(lambda unit, i=i: push(i, unit)[1], randomness="same", chunk_size=chunk_size)(units)
        found, form = flatten_arguments(columns)
        blocks.append([c.movedim(0, -1).reshape((*c.shape[1:], *x.shape)) for c in found])
    result = form.unflatten([spec.unflatten([*row]) for row in zip(*blocks, strict=True)])
    return (result, push(None, None)[2]) if has_aux else result


def _check_chunk_size(name, chunk_size):
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0.")
