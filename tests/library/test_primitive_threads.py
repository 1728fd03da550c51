"""Declared operators in several threads: forward and backward ask for Python's lock, whoever runs them."""

import threading

import numpy as np
from helpers import array, normal, tensor

import adjoint as ad
from adjoint.library import primitive


def test_backward_passes_in_several_threads():
    @primitive("sine_in_threads(x)", vjp=lambda g, x: g * ad.from_numpy(np.cos(x.detach().numpy())))
    def sine(x):
        return ad.from_numpy(np.sin(x.numpy()))

    errors = []

    def work(seed):
        try:
            for _ in range(20):
                # Large enough for the call to let go of Python's lock.
                x = tensor(normal(20000, seed=seed), requires_grad=True)
                sine(x * 2).sum().backward()
                np.testing.assert_allclose(array(x.grad), 2 * np.cos(2 * array(x)), rtol=1e-10)
        except Exception as error:  # noqa: BLE001 - it is looked at outside of the thread
            errors.append(error)

    try:
        ad.autograd.set_parallel_backward(True)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        x = tensor(normal(20000), requires_grad=True)
        sum(sine(x * k) for k in range(1, 5)).sum().backward()
        wanted = sum(k * np.cos(k * array(x)) for k in range(1, 5))
        np.testing.assert_allclose(array(x.grad), wanted, rtol=1e-9, atol=1e-9)
    finally:
        ad.autograd.set_parallel_backward(False)
        ad._C._withdraw_operator("sine_in_threads")
    assert errors == []
