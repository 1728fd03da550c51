"""Variables, modules, gradients and optimisers in which a function stores something: each call leaves there what it leaves without `ad.jit` (stores.py)."""

import functools

import pytest
from stores import forms, same

import adjoint as ad

FORMS, form = forms()


# ---- variables


@form
def variable_of_a_closure():
    n, y = 0, ad.zeros(2)

    def f(x):
        nonlocal n, y
        n += 1
        y = y + x
        return y * n

    return f, lambda: (n, y)


@form
def variable_of_two_functions():
    n = 0

    def g():
        nonlocal n
        n += 1
        return n

    def f(x):
        return x * g() + n

    return f, lambda: n


@form
def variable_taken_away():
    n = ad.zeros(2)

    def f(x):
        nonlocal n
        y = n + x
        del n
        n = y  # noqa: F841
        return y

    return f, lambda: n


@form
def variable_that_is_not_set_afterwards():
    def make():
        if False:
            n = 0

        def f(x):
            nonlocal n
            try:
                y = x + n
                del n
            except NameError:
                n = 1.0  # noqa: F841
                y = x - 1
            return y

        def look():
            try:
                return n
            except NameError:
                return "none"

        return f, look

    return make()


@form
def variable_global():
    names = {"n": 0, "y": None, "__name__": __name__}
    exec("def f(x):\n global n, y\n n += 1\n y = x * n\n return y", names)
    return names["f"], lambda: (names["n"], names["y"])


@form
def variable_global_that_is_new():
    names = {"__name__": __name__}
    exec("def f(x):\n global y\n y = x + 1\n return y", names)
    return names["f"], lambda: names.get("y")


@form
def default_that_is_a_list():
    def f(x, log=[]):  # noqa: B006
        log.append(x + 1)
        del log[:-3]
        return log[0]

    return f, lambda: f.__defaults__


@form
def default_that_is_a_dict():
    def f(x, *, memory={}):  # noqa: B006
        memory["y"] = memory.get("y", 0) + x
        return memory["y"]

    return f, lambda: f.__kwdefaults__


@form
def defaults_replaced():
    def g(x, n=1):
        return x * n

    def f(x):
        y = g(x)
        g.__defaults__ = (g.__defaults__[0] + 1,)
        return y

    return f, lambda: g.__defaults__


@form
def code_replaced():
    def g(x):
        return x + 1

    def h(x):
        return x - 1

    def f(x):
        y = g(x)
        g.__code__, h.__code__ = h.__code__, g.__code__
        return y

    return f, lambda: g(1)


@form
def keywords_of_a_partial():
    p = functools.partial(lambda x, n: x * n, n=1)

    def f(x):
        p.keywords["n"] += 1
        return p(x)

    return f, lambda: p.keywords


@form
def variable_list_that_was_held_elsewhere():
    items = [ad.zeros(2)]
    old = [items]

    def f(x):
        nonlocal items
        items[0] = x + 1
        items = [x * 2]
        return x - 1

    def look():
        old.append(items)
        return [list(i) for i in old]

    return f, look


@form
def global_list_that_was_held_elsewhere():
    names = {"__name__": __name__, "items": [ad.zeros(2)]}
    exec("def f(x):\n global items\n items[0] = x + 1\n items = [x * 2]\n return x - 1", names)
    old = [names["items"]]

    def look():
        old.append(names["items"])
        return [list(i) for i in old]

    return names["f"], look


@form
def item_list_that_was_held_elsewhere():
    outer = [[ad.zeros(2)]]
    old = [outer[0]]

    def f(x):
        outer[0][0] = x + 1
        outer[0] = [x * 2]
        return x - 1

    def look():
        old.append(outer[0])
        return [list(i) for i in old]

    return f, look


@form
def entry_list_that_was_held_elsewhere():
    outer = {"a": {"b": [ad.zeros(2)]}}
    old = [outer["a"]["b"]]

    def f(x):
        outer["a"]["b"].append(x + 1)
        outer["a"] = {"b": [x * 2]}
        return x - 1

    def look():
        old.append(outer["a"]["b"])
        return [list(i) for i in old]

    return f, look


# ---- modules, parameters, gradients


