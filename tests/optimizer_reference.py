"""The steps of optimisers in NumPy: see structured_reference.py, which gathers these. What is compared are the parameters."""

import numpy as np


def given(params, *lists):
    """For each parameter, itself and its entry in every list; None where a list is empty."""
    return zip(params, *(entries or [None] * len(params) for entries in lists))


def sgd(params, grads, buffers, lr, momentum, dampening, weight_decay, nesterov, maximize):
    result = []
    for p, g, b in given(params, grads, buffers):
        g = (-g if maximize else g) + weight_decay * p
        if b is not None:
            b = momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        result.append(p - lr * g)
    return result


def adam(params, grads, m1, m2, most, steps, lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
    result = []
    for p, g, m, v, top, step in given(params, grads, m1, m2, most, steps):
        g, t = -g if maximize else g, float(step) + 1
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        v = v if top is None else np.maximum(v, top)
        result.append(p - lr / (1 - beta1**t) * m / (np.sqrt(v) / np.sqrt(1 - beta2**t) + eps))
    return result


def rmsprop(params, grads, squares, means, buffers, steps, lr, alpha, eps, weight_decay, momentum, maximize):
    result = []
    for p, g, v, a, b in given(params, grads, squares, means, buffers):
        g = (-g if maximize else g) + weight_decay * p
        v = alpha * v + (1 - alpha) * g * g
        a = 0 if a is None else alpha * a + (1 - alpha) * g
        d = g / (np.sqrt(v - a * a) + eps)
        result.append(p - lr * (d if b is None else momentum * b + d))
    return result


REFERENCES = {"_sgd_step": sgd, "_adam_step": adam, "_rmsprop_step": rmsprop}
