"""`grad`, `grad_and_value` and `vjp`: derivatives of functions by one pass backward.

Each calls the function on arguments that stand for the caller's tensors, records it, and runs the engine from its results to
these arguments. The pass is recorded itself only where an outer transform can tell: where the function reached something
else that wants a gradient, such as what it captured, or an argument of another transform around this one. So transforms nest
without levels, and a derivative of first order costs what `autograd.grad` costs. Start reading at `grad_and_value`.
"""

from __future__ import annotations

from adjoint import autograd, zeros_like
from adjoint._C import (
    Tensor,
    _asks_for_gradients,
    _gradient_edge,
    _leads_beyond,
    _requires_grad_anywhere,
    _result_of,
    _run_backward,
    _tangents_lead_beyond,
    is_grad_enabled,
)
from adjoint._publish.arguments import wraps
from adjoint._types import Any, Callable
from adjoint.func._arguments import Arguments, Recording, chosen, split_aux, tensors_of
from adjoint.tree import flatten_arguments

__all__ = ["grad", "grad_and_value", "vjp"]


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that computes the gradient of `func`.

    Parameters
    ----------
    func : callable
        Takes tensors and containers of tensors, returns a tensor of no dimensions.
    argnums : int or tuple of int
        By which positional arguments the gradient is taken: each a floating-point or complex tensor, or a container of such.
        Arguments by keyword are not differentiated.
    has_aux : bool
        `func` returns a pair: the tensor, and a container of anything else.

    Returns
    -------
    callable
        With the arguments of `func`. Returns the gradient in the form of the argument (a tuple of these for a tuple of
        `argnums`); with `has_aux` a pair of that and the rest.

    Raises
    ------
    RuntimeError
        When called: `func` does not return one number, or a pair; `argnums` do not fit its arguments.
    ValueError
        When called: an argument to differentiate by is no tensor.

    Notes
    -----
    Results can be differentiated further if gradients are wanted for what they depend on: for the arguments, for what `func`
    captured, or inside of another transform. Under `no_grad` the gradient is computed, but has no history.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import grad
    >>> x = ad.tensor(3.0)
    >>> grad(lambda x: x**3)(x), grad(grad(lambda x: x**3))(x)
    (tensor(27.), tensor(18.))
    >>> grad(lambda p: p["w"] * p["b"])({"w": x, "b": ad.tensor(2.0)})
    {'w': tensor(2.), 'b': tensor(3.)}
    """
    of_both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def gradient(*args, **kwargs):
        found, rest = of_both(*args, **kwargs)
        return (found, rest[1]) if has_aux else found

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that computes the gradient of `func` and its value: a pair of the two.

    Parameters
    ----------
    func, argnums, has_aux
        Like those of `grad`.

    Returns
    -------
    callable
        Returns ``(gradient, value)``; with `has_aux` ``(gradient, (value, aux))``.

    Raises
    ------
    RuntimeError, ValueError
        Like `grad`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import grad_and_value
    >>> grad_and_value(lambda x: x**3)(ad.tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @wraps(func)
    def both(*args, **kwargs):
        tree, replaced = chosen(args, argnums)
        arguments = Arguments(tree)
        with Recording():
            output = func(*replaced(arguments.tree()), **kwargs)
            aux = None
            if has_aux:
                output, aux = split_aux(output, _GRAD)
            if not isinstance(output, Tensor):
                raise RuntimeError(f"{_GRAD}: Expected f(*args) to return a Tensor, got {type(output)}")
            if output.dim() != 0:
                raise RuntimeError(
                    f"{_GRAD}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. Maybe you "
                    "wanted to use the vjp or jacrev APIs instead?"
                )
            arguments.check()
            # A result of integers, or one that does not depend on the arguments.
            roots = (output,) if _requires_grad_anywhere(output) else ()
            create = arguments.recorded and lead_beyond(roots, arguments.inside)
            found = pulled(roots, None, arguments, arguments.inside, create)
            value = arguments.result(output)
            if has_aux:
                value = (value, arguments.results(aux))
            arguments.finish()
        return arguments.spec.unflatten(found), value

    return both


_GRAD = "grad_and_value(f)(*args)"


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and the function that pulls cotangents of the value back to its arguments.

    Parameters
    ----------
    func : callable
        Takes tensors and containers of tensors, returns a tensor or a container of tensors.
    *primals : tensors and containers of tensors
        The arguments, all floating-point or complex.
    has_aux : bool
        `func` returns a pair, of which the second part is not differentiated.

    Returns
    -------
    output
        What `func` returned.
    vjp_fn : callable
        ``vjp_fn(cotangents, retain_graph=True, create_graph=None)`` takes cotangents in the form of the output and returns the
        tuple of their products with the Jacobian, in the form of `primals`. It can be called any number of times; with
        ``retain_graph=False`` for the last time. What it returns is recorded where that can be told, or as `create_graph` says.
    aux
        With `has_aux`, the second part of what `func` returned.

    Raises
    ------
    RuntimeError
        `func` returns something else than floating-point or complex tensors, or cotangents have another form.
    ValueError
        A primal is no tensor.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import vjp
    >>> value, pull = vjp(lambda a, b: a * b, ad.tensor(2.0), ad.tensor(5.0))
    >>> value, pull(ad.tensor(1.0))
    (tensor(10.), (tensor(5.), tensor(2.)))
    """
    recorded = Recorded(func, primals, lambda tree: tree, {}, has_aux)
    spec, own = recorded.spec, recorded.arguments

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        leaves, form = flatten_arguments(cotangents)
        if form != spec:
            from adjoint.tree import shown

            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {shown(form)}, primal output: {shown(spec)}"
            )
        for leaf in leaves:
            if leaf is not None and not isinstance(leaf, Tensor):
                raise RuntimeError(f"vjp(f, *primals): expected cotangents to be tensors, got {type(leaf)}")
        continued = own.recorded and is_grad_enabled() if create_graph is None else create_graph
        with Recording():
            return own.spec.unflatten(recorded.pull(leaves, continued, retain_graph))

    return (recorded.value, vjp_fn, recorded.aux) if has_aux else (recorded.value, vjp_fn)


