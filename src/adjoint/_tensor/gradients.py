"""Gradients as members of Tensor: `backward`, hooks, and what the nodes of the graph offer.

Start reading at `Gradients`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor, _run_backward
from adjoint._publish.register import Members, extend
from adjoint._switches import switches
from adjoint._types import Any, Callable, Sequence


@extend
class Gradients(Members):
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of the leaves that it depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            What the pass starts with, of this tensor's shape; 1 for a tensor of one element.
        retain_graph : bool, optional
            Keep saved values, so that the graph can be used again; `create_graph` by default.
        create_graph : bool
            Record the backward pass itself, for derivatives of higher order.
        inputs : Tensor or sequence of Tensor, optional
            Accumulate into these alone.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.tensor(3.0, requires_grad=True)
        >>> (x**2 + 2 * x + 1).backward()
        >>> x.grad
        tensor(8.)
        """
        if inputs is not None or create_graph:
            from adjoint.autograd import backward

            return backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        seeds: Any = gradient
        if gradient is not None:
            seeds = (gradient,) if isinstance(gradient, Tensor) else tuple(gradient)
        _run_backward((self,), seeds, None, bool(retain_graph), False, True, True)

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(gradient)`` whenever the gradient of this tensor is known; a returned Tensor replaces it.

        Returns
        -------
        RemovableHandle
            Its ``remove()`` takes the hook away.

        Examples
        --------
        >>> import adjoint as ad
        >>> x = ad.ones(1, requires_grad=True)
        >>> handle = x.register_hook(lambda g: g * 2)
        >>> (x * 3).sum().backward()
        >>> x.grad
        tensor([6.])
        """
        registered = _C._register_hook(self, hook)
        return _handle(self, registered.id, registered.clear)

    @property
    def _backward_hooks(self):
        """The hooks by number, in the order in which they run; None where there are none."""
        from collections import OrderedDict

        return OrderedDict(_C._hooks_of(self, True)) or None

    @_backward_hooks.setter
    def _backward_hooks(self, hooks):
        if not hasattr(hooks or {}, "values"):
            raise TypeError(f"_backward_hooks must be a dict of functions, not {type(hooks).__name__}")
        for number in _C._hooks_of(self):
            _C._remove_hook(self, number)  # type: ignore[arg-type]
        for hook in (hooks or {}).values():
            _C._register_hook(self, hook)

    @_backward_hooks.deleter
    def _backward_hooks(self):
        raise RuntimeError("deleting _backward_hooks is not allowed: set it to None to remove all hooks")

    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(tensor)`` after the gradient of this leaf has been accumulated into ``.grad``."""
        return _handle(self, _C._register_post_accumulate_grad_hook(self, hook))

    def detach_(self) -> Tensor:
        """Forget how this tensor was made: it becomes a leaf that needs no gradient."""
        _C._detach_(self)
        return self

    @property
    def volatile(self) -> bool:
        """Always False; removed: see `no_grad` and `inference_mode`."""
        from warnings import warn

        warn(
            f"volatile was removed (Variable.volatile is always False): see {switches.package}.no_grad and {switches.package}.inference_mode",
            stacklevel=2,
        )
        return False

    @volatile.setter
    def volatile(self, value: Any) -> Any:
        if value:
            from adjoint.autograd import refuse_volatile

            refuse_volatile()


def _handle(tensor, number, empty=None):
    from weakref import ref

    # A handle keeps no tensor alive.
    owner = ref(tensor)

    def remove():
        tensor = owner()
        if tensor is not None and (empty is None or number in _C._hooks_of(tensor)):
            _C._remove_hook(tensor, number)
        elif empty is not None:
            # The history that the hook belongs to has outlived the tensor, or been replaced.
            empty()

    return _handle_that(remove)


def _handle_that(remove):
    from adjoint.utils.hooks import handle_that

    return handle_that(remove)


def _register_node_hook(self, fn):
    """Call ``fn(grad_inputs, grad_outputs)`` after this node has run; a returned tuple replaces `grad_inputs`.

    Parameters
    ----------
    fn : callable

    Returns
    -------
    RemovableHandle
    """
    number = _C._register_node_hook(self, fn, False)
    return _handle_that(lambda: _C._remove_node_hook(self, number))


def _register_node_prehook(self, fn):
    """Call ``fn(grad_outputs)`` before this node runs; a returned tuple replaces `grad_outputs`.

    Parameters
    ----------
    fn : callable

    Returns
    -------
    RemovableHandle
    """
    number = _C._register_node_hook(self, fn, True)
    return _handle_that(lambda: _C._remove_node_hook(self, number))


def _input_metadata(self):
    """What the gradients that this node takes look like: one entry with `shape` and `dtype` per result of the call."""
    from adjoint.autograd._show import results

    return results(self)


_C.Node._input_metadata = property(_input_metadata)
_C.Node.register_hook = _register_node_hook
_C.Node.register_prehook = _register_node_prehook
