"""Modules as functions: functional_call, stacked states, batch normalisation without statistics."""

import threading

import pytest
from helpers import announced

import adjoint as ad
from adjoint import nn
from adjoint.func import functional_call, grad, replace_all_batch_norm_modules_, stack_module_state
from adjoint.nn.utils import parametrize, stateless


@pytest.fixture
def layer():
    return nn.Linear(2, 1)


W, B, X = ad.tensor([[1.0, 2.0]]), ad.tensor([5.0]), ad.ones(2)


def test_forms_of_arguments(layer):
    for dicts in ({"weight": W, "bias": B}, ({"weight": W}, {"bias": B}), [{"weight": W}, {"bias": B}]):
        assert functional_call(layer, dicts, X).item() == 8.0
    assert functional_call(layer, {"weight": W, "bias": B}, (X,)).item() == 8.0
    assert functional_call(layer, {"weight": W, "bias": B}, kwargs={"input": X}).item() == 8.0
    assert functional_call(layer, {"weight": W, "bias": None}, X).item() == 3.0
    own = functional_call(layer, {"bias": B}, X)
    assert own.requires_grad and own.item() == pytest.approx((layer.weight.sum() + 5).item())
    # Names that the module does not have do nothing, unless it is strict.
    assert functional_call(layer, {"weight": W, "bias": B, "other": W}, X).item() == 8.0
    assert not hasattr(layer, "other")


def test_the_module_is_as_before(layer):
    weight, bias = layer.weight, layer.bias
    functional_call(layer, {"weight": W, "bias": B}, X)
    with pytest.raises(RuntimeError):
        functional_call(layer, {"weight": ad.ones(3, 3), "bias": B}, X)
    with pytest.raises(AttributeError):
        functional_call(layer, {"weight": W, "no.such": B}, X)
    assert layer.weight is weight and layer.bias is bias
    assert list(dict(layer.named_parameters())) == ["weight", "bias"]


def test_errors(layer):
    cases = [
        (({"weight": W}, {"weight": W}), {}, ValueError, r"\['weight'\] appeared in multiple dictionaries"),
        (3, {}, ValueError, "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts"),
        ((3,), {}, ValueError, "Expected all elements of parameter_and_buffer_dicts to be dictionaries"),
        ({"sub.w": W}, {}, AttributeError, "Linear has no attribute `sub`"),
        ({"": W}, {}, KeyError, "be empty string"),
        ({"weight": 3}, {}, TypeError, "3 is not an instance of adjoint.Tensor"),
        ({"training": W}, {}, TypeError, "attribute `training`: True is not an instance of adjoint.Tensor"),
        ({"weight": W}, {"strict": True}, RuntimeError, r"Error\(s\) in reparametrizing .*\n\tMissing key\(s\): 'bias'"),
        ({"weight": W, "bias": B, "w": W}, {"strict": True}, RuntimeError, r"Unexpected key\(s\): 'w'"),
    ]  # fmt: skip
    for dicts, keywords, error, message in cases:
        with pytest.raises(error, match=message):
            functional_call(layer, dicts, X, **keywords)
    with pytest.raises(TypeError, match="expected a module"):
        functional_call(abs, {}, X)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(ad.tensor(1.0))
        self.b = self.a
        self.register_buffer("c", ad.tensor(10.0))
        self.register_buffer("d", self.c)

    def forward(self, x):
        return self.a * x + self.b * 100 + self.c + self.d * 1000


def test_tied_tensors():
    tied, one, two, three = Tied(), ad.tensor(1.0), ad.tensor(2.0), ad.tensor(3.0)
    assert functional_call(tied, {"a": two}, one).item() == 10212.0
    assert functional_call(tied, {"b": two}, one).item() == 10212.0
    assert functional_call(tied, {"a": two, "b": two}, one).item() == 10212.0
    assert functional_call(tied, {"c": ad.tensor(20.0)}, one).item() == 20121.0
    with pytest.raises(ValueError, match=r"got multiple values for keys \['a', 'b'\], which are tied"):
        functional_call(tied, {"a": two, "b": three}, one)
    assert functional_call(tied, {"a": two, "b": three}, one, tie_weights=False).item() == 10312.0
    assert functional_call(tied, {"a": two}, one, tie_weights=False).item() == 10112.0
    assert functional_call(tied, {"a": two, "c": three}, one, strict=True).item() == 3205.0
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'b', 'd'"):
        functional_call(tied, {"a": two, "c": three}, one, strict=True, tie_weights=False)
    assert grad(lambda p: functional_call(tied, p, one))({"a": two})["a"].item() == 101.0


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rebound", ad.tensor(0.0))
        self.register_buffer("written", ad.tensor(0.0), persistent=False)
        self.plain, self.calls = ad.tensor(7.0), 0

    def forward(self, x):
        self.rebound = self.rebound + 1
        self.written.add_(1)
        self.calls += 1
        return self.rebound * x + self.plain


