"""Traps for a recording, in what a function trains: each a program that runs eagerly, under `jit`, and with each replay
checked, where all that can be seen must be the same. See `twice.same`.
"""

import pytest
import twice
from twice import numbers

import adjoint as ad
from adjoint import nn

TRAPS, trap = twice.table()


def training(make, steps=12, **options):
    def program(jit, see):
        ad.manual_seed(1)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = make(net.parameters())

        def step(x, y):
            optimizer.zero_grad(**options)
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = jit(step)
        for k in range(steps):
            x, y = numbers(5, 3, seed=k), numbers(5, 2, seed=k + 50)
            see(step(x, y), [(p, p.grad) for p in net.parameters()])
            see({k: v for k, v in optimizer.state_dict()["state"].items()})

    return program


for name, make in {
    "sgd": lambda p: ad.optim.SGD(p, 0.1),
    "momentum": lambda p: ad.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: ad.optim.Adam(p, 0.1),
    "adamw": lambda p: ad.optim.AdamW(p, 0.1, amsgrad=True),
    "rmsprop": lambda p: ad.optim.RMSprop(p, 0.1),
    "adagrad": lambda p: ad.optim.Adagrad(p, 0.1),
}.items():
    for options in ({}, {"set_to_none": False}):
        # Bare steps count in tensors; those that count in Python run eagerly.
        TRAPS.append(
            pytest.param(
                training(make, **options), None, id=f"training_by_{name}{'_to_zero' * bool(options)}"
            )
        )


@trap()
def gradients_that_are_none_or_there(jit, see):
    w = numbers(3, requires_grad=True)

    def f(x):
        (w * x).sum().backward()

    f = jit(f)
    for k in range(6):
        f(numbers(3, seed=k))
        see(w.grad)
    for k in range(6):
        w.grad = None
        f(numbers(3, seed=k))
        see(w.grad)
    kept = []
    for k in range(6):
        w.grad = None
        f(numbers(3, seed=k))
        kept.append(w.grad)
    see(kept)
    w.grad = numbers(3)
    mine = w.grad
    for k in range(6):
        f(numbers(3, seed=k))
        see(w.grad is mine, mine)


@trap()
def gradient_of_an_argument(jit, see):
    def f(x):
        x.sin().sum().backward()
        return x.grad

    f = jit(f)
    for _ in range(6):
        x = numbers(3, requires_grad=True)
        g = f(x)
        see(g is x.grad, g)
        g.mul_(2)
        see(f(x) is g, g)


