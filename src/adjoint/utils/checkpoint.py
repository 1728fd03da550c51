"""Trading time for memory: `checkpoint` keeps the inputs of a part of a program and computes the rest again.

Without reentrance (the form to use): while the part runs, hooks put a placeholder where a node would save a tensor. When
a backward pass asks for the first of them, the part is run again with hooks that collect what is saved, in the same
order; the last one that is needed stops the run. Start reading at `_Frame`.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import listing
from adjoint._switches import announce, switches
from adjoint._types import Any, Callable
from adjoint.autograd.grad_mode import enable_grad
from adjoint.autograd.graph import saved_tensors_hooks
from adjoint.utils._exec_group import USED, GraphExecGroup
from adjoint.utils._reentrant import (
    CheckpointFunction,
    _random_state,
    _with_autocast,
    _with_random_state,
    check_backward_validity,
    detach_variable,
)
from adjoint.utils._selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
__dir__ = listing(__name__)


class CheckpointError(RuntimeError):
    """The recomputed tensors differ from those of the first run.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> x, calls = ad.ones(2, requires_grad=True), []
    >>> def changes(x):
    ...     calls.append(1)
    ...     return (x[: len(calls)] ** 2).sum()
    >>> try:
    ...     checkpoint.checkpoint(changes, x, use_reentrant=False).backward()
    ... except checkpoint.CheckpointError as error:
    ...     print("different" in str(error))
    True
    """


class _Stop(Exception):
    """All that the backward pass needs has been computed again."""


_early_stop: bool | None = None


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Any:
    """Whether a part stops being computed again once all that is needed is there; for the calls made inside, whatever
    they say themselves.

    Parameters
    ----------
    enable : bool

    Yields
    ------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> x = ad.ones(1, requires_grad=True)
    >>> with checkpoint.set_checkpoint_early_stop(False):
    ...     checkpoint.checkpoint(ad.exp, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2.7183])
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


_debug: bool | None = None


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """What ``debug`` of `checkpoint` is for the calls made inside, whatever they say themselves; None leaves it to them.

    Parameters
    ----------
    enabled : bool or None

    Yields
    ------
    None

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> x = ad.ones(1, requires_grad=True)
    >>> with checkpoint.set_checkpoint_debug_enabled(False):
    ...     checkpoint.checkpoint(ad.exp, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2.7183])
    """
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def noop_context_fn() -> Any:
    """The default of ``context_fn``: two contexts that do nothing.

    Returns
    -------
    pair of context managers

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> forward, recompute = checkpoint.noop_context_fn()
    """
    return nullcontext(), nullcontext()


def _facts(tensor):
    return {"shape": tuple(tensor.shape), "dtype": tensor.dtype, "device": tensor.device}


class _Holder:
    """Stands in the graph for one saved tensor: what is known of it, and, per backward pass, its value."""

    __slots__ = ("__weakref__", "facts", "index", "values")

    def __init__(self, index: Any, facts: Any) -> None:
        self.index = index
        self.facts = facts
        self.values: dict[Any, Any] = {}


