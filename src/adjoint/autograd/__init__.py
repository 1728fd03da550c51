"""Derivatives by hand: `backward` and `grad`, the modes of recording, and looking at the graph.

What runs the graph is the core's engine (core/autograd/engine.cpp); here arguments are brought into its form. Start
reading at `grad`.
"""

from __future__ import annotations

import sys

from adjoint._C import Node, SavedTensor, Tensor, _run_backward
from adjoint._moved import find_past
from adjoint._publish.register import listing, published
from adjoint._switches import switches
from adjoint._types import Any, Iterable, Sequence

from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import GradientEdge

__all__ = [
    "Function",
    "Node",
    "SavedTensor",
    "backward",
    "complex_convention",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "set_parallel_backward",
]
__dir__ = listing(__name__, "anomaly_mode", "function", "grad_mode")

# What is imported when it is first asked for: name → module.
_LATER = {
    "Function": "function",
    "complex_convention": "_convention",
    "detect_anomaly": "anomaly_mode",
    "gradgradcheck": "gradcheck",
    "is_multithreading_enabled": "_parallel",
    "set_multithreading_enabled": "_parallel",
    "set_parallel_backward": "_parallel",
    "set_detect_anomaly": "anomaly_mode",
    **{name: name for name in ("anomaly_mode", "forward_ad", "function", "functional", "graph")},
}


_past = find_past(__name__)
if TYPE_CHECKING:
    from . import forward_ad, functional, graph
    from ._convention import complex_convention
    from ._parallel import is_multithreading_enabled, set_multithreading_enabled, set_parallel_backward
    from .anomaly_mode import detect_anomaly, set_detect_anomaly
    from .function import Function
    from .gradcheck import gradcheck, gradgradcheck
