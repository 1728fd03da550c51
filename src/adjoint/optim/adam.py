"""Adam and AdamW: steps scaled by running moments of the gradient."""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Closure, Params, Sequence, Tensor

from .optimizer import (
    Optimizer,
    as_real,
    as_type_of,
    check_at_least_zero,
    check_betas,
    check_tensor_betas,
    new_step,
    one_implementation,
    options,
    read_steps,
    with_gradients,
)

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), and AMSGrad (Reddi, Kale and Kumar, 2018).

    With g = ±∇ + weight_decay · p, m = β₁ m + (1 - β₁) g and v = β₂ v + (1 - β₂) g², the step is
    p -= lr · m̂ / (√v̂ + eps), where m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ); with `amsgrad` v̂ takes the largest
    v so far.

    Parameters
    ----------
    lr : float
    betas : (float, float), or two tensors of one element, each in [0, 1)
    eps, weight_decay : float
    amsgrad : bool
    decoupled_weight_decay : bool
        Shrink the parameter by 1 - lr · weight_decay instead of adding to the gradient: this is AdamW.

    Raises
    ------
    ValueError
        An option is out of range.

    Notes
    -----
    A real and an imaginary part count as two parameters.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.9
    """

    @one_implementation("foreach", "capturable", "fused")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, eps=eps)
        if isinstance(lr, ad.Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_tensor_betas(betas, foreach, capturable)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        read_steps(self.state)

    def _entry(self, param, amsgrad):
        entry = self.state[param]
        if not entry:
            entry["step"] = new_step()
            entry["exp_avg"] = ad.zeros_like(param)
            entry["exp_avg_sq"] = ad.zeros_like(param)
            if amsgrad:
                entry["max_exp_avg_sq"] = ad.zeros_like(param)
        return entry

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure`, if given, recomputes and returns the loss."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, self)
            if not params:
                continue
            amsgrad = group["amsgrad"]
            entries = [self._entry(param, amsgrad) for param in params]
            rest: Sequence[int] = range(len(params))
            if not group["differentiable"]:
                beta1, beta2 = group["betas"]
                rest = _C.adam_step(
                    params,
                    grads,
                    [entry["exp_avg"] for entry in entries],
                    [entry["exp_avg_sq"] for entry in entries],
                    [entry["max_exp_avg_sq"] for entry in entries] if amsgrad else [],
                    [entry["step"] for entry in entries],
                    _C._number(group["lr"]),
                    _C._number(beta1),
                    _C._number(beta2),
                    _C._number(group["eps"]),
                    _C._number(group["weight_decay"]),
                    group["decoupled_weight_decay"],
                    group["maximize"],
                )
            for i in rest:
                self._step_with_tensors(group, params[i], grads[i], entries[i])
        return loss

    def _step_with_tensors(self, group, param, grad, entry):
        """The same formulas as tensor operations."""
        beta1, beta2 = group["betas"]
        lr, weight_decay = group["lr"], group["weight_decay"]
        with ad.set_grad_enabled(group["differentiable"]):
            entry["step"] = entry["step"] + 1
            t = entry["step"].item()
            if group["maximize"]:
                grad = -grad
            if weight_decay != 0:
                if group["decoupled_weight_decay"]:
                    param.mul_(1 - lr * weight_decay)
                else:
                    grad = grad + param * weight_decay
            grad, m, v = as_real(grad), as_real(entry["exp_avg"]), as_real(entry["exp_avg_sq"])
            m = m * beta1 + grad * (1 - beta1)
            v = v * beta2 + grad * grad * (1 - beta2)
            entry["exp_avg"], entry["exp_avg_sq"] = as_type_of(param, m), as_type_of(param, v)
            if group["amsgrad"]:
                v = ad.maximum(as_real(entry["max_exp_avg_sq"]), v)
                entry["max_exp_avg_sq"] = as_type_of(param, v)
            denominator = v.sqrt() / (1 - beta2**t) ** 0.5 + group["eps"]
            as_real(param).sub_(m / denominator * (lr / (1 - beta1**t)))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): p shrinks by 1 - lr · weight_decay.

    Parameters like those of `Adam`; `weight_decay` is 0.01 by default.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.AdamW([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.897
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **options(locals()), decoupled_weight_decay=True)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
