"""Modules that learn their sizes from the first input: sizes, classes, state dicts, copies, errors."""

import copy
import pickle
import warnings

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn.parameter import is_lazy

CASES = [
    (lambda: nn.LazyLinear(4), nn.Linear(3, 4), (2, 3)),
    (lambda: nn.LazyLinear(4, bias=False), nn.Linear(3, 4, False), (3,)),
    (lambda: nn.LazyBatchNorm1d(), nn.BatchNorm1d(3), (2, 3)),
    (lambda: nn.LazyBatchNorm2d(affine=False), nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4)),
    (
        lambda: nn.LazyBatchNorm3d(track_running_stats=False),
        nn.BatchNorm3d(3, track_running_stats=False),
        (2, 3, 2, 2, 2),
    ),
    (lambda: nn.LazyInstanceNorm1d(), nn.InstanceNorm1d(3, affine=True, track_running_stats=True), (3, 4)),
    (
        lambda: nn.LazyInstanceNorm2d(affine=False, track_running_stats=False),
        nn.InstanceNorm2d(3),
        (2, 3, 4, 4),
    ),
    (
        lambda: nn.LazyInstanceNorm3d(affine=False),
        nn.InstanceNorm3d(3, track_running_stats=True),
        (2, 3, 2, 2, 2),
    ),
]
for _n, _sizes in ((1, (6,)), (2, (6, 5)), (3, (6, 5, 4))):
    for _kind in ("Conv", "ConvTranspose"):
        _lazy, _usual = getattr(nn, f"Lazy{_kind}{_n}d"), getattr(nn, f"{_kind}{_n}d")
        CASES += [
            (lambda f=_lazy: f(4, 3, padding=1), _usual(2, 4, 3, padding=1), (2, 2, *_sizes)),
            (lambda f=_lazy: f(4, 3, 2, bias=False), _usual(2, 4, 3, 2, bias=False), (2, *_sizes)),
            (lambda f=_lazy: f(4, 2, groups=2), _usual(2, 4, 2, groups=2), (2, 2, *_sizes)),
        ]


@pytest.mark.parametrize("make, usual, shape", CASES)
def test_the_first_input_makes_an_ordinary_module(make, usual, shape):
    lazy = make()
    needs = any(p.numel() for p in [*usual.parameters(), *usual.buffers()])
    assert lazy.has_uninitialized_params() == needs
    x = ad.randn(shape)
    lazy(x)
    assert type(lazy) is type(usual) and repr(lazy) == repr(usual)
    shapes = {name: tuple(t.shape) for name, t in usual.state_dict().items()}
    assert {name: tuple(t.shape) for name, t in lazy.state_dict().items()} == shapes
    usual.load_state_dict(lazy.state_dict())
    assert bool((lazy(x) == usual(x)).all())
    assert all(type(p) is nn.Parameter for p in lazy.parameters())


@pytest.mark.parametrize("make, usual, shape", CASES)
def test_state_dicts_and_copies(make, usual, shape):
    lazy = make()
    lazy.load_state_dict(usual.state_dict())
    assert not lazy.has_uninitialized_params()
    x = ad.randn(shape)
    assert bool((lazy(x) == copy.deepcopy(usual)(x)).all())
    for other in (copy.deepcopy(make()), pickle.loads(pickle.dumps(make()))):
        other(x)
        assert type(other) is type(usual)
    again = make()
    again.load_state_dict(make().state_dict())
    assert again.has_uninitialized_params() == make().has_uninitialized_params()
    double = make().double()
    assert double(x.double()).dtype == ad.float64


def test_a_model_learns_its_sizes_layer_by_layer():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    model(ad.ones(1, 3, 5, 5)).sum().backward()
    assert tuple(model[3].weight.shape) == (2, 36) and all(p.grad is not None for p in model.parameters())


def test_errors():
    weight = nn.LazyLinear(3).weight
    assert is_lazy(weight) and repr(weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        weight.shape
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict())
    with pytest.raises(
        RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"
    ):
        nn.LazyConv2d(4, 3)(ad.ones(5))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(4, 3, groups=2)(ad.ones(1, 3, 5, 5))
    with pytest.raises(ValueError, match="out_channels must be divisible by groups"):
        nn.LazyConv2d(3, 3, groups=2)
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.LazyBatchNorm2d()(ad.ones(2, 3))

    class Forgetful(nn.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.UninitializedParameter()

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Forgetful"):
        Forgetful()(ad.ones(1))
    Forgetful.initialize_parameters = lambda self, x: None
    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(ad.ones(1))


def test_it_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.LazyLinear(2)(ad.ones(1, 3))


def test_materialize():
    buffer = nn.UninitializedBuffer(dtype=ad.float64)
    buffer.materialize((2, 3))
    assert tuple(buffer.shape) == (2, 3) and buffer.dtype == ad.float64 and not buffer.requires_grad
    frozen = nn.UninitializedParameter(requires_grad=False)
    frozen.materialize((1,), dtype=ad.float64)
    assert not frozen.requires_grad and frozen.dtype == ad.float64
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        nn.UninitializedParameter().share_memory_()
