"""Programs of data-parallel training that tests run on several ranks: ``processes("training:name", …)``.

Each compares with one process that has all the data. Start reading at `same_as_one_process`.
"""

import hashlib
import time
import warnings

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed import _buckets
from adjoint.nn.parallel import DistributedDataParallel as DDP
from adjoint.utils.checkpoint import checkpoint


def network(seed=0):
    ad.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def data(n):
    generator = ad.Generator().manual_seed(7)
    return ad.randn(n, 6, generator=generator, dtype=ad.float64), ad.randn(
        n, 1, generator=generator, dtype=ad.float64
    )


def loss_of(model, x, y):
    return ((model(x) - y) ** 2).mean()


def close(a, b, tolerance=1e-12):
    a, b = [list(t) for t in (a, b)]
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert float((x - y).abs().max()) < tolerance, (x, y)


def alike(tensors):
    """Whether all ranks have the same bits."""
    mine = [hashlib.sha256(t.detach().contiguous().numpy().tobytes()).digest() for t in tensors]
    theirs = [None] * dist.get_world_size()
    dist.all_gather_object(theirs, mine)
    assert all(other == theirs[0] for other in theirs)


def refused(match, call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        assert match in str(error), error
        return
    raise AssertionError(f"not refused: {match}")


def with_both_kinds_of_buckets(rank, size, program):
    """A program as it is, and with each gradient a bucket of its own."""
    globals()[program](rank, size)
    if program == "same_as_one_process":  # which has both
        print("ok")
        return
    _buckets.LARGE = 1
    globals()[program](rank, size)


def same_as_one_process(rank, size):
    """Every way of keeping gradients trains as one process with all the data."""
    x, y = data(4 * size)
    part = slice(4 * rank, 4 * rank + 4)
    for views in (False, True):
        for none in (False, True):
            for cap in (25, 1e-4):
                one = network()
                model = DDP(network(rank), gradient_as_bucket_view=views, bucket_cap_mb=cap)
                close(model.parameters(), one.parameters())  # those of rank 0
                optimizers = [ad.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (one, model)]
                for step in range(4):
                    for m, o, where in ((one, optimizers[0], slice(None)), (model, optimizers[1], part)):
                        o.zero_grad(set_to_none=none)
                        loss_of(m, x[where], y[where]).backward()
                        o.step()
                    close([p.grad for p in model.parameters()], [p.grad for p in one.parameters()])
                close(model.parameters(), one.parameters())
                alike(model.parameters())
                if cap < 1:
                    assert len(model.reducer.buckets) > 1
    # Where gradients lie in buckets, the engine writes them there: nothing is copied.
    model = DDP(network(), gradient_as_bucket_view=True)
    taken, model.reducer._take = [], lambda p, view: taken.append(p)
    for none in (True, False, True):
        model.zero_grad(set_to_none=none)
        loss_of(model, x[part], y[part]).backward()
        assert all(p.grad is view for p, (_, view) in model.reducer.place.items()) and not taken
    model.reducer.remove()
    model.zero_grad(set_to_none=True)
    loss_of(model.module, x[part], y[part]).backward()
    assert not any(p.grad is view for p, (_, view) in model.reducer.place.items())
    # A large parameter's gradient is sent as it lies, in every layout; others' are put together.
    for views in (False, True):
        for swapped in (False, True):
            one, model = (
                nn.Sequential(nn.Linear(6, 400), nn.Linear(400, 700), nn.Linear(700, 1)) for _ in range(2)
            )
            model.load_state_dict(one.state_dict())
            model = DDP(model.double(), gradient_as_bucket_view=views)
            one.load_state_dict(model.module.state_dict())
            one.double()
            large = model.module[1].weight
            assert [b.parameters for b in model.reducer.buckets if b.alone] == [[large]]
            assert len(model.reducer.buckets) == 2
            for _ in range(3):
                model.zero_grad(set_to_none=True)
                one.zero_grad()
                if swapped:  # what is there is added to, and lies by columns
                    large.grad = ad.zeros(400, 700, dtype=ad.float64).t()
                loss_of(model, x[part], y[part]).backward()
                loss_of(one, x, y).backward()
                close([p.grad for p in model.parameters()], [p.grad for p in one.parameters()])
                assert large.grad.is_contiguous() != swapped
            alike([p.grad for p in model.parameters()])
    # A gradient that somebody keeps does not change in later steps.
    model = DDP(network())
    loss_of(model, x[part], y[part]).backward()
    kept = model.module[0].weight.grad
    before = kept.clone()
    model.zero_grad(set_to_none=True)
    (3 * loss_of(model, x[part], y[part])).backward()
    close([kept], [before])
    print("ok")


def several_passes(rank, size):
    """no_sync, several forwards of one backward, two backwards, passes that fail, evaluation."""
    x, y = data(4 * size)
    part = slice(4 * rank, 4 * rank + 4)
    one, model = network(), DDP(network())
    with model.no_sync():
        loss_of(model, x[part][:2], y[part][:2]).backward()
    local = [p.grad.clone() for p in model.parameters()]
    loss_of(model, x[part][2:], y[part][2:]).backward()
    loss_of(one, x, y).backward()
    close([p.grad for p in model.parameters()], [2 * p.grad for p in one.parameters()])
    if size > 1:
        assert any(float((a - p.grad).abs().max()) > 1e-6 for a, p in zip(local, model.parameters()))
    model.zero_grad()
    (loss_of(model, x[part][:2], y[part][:2]) + loss_of(model, x[part][2:], y[part][2:])).backward()
    close([p.grad for p in model.parameters()], [2 * p.grad for p in one.parameters()])
    # A pass that fails on all ranks, and one after it.
    model.zero_grad()

    def fail(g):
        raise ValueError("planted")

    out = model(x[part])
    hooked = out * 1
    hooked.register_hook(fail)
    refused("planted", lambda: hooked.sum().backward(), ValueError)
    model.zero_grad()
    loss_of(model, x[part], y[part]).backward()
    close([p.grad for p in model.parameters()], [p.grad for p in one.parameters()])
    with ad.no_grad():
        model.eval()(x[part])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ad.autograd.grad(loss_of(model, x[part], y[part]), model.module[0].weight)
    assert any("only backward() averages" in str(w.message) for w in caught)
    print("ok")


def shared_passes(rank, size):
    """Several threads share each pass, which has collectives of its own (SyncBatchNorm) beside those of the buckets."""
    from adjoint.nn.utils import parametrizations

    ad.set_num_threads(4)

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            ad.manual_seed(0)
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Linear(3, 4 + i), nn.SyncBatchNorm(4 + i), nn.Linear(4 + i, 1)).double()
                for i in range(6)
            )
            parametrizations.weight_norm(self.parts[0][0])

        def forward(self, x):
            outputs = [part(x[:, :3]) for part in self.parts]
            for i, y in enumerate(outputs):
                # Branches are ready in another order on each rank.
                y.register_hook(lambda g, i=i: time.sleep(0.002 * ((i + rank) % 3)))
            return sum(outputs)

    x, y = data(4 * size)
    part = slice(4 * rank, 4 * rank + 4)
    one = Wide()
    one.parts = nn.ModuleList(  # statistics of all the data are what SyncBatchNorm takes
        nn.Sequential(part[0], nn.BatchNorm1d(part[1].num_features).double(), part[2]) for part in one.parts
    )
    loss_of(one, x, y).backward()
    gradients = [[p.grad for p in one.parameters()]]
    for parallel in (False, True, True):
        model = DDP(Wide(), bucket_cap_mb=1e-4, gradient_as_bucket_view=parallel)
        for _ in range(2):
            model.zero_grad(set_to_none=True)
            loss = loss_of(model, x[part], y[part])
            with ad.autograd.set_parallel_backward(parallel):
                loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for found in gradients[1:]:
        close(found, gradients[0])
    print("ok")


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        ad.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(2, 1).double() for _ in range(3))

    def forward(self, x, which):
        return sum(getattr(self, name)(x) for name in which)


