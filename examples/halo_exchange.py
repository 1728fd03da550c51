"""The heat equation on strips, one for each rank, and the gradient of what comes out by the initial state.

    python -m adjoint.distributed.run --nproc-per-node=2 examples/halo_exchange.py

Neighbours exchange one cell at each side in every step, by `sendrecv`, whose transpose sends gradients back. The gradient is compared
with that of one process that has the whole rod.
"""

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.nn.functional import all_gather, sendrecv

CELLS, STEPS, RATE = 48, 30, 0.4


def step(u, left, right):
    """One explicit step, with the cells beside the strip."""
    padded = ad.cat([left, u, right])
    return u + RATE * (padded[2:] - 2 * u + padded[:-2])


def whole(u):
    """The rod in one process; its ends are kept at 0."""
    zero = ad.zeros(1, dtype=u.dtype)
    for _ in range(STEPS):
        u = step(u, zero, zero)
    return u


def strips(u):
    """The strip of this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    before, after = (rank - 1 if rank else None), (rank + 1 if rank + 1 < size else None)
    for _ in range(STEPS):
        left = sendrecv(u[-1:], dst=after, src=before)
        right = sendrecv(u[:1], dst=before, src=after)
        u = step(u, left, right)
    return u


def main():
    """The largest difference of values, and of gradients, from one process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    start = ad.sin(ad.arange(CELLS, dtype=ad.float64))
    weight = ad.cos(ad.arange(CELLS, dtype=ad.float64))
    n = CELLS // size
    mine = slice(rank * n, (rank + 1) * n)
    x = start[mine].clone().requires_grad_()
    y = strips(x)
    # Each rank's loss is its part: the pass gives the gradient of their sum.
    (weight[mine] * y**2).sum().backward()
    reference = start.clone().requires_grad_()
    z = whole(reference)
    (weight * z**2).sum().backward()
    values = (ad.cat(all_gather(y.detach())) - z.detach()).abs().max()
    gradients = (ad.cat(all_gather(x.grad)) - reference.grad).abs().max()
    return float(values), float(gradients)


if __name__ == "__main__":
    dist.init_process_group()
    values, gradients = main()
    if dist.get_rank() == 0:
        print(
            f"{dist.get_world_size()} ranks; from one process differ: values by {values:.1e}, gradients by {gradients:.1e}"
        )
    dist.destroy_process_group()
