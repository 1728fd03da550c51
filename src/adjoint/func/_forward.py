"""`jvp` and `linearize`: derivatives of functions along directions.

`jvp` calls the function once, on duals: tensors that carry a tangent at a level of forward mode of its own
(`autograd.forward_ad`). `linearize` calls it once too, and gives the linear function itself, to be called with many tangents:
the function is recorded, its pass backward is recorded as a function of the cotangent, which is linear, and the transpose of
that is the pass backward through it. Nothing of the function runs again. Start reading at `jvp`.
"""

from __future__ import annotations

from adjoint import _C, zeros_like
from adjoint._C import Tensor, _asks_for_gradients, _gradient_edge, _run_backward, is_grad_enabled
from adjoint._types import Any, Callable
from adjoint.func._arguments import Arguments, Recording, split_aux, tensors_of
from adjoint.func._reverse import Recorded, lead_beyond, pulled, pulled_many
from adjoint.random import fork_rng, get_rng_state, set_rng_state
from adjoint.tree import flatten_arguments

__all__ = ["jvp", "linearize"]

_JVP = "jvp(f, primals, tangents)"
_INDEPENDENT = "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The value of a function, and its derivative along a direction, without a graph.

    Parameters
    ----------
    func : callable
        Takes tensors and containers of tensors, returns a tensor or a container of tensors.
    primals : tuple
        Its arguments.
    tangents : tuple
        The direction, in the form of `primals`.
    strict : bool
        Raise where an output does not depend on the primals, instead of giving zeros.
    has_aux : bool
        `func` returns a pair, of which the second part is not differentiated.

    Returns
    -------
    output, tangent
        Both in the form that `func` returned.
    aux
        With `has_aux`, the second part.

    Raises
    ------
    RuntimeError
        Primals are no tuple, tangents have another form or other shapes, `func` returns something else than tensors.
    NotImplementedError
        An operator has no forward derivative; its name is told.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import jvp
    >>> jvp(lambda x, y: x * y, (ad.tensor(2.0), ad.tensor(5.0)), (ad.tensor(1.0), ad.tensor(0.0)))
    (tensor(10.), tensor(5.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    leaves, spec = flatten_arguments(primals)
    directions, form = flatten_arguments(tangents)
    if spec != form:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 "
            f"tensors, tangents also must be. Got primals with structure {spec} and tangents with structure {form}"
        )
    for name, given in (("primals", leaves), ("tangents", directions)):
        if not given:
            raise RuntimeError(f"{_JVP}: Expected {name} to contain at least one Tensor.")
        for leaf in given:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"{_JVP}: Expected {name} to only contain Tensors, got {type(leaf)}")
    return pushed(func, leaves, directions, spec.unflatten, {}, strict, has_aux)


def pushed(func, primals, tangents, arguments_of, kwargs, strict=False, has_aux=False):
    """Like `jvp`, for lists of tensors of which `arguments_of` makes the arguments. A tangent may be None."""
    level = _C._enter_dual_level()
    try:
        duals = [
            x if t is None else _C._make_dual(x, t, level) for x, t in zip(primals, tangents, strict=True)
        ]
        output = func(*arguments_of(duals), **kwargs)
        aux = None
        if has_aux:
            output, aux = split_aux(output, _JVP)
        leaves, spec = tensors_of(output, _JVP, "f(*primals)")
        outputs, directions = [], []
        for leaf in leaves:
            primal, tangent = _C._unpack_dual(leaf, level)
            if tangent is None:
                if strict:
                    raise RuntimeError(_INDEPENDENT)
                tangent = zeros_like(primal, requires_grad=False)
            outputs.append(_same(primal, leaf, duals, primals))
            directions.append(tangent)
        if has_aux:
            rest, form = flatten_arguments(aux)
            aux = form.unflatten(
                [
                    _same(_C._unpack_dual(a, level)[0], a, duals, primals) if isinstance(a, Tensor) else a
                    for a in rest
                ]
            )
    finally:
        _C._exit_dual_level(level)
    pair = spec.unflatten(outputs), spec.unflatten(directions)
    return (*pair, aux) if has_aux else pair


