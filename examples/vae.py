"""A variational autoencoder (Kingma and Welling, 2013) of the handwritten digits that scikit-learn ships.

    python examples/vae.py

An image becomes a normal distribution over eight numbers, and a draw from it an image again; what is learned is a bound on
the logarithm of the images' probability. New digits are drawn at the end. Start reading at `Model`.
"""

import argparse
import time
from typing import Any

import adjoint as ad
from adjoint import nn, optim

F = nn.functional
CODE, WIDTH, BATCH = 8, 128, 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 64))

    def forward(self, images, noise):
        """Logits of the pixels of a draw; mean and logarithm of the variance of what it was drawn from."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return self.decoder(mean + (log_variance / 2).exp() * noise), mean, log_variance


def make_optimizer(model):
    return optim.Adam(model.parameters(), lr=2e-3)


def make_batches(count):
    """Pairs (images, noise)."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    images = ad.tensor((digits.data / 16).tolist())
    for _ in range(count):
        yield images[ad.randint(0, images.shape[0], (BATCH,))], ad.randn(BATCH, CODE)


def loss_of(model, batch):
    """The bound, with its sign changed, in nats for each image."""
    images, noise = batch
    logits, mean, log_variance = model(images, noise)
    distance = (mean.square() + log_variance.exp() - 1 - log_variance).sum() / 2
    said = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    return (said + distance) / images.shape[0]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    model = Model()
    optimizer = make_optimizer(model)
    start, losses = time.perf_counter(), []
    for batch in make_batches(100 if options.short else options.steps):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    first, last = sum(losses[:20]) / 20, sum(losses[-20:]) / 20
    print(f"loss {first:.3f} -> {last:.3f}, {time.perf_counter() - start:.1f} s")
    with ad.no_grad():
        drawn = model.decoder(ad.randn(6, CODE)).sigmoid().view(6, 8, 8)
    for row in range(8):
        print("  ".join("".join(" .:-=+*%@"[int(8 * p)] * 2 for p in image[row].tolist()) for image in drawn))


if __name__ == "__main__":
    main()