def unused(rank, size):
    """Parameters that some ranks do not use, or none does."""
    x = ad.ones(1, 2, dtype=ad.float64)
    model = DDP(Branches())
    refused("rank 1: c.weight, c.bias", lambda: model(x, "abc" if rank != 1 else "ab").sum().backward())
    model = DDP(Branches())
    refused(f"rank {size - 1}: b.weight, b.bias", lambda: model(x, "ac").sum().backward())
    model(x, "abc").sum().backward()  # and the next pass is as if nothing had been
    model = DDP(Branches(), find_unused_parameters=True)
    model.module.c.weight.grad = ad.full((1, 2), 5.0, dtype=ad.float64)
    for _ in range(2):
        model.module.a.zero_grad()
        model.module.b.zero_grad()
        model(x, "a" if rank else "ab").sum().backward()
        close([model.module.a.weight.grad], [x])
        close([model.module.b.weight.grad], [x / size])
    close([model.module.c.weight.grad], [5 * x])
    assert model.module.c.bias.grad is None
    # Gradients of earlier steps that were not set to zero stay, also where a rank does not use the parameter.
    for views in (False, True):
        kept = DDP(Branches(), find_unused_parameters=True, gradient_as_bucket_view=views)
        kept(x, "abc").sum().backward()
        kept(x, "a" if rank else "ab").sum().backward()
        close([p.grad for p in (kept.module.a.weight, kept.module.c.weight)], [2 * x, x])
        close([kept.module.b.weight.grad], [x + x / size])
    # A loss that reaches no parameter on one rank.
    out = model(x, "a")
    (out * 0 if rank else out).sum().backward()
    sunk = DDP(Branches(), find_unused_parameters=True)

    class Cut(ad.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    out = sunk(x, "a")
    (Cut.apply(out) if rank == 1 else out).sum().backward()
    close([sunk.module.a.weight.grad], [x * (size - 1) / size])
    print("ok")


def others(rank, size):
    """Checkpoints, hooks of communication, buffers, other models, states, logs."""
    from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

    x, y = data(4 * size)
    part = slice(4 * rank, 4 * rank + 4)
    one = network()
    loss_of(one, x, y).backward()

    class Checkpointed(nn.Module):
        def __init__(self, reentrant, times):
            super().__init__()
            self.net, self.reentrant, self.times = network(), reentrant, times

        def forward(self, x):
            x = x.clone().requires_grad_()
            out = 0
            for _ in range(self.times):
                out = out + checkpoint(self.net, x, use_reentrant=self.reentrant)
            return out / self.times

    for reentrant, times, static in ((False, 1, False), (True, 1, False), (False, 2, False), (True, 2, True)):
        model = DDP(Checkpointed(reentrant, times), static_graph=static, bucket_cap_mb=1e-4)
        for _ in range(3):
            model.zero_grad()
            loss_of(model, x[part], y[part]).backward()
            close([p.grad for p in model.parameters()], [p.grad for p in one.parameters()])
    for hook, tolerance in (
        (hooks.allreduce_hook, 1e-12),
        (hooks.fp16_compress_hook, 2e-3),
        (hooks.bf16_compress_hook, 2e-2),
        (hooks.fp16_compress_wrapper(hooks.allreduce_hook), 2e-3),
    ):
        model = DDP(network(), bucket_cap_mb=1e-4)
        model.register_comm_hook(None, hook)
        refused("only be called once", lambda m=model, h=hook: m.register_comm_hook(None, h))
        for _ in range(2):
            model.zero_grad()
            loss_of(model, x[part], y[part]).backward()
            close([p.grad for p in model.parameters()], [p.grad for p in one.parameters()], tolerance)
    from adjoint.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local

    alone = dist.new_subgroups(1)[0]
    for many, expected in ((5, one), (0, None)):
        model = DDP(network())
        model.register_comm_hook(local.PostLocalSGDState(None, alone, many), local.post_localSGD_hook)
        loss_of(model, x[part], y[part]).backward()
        if expected is None:
            expected = network()
            loss_of(expected, x[part], y[part]).backward()
        close([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])
    refused("same model across all ranks", lambda: DDP(nn.Linear(2, 3 + (rank == 1))))
    refused("doesn't have any parameter", lambda: DDP(nn.Tanh()))
    model = DDP(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 1)).double())
    model(x[part]).sum().backward()
    model(x[part])
    theirs = [None] * size
    dist.all_gather_object(theirs, float(model.module[0].running_mean[0]))
    with ad.no_grad():
        model.eval()(x[part])
    state = model.state_dict()
    assert all(name.startswith("module.") for name in state)
    refused("module.", lambda: model.load_state_dict(model.module.state_dict()))
    model.load_state_dict(state)
    logged = DDP(network())._get_ddp_logging_data()
    assert (
        logged["world_size"] == size
        and logged["num_parameter_tensors"] == 6
        and logged["backend_name"] == "gloo"
    )
    print("ok")


