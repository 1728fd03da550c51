"""Steps of optimisers are calls like any other: seen by interpreters and observers, counted as writes, done on every device."""

import far_device  # noqa: F401
import numpy as np
import pytest
from helpers import array

import adjoint as ad
from adjoint.autograd import graph
from adjoint.utils._python_dispatch import TorchDispatchMode

#: An optimiser, and the row of one step of it.
STEPS = {
    "sgd": (lambda ps: ad.optim.SGD(ps, lr=0.1), "_sgd_step"),
    "momentum": (lambda ps: ad.optim.SGD(ps, lr=0.1, momentum=0.9), "_sgd_step"),
    "adam": (lambda ps: ad.optim.Adam(ps, lr=0.1, amsgrad=True), "_adam_step"),
    "adamw": (lambda ps: ad.optim.AdamW(ps, lr=0.1), "_adam_step"),
    "rmsprop": (lambda ps: ad.optim.RMSprop(ps, lr=0.1, momentum=0.5, centered=True), "_rmsprop_step"),
    "radam": (lambda ps: ad.optim.RAdam(ps, lr=0.1, decoupled_weight_decay=True), "_program_step"),
    "rprop": (lambda ps: ad.optim.Rprop(ps, lr=0.1), "_program_step"),
    "adamax": (lambda ps: ad.optim.Adamax(ps, lr=0.1, weight_decay=0.5), "_program_step"),
}


def parameters(device="cpu", dtype=ad.float32):
    rng = np.random.default_rng(0)
    made = []
    for shape in [(3, 4), (), (0, 2), (5,)]:
        p = ad.tensor(rng.standard_normal(shape).tolist(), dtype=dtype).reshape(shape).to(device)
        p.grad = ad.tensor(rng.standard_normal(shape).tolist(), dtype=dtype).reshape(shape).to(device)
        made.append(p.requires_grad_())
    return made


class Seeing(TorchDispatchMode):
    def __init__(self):
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func.__name__, args))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", STEPS)
def test_an_interpreter_sees_one_call(name):
    make, row = STEPS[name]
    plain, seen = parameters(), parameters()
    make(plain).step()
    optimizer = make(seen)
    optimizer.step()
    make(plain).step()
    optimizer = make(seen)
    with Seeing() as mode:
        optimizer.step()
    calls = [c for c in mode.calls if c[0] == row]
    assert len(calls) == 1 and not any(c[0] in ("sub", "mul", "_copy") for c in mode.calls), mode.calls
    assert all(p is q for p, q in zip(calls[0][1][0], seen, strict=True))
    for p, q in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(array(p), array(q))


@pytest.mark.parametrize("name", STEPS)
def test_an_interpreter_may_leave_it_out(name):
    class Idle(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0] if func.__name__.endswith("_step") else func(*args, **(kwargs or {}))

    ps = parameters()
    before, versions = [array(p) for p in ps], [p._version for p in ps]
    with Idle():
        STEPS[name][0](ps).step()
    for p, b, v in zip(ps, before, versions, strict=True):
        np.testing.assert_array_equal(array(p), b)
        assert p._version == v


@pytest.mark.parametrize("name", STEPS)
def test_what_was_saved_of_a_parameter_is_out_of_date(name):
    ps = parameters()
    loss = (ps[0] * ps[0]).sum()
    version = ps[0]._version
    STEPS[name][0](ps).step()
    assert ps[0]._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writes_are_told_to_observers():
    """What was saved is copied before a step writes it."""
    ps = parameters()
    old = array(ps[0])
    with graph.allow_mutation_on_saved_tensors():
        loss = (ps[0] * ps[0]).sum()
        ps[0].grad = ad.ones_like(ps[0])
        ad.optim.SGD(ps, lr=0.1).step()
        (g,) = ad.autograd.grad(loss, ps[0])
    np.testing.assert_allclose(array(g), 2 * old, rtol=1e-6)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_other_devices(name, dtype):
    here, there, nowhere = (parameters(d, dtype) for d in ("cpu", "far:1", "meta"))
    for ps in (here, there, nowhere):
        optimizer = STEPS[name][0](ps)
        optimizer.step()
        with Seeing() as mode:
            optimizer.step()
        assert [c[0] for c in mode.calls].count(STEPS[name][1]) == 1, mode.calls
    for a, b, c in zip(here, there, nowhere, strict=True):
        assert str(b.device) == "far:1" and c.is_meta
        np.testing.assert_array_equal(array(b.detach().cpu()), array(a.detach()))


