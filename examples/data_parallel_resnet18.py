"""ResNet-18 on several ranks, each with its part of every batch; the gradients are those of one process with the whole batch.

python -m adjoint.distributed.run --nproc-per-node=2 examples/data_parallel_resnet18.py
"""

import sys

import adjoint as ad
import adjoint.distributed as dist
from adjoint import models, nn
from adjoint.nn.parallel import DistributedDataParallel
from adjoint.utils.data import DataLoader, DistributedSampler, TensorDataset


def main(images=32, pixels=64, batch=8, epochs=1):
    """Losses of this rank, and the largest difference of a gradient from one process."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    generator = ad.Generator().manual_seed(0)
    x = ad.randn(images, 3, pixels, pixels, generator=generator)
    y = ad.randint(0, 10, (images,), generator=generator)
    ad.manual_seed(rank)  # the parameters become those of rank 0
    model = DistributedDataParallel(models.resnet18().eval(), gradient_as_bucket_view=True)
    part = slice(rank * batch, (rank + 1) * batch)
    nn.functional.cross_entropy(model(x[part]), y[part]).backward()
    got = [p.grad.clone() for p in model.parameters()]
    one = models.resnet18().eval()
    one.load_state_dict(model.module.state_dict())
    nn.functional.cross_entropy(one(x[: ranks * batch]), y[: ranks * batch]).backward()
    worst = max(
        float((a - p.grad).abs().max() / (p.grad.abs().max() + 1e-30)) for a, p in zip(got, one.parameters())
    )
    model.train()
    optimizer = ad.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    sampler = DistributedSampler(TensorDataset(x, y))
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images_here, labels in DataLoader(sampler.dataset, batch, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images_here), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, worst


if __name__ == "__main__":
    dist.init_process_group()
    losses, worst = main(*map(int, sys.argv[1:]))
    if dist.get_rank() == 0:
        print(
            f"gradients differ from one process by {worst:.0e}; losses of rank 0: {[round(v, 3) for v in losses]}"
        )
    dist.destroy_process_group()
