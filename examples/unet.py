"""A U-Net (Ronneberger and others, 2015) finds handwritten digits in pictures full of noise and lines.

    python examples/unet.py

The digits are those that scikit-learn ships, at random places of pictures of 32×32; the network says of each pixel whether
it belongs to one. What the way down has seen joins the way up. Start reading at `Model`.
"""

import argparse
import time
from typing import Any

import adjoint as ad
from adjoint import nn, optim

F = nn.functional
SIZE, BATCH, CHANNELS = 32, 8, 12


def twice(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


class Model(nn.Module):
    """A logit for each pixel."""

    def __init__(self):
        super().__init__()
        c = CHANNELS
        self.down = nn.ModuleList([twice(1, c), twice(c, 2 * c), twice(2 * c, 4 * c)])
        self.grow = nn.ModuleList(
            [nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)]
        )
        self.up = nn.ModuleList([twice(4 * c, 2 * c), twice(2 * c, c)])
        self.output = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        x = self.down[2](F.max_pool2d(second, 2))
        x = self.up[0](ad.cat([self.grow[0](x), second], dim=1))
        x = self.up[1](ad.cat([self.grow[1](x), first], dim=1))
        return self.output(x)


def make_optimizer(model):
    return optim.AdamW(model.parameters(), lr=3e-3)


def make_batches(count):
    """Pairs (pictures, masks)."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    digits = ad.tensor((found.images / 16).tolist())
    digits = F.interpolate(digits[:, None], scale_factor=1.5, mode="bilinear")[:, 0]
    size = digits.shape[-1]
    for _ in range(count):
        pictures = ad.zeros(BATCH, 1, SIZE, SIZE)
        for picture in pictures:
            for i in ad.randint(0, digits.shape[0], (2,)).tolist():
                top, left = ad.randint(0, SIZE - size, (2,)).tolist()
                picture[0, top : top + size, left : left + size].clamp_(min=0).add_(digits[i]).clamp_(max=1)
        masks = (pictures > 0.4).float()
        for picture in pictures:
            row, column = ad.randint(0, SIZE, (2,)).tolist()
            picture[0, row] += 0.7
            picture[0, :, column] += 0.7
        yield pictures + 0.3 * ad.randn(BATCH, 1, SIZE, SIZE), masks


def loss_of(model, batch):
    pictures, masks = batch
    return F.binary_cross_entropy_with_logits(model(pictures), masks)


def overlap(model, batch):
    """What is found and is there, of what is found or is there."""
    pictures, masks = batch
    model.eval()
    with ad.no_grad():
        found = model(pictures) > 0
    model.train()
    there = masks > 0
    return (found & there).sum().item() / max((found | there).sum().item(), 1)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    model = Model()
    optimizer = make_optimizer(model)
    test = next(make_batches(1))
    before = overlap(model, test)
    start, losses = time.perf_counter(), []
    for step, batch in enumerate(make_batches(40 if options.short else options.steps)):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 49:
            print(f"step {step + 1}  loss {sum(losses[-50:]) / 50:.3f}")
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {time.perf_counter() - start:.1f} s")
    print(f"overlap {before:.2f} -> {overlap(model, test):.2f}")


if __name__ == "__main__":
    main()
