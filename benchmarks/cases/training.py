"""A whole training step of a small network."""

from benchmarks.harness import case, submodule, wave


@case("MLP 64-64-10, batch 32, cross-entropy, SGD with momentum, whole step", group="training", target=6)
def mlp(m):
    nn, optim = submodule(m, "nn"), submodule(m, "optim")
    functional = submodule(m, "nn.functional")
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    with m.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(wave(m, *p.shape, scale=0.61 + k) * 0.1)
    sgd = optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    x = wave(m, 32, 64)
    target = m.tensor([k % 10 for k in range(32)])

    def run():
        sgd.zero_grad()
        loss = functional.cross_entropy(net(x), target)
        loss.backward()
        sgd.step()
        return loss

    return run
