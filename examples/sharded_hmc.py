"""Hamiltonian Monte Carlo for a logistic regression whose data lie on several ranks.

    python -m adjoint.distributed.run --nproc-per-node=2 examples/sharded_hmc.py

Each rank has its rows; the log-likelihood is `group.sum` of theirs, inside of the differentiated program. All ranks draw the same
numbers from the same stream and get the same bits from every sum, so that they accept alike without asking each other.
"""

import adjoint as ad
import adjoint.distributed as dist


def data(rows, seed=0):
    """Rows of a made-up study, and the truth."""
    generator = ad.Generator().manual_seed(seed)
    x = ad.randn(rows, 3, generator=generator, dtype=ad.float64)
    truth = ad.tensor([1.0, -2.0, 0.5], dtype=ad.float64)
    y = (ad.rand(rows, generator=generator, dtype=ad.float64) < ad.sigmoid(x @ truth)).double()
    return x, y, truth


def main(rows=400, draws=100, steps=10, size=0.03):
    """The draws, the same on all ranks."""
    group = dist.group.WORLD
    rank, ranks = group.rank(), group.size()
    x, y, truth = data(rows)
    part = slice(rank * rows // ranks, (rank + 1) * rows // ranks)
    x, y = x[part], y[part]

    def energy(w):
        rows_here = ad.nn.functional.binary_cross_entropy_with_logits(x @ w, y, reduction="sum")
        # Every rank's loss is the total: the pass would give the gradient of ranks times it.
        return group.sum(rows_here) / ranks + (w @ w) / 20 / ranks

    def slope(w):
        w = w.detach().requires_grad_()
        energy(w).backward()
        # The likelihood's part is this rank's rows'; all of them together are the slope.
        return group.sum(w.grad)

    total = lambda w: ranks * energy(w).detach()  # noqa: E731
    generator = ad.Generator().manual_seed(1)  # the same on all ranks
    w, kept = ad.zeros(3, dtype=ad.float64), []
    for _ in range(draws):
        p = ad.randn(3, generator=generator, dtype=ad.float64)
        v, q = w, p - size / 2 * slope(w)
        for step in range(steps):
            v = v + size * q
            q = q - size * (0.5 if step == steps - 1 else 1.0) * slope(v)
        change = total(w) + p @ p / 2 - total(v) - q @ q / 2
        if ad.rand((), generator=generator, dtype=ad.float64).log() < change:
            w = v
        kept.append(w)
    return ad.stack(kept), truth


if __name__ == "__main__":
    ad.set_num_threads(1)
    dist.init_process_group()
    samples, truth = main()
    if dist.get_rank() == 0:
        print(
            "mean of the draws:",
            [round(v, 2) for v in samples[30:].mean(0).tolist()],
            "truth:",
            truth.tolist(),
        )
    dist.destroy_process_group()
