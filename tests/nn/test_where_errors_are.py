"""An error in a model says in which of its modules: the name, the shapes of its parameters, and what it was given."""

import gc
import sys
import weakref

import pytest

import adjoint as ad
from adjoint import models, nn


def said(call):
    with pytest.raises((RuntimeError, ValueError, TypeError)) as found:
        call()
    error = found.value
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def test_the_name_in_the_model():
    model = models.resnet18(num_classes=3).eval()
    model.layer3[1].conv2 = nn.Conv2d(8, 8, 3)
    text = said(lambda: model(ad.rand(1, 3, 40, 40)))
    assert "In the module 'layer3.1.conv2' of ResNet: Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1))" in text
    assert "its weight has shape (8, 8, 3, 3); its bias has shape (8,)" in text
    assert "it was given (1, 256, 3, 3), adjoint.float32" in text
    assert text.count("In the module") == 1


def test_the_text_of_the_error_stays_and_comes_first():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 5))
    with pytest.raises(RuntimeError) as alone:
        model[1](ad.ones(1, 3))
    text = said(lambda: model(ad.ones(1, 2)))
    assert text.startswith(str(alone.value) + "\nIn the module '1' of Sequential: Linear(")
    if sys.version_info >= (3, 11):
        assert not hasattr(alone.value, "__notes__")


def test_what_a_module_of_ones_own_raises():
    class Own(nn.Module):
        def forward(self, x):
            raise ValueError("the reason")

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"a": nn.Sequential(nn.ReLU(), Own())})

        def forward(self, x):
            return self.parts["a"](x)

    text = said(lambda: Deep()(ad.ones(2)))
    assert text == "the reason\nIn the module 'parts.a.1' of Deep: Own(); it was given (2,), adjoint.float32"


def test_a_module_that_is_no_child_is_named_by_its_type():
    class Hidden(nn.Module):
        def forward(self, x):
            return [nn.Linear(2, 2)][0](x)

    assert "In the module 'Linear' of Hidden" in said(lambda: Hidden()(ad.ones(3)))


def test_errors_that_mean_something_to_programs_are_left_alone():
    class Stop(Exception):
        pass

    class Own(nn.Module):
        def forward(self, x):
            raise x

    model = nn.Sequential(nn.Sequential(Own()))
    for error in (Stop("a"), KeyError("b"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as found:
            model(error)
        assert found.value is error and vars(error) == {}


def test_hooks_and_shapes_that_are_not_known_yet():
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(4, 1))
    model[1].register_forward_pre_hook(lambda module, args: None)
    assert "In the module '1' of Sequential" in said(lambda: model(ad.ones(1, 2)))


def test_nothing_is_kept():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 3)))
    with pytest.raises(RuntimeError):
        model(ad.ones(1))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
