"""Hooks that were set before a call and that backward passes within it run: clipping, optimisers in backward passes.

A call reaches them as what hangs on its tensors: what they read is compared, what they do is recorded. Start reading at `test_hooks`.
"""

import pytest
import twice

import adjoint as ad

PROGRAMS, trap = twice.table()


class Net(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = ad.nn.Linear(3, 4), ad.nn.Linear(4, 2)
        with ad.no_grad():
            for k, p in enumerate(self.parameters()):
                p.copy_(twice.numbers(*p.shape, seed=k))

    def forward(self, x):
        return self.b(self.a(x).tanh())


def stepper(jit, model, optimizer, whole=False):
    """A training step; `whole`: it returns the loss with its spent graph."""

    def step(x, y):
        optimizer.zero_grad()
        loss = ad.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss if whole else loss.detach()

    return jit(step)


def halve(p):
    p.grad.mul_(0.5)


def doubled(g):
    return g * 2


def halved(g):
    return g * 0.5


def steps(see, step, model, count=8, begin=0):
    for k in range(begin, begin + count):
        loss = step(twice.numbers(5, 3, seed=k), twice.numbers(5, 2, seed=k + 50))
        see(loss, *model.parameters())


@trap()
def clipping(jit, see):
    model = Net()
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-0.01, 0.01))
    steps(see, stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)), model)


@trap()
def clipping_and_a_loss_with_its_graph(jit, see):
    model = Net()
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-0.01, 0.01))
    step = stepper(jit, model, ad.optim.Adam(model.parameters()), whole=True)
    steps(see, step, model)
    loss = step(twice.numbers(5, 3), twice.numbers(5, 2))
    with see.error():
        loss.backward()
    see(*model.parameters())


@trap()
def an_optimizer_in_the_pass(jit, see):
    model = Net()
    optimizers = {p: ad.optim.Adam([p], foreach=False) for p in model.parameters()}

    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)

    @jit
    def step(x, y):
        loss = ad.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss.detach()

    steps(see, step, model)


@trap()
def a_plain_step_in_the_pass(jit, see):
    model, rate = Net(), {"lr": 0.5}

    def hook(p):
        with ad.no_grad():
            p.sub_(p.grad * rate["lr"])
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)

    @jit
    def step(x, y):
        loss = ad.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss.detach()

    for k in range(14):
        rate["lr"] = 0.5 / (k + 1)
        steps(see, step, model, 1, k)


@trap()
def several_in_their_order(jit, see):
    model = Net()
    w = model.a.weight
    w.register_hook(lambda g: g * 2)
    w.register_hook(lambda g: g + 1)
    w.register_post_accumulate_grad_hook(halve)
    node = w.expand_as(w).grad_fn.next_functions[0][0]
    node.register_prehook(lambda g: (g[0] - 0.25,))
    node.register_hook(lambda a, b: None)
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    step = stepper(jit, model, optimizer)
    steps(see, step, model)
    see(w.grad, len(node.next_functions))


@trap()
def methods_closures_and_defaults(jit, see):
    class Clip:
        def __init__(self):
            self.bound = 0.1

        def __call__(self):
            return None

        def hook(self, g):
            return g.clamp(-self.bound, self.bound)

    model, clip, mask = Net(), Clip(), twice.numbers(4, 3, seed=99)
    model.a.weight.register_hook(clip.hook)
    model.a.weight.register_hook(lambda g: g * mask)
    model.b.weight.register_hook(lambda g, scale=0.5: g * scale)
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    steps(see, step, model)
    clip.bound = 0.01
    steps(see, step, model, 6)
    mask.mul_(3)
    steps(see, step, model, 2)
    mask = mask * 0.5
    steps(see, step, model, 6)


@trap()
def others_between_calls(jit, see):
    model = Net()
    w = model.a.weight
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    steps(see, step, model, 6)
    first = w.register_hook(lambda g: g * 2)
    steps(see, step, model, 6)
    second = w.register_hook(lambda g: g.clamp(-0.1, 0.1))
    steps(see, step, model, 6)
    first.remove()
    steps(see, step, model, 6)
    second.remove()
    w.register_hook(lambda g: g.clamp(-0.01, 0.01))
    steps(see, step, model, 6)
    w._backward_hooks = {0: lambda g: g * 3}
    steps(see, step, model, 6)
    w._backward_hooks = None
    steps(see, step, model, 6)
    w.register_post_accumulate_grad_hook(halve)
    steps(see, step, model, 6)


