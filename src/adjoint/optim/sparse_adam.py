"""SparseAdam: Adam for gradients of few rows, as embeddings give them."""

from __future__ import annotations

from math import sqrt

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Closure, Params, Tensor

from .optimizer import Optimizer, check_betas, options, with_gradients

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that updates the rows, or elements, that a sparse gradient names, and the moments of these alone.

    With g = ±∇ at these places, m += (1 - β₁)(g - m), v += (1 - β₂)(g² - v), and step t is
    p -= lr √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + eps). Adam would let the moments of all others decay.

    Parameters
    ----------
    params : iterable of Tensor, of (name, Tensor) pairs, or of dicts (parameter groups)
        Dense, with gradients in the layout sparse_coo.
    lr : float
    betas : pair of float
    eps : float

    Raises
    ------
    ValueError
        An option is out of range, or a parameter is sparse or complex.
    RuntimeError
        In a step: a gradient is dense.

    Examples
    --------
    >>> import adjoint as ad
    >>> table = ad.nn.Embedding(3, 2, sparse=True, _weight=ad.ones(3, 2))
    >>> optimizer = ad.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(ad.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> table.weight.detach()
    tensor([[1.0000, 1.0000],
            [0.9000, 0.9000],
            [1.0000, 1.0000]])
    """

    takes_sparse = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, ad.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, options(locals()))
        for what, words in (
            ("Sparse", "requires dense parameter tensors"),
            ("Complex", "does not support complex parameters"),
        ):
            found = [
                [i, k]
                for i, group in enumerate(self.param_groups)
                for k, param in enumerate(group["params"])
                if (param.is_sparse if what == "Sparse" else param.is_complex())
            ]
            if found:
                raise ValueError(f"{what} params at indices {found}: SparseAdam {words}")

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure`, if given, recomputes and returns the loss."""
        loss = self._evaluate(closure)
        with ad.no_grad():
            for group in self.param_groups:
                params, grads = with_gradients(group, self)
                for grad in grads:
                    if not grad.is_sparse:
                        raise RuntimeError(
                            "SparseAdam does not support dense gradients, please consider Adam instead"
                        )
                for param, grad in zip(params, grads):
                    self._step_of(group, param, grad)
        return loss

    def _step_of(self, group, param, grad):
        entry = self.state[param]
        if not entry:
            entry.update(step=0, exp_avg=ad.zeros_like(param), exp_avg_sq=ad.zeros_like(param))
        entry["step"] += 1
        grad = (-grad if group["maximize"] else grad).coalesce()
        g = grad.values()
        if g.numel() == 0:
            return
        beta1, beta2 = group["betas"]
        moments = []
        for name, value, beta in (("exp_avg", g, beta1), ("exp_avg_sq", g * g, beta2)):
            before = entry[name].sparse_mask(grad).values()
            change = (value - before) * (1 - beta)
            entry[name].add_(_C._sparse_with(grad, change))
            moments.append(before + change)
        m, v = moments
        t = int(entry["step"])
        size = float(group["lr"]) * sqrt(1 - beta2**t) / (1 - beta1**t)
        param.sub_(_C._sparse_with(grad, m / (v.sqrt() + group["eps"]) * size))
