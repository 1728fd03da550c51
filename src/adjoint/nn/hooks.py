"""Hooks on modules: how they are registered (`Hookable`) and the call that runs them (`call_with_hooks`).

A module without hooks never enters this file: ``Module.__call__`` tests one attribute, ``_hooks``, and goes
straight to ``forward``. Full backward hooks are built on hooks of nodes: the inputs and the outputs pass one
node each, so that a hook sees exactly the gradients that flow through this call (`_BackwardCall`).
"""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint.autograd.function import Function

from ..utils.hooks import HookTable, RemovableHandle

__all__ = ["Hookable", "call_with_hooks"]


class ModuleHooks:
    """The hooks of one module, one table for each moment."""

    __slots__ = ("forward_pre", "forward", "backward_pre", "backward", "full")
    forward_pre: HookTable
    forward: HookTable
    backward_pre: HookTable
    backward: HookTable

    full: bool | None

    def __init__(self):
        for name in ("forward_pre", "forward", "backward_pre", "backward"):
            setattr(self, name, HookTable())
        # Whether those of `backward` see all gradients of inputs, or those of the last node alone; None before the first.
        self.full = None

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state):
        for name, table in state.items():
            setattr(self, name, table)


def _table(which):
    def remove(self):
        delattr(self._own_hooks(), which)

    return property(lambda self: getattr(self._own_hooks(), which), fdel=remove)


class Hookable:
    """The registration methods of `Module`."""

    _hooks: ModuleHooks | None = None

    def _own_hooks(self) -> ModuleHooks:
        hooks = self._hooks
        if hooks is None:
            hooks = ModuleHooks()
            object.__setattr__(self, "_hooks", hooks)
        return hooks

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False) -> RemovableHandle:
        """Run ``hook(module, args)`` before each ``forward``; what it returns replaces the arguments.

        Parameters
        ----------
        hook : callable
            ``hook(module, args) -> None | args``, or with `with_kwargs`
            ``hook(module, args, kwargs) -> None | (args, kwargs)``. A single value is wrapped in a tuple.
        prepend : bool
            Run it before the hooks that are there already.
        with_kwargs : bool
            Pass the keyword arguments too.

        Examples
        --------
        >>> import adjoint as ad
        >>> relu = ad.nn.ReLU()
        >>> handle = relu.register_forward_pre_hook(lambda module, args: (-args[0],))
        >>> relu(ad.tensor(-2.0)).item()
        2.0
        >>> handle.remove()
        """
        return self._own_hooks().forward_pre.add((hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook, *, prepend=False, with_kwargs=False, always_call=False
    ) -> RemovableHandle:
        """Run ``hook(module, args, output)`` after each ``forward``; what it returns replaces the output.

        Parameters
        ----------
        hook : callable
            ``hook(module, args, output) -> None | output``, or with `with_kwargs`
            ``hook(module, args, kwargs, output)``.
        prepend : bool
            Run it before the hooks that are there already.
        with_kwargs : bool
            Pass the keyword arguments too.
        always_call : bool
            Run it even when ``forward`` raises (the output is then None); its own errors become warnings.
        """
        return self._own_hooks().forward.add((hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False) -> RemovableHandle:
        """Run ``hook(module, grad_output)`` before the gradient of the inputs is computed.

        What it returns, a tuple or a tensor, replaces `grad_output`.
        """
        return self._own_hooks().backward_pre.add(hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False) -> RemovableHandle:
        """Run ``hook(module, grad_input, grad_output)`` once the gradient of the input is known.

        What it returns, a tuple or a tensor, replaces `grad_input`. Both tuples have one entry for each
        positional argument (output), None where there is no gradient. `forward` may not write in place to an input that
        requires a gradient, nor the program to an output.

        Raises
        ------
        RuntimeError
            The module has hooks of `register_backward_hook` already.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer, seen = ad.nn.Tanh(), []
        >>> handle = layer.register_full_backward_hook(lambda module, gi, go: seen.append(gi[0].item()))
        >>> layer(ad.tensor(0.0, requires_grad=True)).backward()
        >>> seen
        [1.0]
        """
        return self._backward_table(True).add(hook, prepend)

    def register_backward_hook(self, hook) -> RemovableHandle:
        """The hook of old: ``hook(module, grad_input, grad_output)`` with the gradients of the last operation of `forward`.

        Use `register_full_backward_hook`, whose gradients are those of the module. A module has hooks of one kind.
        """
        return self._backward_table(False).add(hook)

    def _backward_table(self, full):
        hooks = self._own_hooks()
        if hooks.full is not None and hooks.full is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one "
                f"of them: {type(self).__name__} has hooks of the other kind."
            )
        hooks.full = full
        return hooks.backward

    # The names under which programs for torch look the tables up, and take them away.
    _forward_pre_hooks = _table("forward_pre")
    _forward_hooks = _table("forward")
    _backward_pre_hooks = _table("backward_pre")
    _backward_hooks = _table("backward")


def call_with_hooks(module, args, kwargs):
    """``module.forward(*args, **kwargs)`` between its hooks."""
    hooks = module._hooks
    output, ran = None, set()
    try:
        for hook, with_kwargs in list(hooks.forward_pre.values()):
            args, kwargs = _run_pre_hook(module, hook, with_kwargs, args, kwargs)
        backward = None
        if hooks.backward_pre or (hooks.backward and hooks.full is not False):
            backward = _BackwardCall(module)
            args = backward.watch_inputs(args)
        output = module.forward(*args, **kwargs)
        for key, (hook, with_kwargs, _) in list(hooks.forward.items()):
            ran.add(key)
            result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            if result is not None:
                output = result
        if hooks.backward and hooks.full is False:
            _watch_node(module, args, output)
        return output if backward is None else backward.watch_outputs(output)
    except Exception:
        for key, (hook, with_kwargs, always_call) in list(hooks.forward.items()):
            if not always_call or key in ran:
                continue
            try:
                result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
                if result is not None:
                    output = result
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced, "
                    f"because forward itself raised: {error}",
                    stacklevel=2,
                )
        raise


