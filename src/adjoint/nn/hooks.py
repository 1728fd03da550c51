"""Hooks on modules: how they are registered (`Hookable`) and the call that runs them (`call_with_hooks`).

A module without hooks never enters this file: ``Module.__call__`` tests one attribute, ``_hooks``, and goes
straight to ``forward``. Full backward hooks are built on tensor hooks: the input and the outputs pass through
private aliases (``x.view_as(x)``), so that a hook sees exactly the gradient that flows through this call.
"""

from __future__ import annotations

import warnings

import adjoint as ad

from ..utils.hooks import HookTable, RemovableHandle

__all__ = ["Hookable", "call_with_hooks"]


class ModuleHooks:
    """The hooks of one module, one table for each moment."""

    __slots__ = ("forward_pre", "forward", "backward_pre", "backward")
    forward_pre: HookTable
    forward: HookTable
    backward_pre: HookTable
    backward: HookTable

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, HookTable())

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state):
        for name, table in state.items():
            setattr(self, name, table)


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

        What it returns, a tuple or a tensor, replaces `grad_output`. The module must return one
        differentiable tensor; several raise NotImplementedError.
        """
        return self._own_hooks().backward_pre.add(hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False) -> RemovableHandle:
        """Run ``hook(module, grad_input, grad_output)`` once the gradient of the input is known.

        What it returns, a tuple or a tensor, replaces `grad_input`. Both tuples have one entry for each
        positional argument (output), None where there is no gradient. At most one of the positional arguments
        may require a gradient; several raise NotImplementedError.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer, seen = ad.nn.Tanh(), []
        >>> handle = layer.register_full_backward_hook(lambda module, gi, go: seen.append(gi[0].item()))
        >>> layer(ad.tensor(0.0, requires_grad=True)).backward()
        >>> seen
        [1.0]
        """
        return self._own_hooks().backward.add(hook, prepend)

    def register_backward_hook(self, hook):
        raise NotImplementedError("register_backward_hook is not provided: use register_full_backward_hook")

    # The names under which programs for torch look the tables up.
    @property
    def _forward_pre_hooks(self):
        return self._own_hooks().forward_pre

    @property
    def _forward_hooks(self):
        return self._own_hooks().forward

    @property
    def _backward_pre_hooks(self):
        return self._own_hooks().backward_pre

    @property
    def _backward_hooks(self):
        return self._own_hooks().backward


def call_with_hooks(module, args, kwargs):
    """``module.forward(*args, **kwargs)`` between its hooks."""
    hooks = module._hooks
    output, ran = None, set()
    try:
        for hook, with_kwargs in list(hooks.forward_pre.values()):
            args, kwargs = _run_pre_hook(module, hook, with_kwargs, args, kwargs)
        backward = None
        if hooks.backward or hooks.backward_pre:
            backward = _BackwardCall(module)
            args = backward.watch_inputs(args)
        output = module.forward(*args, **kwargs)
        for key, (hook, with_kwargs, _) in list(hooks.forward.items()):
            ran.add(key)
            result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            if result is not None:
                output = result
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


class _BackwardCall:
    """The backward hooks of one call of one module.

    The alias of an output is recorded after the alias of the input, so its hook runs first: when the
    gradient of the input arrives, every gradient of an output that will arrive has arrived.
    """

    def __init__(self, module):
        self.module = module
        self.input_index = None
        self.n_inputs = self.n_outputs = 0
        self.grad_outputs = []
        # Whether the pass came through an output: a second derivative can reach the input past all of them.
        self.reached = False

    def watch_inputs(self, args):
        self.n_inputs = len(args)
        if not self.module._hooks.backward or not ad.is_grad_enabled():
            return args
        watched = [i for i, arg in enumerate(args) if isinstance(arg, ad.Tensor) and arg.requires_grad]
        if not watched:
            return args
        if len(watched) > 1:
            raise NotImplementedError(
                f"register_full_backward_hook: {type(self.module).__name__} was called with {len(watched)} "
                "tensors that require gradients; one is supported. Use Tensor.register_hook on each of them."
            )
        self.input_index = watched[0]
        alias = args[watched[0]].view_as(args[watched[0]])
        alias.register_hook(self._on_grad_input)
        return args[: watched[0]] + (alias,) + args[watched[0] + 1 :]

    def watch_outputs(self, output):
        outputs = output if isinstance(output, tuple) else (output,)
        watched = [i for i, out in enumerate(outputs) if isinstance(out, ad.Tensor) and out.requires_grad]
        if not watched:
            return output
        hooks = self.module._hooks
        if len(watched) > 1 and (hooks.backward_pre or self.input_index is None):
            raise NotImplementedError(
                f"full backward hooks: {type(self.module).__name__} returned {len(watched)} differentiable "
                "tensors; that is supported only for register_full_backward_hook on a module with one input "
                "that requires a gradient. Use Tensor.register_hook on each output."
            )
        self.n_outputs = len(outputs)
        self.grad_outputs = [None] * self.n_outputs
        aliases = list(outputs)
        for i in watched:
            aliases[i] = outputs[i].view_as(outputs[i])
            aliases[i].register_hook(lambda grad, i=i: self._on_grad_output(i, grad))
        if not isinstance(output, tuple):
            return aliases[0]
        # A named tuple is rebuilt from positional fields, a plain one from the list.
        return type(output)(*aliases) if hasattr(output, "_fields") else tuple(aliases)

    def _on_grad_output(self, index, grad):
        replaced = None
        for hook in list(self.module._hooks.backward_pre.values()):
            grads = [None] * self.n_outputs
            grads[index] = grad
            result = hook(self.module, tuple(grads))
            if result is not None:
                grad = replaced = self._entry(result, index, self.n_outputs, "grad_output")
        self.grad_outputs[index] = grad
        self.reached = True
        if self.input_index is None:
            self._run_backward_hooks([None] * self.n_inputs)
        return replaced

    def _on_grad_input(self, grad):
        if not self.reached:
            return None
        grads = [None] * self.n_inputs
        grads[self.input_index] = grad
        return self._run_backward_hooks(grads)

    def _run_backward_hooks(self, grads):
        grad_outputs = tuple(self.grad_outputs)
        self.grad_outputs = [None] * self.n_outputs  # the same graph may run again
        self.reached = False
        index, replaced = self.input_index, None
        for hook in list(self.module._hooks.backward.values()):
            result = hook(self.module, tuple(grads), grad_outputs)
            if result is None:
                continue
            if index is None:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None"
                )
            grads[index] = replaced = self._entry(result, index, self.n_inputs, "grad_input")
        return replaced

    @staticmethod
    def _entry(result, index, count, name):
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != count:
            raise RuntimeError(
                f"Backward hook returned an invalid number of {name}, got {len(result)}, but expected {count}"
            )
        return result[index]
