"""Transforms of functions: adjoint.func beside torch.func."""

from benchmarks.harness import Row, attempt, case, study, submodule, timed, wave


def small_operations(x):
    """Twenty operations on one number."""
    y = x
    for _ in range(5):
        y = (y * 0.9).sin() + y * x
    return y


@case("func.grad of a function of 20 small operations", group="func", target=10)
def grad(m):
    func = submodule(m, "func")
    gradient, x = func.grad(small_operations), m.tensor(0.3)
    return lambda: gradient(x)


@case("func.jvp of a function of 20 small operations", group="func", target=10)
def jvp(m):
    func = submodule(m, "func")
    x, one = m.tensor(0.3), m.tensor(1.0)
    return lambda: func.jvp(small_operations, (x,), (one,))[1]


@case("func.vjp of a function of 20 small operations", group="func", target=10)
def vjp(m):
    func = submodule(m, "func")
    x, one = m.tensor(0.3), m.tensor(1.0)
    return lambda: func.vjp(small_operations, x)[1](one)[0]


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@case("Hessian of the ten-dimensional Rosenbrock function", group="func", target=10)
def hessian(m):
    func = submodule(m, "func")
    of, x = func.hessian(rosenbrock), wave(m, 10)
    return lambda: of(x)


@case("Hessian-vector product of the Rosenbrock function, forward over reverse", group="func", target=8)
def hvp(m):
    func = submodule(m, "func")
    gradient, x, v = func.grad(rosenbrock), wave(m, 10), wave(m, 10, scale=0.7)
    return lambda: func.jvp(gradient, (x,), (v,))[1]


def network(m):
    """A network of 64, 64 and 10 units, by its parameters."""
    functional = submodule(m, "nn.functional")
    params = {
        "w1": wave(m, 64, 64, scale=0.61) * 0.1,
        "b1": wave(m, 64, scale=0.3) * 0.1,
        "w2": wave(m, 10, 64, scale=0.43) * 0.1,
        "b2": wave(m, 10, scale=0.9) * 0.1,
    }

    def apply(p, x):
        return functional.linear(m.tanh(functional.linear(x, p["w1"], p["b1"])), p["w2"], p["b2"])

    def loss(p, x, target):
        return functional.cross_entropy(apply(p, x), target)

    return params, apply, loss


@case("Jacobian of an MLP 64-64-10 by its input, jacrev", group="func", target=5)
def jacrev(m):
    func = submodule(m, "func")
    params, apply, _ = network(m)
    of, x = func.jacrev(apply, argnums=1), wave(m, 64)
    return lambda: of(params, x)


@case("Jacobian of an MLP 64-64-10 by its input, jacfwd", group="func", target=5)
def jacfwd(m):
    func = submodule(m, "func")
    params, apply, _ = network(m)
    of, x = func.jacfwd(apply, argnums=1), wave(m, 64)
    return lambda: of(params, x)


@case("gradients of an MLP 64-64-10 for each of 64 samples, vmap(grad)", group="func", target=4)
def per_sample(m):
    func = submodule(m, "func")
    params, _, loss = network(m)
    of = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    x, target = wave(m, 64, 64), m.arange(64) % 10
    return lambda: of(params, x, target)["w1"]


@case("ensemble of ten MLPs by stack_module_state and vmap", group="func", target=1)
def ensemble(m):
    func, run, _ = ensembles(m)
    return run


def ensembles(m, rows=8):
    """Ten networks at once and one after the other, on so many rows."""
    func, nn = submodule(m, "func"), submodule(m, "nn")
    models = [nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)) for _ in range(10)]
    with m.no_grad():
        for i, model in enumerate(models):
            for k, p in enumerate(model.parameters()):
                p.copy_(wave(m, *p.shape, scale=0.61 + k + 0.1 * i) * 0.1)
    state, x = func.stack_module_state(models), wave(m, rows, 64)
    base = models[0]
    at_once = func.vmap(lambda params, buffers: func.functional_call(base, (params, buffers), (x,)))

    def one_by_one():
        return m.stack([model(x) for model in models])

    return func, lambda: at_once(*state), one_by_one


def best(function, calls, samples=15):
    function()
    return min(timed(function, calls) for _ in range(samples))


@study("what transforms cost beside what they save", group="func")
def against_loops(ours, theirs, settings):
    def per_sample_over_batch(m):
        func = submodule(m, "func")
        params, _, loss = network(m)
        each, whole = func.vmap(func.grad(loss), in_dims=(None, 0, 0)), func.grad(loss)
        x, target = wave(m, 64, 64), m.arange(64) % 10
        return best(lambda: each(params, x, target), 20) / best(lambda: whole(params, x, target), 20)

    def loop_over_ensemble(m, rows=8):
        _, at_once, one_by_one = ensembles(m, rows)
        return best(one_by_one, 20) / best(at_once, 20)

    def jvp_over_forward(m):
        func = submodule(m, "func")
        x, t = wave(m, 10_000_000, scale=0.001), wave(m, 10_000_000, scale=0.3)

        def f(x):
            return (m.tanh(x) * x + m.exp(-x * x)).sum()

        return best(lambda: func.jvp(f, (x,), (t,))[1], 1, 5) / best(lambda: f(x), 1, 5)

    for name, measure, target, better in (
        ("per-sample gradients over one batched pass, time", per_sample_over_batch, 2.5, "≤"),
        ("a loop over ten MLPs over vmap of them, 8 rows, time", loop_over_ensemble, 3.0, "≥"),
        ("a loop over ten MLPs over vmap of them, 1 row, time", lambda m: loop_over_ensemble(m, 1), 3.0, "≥"),
        ("jvp of (tanh(x)*x + exp(-x*x)).sum() over its value, 10⁷, time", jvp_over_forward, 1.6, "≤"),
    ):
        row = Row(name, unit="×", target=f"{better} {target}×")
        row.ours, why = attempt(measure, ours)
        if theirs is not None:
            row.theirs, _ = attempt(measure, theirs)
        if why:
            row.note, row.reached = why, False
        else:
            row.reached = row.ours <= target if better == "≤" else row.ours >= target
        yield row
