"""Peak memory of layers and of whole steps of networks, above their inputs and parameters, each in a process of its own."""

from benchmarks.cases.memory import PEAK, measure, present
from benchmarks.harness import Row, study

COMMON = """
from importlib import import_module
nn, F, optim = (import_module(m.__name__ + name) for name in (".nn", ".nn.functional", ".optim"))
def whole(net, *inputs):
    # A forward and a backward pass, as training does it, and the optimiser's step.
    parameters = list(net.parameters())
    step = optim.SGD(parameters, lr=1e-6, momentum=0.9) if parameters else None
    inputs = [x.requires_grad_() for x in inputs]
    def run():
        out = net(*inputs)
        ((out[0] if isinstance(out, tuple) else out) ** 2).sum().backward()
        if step:
            step.step()
    return run
def prepare(make):
    make(True)()
    return make(False)
"""

#: What is measured: a function of `small`, which says whether to make a small one that only loads what the library needs.
STEPS = {
    "conv 3×3, 64 → 64, 56², batch 4": "lambda small: whole(nn.Conv2d(64, 64, 3, padding=1), m.rand(1 if small else 4, 64, *[8 if small else 56] * 2))",
    "conv depthwise 3×3, 256, 56², batch 4": "lambda small: whole(nn.Conv2d(256, 256, 3, padding=1, groups=256), m.rand(1 if small else 4, 256, *[4 if small else 56] * 2))",
    "batch_norm, 64, 112², batch 4": "lambda small: whole(nn.BatchNorm2d(64), m.rand(4, 64, *[4 if small else 112] * 2))",
    "max_pool 2×2, 64, 112², batch 4": "lambda small: whole(nn.MaxPool2d(2), m.rand(4, 64, *[4 if small else 112] * 2))",
    "avg_pool 2×2, 64, 112², batch 4": "lambda small: whole(nn.AvgPool2d(2), m.rand(4, 64, *[4 if small else 112] * 2))",
    "LSTM of width 256, 2 layers, batch 32 × 100": "lambda small: whole(nn.LSTM(256, 256, 2), m.rand(2 if small else 100, 32, 256))",
    "attention, 8 heads of 64, length 1024": "lambda small: whole(Attention(), *(m.rand(1, 8, 16 if small else 1024, 64) for _ in range(3)))",
    "attention, 8 heads of 64, length 4096": "lambda small: whole(Attention(), *(m.rand(1, 8, 16 if small else 4096, 64) for _ in range(3)))",
    "encoder of a transformer, 4 layers of 256, batch 8 × 128": "lambda small: whole(nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True), 1 if small else 4), m.rand(8, 4 if small else 128, 256))",
    "plain convolutional network, 8 layers of 64, 56², batch 8": "lambda small: whole(nn.Sequential(*(layer for k in range(2 if small else 8) for layer in (nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()))), m.rand(2 if small else 8, 64, *[8 if small else 56] * 2))",
}
ATTENTION = """
class Attention(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
"""


@study("peak memory of layers and networks", group="memory")
def peak_of_networks(ours, theirs, settings):
    names = present(ours, theirs, settings)
    for label, make in STEPS.items():
        values, note = measure(PEAK, names, 1, f"{COMMON}{ATTENTION}run = prepare({make})", "run()")
        found = dict(zip(names, values, strict=True))
        row = Row(f"peak memory, {label}, whole step", unit="B", target="≥ 1×", note=note)
        row.ours, row.theirs = found.get(settings.ours), found.get(settings.theirs)
        if row.ours and row.theirs:
            row.ratio = row.theirs / row.ours
            row.reached = row.ratio >= 0.99
        yield row
