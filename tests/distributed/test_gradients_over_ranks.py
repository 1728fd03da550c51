"""Collectives that are differentiated: transposes, finite differences over ranks, second derivatives, forward mode, vmap, order.

Each collective here is a linear map of what all ranks put in. Start reading at `MAPS`.
"""

import threading
import time
from datetime import timedelta

import pytest
from ranks import agree, sound, threads

import adjoint as ad
from adjoint.as_torch.standins.distributed import _functional_collectives as FC
from adjoint.distributed import HashStore, ReduceOp
from adjoint.distributed._socket_group import SocketGroup
from adjoint.distributed.nn import functional as F

N = 3
MAPS = {
    "all_reduce": lambda x, g, r: F.all_reduce(x, group=g),
    "mean": lambda x, g, r: F.all_reduce(x, ReduceOp.AVG, g),
    "sum": lambda x, g, r: g.sum(x),
    "broadcast": lambda x, g, r: F.broadcast(x, 1, g),
    "reduce": lambda x, g, r: F.reduce(x, 2, group=g),
    "all_gather": lambda x, g, r: ad.cat(F.all_gather(x, g)),
    "gather": lambda x, g, r: ad.cat(F.gather(x, 1, g)),
    "scatter": lambda x, g, r: F.scatter(x.view(N, -1).unbind(0), 2, g),
    "reduce_scatter": lambda x, g, r: F.reduce_scatter(None, x.view(N, -1).unbind(0), group=g),
    "all_to_all": lambda x, g, r: ad.cat(F.all_to_all([ad.empty(2)] * N, x.view(N, -1).unbind(0), g)),
    "all_to_all_single": lambda x, g, r: F.all_to_all_single(x, x, group=g),
    "uneven": lambda x, g, r: F.all_to_all_single(x, x, SIZES_OUT[r], SIZES_IN[r], g),
    "all_reduce of names": lambda x, g, r: FC.wait_tensor(FC.all_reduce(x, "avg", g)),
    "broadcast of names": lambda x, g, r: FC.broadcast(x, 1, g),
    "all_gather_tensor": lambda x, g, r: FC.all_gather_tensor_autograd(x.view(2, 3), 1, g).flatten(),
    "reduce_scatter_tensor": lambda x, g, r: FC.reduce_scatter_tensor(x.view(2, 3), "sum", 1, g).flatten(),
    "all_to_all of names": lambda x, g, r: FC.all_to_all_single_autograd(x, SIZES_OUT[r], SIZES_IN[r], g),
    "even": lambda x, g, r: FC.all_to_all_single(x, None, None, g),
    "ring": lambda x, g, r: F.sendrecv(x, (r + 1) % N, (r - 1) % N, g),
    "edge": lambda x, g, r: F.sendrecv(x, r + 1 if r + 1 < N else None, r - 1 if r else None, g),
}
SIZES_IN = [[1, 2, 3], [3, 2, 1], [2, 2, 2]]
SIZES_OUT = [[row[r] for row in SIZES_IN] for r in range(N)]


def drawn(rank, *shape, seed=0):
    return ad.randn(*shape, generator=ad.Generator().manual_seed(100 * seed + rank), dtype=ad.float64)


@pytest.mark.parametrize("name", MAPS)
def test_a_pass_is_the_transpose_and_so_are_its_derivatives(name):
    """⟨J t, g⟩ = ⟨t, Jᵀ g⟩ summed over ranks, by reverse mode, by forward mode, and of the pass's own derivative."""
    collective = MAPS[name]

    def body(group, rank):
        t = drawn(rank, 6)
        x = drawn(rank, 6, seed=1).requires_grad_()
        y = collective(x, group, rank)
        g = drawn(rank, *y.shape, seed=2).requires_grad_()
        (back,) = ad.autograd.grad(y, x, g, create_graph=True)
        again = ad.autograd.grad(back, g, t)[0]  # of Jᵀ, transposed: J t
        out, forward = ad.func.jvp(lambda x: collective(x, group, rank), (x.detach(),), (t,))
        assert ad.equal(out, y.detach()) and ad.allclose(again, forward)
        many = ad.stack([t, 2 * t, x.detach()], 1)
        batched = ad.vmap(lambda x: collective(x, group, rank), in_dims=1)(many)
        assert ad.allclose(batched, ad.stack([forward, 2 * forward, y.detach()]))
        rows = ad.vmap(lambda g: ad.autograd.grad(collective(x, group, rank), x, g)[0])(
            ad.stack([g.detach()] * 2)
        )
        assert ad.allclose(rows[1], back.detach())
        return float(forward @ g.detach()), float(t @ back.detach())

    before = ad.func.vmap_fallbacks(reset=True)
    left, right = zip(*agree(N, body))
    assert abs(sum(left) - sum(right)) < 1e-12 * N and sum(map(abs, left)) > 0
    assert not ad.func.vmap_fallbacks(), before


@pytest.mark.parametrize("name", ["all_reduce", "product", "maximum", "all_gather", "ring"])
def test_gradients_are_those_of_the_sum_of_all_losses(name):
    """Against finite differences in an input of one rank, of losses that differ between ranks."""
    collective = MAPS.get(name) or (
        lambda x, g, r: F.all_reduce(x, {"product": ReduceOp.PRODUCT, "maximum": ReduceOp.MAX}[name], g)
    )

    def losses(group, rank, moved, by):
        x = drawn(rank, 6).requires_grad_()
        with ad.no_grad():
            if moved is not None and rank == moved[0]:
                x[moved[1]] += by
        loss = (collective(x.sin(), group, rank).exp() * (rank + 1)).sum()
        return x, loss

    def body(group, rank):
        x, loss = losses(group, rank, None, 0)
        loss.backward()
        found = []
        for moved in ((0, 2), (2, 5)):
            ends = [losses(group, rank, moved, by)[1].detach() for by in (1e-5, -1e-5)]
            told = ad.stack(ends)
            total = F.all_reduce(told, group=group)
            found.append(float(total[0] - total[1]) / 2e-5)
        return x.grad.tolist(), found

    results = agree(N, body)
    for (rank, i), found in zip(((0, 2), (2, 5)), zip(*(r[1] for r in results))):
        assert abs(results[rank][0][i] - found[0]) < 1e-6 * max(1, abs(found[0]))


