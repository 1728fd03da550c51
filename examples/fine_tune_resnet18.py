"""Fine-tune ResNet-18 with its base frozen: a new head learns digits that the base has never seen.

    python examples/fine_tune_resnet18.py
    python examples/fine_tune_resnet18.py --weights resnet18-f37072fd.pth     # torchvision's file, if you have it

The images are the handwritten digits that scikit-learn ships; nothing is downloaded. Without ``--weights`` the base first
learns to tell the digits 0 to 4. Then all of it is frozen, its last layer is replaced, and SGD with momentum trains that
layer alone to tell 5 to 9. What is frozen keeps no activations for the backward pass: the program shows the bytes.
Start reading at `main`.
"""

import argparse
import time
from typing import Any

import adjoint as ad
from adjoint import nn, optim
from adjoint.demo import load_digits

try:
    from tqdm import tqdm
except ImportError:

    def tqdm(iterable, **options):
        return iterable


MEAN, DEVIATION = (
    (0.485, 0.456, 0.406),
    (0.229, 0.224, 0.225),
)  # of ImageNet: what torchvision's weights expect


def prepare(images, size):
    """Images of 8×8 as ImageNet's networks take them: three equal channels, `size` pixels each way, standardised."""
    images = nn.functional.interpolate(images.reshape(-1, 1, 8, 8), size=size, mode="bilinear")
    mean, deviation = ad.tensor(MEAN).reshape(3, 1, 1), ad.tensor(DEVIATION).reshape(3, 1, 1)
    return (images.expand(-1, 3, -1, -1) - mean) / deviation


def load_classes(classes, size, limit):
    """(training images, labels), (held-out images, labels) of some digits; labels count from 0."""
    images, labels = load_digits()
    chosen = ((labels >= classes[0]) & (labels <= classes[-1])).nonzero().flatten()
    chosen = chosen[ad.randperm(chosen.shape[0])][:limit]
    images, labels = prepare(images[chosen], size), labels[chosen] - classes[0]
    held_out = chosen.shape[0] // 4
    return (images[held_out:], labels[held_out:]), (images[:held_out], labels[:held_out])


def accuracy(model, images, labels, batch=128):
    model.eval()
    with ad.no_grad():
        said = ad.cat([model(part).argmax(1) for part in images.split(batch)])
    return (said == labels).float().mean().item()


def train(model, parameters, images, labels, epochs, rate, name, batch=32):
    """SGD with momentum on these parameters; the model stays in the mode in which it is."""
    optimizer = optim.SGD(parameters, lr=rate, momentum=0.9)
    count = labels.shape[0]
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=epochs * -(-count // batch))
    losses = []
    bar: Any = tqdm(range(epochs), desc=name, unit="epoch", ncols=88)
    for _ in bar:
        total = 0.0
        for part in ad.randperm(count).split(batch):
            loss = nn.functional.cross_entropy(model(images[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * part.shape[0]
        losses.append(total / count)
        if hasattr(bar, "set_postfix"):
            bar.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


def bytes_kept(model, images):
    """What one forward pass keeps for its backward pass."""
    before = ad.memory_statistics()["allocated_bytes"]
    output = model(images)
    kept = ad.memory_statistics()["allocated_bytes"] - before
    return kept - output.numel() * output.element_size()


def draw(path, model, images, pixels, labels, first, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    model.eval()
    with ad.no_grad():
        said = model(images[:20]).argmax(1)
    figure = pyplot.figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False)[0]
    axes = left.subplots()
    axes.plot(range(1, len(losses) + 1), losses)
    axes.set(xlabel="epoch", ylabel="cross entropy", title="The new head")
    axes.set_ylim(bottom=0)
    right.suptitle("Held-out images, and what the network says")
    for i, cell in enumerate(right.subplots(4, 5).flat):
        cell.set_axis_off()
        if i < said.shape[0]:
            cell.imshow(pixels[i].tolist(), cmap="gray_r")
            right_answer = said[i].item() == labels[i].item()
            cell.set_title(f"{said[i].item() + first}", color="black" if right_answer else "red")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--weights", help="a state dict of torchvision's resnet18")
    parser.add_argument("--epochs", type=int, default=10, help="of the new head (%(default)s)")
    parser.add_argument("--size", type=int, default=32, help="pixels each way (%(default)s)")
    parser.add_argument("--limit", type=int, default=800, help="images of each task (%(default)s)")
    parser.add_argument("--output", default="fine_tune.png", help="where the picture goes (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few images, few steps: for tests")
    options = parser.parse_args(arguments)
    if options.short:
        options.epochs, options.limit = 3, 160
    ad.manual_seed(0)

    model = ad.models.resnet18()
    if options.weights:
        model.load_state_dict(ad.load(options.weights))
    else:
        model.fc = nn.Linear(model.fc.in_features, 5)
        (images, labels), held = load_classes(range(5), options.size, options.limit)
        start = time.perf_counter()
        train(model, model.parameters(), images, labels, 1 if options.short else 6, 0.02, "base: 0 to 4")
        print(
            f"base      {accuracy(model, *held):.1%} of held-out 0 to 4, {time.perf_counter() - start:.1f} s"
        )

    # The whole of fine-tuning: freeze, replace the head, give its parameters to the optimiser.
    (images, labels), (held_images, held_labels) = load_classes(range(5, 10), options.size, options.limit)
    model.eval()
    learning = bytes_kept(model, images[:32])
    model.requires_grad_(False)
    model.fc = nn.Linear(model.fc.in_features, 5)
    frozen = bytes_kept(model, images[:32])
    print(
        f"kept      {learning / 1e6:.2f} MB by a batch of 32 when all of it learns, {frozen / 1e6:.2f} MB with the base frozen"
    )

    before = accuracy(model, held_images, held_labels)
    fixed = model.conv1.weight.clone()
    start = time.perf_counter()
    losses = train(model, model.fc.parameters(), images, labels, options.epochs, 0.02, "head: 5 to 9")
    seconds = time.perf_counter() - start
    after = accuracy(model, held_images, held_labels)
    assert ad.equal(model.conv1.weight, fixed)
    print(f"head      {before:.1%} of held-out 5 to 9 before, {after:.1%} after; {seconds:.1f} s")

    try:
        pixels = held_images[:, 0]
        draw(options.output, model, held_images, pixels, held_labels, 5, losses)
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")
    return before, after, learning, frozen


if __name__ == "__main__":
    main()
