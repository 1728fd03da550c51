"""Large tensors, where memory and arithmetic are everything."""

from benchmarks.harness import case, submodule, wave

ELEMENTS = 10_000_000


def expression(m):
    x = wave(m, ELEMENTS, scale=0.001)
    x.requires_grad_()

    def run():
        x.grad = None
        y = (m.tanh(x) * x + m.exp(-x * x)).sum()
        y.backward()
        return x.grad

    return run


case("(tanh(x)*x + exp(-x*x)).sum() and gradient, 10⁷ float32", group="large", target=2)(expression)
case("the same, two threads", group="large", target=2, threads=2)(expression)


@case("matrix product 1024³", group="large", target=1)
def matmul(m):
    a, b = wave(m, 1024, 1024), wave(m, 1024, 1024, scale=0.11)
    return lambda: a @ b


@case("matrix product 1024³ and both gradients", group="large", target=1)
def matmul_gradient(m):
    a, b = wave(m, 1024, 1024), wave(m, 1024, 1024, scale=0.11)
    a.requires_grad_()
    b.requires_grad_()
    cotangent = wave(m, 1024, 1024, scale=0.23)
    return lambda: m.autograd.grad(a @ b, (a, b), cotangent)[1]


def rows(m):
    """name → function of (tensor, dimension to reduce)."""
    functional = submodule(m, "nn.functional")
    target = m.arange(2000) * 7 % 2000

    def along_last(f):
        # layer_norm and cross_entropy know one dimension; the other one is reached through a strided view.
        return lambda x, dim: f(x if dim == 1 else x.T)

    return {
        "sum": lambda x, dim: x.sum(dim),
        "mean": lambda x, dim: x.mean(dim),
        "var": lambda x, dim: x.var(dim),
        "softmax": lambda x, dim: m.softmax(x, dim),
        "logsumexp": lambda x, dim: m.logsumexp(x, dim),
        "layer_norm": along_last(lambda x: functional.layer_norm(x, (2000,))),
        "cross_entropy": along_last(lambda x: functional.cross_entropy(x, target)),
    }


def declare(name, dim):
    @case(f"{name} over dimension {dim} of 2000×2000", group="rows", target=1)
    def forward(m):
        f, x = rows(m)[name], wave(m, 2000, 2000, scale=0.013)
        return lambda: f(x, dim)

    @case(f"{name} over dimension {dim} of 2000×2000, and gradient", group="rows", target=1)
    def gradient(m):
        f, x = rows(m)[name], wave(m, 2000, 2000, scale=0.013)
        x.requires_grad_()
        shape = f(x, dim).shape
        cotangent = wave(m, *shape, scale=0.5) if len(shape) else None
        return lambda: m.autograd.grad(f(x, dim), x, cotangent)[0]


for _name in ("sum", "mean", "var", "softmax", "logsumexp", "layer_norm", "cross_entropy"):
    for _dim in (0, 1):
        declare(_name, _dim)
