"""Looking at the graph: nodes, and the edge through which a tensor's gradient flows."""

from __future__ import annotations

from adjoint._C import Node, Tensor, _gradient_edge

__all__ = ["GradientEdge", "Node", "get_gradient_edge"]


class GradientEdge(tuple):
    """A node and the number of its result whose gradient arrives there.

    Attributes
    ----------
    node : Node
    output_nr : int
    """

    __slots__ = ()

    def __new__(cls, node, output_nr):
        return tuple.__new__(cls, (node, output_nr))

    @property
    def node(self):
        return self[0]

    @property
    def output_nr(self):
        return self[1]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` goes.

    Raises
    ------
    RuntimeError
        The tensor needs no gradient.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> ad.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(*_gradient_edge(tensor))