class Net(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = ad.nn.Parameter(ad.ones(2))
        self.register_buffer("mean", ad.zeros(2))
        self.steps = 0


def net(body):
    n = Net()
    return (lambda x: body(n, x)), lambda: (dict(n.state_dict()), n.steps, n.training, n.w.grad)


@form
def module_buffer():
    def f(n, x):
        n.mean = 0.5 * n.mean + 0.5 * x
        return (x - n.mean) * n.w.detach()

    return net(f)


@form
def module_buffer_in_place():
    def f(n, x):
        n.mean.mul_(0.5).add_(x)
        return x - n.mean

    return net(f)


@form
def module_buffer_registered_again():
    def f(n, x):
        n.register_buffer("mean", x + 1)
        return n.mean * 2

    return net(f)


@form
def module_buffer_new():
    def f(n, x):
        n.register_buffer(f"b{len(n._buffers)}", x + 1)
        return x

    return net(f)


@form
def module_counter():
    def f(n, x):
        n.steps += 1
        return x * n.steps

    return net(f)


@form
def module_mode():
    def f(n, x):
        n.train(not n.training)
        return x if n.training else -x

    return net(f)


@form
def module_parameter_replaced():
    def f(n, x):
        n.w = ad.nn.Parameter(n.w.detach() + x)
        return n.w.detach() * 2

    return net(f)


@form
def module_parameter_data():
    def f(n, x):
        n.w.data = n.w.data + x
        return n.w.detach() * 2

    return net(f)


@form
def module_gradient_set():
    def f(n, x):
        n.w.grad = x * 2
        return x + 1

    return net(f)


@form
def module_gradient_accumulates():
    def f(n, x):
        (n.w * x).sum().backward()
        return n.w.grad * 2

    return net(f)


@form
def module_gradient_taken_away():
    def f(n, x):
        (n.w * x).sum().backward()
        g = n.w.grad
        n.w.grad = None
        return g

    return net(f)


@form
def module_hook_each_call():
    def f(n, x):
        handle = n.register_forward_hook(lambda m, a, y: y)
        handle.remove()
        return x * n.w.detach()

    return net(f)


@form
def module_hook_that_stores():
    n = ad.nn.Linear(2, 2, dtype=ad.float64)
    with ad.no_grad():
        n.weight.fill_(0.5)
        n.bias.fill_(0.25)
    seen = {}
    n.register_forward_hook(lambda m, a, y: seen.__setitem__("y", y.detach()))
    return (lambda x: n(x.double()).detach()), lambda: seen


@form
def module_added():
    def f(n, x):
        n.add_module("inner", ad.nn.Identity())
        return n.inner(x) + 1

    return net(f)


def trained(make, body=lambda o, s: None):
    w = ad.nn.Parameter(ad.ones(2))
    o = make([w])
    s = ad.optim.lr_scheduler.StepLR(o, 3, 0.5)

    def f(x):
        o.zero_grad()
        (w * w * x).sum().backward()
        o.step()
        body(o, s)
        return w.detach().clone()

    return f, lambda: (w, w.grad, [g["lr"] for g in o.param_groups], o.state_dict()["state"])


@form
def optimiser():
    return trained(lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9))


@form
def optimiser_with_a_schedule():
    return trained(lambda p: ad.optim.Adam(p, lr=0.1), lambda o, s: s.step())


@form
def optimiser_whose_rate_falls():
    def body(o, s):
        for group in o.param_groups:
            group["lr"] *= 0.9

    return trained(lambda p: ad.optim.SGD(p, lr=0.1), body)


@form
def optimiser_that_forgets():
    def body(o, s):
        if len(o.state) and next(iter(o.state.values())).get("step", 0) >= 3:
            o.state.clear()

    return trained(lambda p: ad.optim.Adam(p, lr=0.1), body)


@form
def optimiser_with_a_group_each_call():
    def body(o, s):
        if len(o.param_groups) < 4:
            o.add_param_group({"params": [ad.nn.Parameter(ad.ones(2))], "lr": 0.5})

    return trained(lambda p: ad.optim.SGD(p, lr=0.1), body)


@pytest.mark.parametrize("name", FORMS)
def test_a_call_leaves_what_it_leaves_without_jit(name):
    same(FORMS[name])
