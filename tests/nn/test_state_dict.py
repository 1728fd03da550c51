"""state_dict and load_state_dict: round trips, strictness, messages, hooks, extra state."""

import copy
import gc
import pickle
from collections import OrderedDict

import numpy as np
import pytest
from helpers import announced

import adjoint as ad
from adjoint import nn


def model():
    return nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))


def values(module):
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def test_keys_metadata_and_sharing():
    m = model()
    state = m.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert isinstance(state, OrderedDict) and state._metadata["0"] == {"version": 1}
    assert not state["0.weight"].requires_grad
    with ad.no_grad():
        m[0].weight.fill_(4.0)
    assert state["0.weight"].tolist() == [[4.0, 4.0]] * 3
    assert m.state_dict(keep_vars=True)["0.weight"] is m[0].weight
    assert list(m.state_dict(prefix="net.")) == ["net." + key for key in state]
    mine = {}
    assert m.state_dict(destination=mine) is mine and len(mine) == 4


def test_round_trip_copies():
    a, b = model(), model()
    result = b.load_state_dict(a.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert result.missing_keys == [] and result.unexpected_keys == []
    assert values(a) == values(b)
    with ad.no_grad():
        a[0].weight.fill_(9.0)
    assert values(a) != values(b)


def test_loading_converts_the_dtype():
    m = nn.Linear(2, 3)
    m.load_state_dict({k: v.double() + 1 for k, v in m.state_dict().items()})
    assert m.weight.dtype == ad.float32


def test_assign_takes_the_tensors():
    m = nn.Linear(2, 3)
    state = {k: v.double() for k, v in nn.Linear(2, 3).state_dict().items()}
    m.load_state_dict(state, assign=True)
    assert isinstance(m.weight, nn.Parameter) and m.weight.dtype == ad.float64 and m.weight.requires_grad
    assert m.weight is m._parameters["weight"]
    state["weight"].fill_(5.0)
    assert m.weight.tolist() == [[5.0, 5.0]] * 3


def test_strict_messages():
    m = model()
    state = m.state_dict()
    del state["0.bias"]
    state["1.weight"] = ad.ones(7)
    state["1.other"] = ad.ones(1)
    state["lost"] = ad.ones(1)
    before = values(m)
    with pytest.raises(RuntimeError) as error:
        m.load_state_dict(state)
    text = str(error.value)
    assert text.startswith("Error(s) in loading state_dict for Sequential:\n\t")
    assert 'Missing key(s) in state_dict: "0.bias"' in text
    assert 'Unexpected key(s) in state_dict: "' in text and '"lost"' in text and '"1.other"' in text
    assert f"size mismatch for 1.weight: copying a param with shape {ad.Size([7])} from checkpoint" in text
    assert f"the shape in current model is {ad.Size([3])}." in text
    assert values(m) == before


def test_not_strict_reports():
    m = model()
    state = m.state_dict()
    del state["0.bias"]
    state["lost"] = ad.ones(1)
    result = m.load_state_dict(state, strict=False)
    assert result == (["0.bias"], ["lost"])
    assert repr(result) == "_IncompatibleKeys(missing_keys=['0.bias'], unexpected_keys=['lost'])"
    state["0.weight"] = ad.ones(1)
    with pytest.raises(RuntimeError, match="size mismatch"):
        m.load_state_dict(state, strict=False)


def test_wrong_types():
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        nn.Linear(1, 1).load_state_dict([1, 2])
    with pytest.raises(
        RuntimeError,
        match='parameter named "weight", expected adjoint.Tensor or Tensor-like object from checkpoint',
    ):
        nn.Linear(1, 1).load_state_dict({"weight": 3, "bias": ad.ones(1)})


def test_one_element_loads_into_a_scalar():
    m = nn.Module()
    m.x = nn.Parameter(ad.tensor(0.0))
    m.load_state_dict({"x": ad.tensor([3.0])})
    assert m.x.item() == 3.0


def test_non_persistent_buffers_stay_out():
    m = nn.Module()
    m.register_buffer("kept", ad.ones(1))
    m.register_buffer("dropped", ad.ones(1), persistent=False)
    assert list(m.state_dict()) == ["kept"]
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "dropped"'):
        m.load_state_dict({"kept": ad.ones(1), "dropped": ad.ones(1)})


class WithExtra(nn.Module):
    def __init__(self, extra=None):
        super().__init__()
        self.extra = extra

    def get_extra_state(self):
        return {"value": self.extra}

    def set_extra_state(self, state):
        self.extra = state["value"]


def test_extra_state():
    a, b = nn.Sequential(WithExtra(5)), nn.Sequential(WithExtra())
    assert a.state_dict()["0._extra_state"] == {"value": 5}
    b.load_state_dict(a.state_dict())
    assert b[0].extra == 5
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "0._extra_state"'):
        b.load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "_extra_state"'):
        nn.ReLU().load_state_dict({"_extra_state": 1})


def test_hooks_around_saving():
    m, seen = nn.Linear(1, 1), []
    pre = m.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append((module, prefix, keep)))
    m.register_state_dict_post_hook(
        lambda module, state, prefix, meta: state.__setitem__(prefix + "x", meta["version"])
    )
    state = nn.Sequential(m).state_dict()
    assert seen == [(m, "0.", False)] and state["0.x"] == 1
    pre.remove()
    m.state_dict()
    assert len(seen) == 1
    m.register_state_dict_post_hook(lambda *a: {})
    with pytest.raises(RuntimeError, match="must return None"):
        m.state_dict()


