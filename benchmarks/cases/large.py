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


def matmul(m):
    a, b = wave(m, 1024, 1024), wave(m, 1024, 1024, scale=0.11)
    return lambda: a @ b


def matmul_gradient(m):
    a, b = wave(m, 1024, 1024), wave(m, 1024, 1024, scale=0.11)
    a.requires_grad_()
    b.requires_grad_()
    cotangent = wave(m, 1024, 1024, scale=0.23)
    return lambda: m.autograd.grad(a @ b, (a, b), cotangent)[1]


def linear(m):
    """A layer of a network of middle size with all of its gradients."""
    functional = submodule(m, "nn.functional")
    x, weight, bias = wave(m, 256, 128), wave(m, 512, 128, scale=0.11), wave(m, 512, scale=0.7)
    for t in (x, weight, bias):
        t.requires_grad_()
    cotangent = wave(m, 256, 512, scale=0.23)
    return lambda: m.autograd.grad(functional.linear(x, weight, bias), (x, weight, bias), cotangent)[1]


def batch(m):
    """The products of attention over strided heads: 8 × 4 of 64×32 by 32×64."""
    x = wave(m, 8, 64, 3 * 128)
    q, k, v = (t.reshape(8, 64, 4, 32).transpose(1, 2) for t in x.split(128, -1))
    return lambda: (q @ k.transpose(-2, -1)) @ v


def cross_entropy(m):
    """Softmax with cross-entropy over the classes of a batch, and its gradient."""
    functional = submodule(m, "nn.functional")
    x, target = wave(m, 1024, 1000, scale=0.013).requires_grad_(), m.arange(1024) * 7 % 1000
    return lambda: m.autograd.grad(functional.cross_entropy(x, target), x)[0]


for _threads, _suffix in ((1, ""), (2, ", two threads")):
    for _name, _prepare in {
        "matrix product 1024³": matmul,
        "matrix product 1024³ and both gradients": matmul_gradient,
        "linear 256×128 → 512 and its three gradients": linear,
        "products of attention, 32 of 64×32×64": batch,
        "softmax with cross-entropy 1024×1000 and gradient": cross_entropy,
    }.items():
        case(_name + _suffix, group="large", target=1, threads=_threads)(_prepare)


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
