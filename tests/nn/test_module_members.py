"""Members of a module live in `_parameters`, `_buffers` and `_modules` alone, whatever way they are read or replaced."""

import collections

import pytest

import adjoint as ad
from adjoint import nn


def linear():
    layer = nn.Linear(1, 1)
    with ad.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    return layer


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_replaced_dicts_are_what_the_module_computes_with(kind):
    m = linear()
    m.__dict__["_parameters"] = kind(weight=ad.zeros(1, 1), bias=None)
    assert m(ad.ones(1)).tolist() == [0.0] and m.bias is None
    assert not any(name in m.__dict__ for name in ("weight", "bias"))


def test_a_mapping_with_a_reading_of_its_own_is_asked():
    class Doubling(dict):
        def __getitem__(self, name):
            return dict.__getitem__(self, name) * 2

    m = linear()
    m._parameters = Doubling(m._parameters)
    assert m.weight.item() == 4.0


def test_getattr_of_the_class_reads_members_and_names_what_is_missing():
    m = nn.Sequential(linear())
    assert nn.Module.__getattr__(m[0], "weight") is m[0].weight
    assert nn.Module.__getattr__(m, "0") is m[0]
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'wait'"):
        m[0].wait  # noqa: B018
    with pytest.raises(AttributeError):
        m[0].__getattribute__("weight")
    with pytest.raises(TypeError):
        nn.Module.__getattr__(m, 3)


def test_a_getattr_of_a_subclass_comes_first_and_reaches_the_members():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = linear()

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    class Further(Wrapper):
        pass

    for m in (Wrapper(), Further()):
        assert m.inner.weight is m.weight and m.in_features == 1
        with pytest.raises(AttributeError, match="'Linear'"):
            m.nothing  # noqa: B018


def test_a_getattr_that_a_class_gets_later_and_loses_again():
    class Late(nn.Linear):
        pass

    m = Late(1, 1)
    assert not hasattr(m, "anything")
    Late.__getattr__ = lambda self, name: name
    assert m.anything == "anything" and m.weight == "weight"
    del Late.__getattr__
    assert not hasattr(m, "anything") and m.weight is m._parameters["weight"]


def test_a_getattribute_of_a_subclass_is_called():
    seen = []

    class Watched(nn.Linear):
        def __getattribute__(self, name):
            seen.append(name)
            return super().__getattribute__(name)

    m = Watched(1, 1)
    seen.clear()
    assert m.weight is m._parameters["weight"] and "weight" in seen


def test_the_class_comes_before_the_object_and_the_object_before_the_members():
    class Tied(nn.Linear):
        @property
        def weight(self):
            return "the property"

        @weight.setter
        def weight(self, value):
            self._parameters["weight"] = value

        @property
        def broken(self):
            raise AttributeError("inner text")

    m = Tied.__new__(Tied)
    nn.Module.__init__(m)
    m._parameters["weight"] = nn.Parameter(ad.ones(1))
    assert m.weight == "the property"
    with pytest.raises(AttributeError, match="no attribute 'broken'"):
        m.broken  # noqa: B018
    other = linear()
    other.__dict__["weight"] = "in the object"
    assert other.weight == "in the object"
    other.weight = p = nn.Parameter(ad.ones(1, 1))
    assert other.weight is p and "weight" not in other.__dict__


def test_before_init_nothing_is_there():
    m = nn.Linear.__new__(nn.Linear)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'weight'"):
        m.weight  # noqa: B018


def test_mixins_and_slots_beside_module():
    class Mixin:
        def __init__(self, **keywords):
            super().__init__(**keywords)
            self.mixed = True

    class Both(Mixin, nn.Module):
        def __init_subclass__(cls, **keywords):
            super().__init_subclass__(**keywords)

    m = Both()
    m.weight = p = nn.Parameter(ad.ones(1))
    assert m.mixed and m.weight is p and m.__dict__["_parameters"] == {"weight": p}


def test_dir_and_vars():
    m = linear()
    assert {"weight", "bias", "in_features", "forward"} <= set(dir(m))
    assert list(vars(m)["_parameters"]) == ["weight", "bias"]
