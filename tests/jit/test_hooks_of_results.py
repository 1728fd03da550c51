"""Hooks that a function sets on its results: a replay sets them again, and they run in the program's passes as eager's do.

Also functions that take tensors with hooks. Start reading at `test_hooks`.
"""

import pytest
import twice

import adjoint as ad

PROGRAMS, trap = twice.table()


def w_of(seed=1):
    return ad.nn.Parameter(twice.numbers(3, 2, seed=seed))


@trap()
def scaling_and_the_order(jit, see):
    w = w_of()

    def f(x):
        y = (x @ w).tanh()
        y.register_hook(lambda g: g * 2)
        y.register_hook(lambda g: g + 1)
        y.retain_grad()
        return y

    f = jit(f)
    for k in range(8):
        x = twice.numbers(4, 3, seed=k).requires_grad_()
        y = f(x)
        y.register_hook(lambda g: see(g) * 3)
        see(len(y._backward_hooks))
        (y * y).sum().backward()
        see(y.grad, x, w)


@trap()
def what_is_stored_by_a_hook(jit, see):
    w, seen = w_of(), []

    def f(x, name):
        mask = (x > 0).float()
        h = x @ w
        loss = (h * 2).sum() * mask.sum()
        h.register_hook(lambda g, scale=0.5: seen.append((name, g.clone(), mask)) or g * scale)
        loss.register_hook(seen.append)
        return h, loss

    f = jit(f)
    for k in range(8):
        h, loss = f(twice.numbers(4, 3, seed=k), "one")
        (loss + h.sum()).backward()
        see(seen, w)
        seen.clear()


