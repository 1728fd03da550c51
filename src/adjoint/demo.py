"""The main job in one command: ``python -m adjoint.demo`` trains a network on real handwritten digits.

The data are the 1,797 images of 8×8 pixels (UCI) that scikit-learn ships: nothing is downloaded. A fifth is held
out. The program trains, checks one gradient against finite differences, writes a picture, and exits with status
0 when at least 97 % of the held-out images are recognised and the gradient agrees, else with 1; 2 when the
packages of the ``demo`` extra are missing. Start with `main`.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import importlib.util
import os
import statistics
import sys
import time

import adjoint as ad
from adjoint import nn, optim
from adjoint._types import Any
from adjoint._version import distribution

TARGET = 0.97
HELD_OUT = 360
TOLERANCE = 1e-5


def missing_packages(plot: bool) -> list[str]:
    """The packages of the extra that are not installed, looked up without importing them."""
    needed = {"numpy": "numpy", "sklearn": "scikit-learn", "tqdm": "tqdm"}
    if plot:
        needed["matplotlib"] = "matplotlib"
    return [package for module, package in needed.items() if importlib.util.find_spec(module) is None]


def load_digits():
    """(images, labels): float32 of shape (1797, 64) in [0, 1], and int64 of shape (1797).

    The file inside scikit-learn is read directly, because importing scikit-learn takes longer than training.
    """
    import numpy as np

    spec: Any = importlib.util.find_spec("sklearn")
    root = os.path.dirname(spec.origin)
    path = os.path.join(root, "datasets", "data", "digits.csv.gz")
    if os.path.exists(path):
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.float32)
        pixels, labels = table[:, :64], table[:, 64]
    else:
        from sklearn.datasets import load_digits as load

        pixels, labels = load(return_X_y=True)
    images = np.ascontiguousarray(pixels / 16.0, dtype=np.float32)
    return ad.from_numpy(images), ad.from_numpy(labels.astype(np.int64))


def build_network() -> nn.Module:
    """Two hidden layers; dropout, because there are few images."""
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Dropout(0.4),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Dropout(0.4),
        nn.Linear(256, 10),
    )


def accuracy(network, images, labels) -> float:
    """The share of images whose most likely class is the label."""
    network.eval()
    with ad.no_grad():
        right = network(images).argmax(1) == labels
    network.train()
    return right.sum().item() / labels.shape[0]


def train(network, images, labels, held_images, held_labels, epochs, batch_size=32):
    """Train, and return the mean loss and the held-out accuracy of each epoch, and the times of steps: as they are written, in the
    first epoch, and replayed."""
    from tqdm import tqdm

    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    def step(images, labels):
        loss = criterion(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    replayed = ad.jit(step)
    losses, accuracies = [], []
    times: tuple[list[float], list[float]] = ([], [])
    bar = tqdm(range(epochs), desc="training", unit="epoch", ncols=88, mininterval=0.2)
    for epoch in bar:
        order = ad.randperm(images.shape[0])
        total = 0.0
        for start in range(0, images.shape[0], batch_size):
            batch = order[start : start + batch_size]
            began = time.perf_counter()
            loss = (replayed if epoch else step)(images[batch], labels[batch])
            times[epoch > 0].append(time.perf_counter() - began)
            total += loss.item() * batch.shape[0]
        schedule.step()
        losses.append(total / images.shape[0])
        accuracies.append(accuracy(network, held_images, held_labels))
        bar.set_postfix(loss=f"{losses[-1]:.3f}", held_out=f"{accuracies[-1]:.1%}")
    return losses, accuracies, times


def check_gradient(network, images, labels, step=1e-6):
    """Compare one derivative of the loss with a central difference, in float64.

    Returns
    -------
    (row, column), gradient, difference quotient
        Of the weight of the first layer that the loss depends on most.
    """
    network = copy.deepcopy(network).double().eval()
    images = images.double()
    criterion = nn.CrossEntropyLoss()
    weight = network[0].weight
    network.zero_grad()
    criterion(network(images), labels).backward()
    row, column = divmod(weight.grad.abs().argmax().item(), weight.shape[1])
    gradient = weight.grad[row, column].item()
    values = []
    with ad.no_grad():
        middle = weight[row, column].item()
        for shift in (step, -step):
            weight[row, column] = middle + shift
            values.append(criterion(network(images), labels).item())
    return (row, column), gradient, (values[0] - values[1]) / (2 * step)


def draw(path, losses, accuracies, images, labels, predictions) -> None:
    """Write the picture: the course of training, and held-out images with what the network says."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows, columns = 4, 8
    blue, green, red = "#2563eb", "#15803d", "#dc2626"
    figure = plt.figure(figsize=(13, 5.2), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.35))[0]

    axes = left.subplots()
    epochs = range(1, len(losses) + 1)
    (loss_line,) = axes.plot(epochs, losses, color=blue, label="training loss")
    axes.set(xlabel="epoch", ylabel="cross entropy", title="Training")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    other = axes.twinx()
    (accuracy_line,) = other.plot(
        epochs, [100 * a for a in accuracies], color=green, label="held-out accuracy"
    )
    other.axhline(100 * TARGET, color=green, linewidth=0.8, linestyle=":")
    other.set(ylabel="held-out accuracy, %", ylim=(min(80, 100 * min(accuracies)), 100))
    axes.legend(handles=[loss_line, accuracy_line], loc="center right", frameon=False)

    right.suptitle(f"Held-out images: {accuracies[-1]:.1%} recognised (prediction, in red where wrong)")
    # Mistakes first: they are what one wants to see.
    order = sorted(range(len(labels)), key=lambda i: predictions[i] == labels[i])
    wrong = sum(predictions[i] != labels[i] for i in range(len(labels)))
    mistakes = min(wrong, columns)
    shown = order[:mistakes] + order[wrong : wrong + rows * columns - mistakes]
    for axes, i in zip(right.subplots(rows, columns).flat, shown):
        ok = predictions[i] == labels[i]
        axes.imshow(images[i], cmap="gray_r", interpolation="nearest")
        title = f"{predictions[i]}" if ok else f"{predictions[i]} (is {labels[i]})"
        axes.set_title(title, color="black" if ok else red, fontsize=10, pad=2)
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m adjoint.demo", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--epochs", type=int, default=30, help="passes over the training images (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the split, the network and dropout")
    parser.add_argument("--output", default="demo.png", help="where the picture goes (%(default)s)")
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    return options


