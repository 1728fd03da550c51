"""state_dict and load_state_dict: round trips, strictness, messages, hooks, extra state."""

from collections import OrderedDict

import pytest

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
    assert "size mismatch for 1.weight: copying a param with shape (7,) from checkpoint" in text
    assert "the shape in current model is (3,)." in text
    assert values(m) == before


def test_not_strict_reports():
    m = model()
    state = m.state_dict()
    del state["0.bias"]
    state["lost"] = ad.ones(1)
    result = m.load_state_dict(state, strict=False)
    assert result == (["0.bias"], ["lost"])
    assert repr(result) == "IncompatibleKeys(missing_keys=['0.bias'], unexpected_keys=['lost'])"
    state["0.weight"] = ad.ones(1)
    with pytest.raises(RuntimeError, match="size mismatch"):
        m.load_state_dict(state, strict=False)


def test_wrong_types():
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        nn.Linear(1, 1).load_state_dict([1, 2])
    with pytest.raises(RuntimeError, match='parameter named "weight", expected Tensor'):
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
    with pytest.raises(RuntimeError, match="must return None"):
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
