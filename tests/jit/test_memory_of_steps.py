"""What a replayed call takes of memory at most, and what becomes of gradients that it replaces."""

import pytest
from taken import peak
from twice import numbers, same

import adjoint as ad
from adjoint import nn

F = nn.functional


@pytest.fixture(autouse=True)
def one_thread():
    """Whether two need their working memory at the same time is chance."""
    ad.set_num_threads(1)


def step_of(net, loss):
    """A step of training, of a network and its loss."""
    optimizer = ad.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        found = loss()
        found.backward()
        optimizer.step()
        return found.detach()

    return step


def layers():
    """Weights that take more than the activations, as in most networks."""
    net = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh())))
    x = numbers(8, 256)
    return net, lambda: (net(x) ** 2).mean()


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 64, 3), nn.ReLU(), nn.MaxPool2d(2)
    )
    x = numbers(2, 3, 32, 32)
    return net, lambda: (net(x) ** 2).mean()


def attention():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    net, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), numbers(8, 32, 64)
    return net, lambda: (net(x) ** 2).mean()


def products():
    """Temporaries one after the other, of which launches make some and rows others: no step."""
    w, x = numbers(512, 512), numbers(1024, 512)

    def run():
        y = x
        for _ in range(6):
            y = (y @ w).softmax(1).reshape(512, 1024).t().reshape(1024, 512)
        return y

    return run


@pytest.mark.parametrize("make", (layers, convolutions, attention, products))
def test_a_replay_takes_no_more_memory_than_the_function(make):
    function = make() if make is products else step_of(*make())
    replayed = ad.jit(function)
    for _ in range(6):
        replayed()
    assert replayed.stats()["replayed"]
    assert peak(replayed) <= 1.1 * peak(function) + 2**16


def test_small_memory_goes_when_nothing_takes_it_any_more():
    """Beside large memory that is needed later, many small tensors are held no longer than by the function."""
    small, w, x = numbers(64, 64), numbers(512, 512), numbers(1024, 512)

    def run():
        many = [small @ (small * (k + 1)) for k in range(32)]
        begin = many[0]
        for m in many[1:]:
            begin = begin @ m
        del many, m
        y = begin.sum() + x
        for _ in range(3):
            y = y @ w
        return y

    replayed = ad.jit(run)
    for _ in range(6):
        replayed()
    assert replayed.stats()["replayed"]
    assert peak(replayed) <= peak(run) + 2**15


@pytest.mark.parametrize("make", (layers, convolutions, attention))
def test_a_pass_through_a_replay_takes_no_more_memory_than_through_the_function(make):
    """What the node kept goes as the pass has taken it."""
    net, loss = make()

    def pass_of(f):
        def step():
            net.zero_grad()
            f().backward()

        return step

    replayed = ad.jit(loss)
    for _ in range(6):
        pass_of(replayed)()
    assert replayed.stats()["replayed"]
    assert peak(pass_of(replayed)) <= 1.1 * peak(pass_of(loss)) + 2**16


def test_what_is_retained_is_there_for_the_next_pass():
    def program(jit, see):
        w = numbers(64, 64).requires_grad_()

        @jit
        def f(x):
            y = (x @ w).tanh()
            return y, (y.exp() * y).sum()

        for k in range(8):
            y, loss = f(numbers(100, 64, seed=k))
            for result, retain in ((loss, True), (loss, False), (loss, False), (y.sum(), False)):
                try:
                    see(*ad.autograd.grad(result, w, retain_graph=retain))
                except RuntimeError as error:  # names the node
                    see(str(error).partition(";")[0])
            see(y, loss)

    same(program)


def test_gradients_that_others_hold_stay_as_they_are():
    def program(jit, see):
        net = nn.Linear(3, 2)
        x = numbers(4, 3)
        step = jit(step_of(net, lambda: (net(x) ** 2).sum()))
        held = []
        for k in range(8):
            step()
            held.append(net.weight.grad)
            see(net.weight.grad, *(() if k % 2 else (net.bias.grad,)))
        see(held)

    same(program)


def test_a_call_that_fails_leaves_the_gradients_that_the_function_leaves():
    def program(jit, see):
        net = nn.Linear(3, 4)
        optimizer = ad.optim.SGD(net.parameters(), lr=0.1)
        x = numbers(2, 3)

        def late(labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def early(labels):
            loss = F.cross_entropy(net(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        for step in (jit(late), jit(early)):
            for k in range(12):
                with see.error():
                    see(step(ad.tensor([1, 7 if k in (6, 9) else k % 4])))
                see(net.weight, net.weight.grad, net.bias.grad)

    same(program)


def test_decisions_after_gradients_were_let_go():
    """Each way is replayed, and finds the gradients that the other needs."""
    net = nn.Linear(3, 1)
    optimizer = ad.optim.SGD(net.parameters(), lr=0.01)

    @ad.jit
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        if loss > 1e6:
            net.weight.grad = ad.ones(1, 3)
            net.bias.grad = ad.ones(1)
            return loss.detach()
        loss.backward()
        if net.weight.grad.abs().sum() > 1e3:
            net.weight.grad.mul_(0.0)
        optimizer.step()
        return loss.detach()

    scales = (1.0, 1e8, 1e2)
    for scale in scales * 6:
        step(scale * ad.ones(2, 3))
    before = step.stats()
    for scale in scales * 4:
        step(scale * ad.ones(2, 3))
    after = step.stats()
    assert after["replayed"] - before["replayed"] == 12 and after["eager"] == before["eager"]