def main(arguments=None) -> int:
    """Run the demonstration and return the exit status."""
    options = parse_arguments(arguments)
    missing = missing_packages(plot=not options.no_plot)
    if missing:
        print(
            f'The demo needs {", ".join(missing)}. Install it with:  pip install "{distribution}[demo]"',
            file=sys.stderr,
        )
        return 2

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # keeps report and progress bar in order in a pipe
    ad.manual_seed(options.seed)
    images, labels = load_digits()
    order = ad.randperm(images.shape[0])
    held, rest = order[:HELD_OUT], order[HELD_OUT:]
    network = build_network()
    count = sum(p.numel() for p in network.parameters())
    print(f"Adjoint {ad.__version__}: handwritten digits, 8x8 pixels, 10 classes")
    print(f"  images     {rest.shape[0]} to train on, {HELD_OUT} held out")
    print(f"  network    64-256-256-10, {count:,} parameters, float32")

    start = time.perf_counter()
    losses, accuracies, (written, replayed) = train(
        network, images[rest], labels[rest], images[held], labels[held], options.epochs
    )
    seconds = time.perf_counter() - start
    reached = accuracies[-1] >= TARGET
    print(f"  training   {options.epochs} epochs in {seconds:.1f} s")
    if replayed:
        share = statistics.median(replayed) / statistics.median(written)
        print(f"  replay     a step takes {share:.2f} of the time that it takes without ad.jit")
    verdict = "reached" if reached else "MISSED"
    print(f"  accuracy   {accuracies[-1]:.2%} of the held-out images (target {TARGET:.0%}: {verdict})")

    (row, column), gradient, quotient = check_gradient(network, images[held[:64]], labels[held[:64]])
    error = abs(gradient - quotient) / max(abs(gradient), abs(quotient), 1e-12)
    agrees = error < TOLERANCE
    print(f"  gradient   d loss / d weight[{row}, {column}] of the first layer, float64:")
    print(f"               reverse mode        {gradient:+.12e}")
    print(f"               finite differences  {quotient:+.12e}")
    print(f"               relative error      {error:.1e}  {'ok' if agrees else 'DISAGREES'}")

    if not options.no_plot:
        network.eval()
        with ad.no_grad():
            predictions = network(images[held]).argmax(1).tolist()
        pictures = images[held].reshape(-1, 8, 8).tolist()
        draw(options.output, losses, accuracies, pictures, labels[held].tolist(), predictions)
        print(f"  picture    {options.output}")
    return 0 if reached and agrees else 1


if __name__ == "__main__":
    sys.exit(main())
