"""`AdaptiveLogSoftmaxWithLoss`: a softmax over many classes, in which rare ones share small matrices."""

from __future__ import annotations

from typing import NamedTuple

import adjoint as ad
from adjoint._types import Any, Device, DType, Sequence, Tensor
from adjoint.nn import functional
from adjoint.nn.linear import Linear
from adjoint.nn.module import Module
from adjoint.nn.module.containers import ModuleList, Sequential

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """The logarithm of each target's probability, and the mean of their negatives."""

    output: ad.Tensor
    loss: ad.Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The softmax over classes ordered by falling frequency, in clusters (Grave et al., 2017).

    The first cluster's classes have scores of their own in the head, each other cluster has one there; within cluster i a map of
    rank in_features / div_valueⁱ scores the classes.

    Parameters
    ----------
    in_features, n_classes : int
    cutoffs : sequence of int
        Where clusters end, rising, below `n_classes`.
    div_value : float
    head_bias : bool
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    head : Linear
    tail : ModuleList

    Notes
    -----
    Called with the input, (N, in_features) or (in_features), and the target classes, (N) or (); returns a named tuple of
    ``output``, the logarithms of the targets' probabilities, and ``loss``, the mean of their negatives.

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.AdaptiveLogSoftmaxWithLoss(8, 10, cutoffs=[2, 5])
    >>> output, loss = model(ad.randn(3, 8), ad.tensor([0, 4, 9]))
    >>> tuple(output.shape), loss.shape == ()
    ((3,), True)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
                "between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rank = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, rank, bias=False, **made),
                    Linear(rank, high - low, bias=False, **made),
                )
            )

    def reset_parameters(self) -> None:
        """Redraw all parameters."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """The targets' log-probabilities, and the loss."""
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() == 1
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != target_.dim() + 1:
            raise RuntimeError(
                f"{target_.dim()}D target tensor expects {target_.dim() + 1}D input tensors, but found inputs with size "
                f"{input_.shape}"
            )
        x, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        if (
            target.numel()
            and not target.is_meta
            and not bool(((target >= 0) & (target < self.n_classes)).all())
        ):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        # Where the head has the target: at the class itself, or at its cluster.
        place = target
        output = x.new_zeros(target.shape[0])
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            place = place.index_fill(0, rows, self.shortlist_size + i)
            logs = functional.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
            found = logs.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            output = output.index_add(0, rows, found)
        head = functional.log_softmax(self.head(x), 1)
        output = output + head.gather(1, place.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return ASMoutput(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: Tensor):
        """The logarithms of all classes' probabilities, (N, n_classes).

        Returns
        -------
        Tensor, shape (N, n_classes)
        """
        head = functional.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(functional.log_softmax(tail(input), 1) + head[:, at : at + 1])
        return ad.cat(parts, 1)

    def predict(self, input: Tensor):
        """The most probable class of each row.

        Returns
        -------
        Tensor of int64, shape (N,)
        """
        return self.log_prob(input).argmax(1)
