"""Programs as torch's tutorials have them, on two ranks: ``python -m adjoint.as_torch torch_programs.py``, or with torch itself.

"Getting started with DistributedDataParallel" (basic, checkpoint), "Writing distributed applications" (messages, a group, a ring
by hand, gradients averaged by hand), the elastic one (sampler, no_sync), "Join" (with ZeRO, and a joinable of one's own).
Rank 0 prints numbers, which `test_torch_programs` compares with those of torch.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.distributed.optim import ZeroRedundancyOptimizer as ZeRO
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def size_of(model):
    return sum(p.double().abs().sum().item() for p in model.parameters())


def demo_basic(rank, world_size):
    torch.manual_seed(rank)
    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    for _ in range(3):
        optimizer.zero_grad()
        outputs = ddp_model(torch.randn(20, 10))
        labels = torch.randn(20, 5)
        loss_fn(outputs, labels).backward()
        optimizer.step()
    yield size_of(ddp_model)


def demo_checkpoint(rank, world_size):
    torch.manual_seed(rank)
    ddp_model = DDP(ToyModel())
    path = os.path.join(tempfile.gettempdir(), f"model-{os.getppid()}.checkpoint")
    if rank == 0:
        torch.save(ddp_model.state_dict(), path)
    dist.barrier()
    ddp_model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    loss_fn(ddp_model(torch.randn(20, 10)), torch.randn(20, 5)).backward()
    optimizer.step()
    dist.barrier()
    if rank == 0:
        os.remove(path)
    yield size_of(ddp_model)


def ring_all_reduce(send, recv):
    rank, size = dist.get_rank(), dist.get_world_size()
    send_buff, recv_buff, accum = send.clone(), send.clone(), send.clone()
    left, right = ((rank - 1) + size) % size, (rank + 1) % size
    for i in range(size - 1):
        if i % 2 == 0:
            send_req = dist.isend(send_buff, right)
            dist.recv(recv_buff, left)
            accum[:] += recv_buff[:]
        else:
            send_req = dist.isend(recv_buff, right)
            dist.recv(send_buff, left)
            accum[:] += send_buff[:]
        send_req.wait()
    recv[:] = accum[:]


def messages(rank, size):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        dist.send(tensor=tensor, dst=1)
    else:
        dist.recv(tensor=tensor, src=0)
    req = dist.isend(tensor=tensor + 1, dst=1) if rank == 0 else dist.irecv(tensor=tensor, src=0)
    req.wait()
    yield tensor[0].item()
    group = dist.new_group([0, 1])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    yield tensor[0].item()
    t = torch.full((2, 2), rank + 1.0)
    ring_all_reduce(t, t)
    yield t.sum().item()


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def by_hand(rank, size):
    torch.manual_seed(1234)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10), nn.LogSoftmax(1)
    )
    x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(x[rank::size]), y[rank::size])
        loss.backward()
        average_gradients(model)
        optimizer.step()
    yield loss.item()
    yield size_of(model)


def elastic(rank, size):
    torch.manual_seed(0)
    data = TensorDataset(torch.arange(20.0).view(20, 1) / 20, torch.arange(20.0).view(20, 1) / 10)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=5, sampler=sampler)
    model = DDP(nn.Linear(1, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
    with model.no_sync():
        ((model(x) - y) ** 2).mean().backward()
    yield model.module.weight.item()


class CounterJoinHook(JoinHook):
    def __init__(self, counter, sync_max_count):
        self.counter = counter
        self.sync_max_count = sync_max_count

    def main_hook(self):
        dist.all_reduce(torch.zeros(1, device=self.counter.join_device))

    def post_hook(self, is_last_joiner):
        if self.sync_max_count:
            rank = dist.get_rank(self.counter.process_group)
            common_rank = torch.tensor([rank if is_last_joiner else -1])
            dist.all_reduce(common_rank, op=dist.ReduceOp.MAX)
            if rank == common_rank.item():
                self.counter.max_count = self.counter.count.detach().clone()
            dist.broadcast(self.counter.max_count, src=common_rank.item())


class Counter(Joinable):
    def __init__(self, device, process_group):
        super().__init__()
        self.device = device
        self.process_group = process_group
        self.count = torch.tensor([0], device=device).float()
        self.max_count = torch.tensor([0], device=device).float()

    def __call__(self):
        Join.notify_join_context(self)
        t = torch.ones(1, device=self.device).float()
        dist.all_reduce(t)
        self.count += t

    def join_hook(self, **kwargs):
        return CounterJoinHook(self, kwargs.get("sync_max_count", False))

    @property
    def join_device(self):
        return self.device

    @property
    def join_process_group(self):
        return self.process_group


def joined(rank, size):
    torch.manual_seed(0)
    model = DDP(nn.Linear(1, 1))
    optimizer = ZeRO(model.parameters(), optim.Adam, lr=0.01)
    inputs = [torch.tensor([1.0]) for _ in range(5 + rank)]
    with Join([model, optimizer]):
        for x in inputs:
            model(x).sum().backward()
            optimizer.step()
    yield model.module.weight.item()
    counter = Counter(torch.device("cpu"), dist.group.WORLD)
    with Join([counter], sync_max_count=True):
        for _ in range(5 + rank):
            counter()
    yield counter.max_count.item()


def work(rank, size, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    for program in (demo_basic, demo_checkpoint, messages, by_hand, elastic, joined):
        values = [f"{value:.6g}" for value in program(rank, size)]
        everywhere = [None] * size
        dist.all_gather_object(everywhere, values)
        if program not in (messages, by_hand):  # where ranks have numbers of their own
            assert all(other == values for other in everywhere), everywhere
        if rank == 0:
            print(program.__name__, *values, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2, sys.argv[1]), nprocs=2, join=True)
