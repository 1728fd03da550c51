"""What a network looks at: the gradient of its answer by the picture, and integrated gradients (Sundararajan and others, 2017).

    python examples/saliency.py

A small convolutional network learns the handwritten digits that scikit-learn ships. Gradients along the way from an empty
picture to a digit, averaged and multiplied by the digit, share out the logit among the pixels: they add up to what it has
gained. Start reading at `integrated_gradients`.
"""

import argparse
import time
from typing import Any

import adjoint as ad
from adjoint import nn, optim

F = nn.functional


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def load():
    """(training images, labels), (held-out images, labels)."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    images = ad.tensor((digits.images / 16).tolist()).unsqueeze(1)
    labels = ad.tensor(digits.target.tolist())
    return (images[:1400], labels[:1400]), (images[1400:], labels[1400:])


def logits_of(model, images, labels):
    return model(images).gather(1, labels.unsqueeze(1)).squeeze(1)


def saliency(model, images, labels):
    """The gradient of each image's own logit by its pixels."""
    images = images.detach().requires_grad_()
    return ad.autograd.grad(logits_of(model, images, labels).sum(), images)[0]


def integrated_gradients(model, images, labels, count=200):
    """Each pixel's share of logit(image) - logit(nothing), by the midpoint rule along the straight way."""
    total = ad.zeros_like(images)
    for i in range(count):
        total += saliency(model, (i + 0.5) / count * images, labels)
    return images * total / count


def draw(path, images, gradients, shares, labels):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, cells = pyplot.subplots(3, 8, figsize=(8, 3.4), layout="constrained")
    rows = ("picture", images, "gray_r"), ("gradient", gradients, "coolwarm"), ("shares", shares, "coolwarm")
    for i, (name, pictures, colours) in enumerate(rows):
        cells[i, 0].set_ylabel(name)
        for cell, picture in zip(cells[i], pictures[:, 0], strict=True):
            largest = picture.abs().max().item()
            cell.imshow(picture.tolist(), cmap=colours, vmin=-largest if i else 0, vmax=largest)
            cell.set(xticks=[], yticks=[])
    for cell, label in zip(cells[0], labels.tolist(), strict=True):
        cell.set_title(label)
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="saliency.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    (images, labels), (held_images, held_labels) = load()
    model = make_model()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    start = time.perf_counter()
    for _ in range(3 if options.short else 15):
        for part in ad.randperm(labels.shape[0]).split(50):
            loss = F.cross_entropy(model(images[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with ad.no_grad():
        right = (model(held_images).argmax(1) == held_labels).float().mean().item()
    shown, named = held_images[:8], held_labels[:8]
    gradients = saliency(model, shown, named)
    shares = integrated_gradients(model, shown, named)
    with ad.no_grad():
        gained = logits_of(model, shown, named) - logits_of(model, ad.zeros_like(shown), named)
    off = ((shares.sum((1, 2, 3)) - gained).abs() / gained.abs()).max().item()
    print(f"accuracy  {right:.1%} of held-out digits, {time.perf_counter() - start:.2f} s")
    print(f"shares    add up to what the logits gain, within {off:.2%}")
    try:
        draw(options.output, shown, gradients, shares, named)
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