class _Frame:
    """One call of a checkpointed part: how to run it again, and the placeholders that stand in the graph."""

    def __init__(self, run: Any, early_stop: Any, facts_of: Any, contexts: Any, debug: Any) -> None:
        self.run = run
        self.early_stop = early_stop
        self.facts_of = facts_of
        self.contexts = contexts
        self.count = 0
        # Whether the part has run to its end once.
        self.complete = False
        self.holders: dict = {}
        # For debugging, where each tensor was saved, in the first run and in the last one.
        self.log: tuple | None = ([], []) if debug else None

    def pack(self, tensor):
        from weakref import ref

        if self.log is not None:
            self.log[0].append(_place(tensor))
        holder = _Holder(self.count, self.facts_of(tensor))
        self.holders[self.count] = ref(holder)
        self.count += 1
        return holder

    def unpack(self, holder):
        group = GraphExecGroup._get_current_group()
        number = group or _C._current_pass() or object()
        again = 0
        if holder.values.get(number) is USED:
            raise CheckpointError(
                "Performing two backward calls that overlap (i.e. require the same saved activation in order to compute "
                f"gradients) is not allowed while under the {switches.package}.utils.checkpoint.GraphExecGroup context"
            )
        if number not in holder.values:
            again = self.compute(number)
        if number not in holder.values:
            raise self.mismatch(
                "A different number of tensors was saved during the original forward and recomputation. Number of tensors "
                f"saved during forward: {self.count}; during recomputation: {again}. It is number {holder.index} that "
                f"is missing, of {_text(holder.facts)}"
            )
        value = holder.values.pop(number)
        if group is not None:
            holder.values[number] = USED
        return value

    def mismatch(self, what):
        message = f"checkpoint(): {what}. The part must do the same each time it runs"
        if self.log is None:
            message += "; with debug=True, this error says where each tensor was saved"
        else:
            message += (
                ". You are seeing this error because you passed `debug=True` to checkpoint, or switched it on"
            )
            for run, places in zip(("first ran", "ran for the backward pass"), self.log, strict=True):
                message += f"\nSaved when the part {run}:"
                message += "".join(f"\n  {i}: {place}" for i, place in enumerate(places))
        return CheckpointError(message)

    def compute(self, number):
        """Run the part again, and give every placeholder that still stands in the graph its value. How many it saved."""
        from weakref import ref

        # This frame is in a cycle with the hooks only while it runs.
        me = ref(self)
        seen = 0
        if self.log is not None:
            self.log[1].clear()

        def pack(tensor):
            nonlocal seen
            frame: Any = me()
            index, seen = seen, seen + 1
            if frame.log is not None:
                frame.log[1].append(_place(tensor))
            if index >= frame.count and not frame.complete:
                # The part takes a derivative itself, and has not come to its end for the first time.
                return tensor.detach()
            if index >= frame.count:
                raise frame.mismatch(
                    "trying to save more tensors during recomputation than during the original forward pass: the first run "
                    f"saved {frame.count}, and number {index} of this one is of {_text(frame.facts_of(tensor))}"
                )
            holder = frame.holders[index]()
            if holder is not None:
                facts = frame.facts_of(tensor)
                if facts != holder.facts:
                    raise frame.mismatch(
                        "Recomputed values for the following tensors have different metadata than during the forward pass: "
                        f"tensor at position {index}: saved metadata: {holder.facts}, recomputed metadata: {facts}"
                    )
                # A tensor without history keeps its identity; another must not own the graph that made it.
                holder.values[number] = tensor.detach() if tensor.requires_grad else tensor
            if frame.early_stop and seen == frame.count:
                raise _Stop
            return tensor.detach()

        try:
            with saved_tensors_hooks(pack, lambda kept: kept), self.contexts[1]():
                self.run()
        except _Stop:
            pass
        return seen


def _text(facts):
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or "unknown shape"