else:

    def __getattr__(name):
        module = _LATER.get(name)
        if module is None:
            return _past(name)
        from importlib import import_module

        found = import_module("adjoint.autograd." + module)
        value = getattr(found, name, found)
        globals()[name] = value
        return value


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of `tensors` to the ``.grad`` of the leaves they depend on.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        The roots.
    grad_tensors : Tensor, or sequence of Tensor or None, optional
        The gradient that each root starts with, of its shape; None stands for 1 and needs a root of one element.
    retain_graph : bool, optional
        Keep saved values, so that the same graph can be used again; `create_graph` by default.
    create_graph : bool
        Record the backward pass itself, for derivatives of higher order.
    inputs : Tensor or sequence of Tensor, optional
        Accumulate into these alone, instead of into all leaves. Results in between retain their gradients from now on.
    grad_variables : optional
        The former name of `grad_tensors`.

    Raises
    ------
    RuntimeError
        A root needs no gradient, is not a scalar while its gradient is left out, or has a gradient of another shape;
        or the graph's saved values were freed by an earlier pass.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * x
    >>> ad.autograd.backward([y.sum(), y], [None, ad.ones(2)])
    >>> x.grad.tolist()
    [4.0, 8.0]
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    tensors = _ends(tensors)
    if create_graph:
        _warn_of_cycle()
    if inputs is not None:
        inputs = _ends(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for end in inputs:
            if isinstance(end, Tensor) and end.requires_grad and not end.is_leaf:
                end.retain_grad()
    _run_backward(
        tensors,
        _seeds(grad_tensors, len(tensors)),
        inputs,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        True,
        True,
    )


def grad(
    outputs: Tensor | GradientEdge | Iterable[Tensor | GradientEdge],
    inputs: Tensor | GradientEdge | Iterable[Tensor | GradientEdge],
    grad_outputs: Tensor | Iterable[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; no ``.grad`` changes.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        What is differentiated: the sum of all their elements, each weighted by `grad_outputs`.
    inputs : Tensor, sequence of Tensor, or dict of Tensor
        With respect to what: leaves or results in between.
    grad_outputs : Tensor, or sequence of Tensor or None, optional
        The weights, of the shape of each output; None stands for 1 and needs an output of one element.
    retain_graph : bool, optional
        Keep saved values, so that the same graph can be used again; `create_graph` by default.
    create_graph : bool
        Record the backward pass itself, for derivatives of higher order.
    allow_unused : bool, optional
        Return None for an input that the outputs do not depend on, instead of raising; `materialize_grads` by default.
    is_grads_batched : bool
        `grad_outputs` have a leading dimension more, and so do the results: one gradient per entry.
    materialize_grads : bool
        Return zeros instead of None.

    Returns
    -------
    tuple of Tensor
        One per input, of its shape and dtype. A dict with the keys of `inputs` if that is one.

    Raises
    ------
    RuntimeError
        Like `backward`; or an input needs no gradient, or was not used and `allow_unused` is false.
    ValueError
        `materialize_grads` with ``allow_unused=False``.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> (g,) = ad.autograd.grad(x**2 + 2 * x + 1, x, create_graph=True)
    >>> g.item(), ad.autograd.grad(g, x)[0].item()
    (8.0, 2.0)
    """
    if not only_inputs:
        from warnings import warn

        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). "
            f"To accumulate gradient for other parts of the graph, please use {switches.package}.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if isinstance(inputs, dict):
        found = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            True,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, found, strict=True))  # type: ignore[return-value]
    if materialize_grads and allow_unused is not None and not allow_unused:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    outputs, inputs = _ends(outputs), _ends(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if retain_graph is None:
        retain_graph = create_graph
    seeds = _seeds(grad_outputs, len(outputs))  # type: ignore[arg-type]
    if is_grads_batched:
        from ._batched import gradients

        results = gradients(outputs, seeds, inputs, retain_graph, create_graph, allow_unused)
    else:
        results = _run_backward(outputs, seeds, inputs, retain_graph, create_graph, False, allow_unused)
    if materialize_grads:
        from adjoint import zeros_like

        # What is recorded can be differentiated again, zeros too.
        results = tuple(
            _zeros_at(x, zeros_like).requires_grad_(create_graph) if g is None else g
            for x, g in zip(inputs, results, strict=True)
        )
    return results


grad = published(grad, None)


def _ends(ends):
    """Tensors or edges of the graph as a tuple. An edge is a tuple itself."""
    if isinstance(ends, Tensor) or (
        isinstance(ends, tuple) and len(ends) in (2, 3) and isinstance(ends[0], Node)
    ):
        return (ends,)
    return tuple(ends)


def _zeros_at(end, zeros_like):
    if isinstance(end, Tensor):
        return zeros_like(end)
    raise RuntimeError(
        "materialize_grads cannot be used when the given input is a GradientEdge: the outputs do not depend on it, and a node "
        f"({end[0].name()}) does not say on which device or in which layout its zeros would be. Take None for it, with "
        "allow_unused=True"
    )


_warned = False
# Whether to say it each time; torch.set_warn_always sets it.
_warn_always = False


def _warn_of_cycle():
    """Once: a gradient that is itself recorded, kept in the ``.grad`` of what it was computed from."""
    global _warned
    if not _warned or _warn_always:
        from warnings import warn

        from adjoint.autograd._lines import PACKAGE

        _warned = True
        level = 2
        while sys._getframe(level).f_code.co_filename.startswith(PACKAGE):
            level += 1
        warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
            "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
            "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
            "the cycle and avoid the leak.",
            stacklevel=level + 1,
        )


def _seeds(gradients, count):
    if gradients is None or isinstance(gradients, tuple):
        return gradients
    if isinstance(gradients, Tensor):
        gradients = (gradients,)
        if count != 1:
            raise RuntimeError(f"got {count} tensors and 1 gradients: give one gradient per tensor, or None")
        return gradients
    return tuple(gradients)


def refuse_volatile():
    """Say what took the place of ``volatile=True``, which legacy programs wrote for inputs of an inference."""
    raise TypeError(
        f"volatile was removed and has no effect: wrap the computation in `with {switches.package}.no_grad():` instead, or in "
        f"`with {switches.package}.inference_mode():` if its results will never meet a computation that is recorded"
    )


class _Module(type(sys)):  # type: ignore[misc]
    """This module, in which ``gradcheck`` is the function although a submodule has that name, as in torch.

    Importing a submodule sets it as an attribute of its parent. The property takes no notice of that.
    """

    @property
    def gradcheck(self):
        """Check first derivatives; see `adjoint.autograd.gradcheck`."""
        if "gradcheck" in self.__dict__:
            return self.__dict__["gradcheck"]
        from .gradcheck import gradcheck

        return gradcheck

    @gradcheck.setter
    def gradcheck(self, value):
        if not isinstance(value, type(sys)):
            self.__dict__["gradcheck"] = value

    @gradcheck.deleter
    def gradcheck(self):
        self.__dict__.pop("gradcheck", None)


sys.modules[__name__].__class__ = _Module