def _same(primal, leaf, duals, primals):
    # What the function returned as it got it is the caller's tensor.
    for dual, x in zip(duals, primals, strict=True):
        if leaf is dual:
            return x
    return primal


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The value of a function, and its derivative as a linear function of a direction.

    The function is called once; the linear function computes no part of it again, and costs about a pass backward. (Where the
    function writes to what a pass backward needs, it runs again for each direction.) For one direction `jvp` is cheaper, since it
    keeps nothing.

    Parameters
    ----------
    func : callable
        Takes tensors and containers of tensors, returns a tensor or a container of tensors.
    *primals : tensors and containers of tensors
        Its arguments.

    Returns
    -------
    output
        What `func` returned.
    jvp_fn : callable
        ``jvp_fn(*tangents)`` takes tangents in the form of `primals`, and returns the tangent of the output in its form. It can
        be called any number of times.

    Raises
    ------
    RuntimeError
        Like `vjp`; tangents have another form, shape or dtype.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import linearize
    >>> value, push = linearize(lambda x: x**2, ad.tensor([1.0, 3.0]))
    >>> push(ad.tensor([1.0, 0.0])), push(ad.tensor([0.0, 1.0]))
    (tensor([2., 0.]), tensor([0., 6.]))
    """
    try:
        recorded = Recorded(func, primals, lambda tree: tree, {}, False)
        push, given, spec = Transposed(recorded).push, recorded.arguments.given, recorded.arguments.spec
        value, returned = recorded.value, recorded.spec
    except RuntimeError as error:
        if not writes_to_saved(error):
            raise
        # Then it runs again for each direction, each time with the same random numbers.
        given, spec = flatten_arguments(primals)
        state = get_rng_state()
        value = func(*primals)
        returned = flatten_arguments(value)[1]

        def push(leaves):
            with fork_rng():
                set_rng_state(state)
                return flatten_arguments(pushed(func, given, leaves, spec.unflatten, {})[1])[0]

    def jvp_fn(*tangents):
        leaves, form = flatten_arguments(tangents)
        if form != spec:
            raise RuntimeError(f"Expected the tangents {form} to have the same argspec as the primals {spec}")
        for i, (x, t) in enumerate(zip(given, leaves, strict=True)):
            _check_tangent(i, x, t)
        return returned.unflatten(push(leaves))

    return value, jvp_fn


def writes_to_saved(error):
    """Whether a function was refused for a write that forward mode allows."""
    return "modified by an inplace operation" in str(error) or "is being modified inplace" in str(error)


class Transposed:
    """The linear function from tangents of a recorded function's arguments to those of its outputs.

    The pass backward through the function is recorded as a function of the cotangents. That is linear, and the pass backward
    through it is its transpose; where it is recorded does not matter.
    """

    __slots__ = ("arguments", "beyond", "cotangents", "ends", "everything", "roots")

    def __init__(self, recorded: Any) -> None:
        self.arguments = own = recorded.arguments
        with Recording():
            self.cotangents = v = Arguments([zeros_like(y, requires_grad=False) for y in recorded.outputs])
            pairs = [(edge, w) for edge, w in zip(recorded.edges, v.inside, strict=True) if edge is not None]
            rows: tuple = (None,) * len(own.inside)
            if pairs:
                edges, seeds = tuple([edge for edge, _ in pairs]), tuple([w for _, w in pairs])
                rows = own.counted(_run_backward, edges, seeds, recorded.ends, True, True, False, True)
            # A row may be a cotangent itself.
            self.roots = [
                None if w is None or not _C._requires_grad_anywhere(w) else _gradient_edge(w) for w in rows
            ]
            self.ends = tuple([_gradient_edge(w) for w in v.inside])
            self.everything = [*own.inside, *v.inside]
            self.beyond = lead_beyond([w for w in rows if w is not None], self.everything)
            v.finish()

    def creates(self, tangents):
        return (
            self.arguments.recorded
            and is_grad_enabled()
            and (self.beyond or any(map(_asks_for_gradients, tangents)))
        )

    def push(self, tangents):
        """The tangents of the outputs, from one tangent for each argument."""
        pairs = [(root, t) for root, t in zip(self.roots, tangents, strict=True) if root is not None]
        roots, seeds = tuple([root for root, _ in pairs]), tuple([t for _, t in pairs])
        create = self.creates(tangents)
        with Recording():
            return pulled(roots, seeds, self.cotangents, self.ends, create, retain=True, own=self.everything)

    def push_many(self, number, tangents):
        """The tangents of the outputs along several tangents of argument `number`, each along a leading dimension."""
        create = self.creates((tangents,))
        with Recording():
            return pulled_many(
                self.roots[number], tangents, self.cotangents, self.ends, create, own=self.everything
            )


def _check_tangent(i, primal, tangent):
    if not isinstance(tangent, Tensor):
        raise RuntimeError(f"tangent:{i} in flattened pytree should be a Tensor, got {type(tangent)}")
    for what in ("shape", "dtype"):
        found, expected = getattr(tangent, what), getattr(primal, what)
        if found != expected:
            raise RuntimeError(
                f"tangent:{i} with {what} {found} in flattened pytree doesn't match the {what} {expected} of the "
                "corresponding primal."
            )