def test_hooks_around_loading():
    m = nn.Linear(1, 1)
    m.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *rest: state.__setitem__(prefix + "weight", state.pop(prefix + "w"))
    )
    m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    given = {"w": ad.tensor([[2.0]])}
    result = m.load_state_dict(given)
    assert m.weight.item() == 2.0 and result.missing_keys == []
    assert list(given) == ["w"]
    m.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        m.load_state_dict({"w": ad.tensor([[2.0]])})


def test_override_of_loading():
    class Renamed(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state, prefix, meta, *rest):
            if meta.get("version", 1) < 2:
                state[prefix + "weight"] = state.pop(prefix + "kernel")
            super()._load_from_state_dict(state, prefix, meta, *rest)

    m = nn.Sequential(Renamed(1, 1, bias=False))
    m.load_state_dict({"0.kernel": ad.tensor([[3.0]])})
    assert m[0].weight.item() == 3.0
    m.load_state_dict(m.state_dict())


def test_a_hook_of_a_child_sees_the_keys_of_that_child():
    m, seen = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, bias=False)), []
    m[1].register_load_state_dict_pre_hook(lambda module, state, *rest: seen.append(sorted(state)))
    m.load_state_dict(m.state_dict())
    assert seen == [["1.weight"]]


def test_loading_leaves_no_cycle_to_collect():
    m = nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))
    state = m.state_dict()
    gc.collect()
    gc.disable()
    try:
        m.load_state_dict(state)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_tables_of_hooks_by_their_names():
    m = nn.Softmax(0)
    names = [
        "_state_dict_pre_hooks",
        "_state_dict_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    ]
    for name in names:
        assert len(getattr(m, name)) == 0
        delattr(m, name)
    del m._non_persistent_buffers_set
    m = pickle.loads(pickle.dumps(m))
    seen = []
    handle = m.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys))
    assert list(m._load_state_dict_post_hooks) == [handle.id]
    m.load_state_dict({})
    handle.remove()
    m.load_state_dict({})
    assert len(seen) == 1


def test_positional_arguments_are_deprecated():
    into = {}
    with announced(FutureWarning, match="Positional args are being deprecated"):
        nn.Linear(1, 1).state_dict(into, "a.")
    assert sorted(into) == ["a.bias", "a.weight"]


def test_states_of_batch_normalisation_without_a_count():
    m = nn.BatchNorm1d(2)
    m.num_batches_tracked.fill_(7)
    state = m.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="Missing key"):
        m.load_state_dict(state)
    state._metadata[""]["version"] = 1
    m.load_state_dict(state)
    assert m.num_batches_tracked.item() == 7
    hollow = nn.BatchNorm1d(2, device="meta")
    hollow.load_state_dict({}, strict=False, assign=True)
    assert hollow.num_batches_tracked.item() == 0 and not hollow.num_batches_tracked.is_meta


@pytest.mark.parametrize("steps", [1, 3])
def test_states_of_spectral_norm_without_v(steps):
    x, m = ad.randn(2, 3), nn.utils.spectral_norm(nn.Linear(3, 5))
    for _ in range(steps):
        m(x)
    state = m.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    m.eval()
    expected = m(x).detach().numpy()
    old = copy.deepcopy(state)
    del old._metadata[""]["spectral_norm"], old["weight_v"]
    old["weight"] = m.weight.detach().clone()
    other = nn.utils.spectral_norm(nn.Linear(3, 5)).eval()
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({k: v for k, v in old.items() if k != "weight"})
    other.load_state_dict(old)
    np.testing.assert_allclose(other(x).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    nn.utils.remove_spectral_norm(other)
    assert not other._state_dict_hooks and not other._load_state_dict_pre_hooks
    assert "spectral_norm" not in other.state_dict()._metadata[""]


def test_one_hook_is_public_or_private():
    layer, hook = ad.nn.Linear(1, 1), lambda *arguments: None
    layer._register_state_dict_hook(lambda *arguments: None)
    layer.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="Cannot register the same function as the state dict post hook"):
        layer._register_state_dict_hook(hook)
