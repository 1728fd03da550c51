"""GradScaler: what it scales, when it leaves a step out, how the scale moves, and what it refuses."""

import copy
import pickle

import pytest
from helpers import array, assert_close

import adjoint as ad
from adjoint import nn, optim


def made(value=1.0, scale=8.0, **options):
    parameter = nn.Parameter(ad.tensor([value, value]))
    return parameter, optim.SGD([parameter], lr=0.5), ad.amp.GradScaler("cpu", init_scale=scale, **options)


def test_a_step_is_that_without_a_scale():
    p, optimizer, scaler = made()
    loss = (p * ad.tensor([1.0, 2.0])).sum()
    scaled = scaler.scale(loss)
    assert scaled.item() == 8 * loss.item()
    scaled.backward()
    assert p.grad.tolist() == [8.0, 16.0]
    assert scaler.step(optimizer) is None
    assert p.grad.tolist() == [1.0, 2.0] and p.tolist() == [0.5, 0.0]
    scaler.update()
    assert scaler.get_scale() == 8.0


def test_an_infinite_gradient_leaves_the_step_out_and_halves_the_scale():
    for bad in (float("inf"), float("nan")):
        p, optimizer, scaler = made()
        scaler.scale(ad.ones(1))
        p.grad = ad.tensor([bad, 1.0])
        assert scaler.step(optimizer) is None
        scaler.update()
        assert p.tolist() == [1.0, 1.0] and scaler.get_scale() == 4.0


def test_the_scale_grows_after_so_many_good_steps():
    p, optimizer, scaler = made(growth_interval=2, growth_factor=4.0)
    scales = []
    for _ in range(4):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [8.0, 32.0, 32.0, 128.0]


def test_the_scale_stays_finite():
    p, optimizer, scaler = made(scale=2.0**127, growth_interval=1)
    scaler.scale(ad.ones(1))
    p.grad = ad.ones(2)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_containers_are_scaled():
    scaler = made()[2]
    one, (two, [three]) = scaler.scale([ad.ones(1), (ad.ones(2), [ad.ones(())])])
    assert (one.item(), two.tolist(), three.item()) == (8.0, [8.0, 8.0], 8.0)
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_unscaling_first_lets_gradients_be_clipped():
    p, optimizer, scaler = made()
    scaler.scale((3 * p).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [3.0, 3.0]
    nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)
    assert_close(p, 1 - 0.5 * array(p.grad))


def test_the_order_of_calls():
    p, optimizer, scaler = made()
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="Attempted update but _scale is None"):
        scaler.update()
    scaler.scale(p.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: 1)
    scaler.update()
    p.grad = None
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)


def test_gradients_of_16_bits_are_refused():
    p = nn.Parameter(ad.ones(2, dtype=ad.float16))
    p.grad = ad.ones(2, dtype=ad.float16)
    scaler = ad.amp.GradScaler("cpu")
    scaler.scale(ad.ones(1))
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(optim.SGD([p], lr=1.0))


def test_factors_are_checked():
    with pytest.raises(AssertionError, match="growth factor must be > 1.0"):
        ad.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor must be < 1.0"):
        ad.amp.GradScaler("cpu", backoff_factor=1.0)


def test_a_scale_can_be_set():
    scaler = made()[2]
    scaler.scale(ad.ones(1))
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    scaler.update(ad.tensor(2.0))
    assert scaler.get_scale() == 2.0
    with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element"):
        scaler.update(ad.ones(2))


def test_disabled():
    p, optimizer, scaler = made(enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss and scaler.state_dict() == {} and scaler.get_scale() == 1.0
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5]
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        assert not ad.amp.GradScaler().is_enabled()


def test_states():
    p, optimizer, scaler = made(growth_interval=5)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning of an iteration"):
        pickle.dumps(scaler)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5, "_growth_tracker": 1
    }  # fmt: skip
    other = ad.amp.GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    other.scale(ad.ones(1))
    other.load_state_dict({**state, "scale": 2.0})
    assert other.get_scale() == 2.0
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == copy.deepcopy(scaler).state_dict() == state
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_small_gradients_survive_in_float16():
    weight = nn.Parameter(ad.full((1, 1), 1.0))

    def gradient(scaler):
        weight.grad = None
        optimizer = optim.SGD([weight], lr=0.0)
        with ad.autocast("cpu", dtype=ad.float16):
            loss = nn.functional.linear(ad.full((1, 1), 2.0), weight).float().sum() * 1e-9
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        return weight.grad.item()

    assert gradient(ad.amp.GradScaler("cpu", enabled=False)) == 0.0
    assert gradient(ad.amp.GradScaler("cpu")) == pytest.approx(2e-9, rel=1e-2)