def test_second_derivatives_over_ranks():
    def body(group, rank):
        gradient = ad.func.grad(lambda x: F.all_reduce((x**3).sum(), group=group) ** 2 / N)
        directions = ad.eye(2, dtype=ad.float64)
        return ad.stack([ad.func.jvp(gradient, (drawn(rank, 2),), (e,))[1] for e in directions], 1).tolist()

    results = agree(N, body)
    xs = [drawn(rank, 2) for rank in range(N)]
    total = sum((x**3).sum() for x in xs)
    for x, found in zip(xs, results):
        # The sum of all losses is total², its gradient 6 total x²; a tangent moves the inputs of all ranks at once.
        expected = 18 * ad.outer(x**2, sum(other**2 for other in xs)) + ad.diag(12 * total * x)
        assert ad.allclose(ad.tensor(found, dtype=ad.float64), expected)


def test_messages_carry_gradients_back():
    def body(group, rank):
        x = drawn(rank, 4).requires_grad_()
        if rank == 0:
            zero = F.send(x.sin(), 1, group)
            (x.sum() + zero).backward()
            return (x.grad - 1).tolist()
        y = F.recv(ad.empty(4, dtype=ad.float64), 0, group)
        (y**2).sum().backward()
        return y.tolist()

    sent, got = agree(2, body)
    x = drawn(0, 4)
    assert ad.allclose(ad.tensor(got, dtype=ad.float64), x.sin())
    assert ad.allclose(ad.tensor(sent, dtype=ad.float64), 2 * x.sin() * x.cos())


def test_threads_that_share_a_pass_run_collectives_in_one_order():
    """Branches become ready in another order on each rank; all ranks come to their collectives in that of a pass in one thread."""

    def body(group, rank, parallel=True):
        x = drawn(rank, 5).requires_grad_()
        total = 0
        for i in range(6):
            y = F.all_reduce((x * (i + 1)).sin(), group=group).exp()
            y = F.sendrecv(y, 1 - rank, 1 - rank, group) if i == 3 else y
            y.register_hook(lambda g, i=i: time.sleep(0.003 * ((i * (2 * rank + 1)) % 4)))
            total = total + (y * (i + rank)).sum()
        with ad.autograd.set_parallel_backward(parallel):
            total.backward()
        return x.grad.tolist()

    ad.set_num_threads(4)
    for _ in range(3):
        assert agree(2, body) == agree(2, lambda group, rank: body(group, rank, False))


def test_a_differentiated_collective_comes_after_what_nobody_has_waited_for():
    def body(group, rank):
        large, found = ad.ones(2_000_000), []
        for _ in range(3):
            work = group.allreduce([large])
            x = ad.full((4,), 2.0).requires_grad_()
            y = F.all_reduce(x * x, group=group)
            found.append(y.tolist())
            (g,) = ad.autograd.grad(y.sum(), x)
            found.append(g.tolist())
            work.wait()
        return found

    assert agree(2, body) == [[[8.0] * 4, [8.0] * 4] * 3] * 2


@pytest.mark.parametrize("of_its_own", (True, False))
def test_passes_in_two_threads_need_a_group_each(of_its_own):
    """Rank 1's threads come to their collectives in another order than rank 0's."""
    stores = [HashStore() for _ in range(2)]

    def body(group, rank):
        groups = [SocketGroup(store, rank, 2, timedelta(seconds=5)) for store in stores]
        xs = [drawn(rank, 3).requires_grad_() for _ in range(2)]
        losses = [
            F.all_reduce(x.sin(), group=groups[i] if of_its_own else group).sum() for i, x in enumerate(xs)
        ]
        turn, errors = threading.Event(), []

        def one(i):
            if i != rank:
                turn.wait(2)
            else:
                threading.Timer(0.1, turn.set).start()
            try:
                losses[i].backward()
            except RuntimeError as error:
                errors.append(str(error))

        both = [threading.Thread(target=one, args=(i,)) for i in range(2)]
        [t.start() for t in both]
        [t.join(10) for t in both]
        [g.shutdown() for g in groups]
        return errors, [x.grad is not None and ad.allclose(x.grad, 2 * x.cos()) for x in xs]

    for errors, right in agree(2, body):
        if of_its_own:
            assert not errors and right == [True, True], errors
        else:
            assert right == [False, False] and all("disagree" in words for words in errors), errors


def test_ranks_in_different_derivatives_notice():
    def body(group, rank):
        x = ad.ones(2, requires_grad=True)
        y = F.all_reduce(x, group=group)
        if rank:
            return F.all_reduce(
                x.detach(), group=group
            )  # another forward, while the other rank is in its pass
        y.sum().backward()

    assert all("disagree" in words and "differentiable" in words for words in sound(2, body))


def test_a_rank_whose_loss_does_not_depend_on_a_collective_is_named():
    def body(group, rank):
        x = ad.ones(2, requires_grad=True)
        y = F.all_reduce(x, group=group)
        (y if rank else x).sum().backward()

    ranks = threads(2, body, timeout=0.5)
    assert "rank 0 has finished all_reduce number 1" in str(ranks[1].error) or "left" in str(ranks[1].error)