@trap()
def a_hook_of_a_model(jit, see):
    class Model(ad.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = ad.nn.Linear(3, 2)
            self.norms = []
            self.log = {"bound": 0.1}

        def note(self, g):
            self.norms.append(g.norm().item())

        def forward(self, x):
            y = self.layer(x).sigmoid()
            y.register_hook(self.note)
            y.register_hook(lambda g: g.clamp(-self.log["bound"], self.log["bound"]))
            return y

    model = Model()
    for p in model.parameters():
        with ad.no_grad():
            p.copy_(twice.numbers(*p.shape, seed=p.ndim))
    f = jit(lambda x: model(x))
    for k in range(10):
        if k == 6:
            model.log["bound"] = 0.01
        f(twice.numbers(4, 3, seed=k)).square().sum().backward()
        see(model.norms, model.layer.weight)
    # What a pass meets is what stands there when it runs.
    y = f(twice.numbers(4, 3))
    model.log["bound"] = 1e-4
    y.sum().backward()
    see(model.norms, model.layer.weight)


@trap()
def gradients_of_higher_order(jit, see):
    w = twice.doubles(3).requires_grad_()

    def f(x):
        y = (x * w).sin()
        y.register_hook(lambda g: g * 2)
        return y

    f = jit(f)
    for k in range(8):
        x = twice.doubles(3, seed=k).requires_grad_()
        y = f(x)
        y.register_hook(lambda g: see(g) * 1.5)
        (first,) = ad.autograd.grad(y.sum(), x, create_graph=True)
        see(first.detach(), *(g.detach() for g in ad.autograd.grad(first.square().sum(), (x, w))))


@trap()
def by_the_result_itself(jit, see):
    w = w_of()

    def f(x):
        h = x @ w
        h.register_hook(lambda g: g * 2)
        z = (h * h).sum()
        z.register_hook(lambda g: g * 3)
        return h, z

    f = jit(f)
    for k in range(8):
        h, z = f(twice.numbers(4, 3, seed=k))
        see(*ad.autograd.grad(z, (h, w), retain_graph=True), *ad.autograd.grad(z + h.sum(), w))


@trap()
def inputs_with_hooks(jit, see):
    w, seen = w_of(), []
    w.register_hook(lambda g: seen.append(g.clone()) or g.clamp(-1, 1))
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    f = jit(lambda x: (x @ w).square().sum())
    for k in range(8):
        base = twice.numbers(4, 3, seed=k).requires_grad_()
        x = base * 2
        x.register_hook(lambda g: seen.append(g.clone()) or g * 0.5)
        x.grad_fn.register_hook(lambda a, b: seen.append(a))
        f(x).backward()
        see(seen, w, base)
        seen.clear()
    x = (twice.numbers(4, 3).requires_grad_() * 2).sin()
    x.register_hook(lambda g: g * 0.5)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    g.sum().backward()
    see(seen, w)


@trap(None)
def a_hook_of_an_input_whose_graph_is_spent(jit, see):
    w, seen = w_of(), []
    w.register_hook(lambda g: seen.append(g.clone()))

    def f(x):
        h = (x @ w).sin()
        ad.autograd.grad(h.square().sum(), x)
        return h

    f = jit(f)
    for k in range(6):
        y = f(twice.numbers(4, 3, seed=k).requires_grad_())
        with see.error():
            y.sum().backward()
        see(seen)


@trap(replays=False)
def a_hook_from_before_that_runs_within(jit, see):
    w, seen = w_of(), []
    w.register_hook(lambda g: seen.append(g.clone()) or g * 0.5)

    def f(x):
        w.grad = None
        (x @ w).square().sum().backward()
        return w.grad * 1

    f = jit(f)
    for k in range(6):
        see(f(twice.numbers(4, 3, seed=k)), seen)


@trap(replays=False)
def a_builtin_that_runs_within(jit, see):
    seen = []

    def f(x):
        h = x * 2
        h.register_hook(seen.append)
        return ad.autograd.grad(h.square().sum(), x)

    f = jit(f)
    for k in range(6):
        see(f(twice.numbers(4, seed=k).requires_grad_()), len(seen))


@trap(replays=False)
def a_hook_that_counts_for_itself(jit, see):
    def f(x):
        count = 0

        def hook(g):
            nonlocal count
            count += 1
            return g * count

        y = x * 2
        y.register_hook(hook)
        return y

    f = jit(f)
    for k in range(6):
        x = twice.numbers(4, seed=k).requires_grad_()
        y = f(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        see(x)


@trap(replays=False)
def hooks_that_come_and_go_on_an_input(jit, see):
    w = w_of()
    handles = [w.register_hook(lambda g: g * 2)]

    def f(x):
        handles.pop().remove()
        handles.append(w.register_hook(lambda g: g * 3))
        return (x @ w).sum()

    f = jit(f)
    for k in range(6):
        f(twice.numbers(4, 3, seed=k)).backward()
        see(w, list(w._backward_hooks.values()).__len__())


@trap(None)
def another_value_in_the_closure(jit, see):
    def f(x, scale):
        y = x.sin()
        y.register_hook(lambda g: g * scale)
        return y

    f = jit(f)
    for k in range(12):
        x = twice.numbers(4, seed=k).requires_grad_()
        f(x, 2.0 if k < 5 else 0.25 * k).sum().backward()
        see(x)


@trap()
def of_a_node_after_its_replacement(jit, see):
    """A node that was fetched before a pass with create_graph: its hooks are set and removed as if it were there still."""
    w = w_of()

    def f(x):
        return ((x @ w).tanh() ** 2).sum()

    f = jit(f)
    for k in range(8):
        y, told = f(twice.numbers(4, 3, seed=k)), []
        node = y.grad_fn

        def before(gradients, told=told):
            told.append(("before", len(gradients), gradients[0].item()))
            return (gradients[0] * 2,)

        def after(out, gradients, told=told):
            told.append(("after", gradients[0].item()))

        early = [node.register_prehook(before), node.register_hook(after)]
        ad.autograd.grad(y, w, create_graph=True)
        see(told)
        late = [node.register_prehook(before), node.register_hook(after)]
        see(*ad.autograd.grad(y, w, retain_graph=True), told)
        early[k % 2].remove()
        see(*ad.autograd.grad(y, w, retain_graph=True), told)
        for handle in late:
            handle.remove()
        see(*ad.autograd.grad(y, w, retain_graph=True), told)


@pytest.mark.parametrize(("program", "replays"), PROGRAMS)
def test_hooks(program, replays):
    twice.same(program, replays)


def test_a_node_that_is_called_gives_its_gradients_and_changes_no_other():
    def f(x, w):
        return ((x * w).sin() * w).exp()

    jitted, w = ad.jit(f), ad.tensor([1.5, 2.0], requires_grad=True)
    x = ad.tensor([0.3, 0.7], requires_grad=True)
    for _ in range(4):
        result = jitted(x, w)
    assert jitted.stats()["replayed"]
    g = ad.tensor([1.0, 3.0])
    eager = ad.autograd.grad(f(x, w), (x, w), g)
    node = result.grad_fn
    leaves = [following.variable for following, _ in node.next_functions]
    for _ in range(2):
        with ad.no_grad():
            given = [(leaf, one) for leaf, one in zip(leaves, node(g), strict=True) if one is not None]
        for variable, wanted in ((x, eager[0]), (w, eager[1])):
            assert ad.allclose(sum(one for leaf, one in given if leaf is variable), wanted)
    assert x.grad is None and w.grad is None
    result.backward(g)
    assert ad.equal(x.grad, eager[0]) and ad.equal(w.grad, eager[1])
    with pytest.raises(RuntimeError, match="second time"):
        node(g)
