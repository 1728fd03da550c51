"""A differentiable renderer of discs: their places, sizes, colours and opacities, found from a picture.

    python examples/renderer.py

Edges are soft, so that a pixel's colour has a derivative by where the edge is; they harden while the search goes on. Each
disc covers those before it. Start reading at `render`.
"""

import argparse
import time

import adjoint as ad
from adjoint import optim

SIZE, DISCS = 48, 6


def render(scene, softness):
    """A picture (SIZE, SIZE, 3); each row of `scene` is a disc: x, y, radius, red, green, blue, opacity."""
    side = (ad.arange(SIZE) + 0.5) / SIZE
    y, x = ad.meshgrid(side, side, indexing="ij")
    centre_x, centre_y, radius = (scene[:, i].view(-1, 1, 1) for i in range(3))
    distance = ((x - centre_x).square() + (y - centre_y).square() + 1e-6).sqrt()
    cover = scene[:, 6].view(-1, 1, 1) * ((radius - distance) / softness).sigmoid()
    picture = ad.ones(SIZE, SIZE, 3)
    for alpha, colour in zip(cover.unsqueeze(-1), scene[:, 3:6], strict=True):
        picture = picture + alpha * (colour - picture)
    return picture


def make_scene():
    """Six discs at random places, opaque enough to be seen."""
    radius, opacity = 0.1 + 0.12 * ad.rand(DISCS, 1), 0.7 + 0.3 * ad.rand(DISCS, 1)
    return ad.cat([0.2 + 0.6 * ad.rand(DISCS, 2), radius, ad.rand(DISCS, 3), opacity], dim=1)


def draw(path, pictures, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, cells = pyplot.subplots(1, len(pictures) + 1, figsize=(10, 2.4), layout="constrained")
    for cell, (name, picture) in zip(cells, pictures, strict=False):
        cell.imshow(picture.clamp(0, 1).tolist(), interpolation="nearest")
        cell.set(title=name, xticks=[], yticks=[])
    cells[-1].semilogy(losses)
    cells[-1].set(xlabel="step", title="error")
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="renderer.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    wanted = render(make_scene(), 0.01)
    # More discs than there are: those that find nothing to do fade away.
    start_scene = ad.cat([make_scene(), make_scene()])
    start_scene[:, 6] = 0.5
    logits = ad.logit(start_scene, eps=1e-3).requires_grad_()
    optimizer = optim.Adam([logits], lr=0.05)
    count = 60 if options.short else 1500
    start, losses, pictures = time.perf_counter(), [], [("wanted", wanted)]
    picture = wanted
    for i in range(count):
        softness = 0.05 * (1 - i / count) + 0.01 * i / count
        picture = render(logits.sigmoid(), softness)
        if i in (0, count // 10):
            pictures.append((f"after {i} steps", picture.detach()))
        loss = (picture - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - start
    pictures.append((f"after {count} steps", picture.detach()))
    print(f"loss      {losses[0]:.5f} -> {losses[-1]:.5f}, {seconds:.2f} s")
    try:
        draw(options.output, pictures, losses)
        print(f"picture   {options.output}")
    except ImportError:
        print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