class Recorded:
    """A function that was called on some of its arguments, and can be pulled back through.

    Attributes
    ----------
    value, aux
        What it returned, as the outside gets it.
    outputs : list of Tensor
        The tensors of its value, as they are inside.
    spec : TreeSpec
        The form of its value.
    arguments : Arguments
    """

    __slots__ = ("arguments", "aux", "beyond", "edges", "ends", "outputs", "spec", "value")

    def __init__(
        self,
        func: Any,
        tree: Any,
        replaced: Any,
        kwargs: Any,
        has_aux: Any,
        what: Any = "vjp(f, *primals)",
        returned: Any = "f(*primals)",
    ) -> None:
        self.arguments = own = Arguments(tree)
        with Recording():
            output = func(*replaced(own.tree()), **kwargs)
            aux = None
            if has_aux:
                output, aux = split_aux(output, what)
            self.outputs, self.spec = tensors_of(output, what, returned)
            for y in self.outputs:
                if not (y.is_floating_point() or y.is_complex()):
                    raise RuntimeError(
                        f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                        f"{y.dtype}"
                    )
            own.check()
            # The program may write to what it gets; where the graph begins stays.
            self.edges = [_gradient_edge(y) if _requires_grad_anywhere(y) else None for y in self.outputs]
            self.beyond = lead_beyond(self.outputs, own.inside)
            self.ends = tuple([_gradient_edge(x) for x in own.inside])
            self.value = self.spec.unflatten([own.result(y) for y in self.outputs])
            self.aux = own.results(aux) if has_aux else None
            own.finish()

    def creates(self, cotangents, continued):
        """Whether an outer transform can tell that a pass is recorded."""
        return continued and (
            self.beyond or any([g is not None and _asks_for_gradients(g) for g in cotangents])
        )

    def pull(self, cotangents, continued, retain=True):
        """What a list of cotangents, one per output, is pulled back to: one per argument."""
        roots = tuple([edge for edge in self.edges if edge is not None])
        seeds = tuple([g for edge, g in zip(self.edges, cotangents, strict=True) if edge is not None])
        own = self.arguments
        create = self.creates(seeds, continued)
        return own.counted(pulled, roots, seeds, own, self.ends, create, retain)

    def pull_one(self, number, cotangent):
        """What a cotangent of output `number` is pulled back to: one per argument."""
        create = self.creates((), self.arguments.recorded)
        with Recording():
            own = self.arguments
            return own.counted(pulled, (self.edges[number],), (cotangent,), own, self.ends, create, True)

    def pull_many(self, number, cotangents):
        """The same for cotangents stacked along a leading dimension."""
        create = self.creates((), self.arguments.recorded)
        with Recording():
            own = self.arguments
            return own.counted(pulled_many, self.edges[number], cotangents, own, self.ends, create)


def lead_beyond(tensors, own):
    """Whether tensors or their tangents depend on anything that wants a gradient and is not one of `own`."""
    return _leads_beyond(tensors, own) or _tangents_lead_beyond(tensors, own)


def pulled(roots, cotangents, arguments, ends, create, retain=False, own=None):
    """The gradients of `roots` by the arguments inside: zeros where there is no path.

    `ends`: the arguments inside, or the edges where gradients for them arrive. `create`: the pass is recorded, and what comes
    out keeps its history, if that leads to more than `own`, the arguments inside by default.
    """
    inside = arguments.inside
    if not roots or not inside:
        return [_zeros(x) for x in inside]
    found = _run_backward(roots, cotangents, ends, retain or create, create, False, True)
    return outside(found, inside, inside if own is None else own, create)


def pulled_many(root, cotangents, arguments, ends, create, own=None):
    """Like `pulled`, for several cotangents of one root along a leading dimension."""
    inside = arguments.inside
    found = autograd.grad(
        (root,),
        ends,
        (cotangents,),
        retain_graph=True,
        create_graph=create,
        allow_unused=True,
        is_grads_batched=True,
    )
    found = outside(found, inside, inside if own is None else own, create)
    # Zeros, where there is no path, are not of many.
    return [
        g if g.dim() > x.dim() else g.expand((len(cotangents), *x.shape))
        for x, g in zip(inside, found, strict=True)
    ]


def outside(found, inside, own, create):
    """Gradients by the arguments inside as the outside gets them."""
    return [
        _zeros(x) if g is None else _result_of(g, own, create) if create or _requires_grad_anywhere(g) else g
        for x, g in zip(inside, found, strict=True)
    ]


def _zeros(x):
    return zeros_like(x, requires_grad=False)
