"""Looking at the graph and reaching into it: edges, hooks over several tensors, hooks for what is saved, source lines.

`saved_tensors_hooks` and its neighbours decide what a node keeps; `register_multi_grad_hook` waits for several gradients;
`set_record_lines` lets errors name the lines of your program. `explain` and `draw` show a graph (autograd/_show.py).
"""

from __future__ import annotations

from contextlib import contextmanager

from adjoint import _C
from adjoint._C import Node, Tensor
from adjoint._publish.arguments import ignores
from adjoint._publish.register import document_classes as _document_classes
from adjoint._publish.register import listing
from adjoint._types import Any, Callable, Sequence

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "draw",
    "explain",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "set_check_external",
    "saved_tensors_hooks",
    "set_record_lines",
]
__dir__ = listing(__name__)


class GradientEdge(tuple):
    """A node and the number of its result whose gradient arrives there.

    `autograd.grad` and `autograd.backward` take one wherever they take a tensor, so that the tensor itself need not be
    kept.

    Attributes
    ----------
    node : Node
    output_nr : int
    ownership_token : Node, optional
        What keeps the node alive where `node` is of another kind; without effect here.
    """

    __slots__ = ()

    def __new__(cls, node: Any, output_nr: Any, ownership_token: Any = None) -> Any:
        return tuple.__new__(cls, (node, output_nr, ownership_token))

    @property
    def node(self) -> Any:
        return self[0]

    @property
    def output_nr(self) -> Any:
        return self[1]

    @property
    def ownership_token(self) -> Any:
        return self[2]

    def __repr__(self) -> str:
        return f"GradientEdge(node={self[0]!r}, output_nr={self[1]})"


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` goes.

    Parameters
    ----------
    tensor : Tensor

    Returns
    -------
    GradientEdge
        The node, and the number of its output.

    Raises
    ------
    RuntimeError
        The tensor needs no gradient.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> edge = ad.autograd.graph.get_gradient_edge(x * 2)
    >>> edge.node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor) -> None:
    """Say that the memory of a tensor (or of each of several) was changed by something that the library cannot see.

    Parameters
    ----------
    tensor : Tensor, or iterable of Tensors

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2)
    >>> ad.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._bump_version()


# --- what nodes keep ----------------------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """While this context is open in a thread, ``pack_hook(tensor)`` makes what nodes keep instead of the tensors that they
    save, and ``unpack_hook(kept)`` makes a tensor of it when a backward pass needs it.

    Parameters
    ----------
    pack_hook : callable
        Takes the tensor, without recording; must not change it. May return anything.
    unpack_hook : callable
        Takes what `pack_hook` returned; must return a tensor of the same values.

    Raises
    ------
    RuntimeError
        The tensor was changed by `pack_hook`; hooks are disabled (see `disable_saved_tensors_hooks`).
    TypeError
        `unpack_hook` returned no tensor.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3, requires_grad=True)
    >>> kept = []
    >>> with ad.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or len(kept) - 1, lambda i: kept[i]):
    ...     y = x * x
    >>> len(kept)
    2
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 2., 2.])
    """

    def __init__(self, pack_hook: Any, unpack_hook: Any) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Any:
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception: Any) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors as copies in main memory, where tensors live on another device; here, copies.

    Parameters
    ----------
    pin_memory : bool
        Without effect, as a warning says: there is no device to transfer from.
    """

    @ignores("pin_memory", why="memory is pinned for transfers to a device, and there is none")
    @ignores("device_type", why="copies are made of tensors of every device", warns=False)
    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda tensor: tensor.clone(), lambda kept: kept)


class disable_saved_tensors_hooks:
    """While this context is open, `saved_tensors_hooks` is refused with the given message.

    Raises
    ------
    RuntimeError
        Hooks are in use already.
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> Any:
        self.before = _C._disable_saved_tensors_hooks(self.error_message)

    def __exit__(self, *exception: Any) -> None:
        _C._disable_saved_tensors_hooks("")
        if self.before:
            _C._disable_saved_tensors_hooks(self.before)

    def __call__(self, function: Callable[..., Any]) -> Any:
        from functools import wraps

        @wraps(function)
        def wrapper(*args, **kwargs):
            with disable_saved_tensors_hooks(self.error_message):
                return function(*args, **kwargs)

        return wrapper


@contextmanager
def allow_mutation_on_saved_tensors() -> Any:
    """While this context is open, tensors that were saved may be changed in place: the backward pass, inside of it too,
    sees them as they were. A copy is made when a tensor is written that was saved, and not before.

    Returns
    -------
    context manager
        Its value has a method ``clear()``, which lets go of all that was saved, and ``cloned``, the copies that were made
        and are still needed.

    Raises
    ------
    RuntimeError
        Two such contexts are nested.
    AssertionError
        A backward pass runs outside of the context in which its graph was recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.autograd.graph.allow_mutation_on_saved_tensors():
    ...     x = ad.ones(2, requires_grad=True)
    ...     y = x.clone()
    ...     z = (y * y).sum()
    ...     _ = y.mul_(10)
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """
    from adjoint.autograd._copy_on_write import Originals

    with Originals() as originals:
        yield originals


# --- hooks over several tensors -----------------------------------------------------------------------------------------


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn` when the gradients of several tensors are known.

    Parameters
    ----------
    tensors : sequence of Tensor
        All need a gradient.
    fn : callable
        With ``mode='all'``, ``fn(gradients)`` is called once per backward pass, when the last of the gradients that the
        pass will compute is there; gradients that it will not compute are None. With ``mode='any'``,
        ``fn(gradient)`` is called with the first.
    mode : {'all', 'any'}

    Returns
    -------
    RemovableHandle

    Examples
    --------
    >>> import adjoint as ad
    >>> x, y = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    >>> handle = ad.autograd.graph.register_multi_grad_hook([x, y], lambda gradients: print(len(gradients)))
    >>> (x * y).sum().backward()
    2
    """
    from threading import Lock
    from weakref import WeakValueDictionary

    from adjoint.utils.hooks import handle_that

    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    # Keys, not nodes: a node owns its hooks.
    keys = [_C._node_key(t) for t in tensors]
    lock = Lock()
    passes: WeakValueDictionary = WeakValueDictionary()

    def state():
        number = _C._current_pass()
        arrivals = passes.get(number)
        if arrivals is None:
            passes[number] = arrivals = _Arrivals(len(keys))
            # Only the pass keeps it, through a callback that does nothing: it goes with the pass, even one that fails.
            _C._at_end_of_pass(_Keep(arrivals))
        return arrivals

    def all_hook(i, gradient):
        with lock:
            arrivals = state()
            if arrivals.expected is None:
                arrivals.expected = sum(_C._current_pass_runs(*key) for key in keys)
            arrivals.gradients[i] = gradient
            arrivals.count += 1
            complete = arrivals.count == arrivals.expected
        if complete:
            fn(arrivals.gradients)

    def any_hook(i, gradient):
        with lock:
            arrivals = state()
            arrivals.count += 1
            first = arrivals.count == 1
        if first:
            fn(gradient)

    hook = all_hook if mode == "all" else any_hook
    handles = [t.register_hook(_numbered(hook, i)) for i, t in enumerate(tensors)]

    def remove():
        for handle in handles:
            handle.remove()

    return handle_that(remove)


class _Arrivals:
    """What has arrived in one backward pass."""

    __slots__ = ("__weakref__", "count", "expected", "gradients")

    def __init__(self, n: Any) -> None:
        self.gradients = [None] * n
        self.count = 0
        self.expected = None


class _Keep:
    """A callback that only holds something."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self) -> Any:
        pass