def test_what_the_module_rebinds_comes_back_in_the_dict():
    module, one = Counting(), ad.tensor(1.0)
    state = {"rebound": ad.tensor(5.0), "written": ad.tensor(8.0)}
    assert functional_call(module, state, one).item() == 13.0
    assert [state["rebound"].item(), state["written"].item()] == [6.0, 9.0]
    assert [module.rebound.item(), module.written.item(), module.calls] == [0.0, 0.0, 1]
    parts = {"rebound": ad.tensor(5.0)}, {"written": ad.tensor(8.0)}
    functional_call(module, parts, one)
    assert [parts[0]["rebound"].item(), parts[1]["written"].item()] == [6.0, 9.0]
    assert functional_call(module, {"plain": ad.tensor(70.0)}, one).item() == 71.0
    assert module.plain.item() == 7.0
    with pytest.raises(RuntimeError, match="Missing key.*'written'"):
        functional_call(module, {"rebound": one}, one, strict=True)


def test_batch_norm_statistics():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    params = dict(net.named_parameters())
    buffers = {name: b.clone() for name, b in net.named_buffers()}
    functional_call(net, (params, buffers), ad.rand(4, 2))
    assert buffers["1.num_batches_tracked"].item() == 1 and net[1].num_batches_tracked.item() == 0
    assert (buffers["1.running_mean"] != net[1].running_mean).any()
    replaced = replace_all_batch_norm_modules_(net)
    assert replaced is net and net[1].running_mean is None and not net[1].track_running_stats
    x = ad.rand(5, 2)
    assert ad.allclose(net[1](x), (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt(), atol=1e-5)
    net.eval()
    assert ad.allclose(net[1](x).mean(0), ad.zeros(2), atol=1e-5)
    assert replace_all_batch_norm_modules_(nn.BatchNorm2d(2)).running_var is None


class Symmetric(nn.Module):
    def forward(self, w):
        return w + w.T


def test_parametrised_tensors():
    layer = nn.Linear(2, 2, bias=False)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    before, eye = layer.weight.tolist(), ad.eye(2)
    original = {"parametrizations.weight.original": eye}
    assert functional_call(layer, original, X).tolist() == [2.0, 2.0]
    # The tensor itself instead of what it is computed from.
    assert functional_call(layer, {"weight": eye}, X).tolist() == [1.0, 1.0]
    with parametrize.cached():
        assert layer.weight.tolist() == before
        assert functional_call(layer, original, X).tolist() == [2.0, 2.0]
        assert layer.weight.tolist() == before
    g = grad(lambda p: functional_call(layer, p, X).sum())(original)
    assert g["parametrizations.weight.original"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert (
        grad(lambda p: functional_call(layer, p, X).sum())({"weight": eye})["weight"].tolist()
        == [[1.0] * 2] * 2
    )
    assert layer.weight.tolist() == before


def test_calls_within_calls(layer):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2, bias=False)

        def forward(self, x, depth=1):
            if depth:
                other = functional_call(self, {"inner.weight": 2 * self.inner.weight}, (x, depth - 1))
                return self.inner(x) + other
            return self.inner(x)

    module = Twice()
    expected = 3 * module.inner(X)
    assert ad.allclose(module(X), expected) and ad.allclose(module(X), expected)
    assert functional_call(module, {"inner.weight": ad.eye(2)}, X).tolist() == [3.0, 3.0]


def test_ten_threads_share_a_module():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    before = {name: p for name, p in net.named_parameters()}
    x, found, barrier = ad.rand(16, 4), {}, threading.Barrier(10)

    def work(seed):
        params = {name: ad.full_like(p, 0.1 * seed).detach() for name, p in before.items()}
        barrier.wait()
        gradients = [grad(lambda p: functional_call(net, p, x).sum())(params) for _ in range(30)]
        found[seed] = gradients

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for seed in range(10):
        params = {name: ad.full_like(p, 0.1 * seed).detach() for name, p in before.items()}
        expected = grad(lambda p: functional_call(net, p, x).sum())(params)
        for g in found[seed]:
            assert all((g[name] == expected[name]).all() for name in expected)
    assert all(p is before[name] for name, p in net.named_parameters())


def test_stacked_states():
    models = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(4)]
    params, buffers = stack_module_state(nn.ModuleList(models))
    assert (
        params["0.weight"].shape == (4, 2, 3)
        and params["0.weight"].is_leaf
        and params["0.weight"].requires_grad
    )
    assert buffers["1.running_mean"].shape == (4, 2) and not buffers["1.running_mean"].requires_grad
    for i, model in enumerate(models):
        assert (params["0.weight"][i] == model[0].weight).all()
    frozen = nn.Linear(1, 1)
    frozen.weight.requires_grad_(False)
    cases = [
        ([], "Expected at least one model, got 0."),
        ([nn.Linear(1, 1), nn.Linear(1, 1).eval()], "to have the same training/eval mode"),
        ([nn.Linear(1, 1), nn.ReLU()], "to be of the same class"),
        ([nn.Linear(1, 1), frozen], "Expected weight from each model to have the same .requires_grad"),
    ]
    for given, message in cases:
        with pytest.raises(RuntimeError, match=message):
            stack_module_state(given)


def test_the_old_name_warns(layer):
    with announced(FutureWarning, match="stateless.functional_call` is deprecated"):
        assert stateless.functional_call(layer, {"weight": W, "bias": B}, X).item() == 8.0
