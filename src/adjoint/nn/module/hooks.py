"""Hooks on modules: how they are registered (`Hookable`) and the call that runs them (`call_with_hooks`).

A module without hooks never enters this file: ``Module.__call__`` tests one attribute, ``_hooks``, and goes
straight to ``forward``. Hooks of all modules are in `global_hooks`; they run before a module's own. Full backward hooks are built on hooks of nodes: the inputs and the outputs pass one
node each, so that a hook sees exactly the gradients that flow through this call (`_BackwardCall`).
"""

from __future__ import annotations

import sys
import warnings

import adjoint as ad
from adjoint._types import Any, Callable, Tensor
from adjoint.autograd.function import Function
from adjoint.utils.hooks import HookTable, RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint._C import ModuleMembers
    from adjoint.nn.module import Module
else:
    ModuleMembers = object

__all__ = ["Hookable", "call_with_hooks"]


class ModuleHooks:
    """The hooks of one module: a table of functions for each moment, and tables that say which are called how."""

    _TABLES = (
        "forward_pre",
        "forward",
        "backward_pre",
        "backward",
        "forward_pre_with_kwargs",
        "forward_with_kwargs",
        "forward_always_called",
    )
    __slots__ = (*_TABLES, "full")
    forward_pre: HookTable
    forward: HookTable
    backward_pre: HookTable
    backward: HookTable
    forward_pre_with_kwargs: HookTable
    forward_with_kwargs: HookTable
    forward_always_called: HookTable

    full: bool | None

    def __init__(self) -> None:
        for name in self._TABLES:
            setattr(self, name, HookTable())
        # Whether those of `backward` see all gradients of inputs, or those of the last node alone; None before the first.
        self.full = None

    def __getstate__(self) -> Any:
        return {name: getattr(self, name) for name in self.__slots__ if hasattr(self, name)}

    def __setstate__(self, state: Any) -> None:
        ModuleHooks.__init__(self)
        for name, table in state.items():
            setattr(self, name, table)


def _table(which):
    def remove(self):
        delattr(self._own_hooks(), which)

    return property(lambda self: getattr(self._own_hooks(), which), fdel=remove)


