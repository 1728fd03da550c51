"""Selective checkpointing: a policy says which operators' results are kept, and which are computed again.

While the part first runs, an interpreter below recording is told of each operator that computes, asks the policy, and
keeps the results of those that it names. While the part runs again, it supplies them, in the same order, without asking again. Views and writes
are not asked for: they happen each time. Start reading at `create_selective_checkpoint_contexts`.
"""

from __future__ import annotations

from enum import Enum
from threading import get_ident

from adjoint import _C
from adjoint._switches import switches
from adjoint._types import Any

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(Enum):
    """What a policy says of an operator. ``PREFER_…`` and ``MUST_…`` mean the same here, where no compiler decides.

    Parameters
    ----------
    value : int
    names, module, qualname, type, start, boundary
        Those of `enum.Enum`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> checkpoint.CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


_SAVE = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """What a policy is given first.

    Parameters
    ----------
    is_recompute : bool

    Attributes
    ----------
    is_recompute : bool
        Whether the part runs again, for a backward pass: False, since a policy is asked but once.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> def keep_products(context, operator, *args, **kwargs):
    ...     assert not context.is_recompute
    ...     return operator == ad.matmul
    >>> contexts = checkpoint.create_selective_checkpoint_contexts(keep_products)
    """

    def __init__(self, *, is_recompute: Any) -> None:
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> Any:
    """The two context managers of ``checkpoint(..., context_fn=...)`` that save the results of some operators.

    Parameters
    ----------
    policy_fn_or_list : callable or list of operators
        ``policy(ctx, op, *args)`` returns a `CheckpointPolicy`, or a bool: whether to keep. `op` is an operator of the
        table, such as ``adjoint.mm``, with its name in ``op.__name__``; `args` are all of its arguments. A list names the
        operators to keep. What is put together from other operators (``matmul`` from ``mm``, ``bmm``, …) is not seen
        itself; those are.
    allow_cache_entry_mutation : bool
        Do not refuse results that were written after they were kept.

    Returns
    -------
    tuple of two context managers

    Raises
    ------
    TypeError
        Neither a function nor a list was given.
    ValueError
        The list has something that is no operator, or an operator that is put together from others.

    Examples
    --------
    >>> from functools import partial
    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> computed = []
    >>> def policy(ctx, op, *args):
    ...     computed.append((op.__name__, ctx.is_recompute))
    ...     return op is ad.mm
    >>> x = ad.eye(2).requires_grad_()
    >>> y = checkpoint(
    ...     lambda t: ad.mm(t, t).sin().sum(),
    ...     x,
    ...     use_reentrant=False,
    ...     context_fn=partial(create_selective_checkpoint_contexts, policy),
    ... )
    >>> y.backward()
    >>> computed[:3]
    [('mm', False), ('sin', False), ('sum', False)]
    """
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    elif isinstance(policy_fn_or_list, (list, tuple, set, frozenset)):
        policy = _policy_of(policy_fn_or_list)
    else:
        raise TypeError(
            f"policy_fn_or_list must be either a function or a list of ops, but it is {policy_fn_or_list!r}"
        )
    kept: dict = {}
    return _Keeping(policy, kept), _Supplying(kept, allow_cache_entry_mutation)


def _policy_of(operators):
    operators = list(operators)
    for op in operators:
        if not isinstance(op, _C.Operator):
            message = (
                f"create_selective_checkpoint_contexts(): Expected op in `op_list` to be an OpOverload but got: {op!r} of type "
                f"{type(op)}. An operator is, for example, {switches.package}.mm; pass a policy function to see which ones run"
            )
            if isinstance(getattr(op, "default", None), _C.Operator):
                message += (
                    "; please update the OpOverloadPacket to a specific OpOverload, such as its .default"
                )
            raise ValueError(message)
        if _C._is_composite(op):
            raise ValueError(
                f"create_selective_checkpoint_contexts(): {op.__name__} is put together from other operators, and its result "
                "cannot be kept; list those, or pass a policy function to see which they are"
            )
    return lambda ctx, op, *args: any(op is kept for kept in operators)


class _Result:
    """A kept tensor, and the version that it had."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach()
        self.version = tensor._version


class _Kept:
    """What one call computed, and what the random generator was after it, if the call drew from it."""

    __slots__ = ("random_state", "results")

    def __init__(self, results: Any, random_state: Any) -> None:
        self.results = [_Result(t) for t in results]
        self.random_state = random_state


class _Observing:
    """A context in which each operator that is about to compute is seen."""

    def __init__(self, kept: Any) -> None:
        #: By operator, for each of its calls what was kept, or None.
        self.kept = kept
        # By thread, innermost last.
        self.interpreters: dict = {}

    def __exit__(self, *exception: Any) -> None:
        _C._pop_interpreter(self.interpreters[get_ident()].pop())

    def push(self, supply, computed):
        self.interpreters.setdefault(get_ident(), []).append(_C._push_observer(supply, computed, None))


class _Keeping(_Observing):
    def __init__(self, policy: Any, kept: Any) -> None:
        super().__init__(kept)
        self.policy = policy

    def saves(self, op, args):
        decision = self.policy(SelectiveCheckpointContext(is_recompute=False), op, *args)
        if not isinstance(decision, (bool, CheckpointPolicy)):
            raise TypeError(
                f"the policy of a selective checkpoint must return a CheckpointPolicy or a bool, but for {op.__name__} it "
                f"returned {decision!r}"
            )
        return decision is True or decision in _SAVE

    def __enter__(self) -> Any:
        from adjoint import equal, get_rng_state

        # Of the call between the two functions: None, or the state of the generator before it.
        before = None

        def supply(op, args):
            nonlocal before
            before = get_rng_state() if self.saves(op, args) else None
            if before is None:
                self.kept.setdefault(op, []).append(None)

        def computed(op, results):
            nonlocal before
            if before is None:
                return
            after = get_rng_state()
            changed = not equal(before, after)
            self.kept.setdefault(op, []).append(_Kept(results, after if changed else None))
            before = None

        self.push(supply, computed)


class _Supplying(_Observing):
    def __init__(self, kept: Any, allow_mutation: Any) -> None:
        super().__init__(kept)
        self.allow_mutation = allow_mutation

    def __enter__(self) -> Any:
        # Each run starts at the first call.
        used: dict = {}

        def supply(op, args):
            number = used[op] = used.get(op, -1) + 1
            if number >= len(self.kept.get(op, ())):
                raise RuntimeError(
                    f"{op.__name__} encountered during backward, but not found in storage: the part called it {number} times "
                    "when it first ran under the selective checkpoint, and calls it more often now"
                )
            kept = self.kept[op][number]
            return None if kept is None else self.results_of(kept, op)

        self.push(supply, None)

    def results_of(self, kept, op):
        for result in kept.results:
            if not self.allow_mutation and result.tensor._version != result.version:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated: it is the result of "
                    f"{op.__name__}(), of shape {tuple(result.tensor.shape)}. Use the out-of-place form of what changed it, or "
                    "let the policy recompute it"
                )
        if kept.random_state is not None:
            from adjoint import set_rng_state

            set_rng_state(kept.random_state)
        return [result.tensor.detach() for result in kept.results]
