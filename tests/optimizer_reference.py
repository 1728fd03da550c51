"""The steps of optimisers in NumPy: see structured_reference.py, which gathers these. What is compared are the parameters."""

import numpy as np

import adjoint as ad


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


OPERATIONS = {
    "move": lambda a, b, c: a + 0,
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "multiply_add": lambda a, b, c: a * b + c,
    "div": lambda a, b, c: a / b,
    "maximum": lambda a, b, c: np.maximum(a, b),
    "sqrt": lambda a, b, c: np.sqrt(a),
    "abs": lambda a, b, c: np.abs(a),
    "sign": lambda a, b, c: np.sign(a),
    "less": lambda a, b, c: np.where(a < b, 1.0, 0.0),
    "where": lambda a, b, c: np.where(a != 0, b, c),
}


def program(params, grads, firsts, seconds, thirds, steps, code, numbers):
    result = []
    for *tensors, _ in given(params, grads, firsts, seconds, thirds, steps):
        registers = dict(enumerate([*tensors, *numbers]))
        for op, to, *read in np.reshape(code, (-1, 5)).tolist():
            registers[to] = OPERATIONS[ad._C.step_operations[op]](*(registers[r] for r in read))
        result.append(registers[0])
    return result


REFERENCES = {"_sgd_step": sgd, "_adam_step": adam, "_rmsprop_step": rmsprop, "_program_step": program}