def test_parameters_on_several_devices():
    here, there = parameters(), parameters("far:1")
    wanted = parameters()
    ad.optim.Adam(here + there, lr=0.1).step()
    ad.optim.Adam(wanted, lr=0.1).step()
    for a, b, c in zip(here, there, wanted, strict=True):
        np.testing.assert_array_equal(array(a), array(c))
        np.testing.assert_allclose(array(b.detach().cpu()), array(c), rtol=1e-5)


def test_a_transposed_parameter_and_gradient():
    x = ad.arange(12, dtype=ad.float32).reshape(4, 3)
    turned, plain = x.clone().t(), x.t().contiguous()
    for p in (turned, plain):
        p.grad = p.detach().clone()
        ad.optim.SGD([p.requires_grad_()], lr=0.5).step()
    np.testing.assert_array_equal(array(turned), array(plain))
    assert turned.stride() == (1, 3)


def test_what_does_not_fit_is_refused_before_anything_is_written():
    a, b = ad.ones(3), ad.ones(2)
    for grads in ([ad.ones(3), ad.ones(3)], [ad.ones(3), ad.ones(2, dtype=ad.float64)], [ad.ones(3)]):
        with pytest.raises((RuntimeError, ValueError), match="_sgd_step"):
            ad._C._sgd_step([a, b], grads, [], 0.1)
    assert a.tolist() == [1, 1, 1] and a._version == 0


def test_a_batch_is_not_written_with_others():
    def f(x):
        p = x * 1
        ad._C._sgd_step([p], [p], [], 0.1)
        return p

    with pytest.raises(NotImplementedError, match="stand for a batch"):
        ad.func.vmap(f)(ad.ones(2, 3))


@pytest.mark.parametrize("kind", ["Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "Rprop"])
@pytest.mark.parametrize("lies", ["by rows", "by columns"])
def test_a_program_makes_the_step_that_the_operations_make(kind, lies):
    """In one call for all parameters that have taken as many steps; what the core refuses goes through the operations."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) for s in [(3, 40, 7), (), (0,), (6, 600)]]
    gradients = [[rng.standard_normal(a.shape) for a in arrays] for _ in range(8)]
    gradients[3][1] = None  # the second falls behind
    ended = []
    for by_elements in (True, False):
        ps = [ad.tensor(a, dtype=ad.float64).clone() for a in arrays]
        if lies == "by columns":
            ps = [p.mT.clone().mT if p.dim() > 1 else p for p in ps]
        ps = [p.detach().requires_grad_() for p in ps]
        optimizer = getattr(ad.optim, kind)(ps, lr=0.1)
        if not by_elements:
            optimizer.by_elements = ()
        for given in gradients:
            for p, g in zip(ps, given, strict=True):
                p.grad = None if g is None else ad.tensor(g, dtype=ad.float64)
            optimizer.step()
        ended.append([array(p) for p in ps] + [array(v) for p in ps for v in optimizer.state[p].values()])
    for a, b in zip(*ended, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_a_program_that_names_what_is_not_there():
    p, state, step = ad.ones(3), ad.ones(3), ad.tensor(0.0)
    for code in (
        [99, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 3, 0, 0],
        [0, 5, 0, 0, 0],
        [0, 0, 7, 0, 0],
        [0, 48, 0, 0, 0],
        [0, 0, -1, 0, 0],
        [0],
    ):
        with pytest.raises(ValueError, match="_program_step"):
            ad._C.program_step([p], [p], [state], [], [], [step], code, [1.0])
    assert p.tolist() == [1, 1, 1] and step.item() == 0
