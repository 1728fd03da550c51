"""Results of which one is made of another and of something inside that both take: gradients meet inside, in eager's order, and passes free
what eager frees.
"""

import fuzz_results_inside
import pytest
from twice import numbers, same, table

import adjoint as ad
from adjoint import nn
from adjoint.autograd import grad

PROGRAMS, trap = table()


class Holder:
    pass


def fails(f):
    """Whether a pass finds what it needs freed; which node says so is another."""
    try:
        f()
    except RuntimeError as error:
        assert "second time" in str(error)
        return True
    return False


def cell(w, u, b, x, h, c, early):
    """An LSTM cell by hand; `early`: its last gate is computed before the state."""
    gates = x @ w + h @ u + b
    i, f, g, o = gates.split(4, 1)
    if early:
        o = o.sigmoid()
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = (o if early else o.sigmoid()) * c.tanh()
    return h, c


def recurrence(jit, see, early, whole):
    """Three steps, each a call or all of them one."""
    w, u, b = (numbers(*s, seed=k).requires_grad_() for k, s in enumerate([(3, 16), (4, 16), (16,)]))

    def steps(x, h, c, count):
        all_ = []
        for _ in range(count):
            h, c = cell(w, u, b, x, h, c, early)
            all_ += [h, c]
        return all_

    f = jit(lambda x, h, c: steps(x, h, c, 3 if whole else 1))
    for k in range(7):
        x, h, c = (numbers(2, n, seed=10 * k + n) for n in (3, 4, 4))
        seen = []
        x.requires_grad_(k % 2 == 1)
        for step in range(1 if whole else 3):
            made = f(x, h, c)
            h, c = made[-2:]
            if k > 3:
                for i, t in enumerate(made):
                    t.register_hook(lambda g, i=(step, i): seen.append((i, g.clone())))
                    t.retain_grad()
        loss = (h * h).sum() + (c.sin().sum() if k % 3 else 0)
        if k == 5:
            see(grad(loss, [w, b, *made], retain_graph=True, allow_unused=True))
        loss.backward(retain_graph=True)
        c.sum().backward()
        see(w.grad, u.grad, b.grad, x.grad, seen, [t.grad for t in made if t.retains_grad])
        w.grad = None


for _early in (False, True):
    for _whole in (False, True):

        def program(jit, see, early=_early, whole=_whole):
            recurrence(jit, see, early, whole)

        program.__name__ = f"lstm_{'early' if _early else 'late'}_{'whole' if _whole else 'by_steps'}"
        trap()(program)


@trap()
def order_of_terms(jit, see):
    """Terms for z come of c, of o and of c again, between which nothing is a result."""
    w = numbers(4, seed=1).requires_grad_()

    @jit
    def f(x):
        z = w * x
        first, second, third = z * 1.1, z.sin(), z.exp()
        c = first * 1e6 + third
        h = second * 1e-3 + c.tanh() + z
        return h, c, (h - c).cos() * second

    for k in range(8):
        h, c, d = f(numbers(4, seed=k))
        for some in ((h,), (c,), (d,), (h, c), (c, d), (h, c, d)):
            ad.autograd.backward([t.sum() for t in some], retain_graph=True)
            see(w.grad)
            see(*grad(sum((t * t).sum() for t in some), [w, *some], retain_graph=True))


@trap()
def loss_and_logits(jit, see):
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3))
    for p, k in zip(model.parameters(), range(9), strict=False):
        p.data = numbers(*p.shape, seed=k)

    @jit
    def f(x, y):
        penalty = sum(p.square().sum() for p in model.parameters())
        logits = model(x)
        return nn.functional.cross_entropy(logits, y) + 0.1 * penalty + logits.mean(), logits

    for k in range(7):
        loss, logits = f(numbers(6, 3, seed=k), ad.arange(6) % 3)
        (loss + (logits.square().mean() if k % 2 else 0)).backward()
        see(loss, [p.grad for p in model.parameters()])


@trap()
def state_that_is_written_and_used(jit, see):
    """The tensor that was there before is made of h, and so is what is made of it."""
    w, m = numbers(4, 4).requires_grad_(), Holder()

    @jit
    def step(x):
        h = (x @ w).tanh()
        gate = h.sigmoid()
        m.state.mul_(gate).add_(h * 0.3)
        return (m.state * gate + h).sum()

    for k in range(8):
        m.state = numbers(2, 4, seed=k)
        loss = step(numbers(2, 4, seed=k + 20)) + m.state.sum()
        m.state = m.state * 0.9
        loss = loss + step(numbers(2, 4, seed=k + 30)) + m.state.square().sum()
        loss.backward()
        see(w.grad, m.state)


