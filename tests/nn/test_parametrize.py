"""Parametrised modules: what they compute, keep, accept, and give back."""

import copy

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Exp(nn.Module):
    calls = 0

    def forward(self, x):
        Exp.calls += 1
        return x.exp()

    def right_inverse(self, x):
        return x.log()


def test_a_tensor_becomes_a_function():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert layer.parametrizations.weight.original is weight
    assert layer.weight.tolist() == layer.weight.mT.tolist()
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    layer(ad.ones(2, 3)).sum().backward()
    assert weight.grad is not None and weight.grad.tril(-1).abs().sum().item() == 0
    layer.weight = ad.eye(3) * 4
    assert layer.weight.tolist() == (ad.eye(3) * 4).tolist()
    twin = copy.deepcopy(layer)
    twin.weight = ad.eye(3)
    assert layer.weight[0, 0].item() == 4 and twin.weight[0, 0].item() == 1
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight is weight and weight[0, 0].item() == 4


def test_two_after_each_other():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().abs() + 1
    layer.weight.data.copy_((before + before.mT) / 2)
    value = layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Exp())
    parametrize.register_parametrization(layer, "weight", Symmetric())
    # The inverse of the second one has zeros below its diagonal, and the first one logarithms of them.
    np.testing.assert_allclose(layer.weight.tolist(), value, rtol=1e-6)


def test_cached():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "bias", Exp(), unsafe=True)
    Exp.calls = 0
    with parametrize.cached():
        assert layer.bias is layer.bias
    assert Exp.calls == 1 and layer.bias is not layer.bias


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim):
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    parametrizations.weight_norm(layer, dim=dim)
    np.testing.assert_allclose(layer.weight.tolist(), before, rtol=1e-5)
    chain = layer.parametrizations.weight
    assert chain.original0.numel() == {0: 2, 1: 3, None: 1}[dim]
    chain.original0.data.mul_(2)
    np.testing.assert_allclose(layer.weight.tolist(), 2 * np.array(before), rtol=1e-5)


def test_spectral_norm():
    layer = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=20)
    for _ in range(20):
        layer(ad.ones(1, 5)).sum().backward()
    assert np.linalg.svd(layer.eval().weight.tolist(), compute_uv=False)[0] == pytest.approx(1, rel=1e-3)
    assert "parametrizations.weight.0._u" in layer.state_dict()
    assert layer.weight.tolist() == layer.weight.tolist()


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal(kind, shape):
    layer = parametrizations.orthogonal(nn.Linear(*shape, dtype=ad.float64), orthogonal_map=kind)
    for _ in range(3):
        w = layer.weight
        tall = w if w.shape[0] >= w.shape[1] else w.mT
        np.testing.assert_allclose((tall.mT @ tall).tolist(), np.eye(tall.shape[1]), atol=1e-9)
        (w * ad.arange(15.0 if w.numel() == 15 else 16.0).reshape(w.shape)).sum().backward()
        original = layer.parametrizations.weight.original
        assert original.grad.abs().sum().item() > 0
        original.data.sub_(original.grad * 0.01)
        original.grad = None
    target = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0][: w.shape[0], : w.shape[1]]
    if shape != (4, 4):
        layer.weight = ad.tensor(target)
        np.testing.assert_allclose(layer.weight.tolist(), target, atol=1e-9)


def test_errors():
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element"):
        parametrize.register_parametrization(nn.Linear(2, 2), "x", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Flatten(0))
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x")
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_by_a_hook(dim):
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    nn.utils.weight_norm(layer, dim=dim)
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    layer.weight_g.data.mul_(2)
    layer(ad.ones(1, 3)).sum().backward()
    assert layer.weight_g.grad is not None and layer.weight_v.grad is not None
    np.testing.assert_allclose(layer.weight.tolist(), 2 * np.array(before), rtol=1e-5)
    with pytest.raises(
        RuntimeError, match="Cannot register two weight_norm hooks on the same parameter weight"
    ):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    np.testing.assert_allclose(layer.weight.tolist(), 2 * np.array(before), rtol=1e-5)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    layer(ad.ones(1, 3))
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(layer)


