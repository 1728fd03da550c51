"""Streams of random numbers for runs that know nothing of each other."""

import copy
import pickle

import pytest

import adjoint as ad


def test_spawned_generators_draw_the_same_wherever_they_are():
    def draws(generator):
        return ad.randn(5, generator=generator).tolist()

    alone = [draws(g) for g in ad.Generator().manual_seed(3).spawn(4)]
    assert len({tuple(d) for d in alone}) == 4
    parent = ad.Generator().manual_seed(3)
    sent = [pickle.loads(pickle.dumps(g)) for g in parent.spawn(2)] + [
        copy.deepcopy(g) for g in parent.spawn(2)
    ]
    assert [draws(g) for g in reversed(sent)] == alone[::-1]
    assert draws(parent) not in alone  # and the parent goes on with others
    nested = [g for child in ad.Generator().manual_seed(3).spawn(3) for g in child.spawn(3)]
    assert len({g.initial_seed() for g in nested}) == 9
    torch = ad.Generator(stream="torch").manual_seed(1).spawn(3)
    assert len({tuple(draws(g)) for g in torch}) == 3 and all(g.stream == "torch" for g in torch)
    with pytest.raises(ValueError, match="number of generators"):
        parent.spawn(-1)


def test_streams_of_one_seed_never_have_one_key():
    from adjoint._tensor.random import _mixed

    keys = {_mixed(0, stream) for stream in range(100_000)} | {
        _mixed(0, 2**62 + block) for block in range(100_000)
    }
    assert len(keys) == 200_000
    seen = set()
    for stream in range(20):
        ad.manual_seed(5, stream=stream)
        seen.add(tuple(ad.rand(3).tolist()))
    ad.manual_seed(5)
    seen.add(tuple(ad.rand(3).tolist()))
    assert len(seen) == 21
    ad.manual_seed(5, stream=7)
    assert tuple(ad.rand(3).tolist()) in seen


def test_streams_are_uncorrelated():
    drawn = ad.stack([ad.randn(2000, generator=g) for g in ad.Generator().manual_seed(0).spawn(40)])
    apart = ad.corrcoef(drawn) - ad.eye(40)
    assert float(apart.abs().max()) < 0.12  # five standard deviations


def test_what_a_worker_is_sent_pickles():
    import programs_of_workers as programs

    net = ad.nn.Linear(2, 2)
    optimizer = ad.optim.Adam(net.parameters())
    net(ad.ones(2)).sum().backward()
    optimizer.step()
    sent = [
        net,
        optimizer,
        ad.Generator(),
        ad.distributions.MultivariateNormal(ad.zeros(2), ad.eye(2)),
        programs.cube,
        ad.sin,
    ]
    again = pickle.loads(pickle.dumps(sent))
    assert again[4] is programs.cube and again[5] is ad.sin
    assert ad.equal(again[0].weight, net.weight) and len(again[1].state_dict()["state"]) == 2
    cloudpickle = pytest.importorskip("joblib.externals.cloudpickle")
    by_value = cloudpickle.dumps(ad.vmap(ad.func.grad(lambda x: programs.cube(x).sum())))
    assert pickle.loads(by_value)(ad.ones(2, 1)).tolist() == [[3.0], [3.0]]
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(programs.applied, (programs.cube, ad.tensor([2.0]))).tolist() == [8.0]
