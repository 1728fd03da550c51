"""Whole Jacobians and Hessians: `jacrev` row by row from behind, `jacfwd` column by column from the front.

A row is what a unit cotangent is pulled back to, a column what a unit tangent is pushed to; many of them are computed in one
pass over a batch. Where outputs are fewer than inputs `jacrev` is cheaper, else `jacfwd`.
Start reading at `jacrev`.
"""

from __future__ import annotations

from functools import wraps

from adjoint import Tensor, cat, eye, stack, zeros, zeros_like
from adjoint.func._arguments import chosen, refuse_complex
from adjoint.func._forward import pushed
from adjoint.func._reverse import Recorded
from adjoint.utils._pytree import flatten_arguments

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
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
        return [zeros((*y.shape, *x.shape), dtype=x.dtype) for x in own.inside]
    if count == 1:
        seed = zeros((), dtype=y.dtype) + 1
        found = recorded.pull_one(number, seed.reshape(y.shape))
        return [g.reshape((*y.shape, *x.shape)) for g, x in zip(found, own.inside, strict=True)]
    seeds = eye(count, dtype=y.dtype).reshape((count, *y.shape))
    size = chunk_size or count
    chunks = [recorded.pull_many(number, seeds[start : start + size]) for start in range(0, count, size)]
    columns = [cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*chunks, strict=True)]
    return [g.reshape((*y.shape, *x.shape)) for g, x in zip(columns, own.inside, strict=True)]


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error", chunk_size=None):
    """The function that computes the Jacobian of `func`, by forward mode.

    Parameters
    ----------
    func, argnums, has_aux
        As for `jacrev`.
    randomness : str
        What random numbers in `func` are for the columns, as for `vmap`.
    chunk_size : int, optional
        How many columns are computed at once, where memory is short: all by default.

    Returns
    -------
    callable
        As for `jacrev`; the derivatives have the dtype of the output.

    Raises
    ------
    RuntimeError, ValueError
        As `jacrev`.
    NotImplementedError
        An operator has no forward derivative; its name is told.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import jacfwd
    >>> jacfwd(lambda x: x.sin())(ad.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    _check_chunk_size("jacfwd", chunk_size)

    @wraps(func)
    def jacobian(*args, **kwargs):
        refuse_complex("jacfwd", "inputs", args)
        tree, replaced = chosen(args, argnums)
        return _columns(func, tree, replaced, kwargs, has_aux, randomness, chunk_size)

    return jacobian


def hessian(func, argnums=0, *, chunk_size=None):
    """The function that computes the Hessian of `func`, by passes backward through its gradient.

    It is ``jacrev(jacrev(func))``: here a recorded pass backward is cheaper than forward mode over it, keeps the function's values
    once and not once per column, and needs no forward derivatives. ``jacfwd(jacrev(func))`` gives the same.

    Parameters
    ----------
    func : callable
        As for `jacrev`; mostly with one number as its value.
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
        As `jacrev`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import hessian
    >>> hessian(lambda x: (x**3).sum())(ad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums, chunk_size=chunk_size)


def _columns(func, tree, replaced, kwargs, has_aux, randomness, chunk_size):
    """The Jacobian from the tangents of the outputs along each unit direction."""
    inputs, spec = flatten_arguments(tree)
    for x in inputs:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    counts = [x.numel() for x in inputs]
    forms: dict = {}

    def push(*tangents):
        _, direction, *rest = pushed(
            func,
            inputs,
            tangents,
            lambda leaves: replaced(spec.unflatten(leaves)),
            kwargs,
            has_aux=has_aux,
        )
        leaves, forms["output"] = flatten_arguments(direction)
        refuse_complex("jacfwd", "outputs", leaves)
        forms["rest"], forms["aux"] = flatten_arguments(rest)
        # Of the rest, tensors may differ from direction to direction in what they stand for; the first is as good as any.
        return leaves, [a for a in forms["rest"] if isinstance(a, Tensor)]

    if sum(counts):
        leaves, tensors = _over(push, _unit_directions(inputs, counts), randomness, chunk_size)
        tensors = [t[0] for t in tensors]
        # The directions of all inputs stand one after the other in front.
        parts = [y.movedim(0, -1).split(counts, -1) for y in leaves]
        blocks = [
            [p.reshape((*y.shape[1:], *x.shape)) for p, x in zip(row, inputs, strict=True)]
            for row, y in zip(parts, leaves, strict=True)
        ]
    else:
        leaves, tensors = push(*[zeros_like(x, requires_grad=False) for x in inputs])
        blocks = [[y.new_zeros((*y.shape, *x.shape)) for x in inputs] for y in leaves]
    result = forms["output"].unflatten([spec.unflatten(row) for row in blocks])
    if not has_aux:
        return result
    found = iter(tensors)
    rest = forms["aux"].unflatten([next(found) if isinstance(a, Tensor) else a for a in forms["rest"]])
    return result, rest[0]


def _unit_directions(inputs, counts):
    """For each input all unit tangents of all inputs, along a leading dimension: zeros but for its own."""
    total, start, found = sum(counts), 0, []
    for x, count in zip(inputs, counts, strict=True):
        directions = zeros((total, count), dtype=x.dtype)
        directions[start : start + count].fill_diagonal_(1)
        found.append(directions.reshape((total, *x.shape)))
        start += count
    return found


def _over(push, directions, randomness, chunk_size):
    """The tensors that `push` returns, for each of the directions, along a leading dimension."""
    pairs = [push(*[d[i] for d in directions]) for i in range(len(directions[0]))]
    return [[stack(column) for column in zip(*rows, strict=True)] for rows in zip(*pairs, strict=True)]


def _check_chunk_size(name, chunk_size):
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0.")