class Hookable(ModuleMembers):
    """The registration methods of `Module`."""

    #: None, or an empty object while there are hooks of all modules (see `global_hooks`).
    _hooks: ModuleHooks | None = None

    def _own_hooks(self) -> ModuleHooks:
        hooks = self.__dict__.get("_hooks")
        if hooks is None:
            hooks = ModuleHooks()
            object.__setattr__(self, "_hooks", hooks)
        return hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
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
        hooks = self._own_hooks()
        return hooks.forward_pre.add(hook, prepend, [(hooks.forward_pre_with_kwargs, with_kwargs)])

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
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

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_forward_hook(lambda module, args, output: ad.zeros_like(output))
        >>> layer(ad.ones(2)).item()
        0.0
        """
        hooks = self._own_hooks()
        marks = [(hooks.forward_with_kwargs, with_kwargs), (hooks.forward_always_called, always_call)]
        return hooks.forward.add(hook, prepend, marks)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, grad_output)`` before the gradient of the inputs is computed.

        What it returns, a tuple or a tensor, replaces `grad_output`.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2,))
        >>> layer(ad.ones(2)).backward()
        >>> layer.bias.grad
        tensor([2.])
        """
        return self._own_hooks().backward_pre.add(hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
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

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The legacy backward hook: ``hook(module, grad_input, grad_output)`` with the gradients of the last operation of `forward`.

        Use `register_full_backward_hook`, whose gradients are those of the module. A module has hooks of one kind.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_backward_hook(lambda module, grad_in, grad_out: print(grad_out[0]))
        >>> layer(ad.ones(1, 2)).backward()
        tensor([[1.]])
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
    def _get_backward_hooks(self) -> tuple[list, list]:
        """The full backward hooks that a call heeds, and the legacy ones."""
        full, regular = _backward_hooks(self._own_hooks(), vars(sys.modules[__package__]))
        return full, regular

    def _get_backward_pre_hooks(self) -> list:
        """The backward pre-hooks that a call heeds."""
        shared = vars(sys.modules[__package__])["_global_backward_pre_hooks"]
        return [*shared.values(), *self._own_hooks().backward_pre.values()]

    _forward_pre_hooks = _table("forward_pre")
    _forward_hooks = _table("forward")
    _backward_pre_hooks = _table("backward_pre")
    _backward_hooks = _table("backward")
    _forward_pre_hooks_with_kwargs = _table("forward_pre_with_kwargs")
    _forward_hooks_with_kwargs = _table("forward_with_kwargs")
    _forward_hooks_always_called = _table("forward_always_called")


def call_with_hooks(module: Module, args: Any, kwargs: Any) -> Any:
    """``module.forward(*args, **kwargs)`` between its hooks; those of all modules come first."""
    hooks: Any = module._hooks
    shared = vars(sys.modules[__package__])
    with_kwargs = (hooks.forward_with_kwargs, shared["_global_forward_hooks_with_kwargs"])
    output, ran = None, set()
    try:
        before = [*shared["_global_forward_pre_hooks"].items(), *hooks.forward_pre.items()]
        for key, hook in before:
            args, kwargs = _run_pre_hook(module, hook, key in hooks.forward_pre_with_kwargs, args, kwargs)
        full, regular = _backward_hooks(hooks, shared)
        pre = [*shared["_global_backward_pre_hooks"].values(), *hooks.backward_pre.values()]
        backward = None
        if full or pre:
            backward = _BackwardCall(module, pre, full)
            args = backward.watch_inputs(args)
        output = module.forward(*args, **kwargs)
        for key, hook in [*shared["_global_forward_hooks"].items(), *hooks.forward.items()]:
            ran.add(key)
            output = _run_hook(module, hook, any(key in table for table in with_kwargs), args, kwargs, output)
        if regular:
            _watch_node(module, regular, args, output)
        return output if backward is None else backward.watch_outputs(output)
    except Exception:
        for which, table, always in (
            ("global module", shared["_global_forward_hooks"], shared["_global_forward_hooks_always_called"]),
            ("module", hooks.forward, hooks.forward_always_called),
        ):
            for key, hook in list(table.items()):
                if key not in always or key in ran:
                    continue
                try:
                    flag = any(key in table for table in with_kwargs)
                    output = _run_hook(module, hook, flag, args, kwargs, output)
                except Exception as error:
                    warnings.warn(
                        f"{which} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                        f"error was raised in forward: {error}",
                        stacklevel=2,
                    )
        raise


def _run_hook(module, hook, with_kwargs, args, kwargs, output):
    result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
    return output if result is None else result


def _backward_hooks(hooks, shared):
    """The full backward hooks, and the legacy ones: a module can have some of one kind, and all modules of the other."""
    found: tuple[list, list] = [], []
    for table, full in (
        (shared["_global_backward_hooks"], shared["_global_is_full_backward_hook"]),
        (hooks.backward, hooks.full),
    ):
        found[full is False].extend(table.values())
    return found


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
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class _BackwardCall:
    """The backward hooks of one call of one module.

    The inputs pass one node before forward, and the outputs another after it, so that a hook of the first sees all
    gradients of inputs at once, and one before the second all gradients of outputs.
    """

    def __init__(self, module: Module, pre: Any, hooks: Any) -> None:
        self.module = module
        self.pre, self.hooks = pre, hooks
        # Where tensors that require gradients stand among the arguments and the results; None where none does.
        self.inputs: Any = None
        self.outputs: Any = None
        self.n_inputs = self.n_outputs = 0
        # None where the pass came through no output: a second derivative can reach the inputs past all of them.
        self.grad_outputs = None

    def watch_inputs(self, args: Any) -> Any:
        self.n_inputs = len(args)
        args, self.inputs, node = _through_one_node(args)
        if node is not None:
            node.register_hook(self._on_grad_inputs)
        return args

    def watch_outputs(self, output: Any) -> Any:
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
        for hook in self.pre:
            result = hook(self.module, grad_outputs)
            if result is not None:
                grad_outputs = _checked(result, self.n_outputs, "Backward pre hook", "grad_output")
        self.grad_outputs = grad_outputs
        if self.inputs is None:
            if self.hooks:
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
        for hook in self.hooks:
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


_INSTEAD = "is deprecated and will be removed in future versions. This hook will be missing some {missing}. Please use register_full_backward_hook to get the documented behavior."


def _watch_node(module, hooks, args, output):
    """Tie the legacy hooks to the node that made the output."""
    first = output
    while not isinstance(first, ad.Tensor):
        if isinstance(first, dict):
            first = next(value for value in first.values() if isinstance(value, ad.Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:

        def call(grad_inputs, grad_outputs, hook=hook):
            return hook(module, grad_inputs, grad_outputs)

        node.register_hook(call)
    lacking = _what_hooks_lack(node, args, output)
    if lacking is not None:
        what, missing = lacking
        warnings.warn(f"{what} {_INSTEAD.format(missing=missing)}", FutureWarning, stacklevel=4)


def _what_hooks_lack(node, args, output):
    """Why a hook of the last node does not see all gradients, and of what; None where it does."""
    outputs = output if isinstance(output, tuple) else (output,)
    single = "single Tensor or a tuple of Tensors"
    if not all(isinstance(x, ad.Tensor) for x in outputs):
        return (
            f"Using non-full backward hooks on a Module that does not return a {single}",
            "of the grad_output",
        )
    if not all(isinstance(x, ad.Tensor) for x in args):
        return (
            f"Using non-full backward hooks on a Module that does not take as input a {single}",
            "of the grad_input",
        )
    if len({x.grad_fn for x in outputs if x.grad_fn is not None}) > 1:
        return (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes",
            "grad_output",
        )
    made_by = {x.grad_fn for x in args if x.grad_fn is not None}
    if made_by != {following for following, _ in node.next_functions if following is not None}:
        return (
            "Using a non-full backward hook when the forward contains multiple autograd Nodes",
            "grad_input",
        )
    return None