@trap()
def the_same_function_at_another_place(jit, see):
    model = Net()
    w = model.a.weight

    def hook(g):
        return None if isinstance(g, ad.nn.Parameter) else g * 0.5

    handle = w.register_hook(hook)
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    steps(see, step, model, 6)
    handle.remove()
    w.register_post_accumulate_grad_hook(hook)
    steps(see, step, model, 6)


@trap()
def one_that_did_not_run_gives_its_place_to_one_that_does(jit, see):
    w = ad.nn.Parameter(twice.numbers(3, 2))
    w.register_hook(lambda g: g * 2)
    w.register_post_accumulate_grad_hook(lambda p: see("accumulated"))

    @jit
    def f(x):
        return ad.autograd.grad((x @ w).square().sum(), w)[0]

    for k in range(6):
        see(f(twice.numbers(4, 3, seed=k)))
    w._backward_hooks = {0: lambda g: g * 2, 1: lambda g: g * 3}
    for k in range(6):
        see(f(twice.numbers(4, 3, seed=k)))


@trap()
def a_scale_that_varies(jit, see):
    model, state = Net(), {"scale": 1.0}
    model.a.weight.register_hook(lambda g: g * state["scale"])
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    for k in range(12):
        state["scale"] = 1.0 / (k + 1)
        steps(see, step, model, 1, k)


@trap()
def what_a_hook_stores(jit, see):
    model, state = Net(), {"norm": None, "calls": 0}

    def hook(g):
        state["norm"] = g.norm()
        state["calls"] += 1
        return g / (state["norm"] + 1)

    model.a.weight.register_hook(hook)
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    for k in range(10):
        steps(see, step, model, 1, k)
        see(state)


@trap()
def random_numbers_and_decisions(jit, see):
    model = Net()
    model.a.weight.register_hook(lambda g: g + ad.rand_like(g) * 0.1)
    model.b.weight.register_hook(lambda g: g * 0.1 if g.norm().item() > 1.0 else g)
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    steps(see, step, model, 12)


@trap()
def of_what_it_takes(jit, see):
    def f(x):
        return ad.autograd.grad((x.sin() * x).sum(), x)[0]

    f = jit(f)
    for k in range(8):
        base = twice.numbers(4, seed=k).requires_grad_()
        x = base * 2
        x.register_hook(lambda g: g * 0.5)
        x.register_hook(lambda g: g + 1)
        see(f(x))


@trap(None)
def a_result_whose_graph_goes_on(jit, see):
    w = ad.nn.Parameter(twice.numbers(3, 2))
    w.register_hook(lambda g: g * 0.5)

    @jit
    def f(x):
        h = (x @ w).tanh()
        (g,) = ad.autograd.grad(h.square().sum(), w, create_graph=True)
        return h.sum() + g.square().sum()

    for k in range(6):
        f(twice.numbers(4, 3, seed=k)).backward()
        see(w)


@trap(None)
def set_in_a_way_that_numbers_decide(jit, see):
    """A call that is tried with objects for its numbers sets no hook: it would stay."""
    w = ad.nn.Parameter(twice.numbers(3))
    state = {"n": 0.0}

    def f(n):
        state["n"] = n
        if n > 0.5:
            w.register_hook(lambda g: g * 0.5)
        return ad.rand(2)

    f = jit(f)
    for k in range(14):
        see(f((0.3, 0.7, 1.5)[k * k % 3] + (k > 7) * k), len(w._backward_hooks or ()), state["n"])
        see(*ad.autograd.grad(w.sum(), w))


@trap(replays=False)
def one_that_appends(jit, see):
    model, seen = Net(), []
    model.a.weight.register_hook(lambda g: seen.append(g.clone()))
    model.b.weight.register_hook(lambda g: seen.append(g.norm().item()))
    steps(see, stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1)), model)
    see(seen)


@trap(replays=False)
def one_that_shows_what_comes(jit, see):
    model = Net()
    model.a.weight.register_hook(see)
    model.b.weight.register_post_accumulate_grad_hook(lambda p: see(p.grad) and None)
    with see.error():
        steps(see, stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1)), model)


