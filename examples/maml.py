"""MAML (Finn and others, 2017): a network that learns a new sinusoid from ten points, in one step of descent.

    python examples/maml.py

What is trained is where that step starts; so the gradient of training goes through the gradient of the step. All tasks of
a batch adapt at once, each with weights of its own. A step of training, with both gradients and Adam, is replayed by `ad.jit`. Start
reading at `adapted`.
"""

import argparse
import math
import time

import adjoint as ad
from adjoint import optim

WIDTH, POINTS, TASKS, RATE = 40, 10, 25, 0.01


def make_parameters():
    shapes = (1, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)
    found = []
    for rows, columns in shapes:
        weight = ad.randn(rows, columns) / math.sqrt(rows)
        found += [weight.requires_grad_(), ad.zeros(1, columns, requires_grad=True)]
    return found


def network(parameters, x):
    """x: (tasks, points, 1); parameters: those of all tasks, or one for each along a first dimension."""
    w1, b1, w2, b2, w3, b3 = parameters
    x = (x @ w1 + b1).relu()
    return (x @ w2 + b2).relu() @ w3 + b3


def adapted(parameters, x, y, create_graph):
    """The parameters after one step of gradient descent on each task's points."""
    own = [p.expand(x.shape[0], *p.shape) for p in parameters]
    # The mean over points, the sum over tasks: each task's weights see the gradient of its own loss.
    loss = (network(own, x) - y).square().mean((1, 2)).sum()
    gradients = ad.autograd.grad(loss, own, create_graph=create_graph)
    return [p - RATE * g for p, g in zip(own, gradients, strict=True)]


def make_tasks(count):
    """(x, y, x, y): points to learn from and points to be tested on, of sinusoids of random height and phase."""
    height, phase = 0.1 + 4.9 * ad.rand(count, 1, 1), math.pi * ad.rand(count, 1, 1)
    found = []
    for _ in range(2):
        x = 10 * ad.rand(count, POINTS, 1) - 5
        found += [x, height * (x - phase).sin()]
    return found


def error_after_a_step(parameters, tasks):
    x, y, x_test, y_test = tasks
    with ad.no_grad():
        before = (network(parameters, x_test) - y_test).square().mean().item()
    steps = adapted(parameters, x, y, create_graph=False)
    with ad.no_grad():
        return before, (network(steps, x_test) - y_test).square().mean().item()


def draw(path, parameters, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, y, _, _ = make_tasks(1)
    grid = ad.linspace(-5, 5, 100).view(1, -1, 1)
    steps = adapted(parameters, x, y, create_graph=False)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.semilogy(losses)
    left.set(xlabel="step", ylabel="error after one step of descent")
    for label, p in ("before", parameters), ("after one step", steps):
        right.plot(grid.flatten().tolist(), network(p, grid).detach().flatten().tolist(), label=label)
    right.plot(x.flatten().tolist(), y.flatten().tolist(), "o", color="black", label="ten points")
    right.legend()
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="maml.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    parameters, held_out = make_parameters(), make_tasks(200)
    optimizer = optim.Adam(parameters, lr=1e-3)
    untrained = error_after_a_step(parameters, held_out)

    def step(x, y, x_test, y_test):
        loss = (network(adapted(parameters, x, y, create_graph=True), x_test) - y_test).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses, taken = [], []
    count = 400 if options.short else 8000
    for f, times in (step, 100), (ad.jit(step), count - 100):
        start = time.perf_counter()
        losses += [f(*make_tasks(TASKS)).item() for _ in range(times)]
        taken.append((time.perf_counter() - start) / times)
    seconds = taken[0] * 100 + taken[1] * (count - 100)
    trained = error_after_a_step(parameters, held_out)
    print(f"untrained {untrained[0]:.3f}, after one step of descent {untrained[1]:.3f}")
    print(f"trained   {trained[0]:.3f}, after one step of descent {trained[1]:.3f}, {seconds:.2f} s")
    print(f"replay    a step takes {taken[1] / taken[0]:.2f} of the time that it takes without ad.jit")
    try:
        draw(options.output, parameters, losses)
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
