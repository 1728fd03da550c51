"""Containers behave as the list or dict they are named after, and register what they hold."""

from collections import OrderedDict

import pytest

import adjoint as ad
from adjoint import nn


def layers(n):
    return [nn.Linear(1, 1) for _ in range(n)]


# ---- Sequential -----------------------------------------------------------------------------------------


def test_sequential_runs_in_order():
    m = nn.Sequential(nn.Flatten(0), nn.ReLU(), nn.Unflatten(0, (2, 2)))
    assert m(ad.tensor([[1.0, -1.0], [-2.0, 2.0]])).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    x = ad.ones(1)
    assert nn.Sequential()(x) is x


def test_sequential_from_names():
    a, b = layers(2)
    m = nn.Sequential(OrderedDict(first=a, second=b))
    assert list(m.state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert m[0] is a and m.second is b
    assert list(m[1:].state_dict()) == ["second.weight", "second.bias"]


@pytest.mark.parametrize(
    "kind", [lambda x: nn.Sequential(*x), nn.ModuleList], ids=["Sequential", "ModuleList"]
)
def test_list_interface(kind):
    a, b, c, d = layers(4)
    m = kind([a, b])
    assert len(m) == 2 and list(m) == [a, b] and a in m and c not in m
    assert m[-1] is b and m[0] is a
    m[0] = c
    assert list(m) == [c, b] and getattr(m, "0") is c
    assert m.append(d) is m and list(m) == [c, b, d]
    assert m.insert(1, a) is m and list(m) == [c, a, b, d]
    del m[0]
    assert list(m) == [a, b, d] and list(m._modules) == ["0", "1", "2"]
    assert m.pop(1) is b and list(m) == [a, d]
    assert m.pop() is d
    m.extend([b, c])
    m += [d]
    assert list(m) == [a, b, c, d]
    part = m[1:3]
    assert type(part) is type(m) and list(part) == [b, c]
    assert list(m[::-1]) == [d, c, b, a]
    m[1:3] = [c, b]
    assert list(m) == [a, c, b, d]
    del m[1:3]
    assert list(m) == [a, d] and list(m._modules) == ["0", "1"]
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            m[index]
    with pytest.raises(TypeError):
        m["x"]
    with pytest.raises(ValueError, match="attempt to assign sequence of size 1 to slice of size 2"):
        m[:] = [a]
    with pytest.raises(TypeError, match="is not a Module subclass"):
        m.append(3)
    with pytest.raises(IndexError, match="Index out of range: 9"):
        m.insert(9, a)
    with pytest.raises(TypeError, match="extend should be called with an iterable"):
        m.extend(3)
    assert list(m) == [a, d]


def test_sequential_arithmetic():
    a, b = layers(2)
    m = nn.Sequential(a)
    assert list(m + nn.Sequential(b)) == [a, b]
    assert list(nn.Sequential(a, b) * 2) == [a, b, a, b] == list(2 * nn.Sequential(a, b))
    m *= 3
    assert list(m) == [a, a, a]
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        m + [b]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        m * 0
    with pytest.raises(TypeError, match="unsupported operand"):
        m * 1.5


# ---- ModuleList, ModuleDict -----------------------------------------------------------------------------


def test_module_list_is_not_called():
    with pytest.raises(
        NotImplementedError, match='Module \\[ModuleList\\] is missing the required "forward"'
    ):
        nn.ModuleList(layers(1))(ad.ones(1))
    assert isinstance(nn.ModuleList(layers(1)) + layers(1), nn.ModuleList)


def test_module_list_repr_folds_runs():
    m = nn.ModuleList([*layers(3), nn.ReLU(), nn.Sequential(nn.Tanh())])
    assert repr(m) == (
        "ModuleList(\n"
        "  (0-2): 3 x Linear(in_features=1, out_features=1, bias=True)\n"
        "  (3): ReLU()\n"
        "  (4): Sequential(\n"
        "    (0): Tanh()\n"
        "  )\n"
        ")"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict():
    a, b, c = layers(3)
    m = nn.ModuleDict({"a": a})
    m["b"] = b
    m.update([("c", c)])
    assert list(m) == list(m.keys()) == ["a", "b", "c"] and len(m) == 3
    assert list(m.values()) == [a, b, c] and list(m.items())[1] == ("b", b)
    assert m["a"] is a is m.a and "b" in m and "z" not in m
    assert len(list(m.parameters())) == 6
    assert m.pop("b") is b and "b" not in m and not hasattr(m, "b")
    del m["a"]
    with pytest.raises(KeyError):
        m["a"]
    m.clear()
    assert len(m) == 0 and list(m.parameters()) == []
    with pytest.raises(TypeError, match="should be Iterable"):
        m.update([3])
    with pytest.raises(ValueError, match="has length 3; 2 is required"):
        m.update([(1, 2, 3)])
    with pytest.raises(TypeError, match="iterable of key/value pairs"):
        m.update(3)
    with pytest.raises(KeyError, match="already exists"):
        m["training"] = a


# ---- ParameterList, ParameterDict -----------------------------------------------------------------------


def test_parameter_list():
    m = nn.ParameterList([ad.zeros(2), nn.Parameter(ad.ones(3))])
    assert all(isinstance(p, nn.Parameter) for p in m) and len(m) == 2
    assert list(m.state_dict()) == ["0", "1"]
    third = nn.Parameter(ad.ones(1))
    assert m.append(third) is m and m[-1] is third and third in m
    m[0] = ad.ones(5)
    assert isinstance(m[0], nn.Parameter) and tuple(m[0].shape) == (5,)
    m += [ad.zeros(1)]
    assert len(m[1:]) == 3 and isinstance(m[1:], nn.ParameterList)
    assert m.pop(2) is third and len(m) == 3 and list(m.state_dict()) == ["0", "1", "2"]
    m.append("kept as it is")
    assert m[3] == "kept as it is" and len(list(m.parameters())) == 3
    with pytest.raises(IndexError, match="index 4 is out of range"):
        m[4]
    with pytest.raises(RuntimeError, match="should not be called"):
        m(1)
    with pytest.raises(TypeError, match="should be called with an iterable"):
        m.extend(ad.ones(2))


def test_parameter_list_repr():
    shown = repr(nn.ParameterList([ad.zeros(2, 3), ad.zeros(1)]))
    assert shown.startswith("ParameterList(\n    (0): Parameter containing: [")
    assert "of size 2x3]\n" in shown


def test_parameter_dict():
    m = nn.ParameterDict({"a": ad.zeros(2)})
    m["b"] = nn.Parameter(ad.ones(1))
    m.update([("c", ad.ones(3))])
    assert list(m) == list(m.keys()) == ["a", "b", "c"] and len(m) == 3 and "a" in m
    assert isinstance(m["a"], nn.Parameter) and m.a is m["a"]
    assert [k for k, _ in m.items()] == ["a", "b", "c"] and m.values()[0] is m["a"]
    assert list(reversed(m)) == ["c", "b", "a"] and list(m.state_dict()) == ["a", "b", "c"]
    assert m.get("a") is m["a"] and m.get("z", 7) == 7
    assert m.setdefault("a") is m["a"] and m.setdefault("d", ad.ones(1)) is m["d"]
    assert m.popitem()[0] == "d"
    b = m["b"]
    assert m.pop("b") is b and "b" not in m and not hasattr(m, "b")
    assert list(m | {"e": ad.ones(1)}) == ["a", "c", "e"] and list({"e": ad.ones(1)} | m) == ["e", "a", "c"]
    twin = m.copy()
    twin |= {"f": ad.ones(1)}
    assert "f" in twin and "f" not in m and twin["a"] is m["a"]
    assert list(m.fromkeys(["x", "y"], 3).items()) == [("x", 3), ("y", 3)]
    del m["a"]
    m.clear()
    assert len(m) == 0
    with pytest.raises(KeyError):
        m["a"]
    with pytest.raises(TypeError, match="not a string"):
        m[3] = ad.ones(1)
    with pytest.raises(KeyError, match="already exists"):
        m["training"] = ad.ones(1)
    with pytest.raises(RuntimeError, match="should not be called"):
        m(1)