def _place(tensor):
    """What was saved, and by which line: its place, and what stands there."""
    from linecache import getline

    from adjoint.autograd._lines import where

    place = where()
    file, _, line = place.partition(" in ")[0].rpartition(":")
    code = getline(file, int(line)).strip() if line.isdigit() else ""
    return f"{_text(_facts(tensor))}, at {place}: {code}"


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[..., Any] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Run ``function(*args, **kwargs)`` without saving tensors for its backward pass, which recomputes them.

    Parameters
    ----------
    function : callable
        Must do the same each time it runs.
    use_reentrant : bool
        True chooses the older form, which runs the part under `no_grad` and its backward pass inside of the outer one: it
        needs an argument that requires a gradient, takes no keyword arguments, and works with `backward` but not with
        `autograd.grad`. False, the form to use, is the default.
    context_fn : callable, optional
        Returns two context managers: one for the first run, one for the run in the backward pass. With
        `create_selective_checkpoint_contexts`, the results of chosen operators are kept.
    determinism_check : {'default', 'none'}
        Whether shape and dtype of what is computed again are compared with the first run.
    debug : bool
        Note each line that saves a tensor, in both runs, for the message of a `CheckpointError`. It costs time and memory;
        see `set_checkpoint_debug_enabled` for switching it on around calls of others.
    preserve_rng_state : bool
        Restore the state of the random generator for the second run, so that dropout drops the same.
    early_stop : bool
        Stop the second run once all that is needed is there; see `set_checkpoint_early_stop`.
    *args, **kwargs
        What `function` is given.

    Returns
    -------
    What `function` returns.

    Raises
    ------
    CheckpointError
        The second run saved other tensors than the first.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import checkpoint
    >>> x = ad.ones(3, requires_grad=True)
    >>> checkpoint(lambda t: t.exp().sin().sum(), x, use_reentrant=False).backward()
    >>> bool(ad.allclose(x.grad, x.exp().cos() * x.exp()))
    True
    """
    if use_reentrant is None:
        _announce_choice("")
    if use_reentrant:
        if context_fn is not None or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        check_backward_validity(args, stacklevel=3)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    facts_of = _facts if determinism_check == "default" else lambda tensor: {}
    first, again = _as_factories(*(context_fn or noop_context_fn)())
    # A pass that runs after a vmap() could not run the part again inside of it: so it is recorded as it is.
    if not _C.is_grad_enabled() or _C._records_outside():
        with first():
            return function(*args, **kwargs)
    state = _random_state() if preserve_rng_state else None
    autocast = _C._autocast()
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and not a.is_inference()]
    versions = [_C._version_of(a) for a in given]

    def run():
        for tensor, version in zip(given, versions, strict=True):
            if _C._version_of(tensor) != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                    f"argument of checkpoint() of shape {tuple(tensor.shape)}, {tensor.dtype}, is at version "
                    f"{tensor._version}; expected version {version} instead. Hint: pass a clone()"
                )
        with enable_grad(), _with_random_state(state), _with_autocast(autocast):
            function(*args, **kwargs)

    frame = _Frame(
        run,
        early_stop if _early_stop is None else _early_stop,
        facts_of,
        (first, again),
        debug if _debug is None else _debug,
    )
    with saved_tensors_hooks(frame.pack, frame.unpack), first():
        result = function(*args, **kwargs)
    frame.complete = True
    return result


def _as_factories(first, again):
    return (lambda: first), (lambda: again)


def _announce_choice(function):
    announce(
        f"{switches.package}.utils.checkpoint{function}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
        "recommended, and is what is taken here; where torch takes use_reentrant=True and a program relies on that, pass it.",
        stacklevel=3,
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Tensor, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of modules in segments, each of which is a checkpoint, but for the last.

    Parameters
    ----------
    functions : Sequential or list of callables
    segments : int
    input : Tensor
        What the first function takes.
    **kwargs
        Like those of `checkpoint`.
    use_reentrant : bool, optional
        Like that of `checkpoint`.

    Returns
    -------
    object
        What the last function returns.

    Examples
    --------
    >>> import adjoint as ad
    >>> layers = [ad.nn.Linear(4, 4) for _ in range(4)]
    >>> x = ad.ones(1, 4, requires_grad=True)
    >>> y = ad.utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False)
    """
    if use_reentrant is None:
        _announce_choice(".checkpoint_sequential")
        use_reentrant = False
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= max(len(functions), 1):
        raise ValueError(f"checkpoint_sequential(): {segments} segments for {len(functions)} functions")

    def run(part):
        def forward(value):
            for function in part:
                value = function(value)
            return value

        return forward

    size = len(functions) // segments
    last = size * (segments - 1)
    for start in range(0, last, size):
        part = run(functions[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(functions[last:])(input)