def _run_pre_hook(module, hook, with_kwargs, args, kwargs):
    if with_kwargs:
        result = hook(module, args, kwargs)
        if result is None:
            return args, kwargs
        if isinstance(result, tuple) and len(result) == 2:
            return result
        raise RuntimeError(
            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
        )
    result = hook(module, args)
    if result is None:
        return args, kwargs
    return (result if isinstance(result, tuple) else (result,)), kwargs


class BackwardHookFunction(Function):
    """The tensors themselves: all of them pass one node, to which the hooks of a module are tied."""

    @staticmethod
    def forward(ctx, *tensors):
        return tensors

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class _BackwardCall:
    """The backward hooks of one call of one module.

    The inputs pass one node before forward, and the outputs another after it, so that a hook of the first sees all
    gradients of inputs at once, and one before the second all gradients of outputs.
    """

    def __init__(self, module):
        self.module = module
        # Where tensors that require gradients stand among the arguments and the results; None where none does.
        self.inputs = self.outputs = None
        self.n_inputs = self.n_outputs = 0
        # None where the pass came through no output: a second derivative can reach the inputs past all of them.
        self.grad_outputs = None

    def watch_inputs(self, args):
        self.n_inputs = len(args)
        args, self.inputs, node = _through_one_node(args)
        if node is not None:
            node.register_hook(self._on_grad_inputs)
        return args

    def watch_outputs(self, output):
        outputs = output if isinstance(output, tuple) else (output,)
        if not isinstance(output, (ad.Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(output)}",
                stacklevel=4,
            )
        self.n_outputs = len(outputs)
        watched, self.outputs, node = _through_one_node(outputs)
        if node is None:
            return output
        node.register_prehook(self._on_grad_outputs)
        if not isinstance(output, tuple):
            return watched[0]
        # A named tuple is rebuilt from positional fields, a plain one from the list.
        return type(output)(*watched) if hasattr(output, "_fields") else watched

    def _on_grad_outputs(self, gradients):
        grad_outputs = _spread(gradients, self.outputs, self.n_outputs)
        for hook in list(self.module._hooks.backward_pre.values()):
            result = hook(self.module, grad_outputs)
            if result is not None:
                grad_outputs = _checked(result, self.n_outputs, "Backward pre hook", "grad_output")
        self.grad_outputs = grad_outputs
        if self.inputs is None:
            if self.module._hooks.backward:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients. Every gradient of an input that it is shown is None.",
                    stacklevel=2,
                )
            if self._run_backward_hooks((None,) * self.n_inputs) != (None,) * self.n_inputs:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        return tuple(grad_outputs[i] for i in self.outputs)

    def _on_grad_inputs(self, gradients, _):
        if self.grad_outputs is None:
            return None
        grad_inputs = self._run_backward_hooks(_spread(gradients, self.inputs, self.n_inputs))
        return tuple(grad_inputs[i] for i in self.inputs)

    def _run_backward_hooks(self, grad_inputs):
        grad_outputs, self.grad_outputs = self.grad_outputs, None  # the same graph may run again
        for hook in list(self.module._hooks.backward.values()):
            result = hook(self.module, grad_inputs, grad_outputs)
            if result is not None:
                grad_inputs = _checked(result, self.n_inputs, "Backward hook", "grad_input")
        return grad_inputs


def _through_one_node(values):
    """The values, those that require a gradient passed through one node; where these are, and the node."""
    if not ad.is_grad_enabled():
        return values, None, None
    where = [i for i, value in enumerate(values) if isinstance(value, ad.Tensor) and value.requires_grad]
    if not where:
        return values, None, None
    passed = BackwardHookFunction.apply(*(values[i] for i in where))
    values = list(values)
    for i, value in zip(where, passed, strict=True):
        values[i] = value
    return tuple(values), where, passed[0].grad_fn


def _spread(gradients, where, count):
    spread = [None] * count
    for i, gradient in zip(where, gradients, strict=True):
        spread[i] = gradient
    return tuple(spread)


def _checked(result, count, who, name):
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != count:
        raise RuntimeError(
            f"{who} returned an invalid number of {name}, got {len(result)}, but expected {count}"
        )
    return result


def _watch_node(module, args, output):
    """Tie the hooks of old to the node that made the output."""
    first = output
    while not isinstance(first, ad.Tensor):
        if isinstance(first, dict):
            first = next(value for value in first.values() if isinstance(value, ad.Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in list(module._hooks.backward.values()):

        def call(grad_inputs, grad_outputs, hook=hook):
            return hook(module, grad_inputs, grad_outputs)

        node.register_hook(call)
    made_by = {x.grad_fn for x in args if isinstance(x, ad.Tensor) and x.grad_fn is not None}
    if made_by != {following for following, _ in node.next_functions if following is not None}:
        warnings.warn(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will be "
            "removed in future versions. This hook will be missing some grad_input. Please use "
            "register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )
