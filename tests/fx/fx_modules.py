"""Modules that are traced in tests, written once for `adjoint` and once for a peer with torch's names. Start at `modules`."""

import math


def modules(torch):
    """By name, (module or function, arguments of a call of it)."""
    nn = torch.nn
    torch.manual_seed(0)

    def x(*shape):
        return torch.linspace(-1.0, 2.0, max(math.prod(shape), 1), dtype=torch.float64).reshape(shape)

    class Residual(nn.Module):
        def __init__(self, channels=4):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += x
            return self.relu(out)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 3)
            self.layers = nn.Sequential(Residual(), Residual())
            self.fc = nn.Linear(4, 5)

        def forward(self, x):
            x = self.layers(self.stem(x))
            x = torch.flatten(x.mean((2, 3)), 1)
            return self.fc(x)

    class Attention(nn.Module):
        def __init__(self, dim=8, heads=2):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(dim, 3 * dim)
            self.proj = nn.Linear(dim, dim)

        def forward(self, x):
            b, n, c = x.shape
            qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[1], qkv[2]
            attn = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
            attn = attn.softmax(dim=-1)
            return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 3)

        def forward(self, x):
            return self.lin(self.lin(x)) + self.lin.weight.sum()

    class Members(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(x(3))
            self.register_buffer("shift", x(3))
            self.table = nn.ParameterList([nn.Parameter(x(3)) for _ in range(2)])
            self.scale = 2.5

        def forward(self, y):
            for k in range(2):
                y = y * self.table[k]
            return y * self.w + self.scale + y.mul(self.shift)

    class Options(nn.Module):
        def forward(self, a, b=2, *, c=3.0, flag: bool = True):
            if a is not None:
                a = a * b
            return {"a": a, "c": [a + c, (a - c,)]}

    class Slices(nn.Module):
        def forward(self, a):
            return a[0], a[:, 1:], a[..., None], a[:, -1] if a.ndim is not None else a, a[1:2, ::2].T

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)
            self.head = nn.ModuleDict({"out": nn.Linear(4, 2)})

        def forward(self, a):
            y, (h, c) = self.lstm(a)
            return self.head["out"](y[:, -1]), h + c

    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.norm = nn.LayerNorm(3)

        def forward(self, a):
            unused = a.exp()  # noqa: F841
            return self.norm(self.drop(a))

    class Outer(nn.Module):
        class Inner(nn.Module):
            def forward(self, a, factor=1.0):
                return a * factor

        def __init__(self):
            super().__init__()
            self.inner = Outer.Inner()
            self.seq = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 2)))

        def forward(self, a):
            return self.seq(self.inner(a, factor=0.5) + self.inner(a))

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(3)
            self.tokens = nn.Linear(4, 4)
            self.channels = nn.Linear(3, 3)

        def forward(self, a):
            y = a + self.tokens(self.norm(a).transpose(1, 2)).transpose(1, 2)
            return y + self.channels(torch.relu(self.norm(y)))

    def operators(a, b):
        c = a + b - 1
        c = 2 / c if c is not None else c
        d = -a @ b.t()
        e = abs(c) ** 2 % 3 // 1
        f = (a > b) & (a >= 0) | ~(a != b)
        return c, d, e, f, 3 - a, 2**a

    def methods(a):
        y = a.view(a.size(0), -1).t().contiguous()
        return y.sum(dim=0, keepdim=True).squeeze(0).clamp(min=0.0, max=1.0).to(torch.float32)

    def unpacked(a):
        u, v = a.unbind(0)
        (m, k) = torch.max(a, 1)
        return u * v, m, k

    def made(a):
        n = a.shape[0]
        return (
            a + torch.zeros((n, 1), dtype=torch.float64),
            torch.arange(n),
            torch.full((n,), 1.5) + torch.ones((n,)),
        )

    def constants(a):
        return torch.cat([a, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)[None]]) + math.pi

    def roots(a):
        return a * math.sqrt(a.shape[1])

    def starred(a, *rest, **options):
        return a + rest[0] * options["scale"]

    def branches(a, n):
        for _ in range(3):
            a = a * 2
        return [a, {"n": n}, None, 1.0, "text"]

    return {
        "residual": (Residual().double(), (x(2, 4, 5, 5),)),
        "net": (Net().double(), (x(2, 3, 6, 6),)),
        "attention": (Attention().double(), (x(2, 5, 8),)),
        "shared": (Shared().double(), (x(2, 3),)),
        "members": (Members().double(), (x(2, 3),)),
        "options": (Options(), (x(2),)),
        "slices": (Slices(), (x(3, 4),)),
        "gate": (Gate().double(), (x(2, 3, 3),)),
        "dropped": (Dropped().double().eval(), (x(2, 3),)),
        "outer": (Outer().double(), (x(2, 3),)),
        "sequential": (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).double(), (x(2, 3),)),
        "mixer": (Mixer().double(), (x(2, 4, 3),)),
        "operators": (operators, (x(2, 3), x(2, 3) + 0.3)),
        "methods": (methods, (x(2, 3),)),
        "unpacked": (unpacked, (x(2, 3),)),
        "made": (made, (x(2, 2),)),
        "constants": (constants, (x(2, 3),)),
        "roots": (roots, (x(2, 3),)),
        "starred": (starred, (x(2), x(2))),
        "branches": (branches, (x(2), 3)),
    }


def asserting(torch):
    """A module with an assertion, which pytest does not rewrite here, and a buffer."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            assert x.sum() > 0
            return x + self.b.sum()

    return Model()


def asks_of_elements(x):
    assert x[0]
    return x


def fails_where_it_is(x):
    if x.sum() > 0:
        assert False  # noqa: B011
    return x


def listing(fx, f):
    """The nodes of what is traced, a line each: op, name, target, and the nodes among its arguments."""
    lines = []
    for n in fx.symbolic_trace(f).graph.nodes:
        target = n.target if isinstance(n.target, str) else n.target.__name__
        lines.append(f"{n.op} {n.name} {target} {' '.join(map(str, n.all_input_nodes))}".rstrip())
    return lines
