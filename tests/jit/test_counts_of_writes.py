"""Versions under `jit`: `x.data` counts writes by itself, inside of a function, as an argument and as a result.

Start reading at `test_writes_of_every_way_are_counted_where_eager_counts_them`.
"""

import contextlib

import pytest
from twice import same

import adjoint as ad
from adjoint import tree

#: A write to what a function is given, or to what stands on its memory.
WRITES = {
    "itself": lambda x: x.add_(1.0),
    "a view": lambda x: x[0].add_(1.0),
    "detach": lambda x: x.detach().add_(1.0),
    "data": lambda x: x.data.add_(1.0),
    "a view of data": lambda x: x.data[0].add_(1.0),
    "data of a view": lambda x: x[0].data.add_(1.0),
    "out=": lambda x: ad.add(x, 1.0, out=x.data),
    "data and itself": lambda x: (x.data.mul_(0.5), x.add_(1.0)),
    "data twice": lambda x: (x.data.mul_(0.5), x.data.add_(1.0)),
    "an item": lambda x: x.data.__setitem__(0, 3.0),
}
MODES = {"grad": contextlib.nullcontext, "no_grad": ad.no_grad, "inference": ad.inference_mode}
GIVEN = {
    "plain": lambda x: x,
    "with other data": lambda x: with_other_data(x),
    "data": lambda x: x.data,
    "a view": lambda x: x[1:],
}


def with_other_data(x):
    x.data = x.data.clone()
    return x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", GIVEN)
def test_writes_of_every_way_are_counted_where_eager_counts_them(given, mode):
    def program(jit, see):
        for name, write in WRITES.items():

            def f(x, write=write):
                with MODES[mode]():
                    write(x)

            f = jit(f)
            base = ad.ones(3, 2)
            x = GIVEN[given](base)
            for _ in range(6):
                f(x)
                see(name, x, base)

    same(program)


def test_a_pass_may_follow_a_write_to_data():
    """As programs of old write their steps: `p.data.add_(...)` between a forward pass and its backward."""

    def program(jit, see):
        p = ad.ones(3, requires_grad=True)

        @jit
        def step(g):
            p.data.add_(g, alpha=-0.1)

        for _ in range(6):
            loss = (p * p).sum()
            step(ad.ones(3))
            loss.backward()
            see(p, p.grad)

    same(program)


def written(x):
    return x.add_(1.0)


#: What gives tensors that count writes by themselves.
RESULTS = {
    "data": lambda x: x.data,
    "itself and data": lambda x: (x, x.data),
    "a view of data": lambda x: x.data[0],
    "data twice": lambda x: (x.data, x.data),
    "data and a view of it": lambda x: (lambda d: (d[0], d))(x.data),
    "written data": lambda x: written(x.data),
    "detached": lambda x: x.detach(),
    "data of what it makes": lambda x: (x * 2).data,
    "what it makes and its data": lambda x: (lambda y: (y.data, y))(x * 2),
    "data of what it writes": lambda x: written(x * 2).data,
    "what it writes by data": lambda x: (lambda y: (written(y.data), y))(x * 2),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_results_count_writes_as_eager_does(name, requires_grad):
    def program(jit, see):
        function = RESULTS[name]
        f = jit(lambda x: function(x))
        for _ in range(6):
            x = ad.ones(2, 2).requires_grad_(requires_grad)
            given = tree.leaves(f(x))
            see(given, x)
            for t in given:
                with ad.no_grad():
                    t.mul_(2)
                see(given, x)
            with ad.no_grad():
                x.add_(1)
            see(given, x)

    same(program, None)


def test_arguments_that_stop_counting_together():
    """A write to one of two tensors on one memory counts for the other, or does not, from call to call."""

    def program(jit, see):
        f = jit(lambda x, y: y.add_(1.0).sum())
        for k in range(12):
            x = ad.ones(3, 2)
            y = x[0] if k % 3 else x.data[0]
            see(f(x, y), x, y)

    same(program)


def test_a_call_that_is_only_tried_puts_flags_back():
    """Where a number changes, a call is made twice; whether a tensor requires a gradient is as the first found it."""

    def program(jit, see):
        p, state = ad.nn.Parameter(ad.ones(3)), {"t": 0.0, "trains": True}

        @jit
        def f(x):
            state["t"] += 0.25
            required = p.requires_grad
            p.requires_grad_(state["trains"])
            return x * state["t"] + x.sum().item(), required

        for k in range(12):
            state["trains"] = k % 4 < 2
            see(f(ad.full((3,), float(k))), p)

    same(program, None)


#: What gives a tensor other memory or another shape.
REPLACES = {
    "out=": lambda t, x: ad.sum(x, 0, out=t),
    "set_": lambda t, x: t.set_(x.clone()),
    "data": lambda t, x: setattr(t, "data", x.clone()),
    "resize_": lambda t, x: t.resize_(2, t.shape[0] + 1),
    "t_": lambda t, x: t.t_(),
    "unsqueeze_": lambda t, x: t.unsqueeze_(0),
    "as_strided_": lambda t, x: t.as_strided_((2, 1), (1, 1)),
    "swap_tensors": lambda t, x: ad.utils.swap_tensors(t, x.clone()),
}


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("name", REPLACES)
def test_a_call_that_is_only_tried_gives_no_tensor_other_memory(name, always):
    """It could not be undone; views go on sharing the memory of what they are views of."""

    def program(jit, see):
        state = {"t": ad.zeros(3, 3), "k": 0}

        @jit
        def f(x):
            if state["k"] % 2 or always:
                REPLACES[name](state["t"], x)
            return x * (state["k"] + 1)

        for turn, k in enumerate((0, 0, 0, 0, 2, 4, 1, 1, 3, 5, 0, 1)):
            state["k"] = k
            if turn % 2 == 0:
                state["t"] = ad.arange(9.0).reshape(3, 3).clone()
            view = state["t"].detach()
            see(f(ad.ones(3, 3)), state["t"], view)

    same(program, None)


def test_a_pass_that_runs_the_function_again_leaves_all_counts_as_they_were():
    """Of a tensor and its view, which count together."""
    buffer, p = ad.zeros(3, 3), ad.ones(3, 3).requires_grad_()
    view = buffer[:2]

    @ad.jit
    def f(x):
        buffer.add_(1.0)
        return (p * x).sin(), view.sum()

    for k in range(8):
        y, _ = f(ad.full((3, 3), 0.1 * k))
        (gradient,) = ad.autograd.grad(y.sum(), p, create_graph=True)
        ad.autograd.grad(gradient.sum(), p)
        assert buffer._version == view._version == k + 1
        assert buffer[0, 0].item() == k + 1
    assert f.stats()["replayed"] >= 4