def test_skip_init():
    ad.manual_seed(3)
    expected = ad.rand(2).tolist()
    ad.manual_seed(3)
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert layer.weight.requires_grad and layer.bias is None and ad.rand(2).tolist() == expected
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg to skip initialization"):
        nn.utils.skip_init(nn.Flatten)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(list)


# ---- what torch's own tests ask for ---------------------------------------------------------------------------------------


class Half(nn.Module):
    def forward(self, x):
        return x.half()


class FirstRow(nn.Module):
    def forward(self, x):
        return x[:1]


class Only(nn.Module):
    """Takes back only what it could have given."""

    def forward(self, x):
        return x / x.norm()

    def right_inverse(self, x):
        if abs(x.norm().item() - 1) > 1e-5:
            raise ValueError("not of length 1")
        return x


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("part, what", [(Half(), "dtype"), (FirstRow(), "shape")])
def test_what_a_parametrisation_may_not_change(part, what, earlier):
    layer = nn.Linear(3, 3)
    if earlier:
        parametrize.register_parametrization(layer, "weight", Symmetric())
    with pytest.raises(
        ValueError, match=f"Registering a parametrization may not change the {what} of the tensor"
    ):
        parametrize.register_parametrization(layer, "weight", part)


def test_a_further_one_is_not_asked_for_the_original():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    before = layer.weight.detach().numpy()
    parametrize.register_parametrization(layer, "weight", Only())
    np.testing.assert_allclose(layer.weight.detach().numpy(), before / np.linalg.norm(before), rtol=1e-5)
    with pytest.raises(ValueError, match="not of length 1"):
        layer.weight = ad.ones(3, 3)


def test_an_inverse_that_is_not_implemented():
    class NotYet(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            raise NotImplementedError("not yet")

    layer = nn.Linear(2, 2)
    before = layer.weight.detach().numpy().copy()
    parametrize.register_parametrization(layer, "weight", NotYet())
    np.testing.assert_array_equal(layer.weight.detach().numpy(), 2 * before)
    with pytest.raises(NotImplementedError):
        layer.weight = ad.ones(2, 2)


@pytest.mark.parametrize(
    "back, text",
    [
        (lambda x: 1, "right_inverse must return a tensor. Got: int"),
        (lambda x: x.double(), "must have the same dtype as module.weight"),
        (lambda x: x[:1], "must have the same shape as module.weight"),
    ],
)
def test_what_a_further_one_gives_back_is_checked(back, text):
    class Same(nn.Module):
        def forward(self, x):
            return x

        def right_inverse(self, x):
            return back(x)

    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with pytest.raises(ValueError, match=text):
        parametrize.register_parametrization(layer, "weight", Same())


@pytest.mark.parametrize(
    "many, later, text",
    [
        (False, lambda x: (x, x), "`right_inverse` should return a tensor. Got tuple"),
        (False, lambda x: x.double(), "while `original` has dtype"),
        (True, lambda x: x, "must return a sequence of tensors. Got Tensor"),
        (True, lambda x: (x,), "of length 2. Got a sequence of length 1"),
        (True, lambda x: (x, 1), "Got element 1 of type int"),
        (True, lambda x: (x, x.double()), "Tensor 1 returned by `right_inverse` has dtype"),
    ],
)
def test_what_assignment_finds(many, later, text):
    class Part(nn.Module):
        inverse = staticmethod((lambda x: (x, x)) if many else (lambda x: x))

        def forward(self, x, y=None):
            return x

        def right_inverse(self, x):
            return type(self).inverse(x)

    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Part())
    Part.inverse = staticmethod(later)
    with pytest.raises(ValueError, match=text):
        layer.weight = ad.ones(2, 2)


def test_weight_norm_takes_the_state_of_the_one_of_old():
    old = nn.utils.weight_norm(nn.Linear(3, 2))
    new = parametrizations.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    x = ad.ones(1, 3)
    np.testing.assert_allclose(new(x).detach().numpy(), old(x).detach().numpy(), rtol=1e-6)