@trap()
def results_that_share_nothing_are_freed_apart(jit, see):
    w, v = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()
    f = jit(lambda x: ((x * w).sin(), (x * v).cos(), x + w, (w + v).exp()))
    for k in range(6):
        for t in f(numbers(3, seed=k)):
            t.sum().backward()
            see(fails(t.sum().backward))
        see(w.grad, v.grad)


@trap()
def ways_to_leaves_are_freed_apart(jit, see):
    w, v = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()
    f = jit(lambda x: (x * w).sin() + (x * v).cos())
    for k in range(6):
        y = f(numbers(3, seed=k))
        see(grad(y.sum(), w), grad(y.sum(), v))
        see(fails(lambda: grad(y.sum(), v)), fails(lambda: grad(y.sum(), w)))


@trap()
def hooks_wait_for_a_gradient_of_their_own(jit, see):
    w = numbers(3).requires_grad_()
    f = jit(lambda x: ((x * w).sin(), (x * w).cos()))
    for k in range(6):
        a, b = f(numbers(3, seed=k))
        seen = []
        a.register_hook(lambda g, seen=seen: seen.append(g * 1))
        b.register_hook(lambda g, seen=seen: seen.append(g * 2))
        b.sum().backward(retain_graph=True)
        (a + b).sum().backward()
        see(seen, w.grad)


@pytest.mark.parametrize(("program", "replays"), PROGRAMS)
def test_gradients_that_meet(program, replays):
    same(program, replays)


def test_a_point_inside_is_drawn():
    w = numbers(3, 3).requires_grad_()

    @ad.jit
    def f(x):
        z = x @ w
        c = z.sin()
        return c * z.cos(), c

    for k in range(5):
        h, c = f(numbers(3, 3, seed=k))
        (h.sum() + c.sum()).backward()
    assert f.stats()["replayed"] == 2
    assert "gradient of a tensor inside" in ad.autograd.graph.draw(f).source
    assert {n.name() for n, _ in h.grad_fn.next_functions} == {"JitBackward0"}


@pytest.mark.parametrize("piece", range(5))
def test_random_programs(piece):
    replayed = 0
    for seed in range(piece, 100, 5):
        for ways in ((), fuzz_results_inside.WAYS):
            words, again = fuzz_results_inside.difference(seed, ways)
            assert not words, words
            replayed += again
    assert replayed >= 60


def test_second_passes_and_what_was_freed():
    """A pass frees one group, and the next, which is recorded, has the function run again for another."""

    def f(x, y):
        a, b = x.sin(), y.clone()
        return a + b, b

    for wrap in (lambda f: f, ad.jit):
        g = wrap(f)
        for _ in range(5):
            x, y = (numbers(3, seed=k).requires_grad_() for k in range(2))
            r0, _ = g(x * 1.0, y * 1.0)
            seen = []
            r0.register_hook(lambda t, seen=seen: seen.append(t.tolist()))
            total = r0.sum()
            grad(total, x)
            grad(total, y, create_graph=True)
            handle = r0.register_hook(lambda t, seen=seen: seen.append("later"))
            grad(total, y, create_graph=True)
            handle.remove()
            r0.retain_grad()
            assert fails(total.backward)
            assert seen[1:] == [seen[0], seen[0], "later", seen[0]]
            assert r0.grad.tolist() == seen[0]


def test_hooks_that_differentiate_and_hooks_of_nodes():
    """A pass that came to a call goes on with its nodes where a hook has them replaced; later ones do not."""

    def f(x, y):
        a = x.sin() * y
        return a, a.exp()

    def seen_with(wrap):
        g, seen = wrap(f), []
        for _ in range(5):
            x, y = (numbers(3, seed=k).requires_grad_() for k in range(2))
            a, b = g(x, y)
            a.register_hook(lambda t: seen.append(t.tolist()))
            z = b * 2

            def nested(t, a=a, x=x, y=y):
                with ad.enable_grad():
                    total = grad(a.sum(), x, create_graph=True)[0].sum()
                seen.append(grad(total, y, retain_graph=True)[0].tolist())

            z.register_hook(nested)
            z.sum().backward(retain_graph=True)
            first = grad(b.sum(), x, create_graph=True)[0]
            handle = b.grad_fn.register_prehook(lambda gs: seen.append(len(gs)))
            seen += [t.tolist() for t in (x.grad, *grad(first.sum() + b.sum(), [x, y, a], retain_graph=True))]
            handle.remove()
            grad(b.sum(), x)
        return seen

    assert seen_with(ad.jit) == seen_with(lambda f: f)