def uneven(rank, size):
    """Join: ranks with different numbers of inputs."""
    for divide in (True, False):
        model, x = DDP(nn.Linear(1, 1, bias=False).double()), ad.ones(1, 1, dtype=ad.float64)
        steps, seen = 2 + 2 * rank, []
        with model.join(divide_by_initial_world_size=divide):
            for _ in range(steps):
                model.zero_grad()
                model(x).sum().backward()
                seen.append(float(model.module.weight.grad[0, 0]))
        active = [sum(2 + 2 * r > i for r in range(size)) for i in range(steps)]
        assert seen == [n / size if divide else 1.0 for n in active], (seen, active)
        alike(model.parameters())
    model = DDP(nn.Linear(1, 1))

    def train():
        with model.join(throw_on_early_termination=True):
            for _ in range(1 + rank):
                model(ad.ones(1, 1)).sum().backward()

    refused("exhausted", train)
    print("ok")


def normalised_over_ranks(rank, size):
    """SyncBatchNorm is a batch normalisation of all ranks' samples, whose numbers may differ; and the sampler asks the group."""
    generator = ad.Generator().manual_seed(3)
    x = ad.randn(9, 4, 2, generator=generator, dtype=ad.float64)
    parts = [x[:2], x[2:5], x[5:]] if size == 3 else [x[:4], x[4:]]
    one = nn.BatchNorm1d(4).double()
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(4).double())
    w = ad.randn(9, 4, 2, generator=generator, dtype=ad.float64)
    weights = [w[:2], w[2:5], w[5:]] if size == 3 else [w[:4], w[4:]]
    for _ in range(2):
        whole, mine = x.clone().requires_grad_(), parts[rank].clone().requires_grad_()
        (one(whole) ** 2 * w).sum().backward()
        (net(mine) ** 2 * weights[rank]).sum().backward()
        start = sum(len(p) for p in parts[:rank])
        close([mine.grad], [whole.grad[start : start + len(mine)]])
    for p in net.parameters():
        dist.all_reduce(p.grad)
    close([p.grad for p in net.parameters()], [p.grad for p in one.parameters()])
    close([net.running_mean, net.running_var], [one.running_mean, one.running_var])
    with ad.no_grad():
        close([net.eval()(x)], [one.eval()(x)])
    from adjoint.utils.data import DistributedSampler

    sampler = DistributedSampler(range(10))
    theirs = [None] * size
    dist.all_gather_object(theirs, list(sampler))
    assert set(sum(theirs, [])) == set(range(10)) and len(theirs[0]) == len(theirs[-1])
    print("ok")


