"""Passes through a replayed call while a mode is on that was not on at the call: what the pass needs of the function is made
as it was made at the call, and the mode sees of it what it sees without `jit`.

Start reading at `test_modes`.
"""

import contextlib

import pytest
import twice

import adjoint as ad
from adjoint.autograd import forward_ad


@contextlib.contextmanager
def packing(log):
    def note(what):
        return lambda t: (log.append((what, twice.picture(t))), t)[1]

    with ad.autograd.graph.saved_tensors_hooks(note("pack"), note("unpack")):
        yield


@contextlib.contextmanager
def looking_on(log):
    """An observer, who sees all calls that compute."""
    handle = ad._C._push_observer(None, lambda *call: log.append(str(call[0])), None)
    try:
        yield
    finally:
        ad._C._pop_interpreter(handle)


MODES = {
    "anomalies": lambda log: ad.autograd.detect_anomaly(),
    "saved tensors": packing,
    "functions": twice.Names,
    "calls": looking_on,
    "autocast": lambda log: ad.autocast("cpu", dtype=ad.bfloat16),
    "inference": lambda log: ad.inference_mode(),
    "no recording": lambda log: ad.no_grad(),
    "holomorphic": lambda log: ad.autograd.complex_convention("holomorphic"),
    "meta": lambda log: ad.device("meta"),
    "forward mode": lambda log: forward_ad.dual_level(),
    "threads": lambda log: ad.autograd.set_parallel_backward(True),
}


def loss(out):
    return (out[0] * out[2]).sum() + out[1].sum()


def plainly(out, ends):
    return ad.autograd.grad(loss(out), ends)


def twice_over(out, ends):
    gradients = ad.autograd.grad(loss(out), ends, retain_graph=True)
    return gradients, ad.autograd.grad(loss(out), ends)


def recorded(out, ends):
    gradients = ad.autograd.grad(loss(out), ends, create_graph=True)
    return gradients, ad.autograd.grad(sum(g.sin().sum() for g in gradients), ends)


def spent(out, ends):
    ad.autograd.grad(out[1].sum(), ends)
    return ad.autograd.grad(loss(out), ends)


def batched(out, ends):
    cotangents = twice.numbers(5, *out[0].shape, seed=7)
    return ad.autograd.grad(out[0] * out[2] + out[1], ends, cotangents, is_grads_batched=True)


def mapped(out, ends):
    def pull(g):
        return ad.autograd.grad(out[0] * out[2] + out[1], ends, g, retain_graph=True)

    return ad.func.vmap(pull)(twice.numbers(5, *out[0].shape, seed=7))


def tangents(out, ends):
    def pull(g):
        return ad.autograd.grad(out[0] * out[2] + out[1], ends, g, retain_graph=True)

    given = twice.numbers(*out[0].shape, seed=7)
    return ad.func.jvp(pull, (given,), (given.cos(),))


PASSES = [plainly, twice_over, recorded, spent, batched, mapped, tangents]


def program_of(mode, through):
    def program(jit, see):
        w = ad.nn.Parameter(twice.numbers(4, 4))

        def f(x):
            h = ad.nn.functional.dropout((x @ w).tanh(), 0.25)
            y = h * h + h.sin() + h.exp() * h
            return y, y.sum(0) * w[0] + ad.zeros(4), h

        f = jit(f)
        for k in range(7):
            x = twice.numbers(3, 4, seed=k).requires_grad_()
            out, log, gradients = f(x * 1.0), [], None
            out[2].register_hook(lambda g, log=log: log.append(tuple(g.shape)))
            try:
                with mode(log):
                    gradients = through(out, (x, w))
            except RuntimeError as error:  # of a node, whose name is another
                see(str(error).partition(". ")[0])
            see(log, gradients)

    return program


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("through", PASSES, ids=lambda f: f.__name__)
def test_modes(mode, through):
    twice.same(program_of(MODES[mode], through))
