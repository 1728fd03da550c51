"""The conductivity of a rod, found from thermometers: an inverse problem through a solver of the heat equation.

    python examples/heat_equation.py

The rod is heated at one end; five thermometers read its temperature, with noise. An implicit scheme solves
u_t = (k u_x)_x for a conductivity k(x), and the derivative of its result by k says how to correct k. Start reading at
`solve`.
"""

import argparse
import time

import adjoint as ad
from adjoint import optim

CELLS, STEPS, SPAN = 50, 60, 1.5
SENSORS = ad.tensor([5, 15, 25, 35, 45])
DOUBLE = ad.float64


def solve(k):
    """Temperatures of all cells after each step; k holds the conductivity at the CELLS + 1 faces between cells.

    The left end is kept at 1 and the right one at 0. Each step solves (I + h A) u' = u + h b, with one factorisation for all.
    """
    width, h = 1 / CELLS, SPAN / STEPS
    k = k / width**2
    matrix = ad.diag(k[:-1] + k[1:]) - ad.diag(k[1:-1], 1) - ad.diag(k[1:-1], -1)
    factor = ad.linalg.cholesky(ad.eye(CELLS, dtype=DOUBLE) + h * matrix)
    heat = ad.nn.functional.pad(h * k[:1], (0, CELLS - 1)).unsqueeze(1)
    u, found = ad.zeros(CELLS, 1, dtype=DOUBLE), []
    for _ in range(STEPS):
        u = ad.cholesky_solve(u + heat, factor)
        found.append(u)
    return ad.cat(found, dim=1).T


def draw(path, faces, truth, found, history, readings):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(faces.tolist(), truth.tolist(), color="black", label="true")
    left.plot(faces.tolist(), found.tolist(), color="tab:red", label="found")
    left.set(xlabel="place", ylabel="conductivity")
    left.legend()
    right.plot(readings.tolist(), ".", markersize=2, color="gray")
    right.plot(history[:, SENSORS].tolist())
    right.set(xlabel="step", ylabel="temperature at the thermometers")
    figure.savefig(path, dpi=70)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", default="heat_equation.png", help="the picture (%(default)s)")
    parser.add_argument("--short", action="store_true", help="few steps: for tests")
    options = parser.parse_args(arguments)
    ad.manual_seed(0)
    faces = ad.linspace(0, 1, CELLS + 1, dtype=DOUBLE)
    truth = 0.2 + 0.3 * (-((faces - 0.35) / 0.12).square()).exp() + 0.15 * (faces > 0.7)
    readings = solve(truth)[:, SENSORS]
    readings = readings + 0.002 * ad.randn(readings.shape, dtype=DOUBLE)

    logarithm = ad.full((CELLS + 1,), -1.5, dtype=DOUBLE, requires_grad=True)
    optimizer = optim.Adam([logarithm], lr=0.03)
    start, errors = time.perf_counter(), []
    for _ in range(60 if options.short else 600):
        misfit = (solve(logarithm.exp())[:, SENSORS] - readings).square().mean() / 0.002**2
        # What the thermometers cannot tell is decided by smoothness.
        loss = misfit + 1.0 * logarithm.diff().square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(misfit.item() ** 0.5)
    with ad.no_grad():
        found = logarithm.exp()
        off = ((found - truth).norm() / truth.norm()).item()
        seconds = time.perf_counter() - start
        print(
            f"misfit    {errors[0]:.2f} -> {errors[-1]:.2f} standard deviations of the noise, {seconds:.2f} s"
        )
        print(f"error     {off:.1%} of the conductivity")
        try:
            draw(options.output, faces, truth, found, solve(found), readings)
            print(f"picture   {options.output}")
        except ImportError:
            print("picture   none: matplotlib is not installed")


if __name__ == "__main__":
    main()
