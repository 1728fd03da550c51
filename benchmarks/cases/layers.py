"""Layers of `nn`, forward and each gradient alone, and whole training steps of the networks that are made of them.

A layer's rows are its forward without recording, the gradient of its input and that of its parameters, each from a graph in
which nothing else needs a gradient. Start reading at `layer`.
"""

from benchmarks.harness import case, submodule, wave

FORWARD, INPUT, PARAMETERS = "forward", "gradient of the input", "gradient of the parameters"


def filled(m, net):
    """The same numbers for every library, of a size that keeps activations about one."""
    with m.no_grad():
        for k, (name, p) in enumerate(net.named_parameters()):
            values = wave(m, *p.shape, scale=0.61 + 0.01 * k)
            if p.ndim > 1:
                p.copy_(values * (2 / p[0].numel()) ** 0.5)
            else:
                p.copy_(values * 0.1 + (1.0 if name.endswith("weight") else 0.0))
    return net


def layer(m, make, shape, what, indices=None):
    """The function that times one row of a layer, which `make` makes from the module `nn`."""
    net = filled(m, make(submodule(m, "nn")))
    x = m.arange(shape[0] * shape[1]).reshape(shape) * 7 % indices if indices else wave(m, *shape)
    output = lambda y: y[0] if isinstance(y, tuple) else y  # noqa: E731
    if what == FORWARD:

        def run():
            with m.no_grad():
                return output(net(x))

        return run
    net.requires_grad_(what == PARAMETERS)
    leaves = list(net.parameters()) if what == PARAMETERS else [x.requires_grad_()]
    y = output(net(x))
    g = wave(m, *y.shape, scale=0.83)
    return lambda: m.autograd.grad(y, leaves, g, retain_graph=True)[0]


def convolution(channels, out, size, kernel, image, dimensions=2, **options):
    return lambda nn: getattr(nn, f"Conv{dimensions}d")(channels, out, kernel, **options), (
        size,
        channels,
        *(image,) * dimensions,
    )


#: Each with what makes it, the shape of its input, and what can be timed.
LAYERS = {
    "conv 3×3, 64 → 64, 56²": convolution(64, 64, 8, 3, 56, padding=1),
    "conv 3×3, 128 → 128, 28²": convolution(128, 128, 8, 3, 28, padding=1),
    "conv 3×3, 256 → 256, 14²": convolution(256, 256, 8, 3, 14, padding=1),
    "conv 3×3, 512 → 512, 7²": convolution(512, 512, 8, 3, 7, padding=1),
    "conv 1×1, 64 → 256, 56²": convolution(64, 256, 8, 1, 56),
    "conv 1×1, 256 → 64, 56²": convolution(256, 64, 8, 1, 56),
    "conv 3×3, stride 2, 64 → 128, 56²": convolution(64, 128, 8, 3, 56, stride=2, padding=1),
    "conv 7×7, stride 2, 3 → 64, 112²": convolution(3, 64, 8, 7, 112, stride=2, padding=3),
    "conv depthwise 3×3, 128, 28²": convolution(128, 128, 8, 3, 28, padding=1, groups=128),
    "conv depthwise 3×3, 512, 7²": convolution(512, 512, 8, 3, 7, padding=1, groups=512),
    "conv 1-d, 5, 64 → 64, 500": convolution(64, 64, 8, 5, 500, 1, padding=2),
    "batch_norm, 64, 56²": (lambda nn: nn.BatchNorm2d(64), (8, 64, 56, 56)),
    "batch_norm, 128, 28²": (lambda nn: nn.BatchNorm2d(128), (8, 128, 28, 28)),
    "batch_norm, 512, 7²": (lambda nn: nn.BatchNorm2d(512), (8, 512, 7, 7)),
    "batch_norm, eval, 64, 56²": (lambda nn: nn.BatchNorm2d(64).eval(), (8, 64, 56, 56)),
    "group_norm, 8 groups of 64, 56²": (lambda nn: nn.GroupNorm(8, 64), (8, 64, 56, 56)),
    "max_pool 2×2, 64, 56²": (lambda nn: nn.MaxPool2d(2), (8, 64, 56, 56)),
    "avg_pool 2×2, 64, 56²": (lambda nn: nn.AvgPool2d(2), (8, 64, 56, 56)),
    "adaptive_avg_pool 1×1, 512, 7²": (lambda nn: nn.AdaptiveAvgPool2d(1), (8, 512, 7, 7)),
    "LSTM, width 128, batch 1 × 50": (lambda nn: nn.LSTM(128, 128), (50, 1, 128)),
    "LSTM, width 128, batch 32 × 50": (lambda nn: nn.LSTM(128, 128), (50, 32, 128)),
    "GRU, width 128, batch 1 × 50": (lambda nn: nn.GRU(128, 128), (50, 1, 128)),
    "embedding_bag, 1000 × 64, 128 bags of 20": (lambda nn: nn.EmbeddingBag(1000, 64), (128, 20)),
}


def register_layer(name, make, shape, threads):
    bag = name.startswith("embedding_bag")
    rows = [FORWARD]
    rows += [] if bag else [INPUT]
    rows += [] if "pool" in name else [PARAMETERS]
    for what in rows:
        case(
            f"{name}, {what}{', two threads' * (threads == 2)}",
            group="layers",
            target=0.85,
            threads=threads,
        )(lambda m, what=what: layer(m, make, shape, what, 1000 if bag else None))


# --- whole steps ----------------------------------------------------------------------------------------------------


def lenet(nn):
    """LeCun et al. (1998), with the activations and pooling of today."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def small_network(nn):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def resnet18(nn):
    """He et al. (2015), with a thousand classes."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + self.downsample(x))

    widths = (64, 64, 128, 256, 512)
    blocks = [
        Block(widths[i] if first else widths[i + 1], widths[i + 1], 2 if first and i else 1)
        for i in range(4)
        for first in (True, False)
    ]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 1000),
    )


def last_step(nn):
    """An LSTM and a linear layer over its last output."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(128, 128)
            self.head = nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.lstm(x)[0][-1])

    return Network()


def whole_step(m, make, shape, classes, batch):
    """Forward, cross-entropy, backward and SGD with momentum."""
    net = filled(m, make(submodule(m, "nn")))
    functional = submodule(m, "nn.functional")
    sgd = submodule(m, "optim").SGD(net.parameters(), lr=1e-6, momentum=0.9)
    x, target = wave(m, *shape), m.tensor([k * 7 % classes for k in range(batch)])

    def run():
        sgd.zero_grad()
        loss = functional.cross_entropy(net(x), target)
        loss.backward()
        sgd.step()
        return loss

    return run


#: Each with its network, the shape of its input, classes, batch, and the ratio to reach.
STEPS = {
    "LeNet on 28², batch 64": (lenet, (64, 1, 28, 28), 10, 64, 1.5),
    "ResNet-18 on 64², batch 8": (resnet18, (8, 3, 64, 64), 1000, 8, 1.0),
    "LSTM of width 128, batch 1 × 50": (last_step, (50, 1, 128), 10, 1, 2),
    "small convolutional network on 8², batch 1": (small_network, (1, 1, 8, 8), 10, 1, 5),
}

for _threads in (1, 2):
    for _name, (_make, _shape) in LAYERS.items():
        register_layer(_name, _make, _shape, _threads)
    for _name, (*_arguments, _target) in STEPS.items():
        case(
            f"{_name}, whole step{', two threads' * (_threads == 2)}",
            group="networks",
            target=_target,
            threads=_threads,
        )(lambda m, arguments=tuple(_arguments): whole_step(m, *arguments))
