"""What recording has to do besides operators: Functions in Python, views that are written, checkpoints."""

from benchmarks.harness import Row, attempt, case, study


@case("custom Function, 200 applications, forward and backward", group="autograd", target=5)
def functions(m):
    class Scaled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, gradient):
            ctx.saved_tensors  # noqa: B018 - unpacking is part of the cost
            return gradient * ctx.k, None

    x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def run():
        x.grad = None
        y = x
        for _ in range(200):
            y = Scaled.apply(y, 0.999)
        y.sum().backward()
        return x.grad

    return run


@case("views written in place, 200 times, forward and backward", group="autograd", target=5)
def written_views(m):
    x = m.ones(8, requires_grad=True)
    w = m.tensor(0.999)

    def run():
        x.grad = None
        y = x * 1
        for i in range(200):
            y[i % 8].mul_(w)
        y.sum().backward()
        return x.grad

    return run


@case("mixed: slices, writes, reductions and stack, forward and backward", group="autograd", target=5)
def mixed(m):
    x = m.linspace(0.1, 1.0, 12).requires_grad_()

    def run():
        x.grad = None
        state = m.zeros(4, 3)
        total = []
        for i in range(50):
            row = x[i % 3 * 4 : i % 3 * 4 + 3].sin()
            state = state.clone()
            state[i % 4] = row
            state.T[0].add_(row.mean())
            total.append((state * state).sum().sqrt())
        m.stack(total).sum().backward()
        return x.grad

    return run


@study("peak memory of 64 layers with checkpoints", group="memory")
def checkpoints(ours, theirs, settings):
    row = Row(
        "peak memory of a chain of 64 layers, with 8 checkpoints over without", unit="×", target="≤ 0.4×"
    )

    def measure(m):
        from adjoint.utils.checkpoint import checkpoint

        def block(t):
            for _ in range(8):
                t = t.sin()
            return t

        def peak(step):
            x = m.ones(64, 1024, requires_grad=True)
            x.grad = m.zeros_like(x)
            m.reset_peak_memory_statistics()
            before = m.memory_statistics()["allocated_bytes"]
            t = x
            for _ in range(8):
                t = step(t)
            t.sum().backward()
            return m.memory_statistics()["peak_allocated_bytes"] - before

        return peak(lambda t: checkpoint(block, t, use_reentrant=False)) / peak(block)

    row.ours, why = attempt(lambda: measure(ours))
    row.reached = None if row.ours is None else row.ours <= 0.4
    row.note = why or ""
    yield row