@trap(None)
def of_several_gradients_together(jit, see):
    model, seen = Net(), {"norm": None}

    def together(gradients):
        seen["norm"] = sum(g.norm() for g in gradients if g is not None)

    ad.autograd.graph.register_multi_grad_hook(list(model.parameters()), together)
    step = stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1))
    for k in range(8):
        steps(see, step, model, 1, k)
        see(seen)


@trap()
def decay_that_reads_its_own_parameter(jit, see):
    model = Net()
    for p in model.parameters():
        p.register_hook(lambda g, p=p: g + 0.1 * p.detach())
    steps(see, stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1)), model)


@trap(replays=False)
def one_that_takes_itself_away(jit, see):
    model, handles = Net(), []

    def once(g):
        if handles:
            handles.pop().remove()
        handles.append(model.a.weight.register_hook(once))
        return g * 2

    handles.append(model.a.weight.register_hook(once))
    steps(see, stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1)), model)


@trap(replays=False)
def an_object_that_is_called(jit, see):
    class Double:
        def __call__(self, g):
            return g * 2

    model = Net()
    model.a.weight.register_hook(Double())
    steps(see, stepper(jit, model, ad.optim.SGD(model.parameters(), lr=0.1)), model)


@trap(replays=False)
def of_a_tensor_that_it_does_not_reach(jit, see):
    base = twice.numbers(4).requires_grad_()
    inner = base * 3
    handle = inner.register_hook(doubled)
    x = inner + 1

    def f(x):
        base.grad = None
        (x * x).sum().backward(retain_graph=True)
        return base.grad * 1

    f = jit(f)
    for k in range(16):
        if k == 8:
            handle.remove()
            inner.register_hook(halved)
        see(f(x))


@trap(replays=False)
def reading_which_hooks_there_are(jit, see):
    w = ad.nn.Parameter(twice.numbers(3, 2))
    w.register_post_accumulate_grad_hook(lambda p: None)

    @jit
    def f(x):
        return (x * len(w._backward_hooks or ())).sum()

    for k in range(6):
        see(f(twice.numbers(4, 3, seed=k)))
        if k in (3, 4):
            w.register_hook(lambda g: g)


class Zeros(ad.autograd.Function):
    """Its backward pass runs with zeros where no gradient comes."""

    ran = 0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Zeros.ran += 1
        return g * 2


@trap()
def passes_through_one_of_several_results(jit, see):
    """What the other results alone lead to is none of theirs: no hook runs there, and no rule."""
    ran = []
    p, q, r = (twice.doubles(3, seed=k).requires_grad_() for k in range(3))
    for what, x in (("p", p), ("q", q), ("r", r)):
        x.register_hook(lambda g, what=what: ran.append(what))
        x.register_post_accumulate_grad_hook(lambda x, what=what: ran.append(what + "'s sum"))
    Zeros.ran = 0

    @jit
    def f(a):
        return q * a, p * r, (p * q).sin()

    for k in range(6):
        given = Zeros.apply(r)
        given.grad_fn.register_prehook(lambda g: ran.append("node"))
        for one in range(3):
            results = f(given)
            (results[one] ** 2).sum().backward(retain_graph=k % 2 == 0)
            see(twice.rounded(q.grad) if q.grad is not None else None, list(ran), Zeros.ran)
            ran.clear()
        ad.autograd.grad(f(given)[k % 3].sum(), [p, q, r], allow_unused=True)
        see(list(ran), Zeros.ran)
        with ad.autograd.set_parallel_backward(True):
            f(given)[1].sum().backward(inputs=[r, p])
        see(sorted(ran), Zeros.ran)
        ran.clear()


@pytest.mark.parametrize(("program", "replays"), PROGRAMS)
def test_hooks(program, replays):
    twice.same(program, replays)


def test_where_a_hook_of_a_node_is_set():
    w = ad.nn.Parameter(twice.numbers(3, 2))

    @ad.jit
    def f(x):
        y = (x @ w).sin()
        y.grad_fn.register_hook(lambda a, b: None)
        return y * 2

    for k in range(4):
        f(twice.numbers(4, 3, seed=k))
    (reason,) = f.stats()["reasons"]
    assert "has hooks" in reason and "register_hook(lambda a, b" in _line_of(reason)


def _line_of(reason):
    number = int(reason.rpartition("line ")[2].split()[0].rstrip(")"))
    with open(__file__) as file:
        return file.read().splitlines()[number - 1]
