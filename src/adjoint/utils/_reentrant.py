"""The older form of checkpoints, which runs the backward pass of a part within the outer one. Start reading at `CheckpointFunction`."""

from __future__ import annotations

from contextlib import contextmanager

from adjoint import _C
from adjoint._C import Tensor, float32
from adjoint._switches import switches
from adjoint._types import Any, Callable
from adjoint.autograd.function import Function
from adjoint.autograd.grad_mode import enable_grad, no_grad

__all__ = ["CheckpointFunction", "check_backward_validity", "detach_variable"]


def detach_variable(inputs: tuple) -> tuple:
    """A tuple of arguments with its tensors detached; they require gradients as before.

    Parameters
    ----------
    inputs : tuple

    Returns
    -------
    tuple

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> x = ad.ones(1, requires_grad=True) * 2
    >>> y = checkpoint.detach_variable((x, 3))[0]
    >>> y.grad_fn is None, y.requires_grad
    (True, True)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Any, *, stacklevel: int = 2) -> None:
    """Warn where no input requires a gradient, so that a reentrant checkpoint has none either.

    Parameters
    ----------
    inputs : sequence
    stacklevel : int
        Like that of `warnings.warn`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> checkpoint.check_backward_validity([ad.ones(1, requires_grad=True)])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        from warnings import warn

        warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=stacklevel)


def _random_state():
    """A generator that draws what this thread's would draw next."""
    return _C._fork_generator(None)


@contextmanager
def _with_random_state(state):
    """In this thread, draw from a generator in that state; other threads go on with theirs."""
    if state is None:
        yield
        return
    generator = _C._fork_generator(state)  # held here: the thread does not
    before = _C._use_generator(generator)
    try:
        yield
    finally:
        _C._use_generator(before)


@contextmanager
def _with_autocast(state):
    """In mixed precision as it was set then, if it was; see `amp.autocast`."""
    before = _C._autocast()
    if state is None and before is None:
        yield
        return
    settings: Any = (False, False, float32, True) if state is None else (True, *state[:3])
    _C._set_autocast(*settings, None)  # type: ignore[call-arg]
    try:
        yield
    finally:
        _C._set_autocast(*((False, False, float32, True, None) if before is None else (True, *before)))


class CheckpointFunction(Function):
    """The older form: runs the part without recording, and in the backward pass again, with.

    Parameters
    ----------
    *args, **kwargs
        It is not instantiated, but applied: to the function, whether random numbers are restored, and the arguments.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils import checkpoint
    >>> x = ad.ones(2, requires_grad=True)
    >>> checkpoint.CheckpointFunction.apply(ad.exp, True, x).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: Any, *args: Any) -> Any:
        ctx.function = function
        ctx.state = _random_state() if preserve else None
        ctx.autocast = _C._autocast()
        ctx.args = [None if isinstance(a, Tensor) else a for a in args]
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        from adjoint.autograd import backward

        if _C._current_pass_is_selective():
            raise RuntimeError(
                f"When use_reentrant=True, {switches.package}.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(), and so is this one. To resolve this error, you can either set use_reentrant=False, or call .backward() without "
                "passing the `inputs` argument."
            )
        args = list(ctx.args)
        for i, tensor in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[i] = tensor.detach().requires_grad_(tensor.requires_grad)
        with _with_random_state(ctx.state), enable_grad(), _with_autocast(ctx.autocast):
            results = ctx.function(*args)
        results = (results,) if isinstance(results, Tensor) else results
        pairs = [
            (r, g)
            for r, g in zip(results, gradients, strict=True)
            if isinstance(r, Tensor) and r.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([r for r, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in args)
