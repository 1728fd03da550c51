"""`ShapeProp`: records shape, dtype and layout of the value of each node."""

from __future__ import annotations

from typing import Any, NamedTuple

import adjoint
from adjoint._publish.register import listing
from adjoint.fx.interpreter import Interpreter
from adjoint.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]
__dir__ = listing(__name__)


class TensorMetadata(NamedTuple):
    """The metadata of a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    strided = result.layout is adjoint.strided
    order = None
    if strided and include_contiguity:
        orders = (adjoint.contiguous_format, adjoint.channels_last, adjoint.channels_last_3d)
        order = next((o for o in orders if _lies(result, o)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride() if strided else (), order, False, {}
    )


def _lies(t: Any, order: Any) -> bool:
    try:
        return t.is_contiguous(memory_format=order)
    except RuntimeError:
        return False


class ShapeProp(Interpreter):
    """Runs a graph and records shape, dtype and layout of tensors as ``node.meta["tensor_meta"]``, types as ``node.meta["type"]``.

    Parameters
    ----------
    gm : GraphModule
    fake_mode : optional
        None: tensors on the device ``meta`` take its place.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import fx
    >>> from adjoint.fx.passes.shape_prop import ShapeProp
    >>> module = fx.symbolic_trace(ad.nn.Sequential(ad.nn.Linear(3, 5), ad.nn.ReLU()))
    >>> result = ShapeProp(module).propagate(ad.ones(2, 3))
    >>> [(n.name, *n.meta["tensor_meta"].shape) for n in module.graph.nodes]
    [('input_1', 2, 3), ('_0', 2, 5), ('_1', 2, 5), ('output', 2, 5)]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp(fake_mode=): pass tensors on the device 'meta' to propagate() instead"
            )
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """Compute the value of a node and record its metadata."""
        result = super().run_node(n)
        found = False

        def note(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, adjoint.Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        noted = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = noted
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on example arguments."""
        return self.run(*args)