def optimisers(rank, size):
    """ZeRO steps as one optimiser over all parameters; its state comes together and goes apart; averages now and then."""
    from adjoint.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from adjoint.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer

    x, y = data(4 * size)
    part = slice(4 * rank, 4 * rank + 4)
    one, model = network(), DDP(network())
    adam = ad.optim.AdamW(one.parameters(), lr=0.1)
    zero = ZeroRedundancyOptimizer(model.parameters(), ad.optim.AdamW, lr=0.1)
    schedulers = [ad.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (adam, zero)]

    def steps(zero):
        for m, o, where, s in ((one, adam, slice(None), schedulers[0]), (model, zero, part, schedulers[1])):
            o.zero_grad()
            loss_of(m, x[where], y[where]).backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            o.step()
            s.step()
        close(model.parameters(), one.parameters())
        alike(model.parameters())

    steps(zero)
    steps(zero)
    held = [None] * size
    dist.all_gather_object(held, len(zero.state))
    assert sum(held) == 6 and max(held) < 6
    zero.consolidate_state_dict(to=0)
    states = [zero.state_dict() if rank == 0 else None]
    if rank:
        refused("has not been consolidated", zero.state_dict)
    elif size > 1:
        close(
            [states[0]["state"][i]["exp_avg"] for i in range(6)],
            [adam.state[p]["exp_avg"] for p in one.parameters()],
        )
    dist.broadcast_object_list(states)
    again = ZeroRedundancyOptimizer(model.parameters(), ad.optim.AdamW, lr=0.1)
    again.load_state_dict(states[0])
    schedulers[1].optimizer = again
    steps(again)
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, float(rank))
    local = PostLocalSGDOptimizer(
        ad.optim.SGD(net.parameters(), lr=0.0), PeriodicModelAverager(2, warmup_steps=1)
    )
    seen = []
    for _ in range(2):
        local.zero_grad()
        net(ad.ones(1, 1)).sum().backward()
        local.step()
        seen.append(float(net.weight))
    assert seen == [rank, (size - 1) / 2] and local.state_dict()["step"] == 2
    print("ok")