def _numbered(hook, i):
    return lambda gradient: hook(i, gradient)


# --- lines --------------------------------------------------------------------------------------------------------------


def set_record_lines(on: bool = True) -> bool:
    """Note the source line of every recorded operation and of every write in place, so that errors can name them.

    Returns what was set before. While it is off it costs nothing; while it is on, some microseconds per operation.

    Parameters
    ----------
    on : bool

    Returns
    -------
    bool
        What was set before.

    Examples
    --------
    >>> import adjoint as ad
    >>> before = ad.autograd.graph.set_record_lines(True)
    >>> _ = ad.autograd.graph.set_record_lines(before)
    """
    from adjoint.autograd._lines import where

    return _C._set_record_lines(bool(on), where)


def set_check_external(on: bool = True) -> bool:
    """Compare memory that others own, such as that of a NumPy array, when a backward pass uses what was saved of it.

    A tensor made by `from_numpy` shares the array's memory, and the library does not see writes to the array. So that
    they cannot spoil a gradient unseen, a checksum is taken when such a tensor is saved, and compared when it is used. It
    costs one reading of the memory each time. Returns what was set before.

    Parameters
    ----------
    on : bool

    Returns
    -------
    bool
        What was set before.

    Examples
    --------
    >>> import numpy as np
    >>> import adjoint as ad
    >>> a = np.ones(3)
    >>> w = ad.ones(3, dtype=ad.float64, requires_grad=True)
    >>> y = (w * ad.from_numpy(a)).sum()
    >>> a *= 2
    >>> try:
    ...     y.backward()
    ... except RuntimeError as error:
    ...     print(str(error)[:44])
    one of the variables needed for gradient com
    """
    return _C._set_check_external(bool(on))


def explain(tensor: Tensor, **options: Any) -> Any:
    """A table of the graph of a tensor: each operation with its result, what it saves in bytes, and its source line.

    Parameters
    ----------
    tensor : Tensor, Node, GradientEdge, or a sequence of them
    **options
        There are none.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(1000, requires_grad=True)
    >>> [(row["operation"], row["bytes"]) for row in ad.autograd.graph.explain((x * 2).sum()).rows]
    [('SumBackward0', 0), ('MulBackward0', 4)]
    """
    from adjoint.autograd._show import explain

    return explain(tensor, **options)


def draw(tensor: Tensor, **options: Any) -> Any:
    """A picture of the graph of a tensor: operations, the shapes that flow between them, parameters by name; or of what is
    replayed of a jitted function: instructions, inputs, constants, decisions, results, and the backward pass.

    Parameters
    ----------
    tensor : Tensor, Node, GradientEdge, or a sequence of them; or a function that `jit` returned
    **options
        `params`, a Module or dict of Tensors: names for leaves. `trace`, an int: which of a function's traces; 0, the one
        that was replayed last, if it is left out.

    Returns
    -------
    Drawing
        ``.save(path)`` writes SVG, PNG or PDF, for which it needs Graphviz; ``.source`` does not.

    Raises
    ------
    RuntimeError
        The tensor requires no gradient, or the function has no trace.
    IndexError
        The function has no trace of that number.

    Examples
    --------
    >>> import adjoint as ad
    >>> w = ad.ones(3, requires_grad=True)
    >>> "SumBackward0" in ad.autograd.graph.draw((w * 2).sum(), params={"w": w}).source
    True
    """
    from adjoint.autograd._show import draw

    return draw(tensor, **options)


_document_classes(globals())
