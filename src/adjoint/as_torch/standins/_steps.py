"""``torch.optim.adam.adam`` and ``torch.optim.sgd.sgd``: one step of an optimiser whose state the caller keeps in lists.

The lists become the state of an optimiser of one group, whose step writes the same tensors. Start reading at `_step`.
"""

from __future__ import annotations

from adjoint import optim

__all__ = ["adam", "sgd"]


def _step(optimizer, params, grads, states) -> None:
    """A step with these gradients and entries of the state, which are written."""
    before = [param.grad for param in params]
    try:
        for param, grad, state in zip(params, grads, states, strict=True):
            param.grad = grad
            optimizer.state[param] = state
        optimizer.step()
    finally:
        for param, grad in zip(params, before, strict=True):
            param.grad = grad


def _written(holder, key, tensor) -> None:
    """What the step put instead of `tensor`, into it."""
    if holder[key] is not tensor:
        tensor.copy_(holder[key])


def adam(
    params,
    grads,
    exp_avgs,
    exp_avg_sqs,
    max_exp_avg_sqs,
    state_steps,
    foreach=None,
    capturable=False,
    differentiable=False,
    fused=None,
    grad_scale=None,
    found_inf=None,
    has_complex=False,
    decoupled_weight_decay=False,
    *,
    amsgrad,
    beta1,
    beta2,
    lr,
    weight_decay,
    eps,
    maximize,
) -> None:
    """One step of `optim.Adam`, of parameters whose moments and numbers of steps are in the lists."""
    if grad_scale is not None or found_inf is not None:
        raise NotImplementedError(
            "adam(): grad_scale and found_inf are not taken; a GradScaler unscales before the step"
        )
    optimizer = optim.Adam(
        params, lr, (beta1, beta2), eps, weight_decay, amsgrad, maximize=maximize,
        differentiable=differentiable, decoupled_weight_decay=decoupled_weight_decay,
    )  # fmt: skip
    names = ["exp_avg", "exp_avg_sq", "step", *["max_exp_avg_sq"] * bool(amsgrad)]
    lists = [exp_avgs, exp_avg_sqs, state_steps, *[max_exp_avg_sqs] * bool(amsgrad)]
    states = [dict(zip(names, values)) for values in zip(*lists, strict=True)]
    _step(optimizer, params, grads, states)
    for i, state in enumerate(states):
        for name, values in zip(names, lists):
            _written(state, name, values[i])


def sgd(
    params,
    d_p_list,
    momentum_buffer_list,
    has_sparse_grad=False,
    foreach=None,
    fused=None,
    grad_scale=None,
    found_inf=None,
    *,
    weight_decay,
    momentum,
    lr,
    dampening,
    nesterov,
    maximize,
) -> None:
    """One step of `optim.SGD`; a buffer that is None is made, and put into the list."""
    if grad_scale is not None or found_inf is not None:
        raise NotImplementedError(
            "sgd(): grad_scale and found_inf are not taken; a GradScaler unscales before the step"
        )
    optimizer = optim.SGD(params, lr, momentum, dampening, weight_decay, nesterov, maximize=maximize)
    states = [{} if b is None else {"momentum_buffer": b} for b in momentum_buffer_list]
    _step(optimizer, params, d_p_list, states)
    if momentum == 0:
        return
    for i, (state, buffer) in enumerate(zip(states, momentum_buffer_list)):
        if buffer is None:
            momentum_buffer_list[i] = state["momentum_buffer"]
        else:
            _written(state, "momentum_buffer", buffer)