@trap(replays=None)
def lr_under_a_scheduler(jit, see):
    w = numbers(3, requires_grad=True)
    optimizer = ad.optim.SGD([w], 0.1, momentum=0.9)
    scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def f(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()

    f = jit(f)
    for k in range(14):
        f(numbers(3, seed=k))
        if k > 4:
            scheduler.step()
        see(w, optimizer.param_groups[0]["lr"])


@trap(replays=None)
def a_scheduler_inside(jit, see):
    w = numbers(3, requires_grad=True)
    optimizer = ad.optim.SGD([w], 0.1)
    scheduler = ad.optim.lr_scheduler.StepLR(optimizer, 2)

    def f(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()
        scheduler.step()

    f = jit(f)
    for k in range(14):
        f(numbers(3, seed=k))
        see(w, optimizer.param_groups[0]["lr"], scheduler.last_epoch)


@trap()
def hooks_are_added(jit, see):
    net = nn.Linear(3, 2)
    seen = []

    def f(x):
        return net(x).sum()

    f = jit(f)
    for k in range(5):
        f(numbers(2, 3, seed=k)).backward()
    handle = net.register_forward_hook(lambda m, i, o: seen.append(o.detach().sum().item()))
    for k in range(5):
        see(f(numbers(2, 3, seed=k)))
    handle.remove()
    see(seen)
    handle = net.weight.register_hook(lambda g: seen.append(g.sum().item()))
    for k in range(5):
        f(numbers(2, 3, seed=k)).backward()
        see(net.weight.grad)
    handle.remove()
    handle = net.register_forward_pre_hook(lambda m, i: (i[0] * 2,))
    for k in range(5):
        see(f(numbers(2, 3, seed=k)))
    see(seen)


@trap()
def hooks_on_results(jit, see):
    f = jit(lambda x: x.sin().sum())
    seen = []
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        y.register_hook(lambda g: seen.append(g.item()) or g * 2)
        y.retain_grad()
        x.register_hook(lambda g: seen.append(g.tolist()))
        y.backward()
        see(x.grad, y.grad, seen)


@trap()
def weights_are_loaded(jit, see):
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    f = jit(net)
    x = numbers(2, 3)
    for _ in range(5):
        see(f(x))
    net.load_state_dict(other.state_dict())
    see(f(x), f(x))
    net.weight.data = numbers(2, 3, seed=4)
    see(f(x), f(x))
    net.weight = nn.Parameter(numbers(2, 3, seed=5))
    see(f(x), f(x), f(x), f(x))
    with ad.no_grad():
        net.weight.zero_()
    see(f(x), f(x))
    f(x).sum().backward()
    see(net.weight.grad)


@trap()
def freezing(jit, see):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    f = jit(net)
    for k in range(24):
        for p in net[0].parameters():
            p.requires_grad_(k // 5 % 2 == 0)
        net.zero_grad()
        f(numbers(2, 3, seed=k)).sum().backward()
        see([p.grad for p in net.parameters()])


@trap()
def module_surgery(jit, see):
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    f = jit(net)
    x = numbers(2, 3)
    for _ in range(5):
        see(f(x))
    net[1] = nn.ReLU()
    for _ in range(5):
        see(f(x))
    net.append(nn.Linear(3, 1))
    for _ in range(5):
        see(f(x))
    net.register_buffer("extra", ad.ones(1))
    see(f(x), f(x))
    net[0].forward = lambda x: x * 2
    for _ in range(5):
        see(f(x))
    del net[0]
    for _ in range(5):
        see(f(x))
    net.double()
    for _ in range(5):
        see(f(x.double()))
    nn.Tanh.forward, before = (lambda self, x: x - 1), nn.Tanh.forward
    try:
        net[0] = nn.Tanh()
        for _ in range(5):
            see(f(x.double()))
    finally:
        nn.Tanh.forward = before
    for _ in range(3):
        see(f(x.double()))


@trap()
def loss_whose_graph_was_used(jit, see):
    w = numbers(3, requires_grad=True)

    def f(x):
        loss = (w * x).square().sum()
        loss.backward()
        return loss

    f = jit(f)
    for k in range(6):
        loss = f(numbers(3, seed=k))
        see(loss, loss.grad_fn.name(), w.grad)
        with see.error():
            loss.backward()
        with see.error():
            ad.autograd.grad(loss, w)
        (loss.detach() * 2).sum()


@trap()
def retain_graph_and_second_time(jit, see):
    f = jit(lambda x: (x.sin() * x).sum())
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        y.backward(retain_graph=True)
        y.backward()
        see(x.grad)
        with see.error():
            try:
                y.backward()
            except RuntimeError as error:
                see("a second time" in str(error))


@trap()
def modified_by_an_inplace_operation(jit, see):
    f = jit(lambda x, w: (x.sin() * w).sum())
    for k in range(6):
        w = numbers(3, seed=k, requires_grad=True)
        x = numbers(3, seed=k)
        y = f(x, w)
        see(y)
        c = w * 1
        z = f(x, c)
        x.mul_(2)
        y.backward()
        see(w.grad)
        c.mul_(2)
        try:
            z.backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))


@trap()
def a_saved_result_is_modified(jit, see):
    f = jit(lambda x: x.exp())
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        y.mul_(2)
        try:
            y.sum().backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))
        y = f(x)
        z = y * 2
        y.detach().add_(1)
        try:
            z.sum().backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))


@trap()
def gradients_outside(jit, see):
    f = jit(lambda x, w: (x @ w).tanh())
    for k in range(6):
        x, w = numbers(2, 3, seed=k, requires_grad=True), numbers(3, 2, seed=k, requires_grad=True)
        y = f(x, w)
        see(ad.autograd.grad(y, [x, w], ad.ones(2, 2), retain_graph=True))
        see(ad.autograd.grad(y, [w], numbers(2, 2), retain_graph=True))
        see(ad.autograd.grad(y.sum(), [w], retain_graph=True))
        (g,) = ad.autograd.grad(y.square().sum(), x, create_graph=True)
        see(g)
        # Which contributions are added first is not what it is where there are more nodes.
        for second in ad.autograd.grad(g.square().sum(), [x, w]):
            see([round(v, 5) for v in second.flatten().tolist()])


@trap()
def gradients_inside(jit, see):
    def f(x):
        x = x.detach().requires_grad_()
        (g,) = ad.autograd.grad(x.sin().sum(), x, create_graph=True)
        (h,) = ad.autograd.grad(g.sum(), x)
        return g.detach(), h

    f = jit(f)
    for k in range(5):
        see(f(numbers(3, seed=k)))


@trap(replays=None)
def checkpoint_and_functions_inside(jit, see):
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + x

    from adjoint.utils.checkpoint import checkpoint

    w = numbers(3, requires_grad=True)

    def f(x):
        loss = Double.apply(w * x).sum() + checkpoint(lambda a: (a * w).sin(), x, use_reentrant=False).sum()
        loss.backward()
        return loss.detach()

    f = jit(f)
    for k in range(6):
        see(f(numbers(3, seed=k)), w.grad)
    g = jit(lambda x: Double.apply(x))
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        g(x).sum().backward()
        see(x.grad)


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    twice.same(program, replays)
