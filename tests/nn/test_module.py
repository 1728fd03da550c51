"""Module: registration, attribute access that cannot drift, traversal, modes, conversion, copies."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn


class Affine(nn.Module):
    """Module level, so that it can be pickled."""

    def __init__(self, n=3):
        super().__init__()
        self.scale = nn.Parameter(ad.ones(n))
        self.register_buffer("shift", ad.zeros(n))
        self.register_buffer("scratch", ad.zeros(n), persistent=False)
        self.inner = nn.Linear(n, n)

    def forward(self, x, offset=0.0):
        return self.inner(x * self.scale + self.shift) + offset


def names(pairs):
    return [name for name, _ in pairs]


# ---- registration ---------------------------------------------------------------------------------------


def test_assignment_registers():
    m = Affine()
    assert list(m._parameters) == ["scale"]
    assert list(m._buffers) == ["shift", "scratch"]
    assert list(m._modules) == ["inner"]
    assert m.scale is m._parameters["scale"]
    assert not {"scale", "shift", "scratch", "inner"} & set(m.__dict__)


def test_a_name_means_one_thing():
    m = Affine()
    m.scale = nn.Linear(1, 1)
    assert "scale" not in m._parameters and "scale" in m._modules
    m.inner = nn.Parameter(ad.ones(1))
    assert "inner" not in m._modules and "inner" in m._parameters
    m.shift = nn.Parameter(ad.ones(1))
    assert "shift" not in m._buffers and "shift" in m._parameters
    assert m.shift is m._parameters["shift"]


def test_plain_value_becomes_parameter():
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(ad.ones(1))
    assert names(m.named_parameters()) == ["x"]


def test_none_keeps_the_name():
    m = Affine()
    m.scale = None
    assert m.scale is None and "scale" in m._parameters
    assert names(m.named_parameters()) == ["inner.weight", "inner.bias"]
    m.scale = nn.Parameter(ad.ones(2))
    assert m.scale is m._parameters["scale"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda m, p: m._parameters.__setitem__("scale", p),
        lambda m, p: m._parameters.update(scale=p),
        lambda m, p: m._parameters.__ior__({"scale": p}),
        lambda m, p: (m._parameters.pop("scale"), m._parameters.setdefault("scale", p)),
        lambda m, p: (m._parameters.clear(), m._parameters.update({"scale": p})),
        lambda m, p: (m._parameters.popitem(), setattr(m, "scale", p)),
        lambda m, p: setattr(m, "_parameters", {"scale": p}),
        lambda m, p: (delattr(m, "scale"), m.register_parameter("scale", p)),
    ],
)
def test_edits_of_the_registry_are_seen(edit):
    m, p = Affine(), nn.Parameter(ad.zeros(3))
    edit(m, p)
    assert m.scale is p and m._parameters["scale"] is p
    del m._parameters["scale"]
    assert not hasattr(m, "scale")


def test_deleted_members_are_gone():
    m = Affine()
    for name in ("scale", "shift", "scratch", "inner"):
        delattr(m, name)
        assert not hasattr(m, name)
        assert name not in m.state_dict()
    assert m._non_persistent_buffers_set == set()
    with pytest.raises(AttributeError):
        del m.scale


def test_registration_errors():
    m = Affine()
    with pytest.raises(TypeError, match=r"as parameter 'scale' \(adjoint.nn.Parameter or None expected\)"):
        m.scale = ad.ones(3)
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'inner'"):
        m.inner = 3
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'shift'"):
        m.shift = 3
    with pytest.raises(KeyError, match="already exists"):
        m.register_parameter("training", None)
    with pytest.raises(KeyError, match="name can.+t contain"):
        m.register_buffer("a.b", None)
    with pytest.raises(KeyError, match="name can.+t be empty"):
        m.add_module("", nn.ReLU())
    with pytest.raises(TypeError, match="should be a string"):
        m.register_parameter(3, None)
    with pytest.raises(TypeError, match="Parameter or None required"):
        m.register_parameter("x", ad.ones(1))
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        m.add_module("x", 3)
    with pytest.raises(AttributeError, match="has no attribute 'nowhere'"):
        _ = m.nowhere


def test_non_leaf_parameters_are_refused():
    class Odd(nn.Parameter):
        grad_fn = "a node"

    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'x'"):
        nn.Module().register_parameter("x", Odd(ad.ones(1)))


@pytest.mark.parametrize(
    "value", [nn.Parameter(ad.ones(1)), nn.Identity(), nn.Buffer(ad.ones(1))], ids=["p", "m", "b"]
)
def test_init_must_come_first(value):
    class Bad(nn.Module):
        def __init__(self):
            self.x = value

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Bad()


def test_buffer_class():
    m = nn.Module()
    m.kept = nn.Buffer(ad.ones(2))
    m.dropped = nn.Buffer(ad.ones(2), persistent=False)
    assert names(m.named_buffers()) == ["kept", "dropped"]
    assert list(m.state_dict()) == ["kept"]
    m.kept = ad.zeros(2)
    assert m.kept.sum().item() == 0.0 and m.kept is m._buffers["kept"]


# ---- parameters -----------------------------------------------------------------------------------------


def test_parameter_shares_memory_and_is_a_leaf():
    data = ad.zeros(2, 2)
    p = nn.Parameter(data)
    assert isinstance(p, ad.Tensor) and p.requires_grad and p.is_leaf and p.grad_fn is None
    data[0, 0] = 5.0
    assert p[0, 0].item() == 5.0
    assert not nn.Parameter(ad.zeros(1), requires_grad=False).requires_grad
    assert repr(p).startswith("Parameter containing:\n")
    with pytest.raises(TypeError, match="expected data to be a Tensor"):
        nn.Parameter([1.0])


def test_parameter_copies():
    p = nn.Parameter(ad.arange(3.0), requires_grad=False)
    p.note = ["mine"]
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is nn.Parameter and q is not p and not q.requires_grad
        assert q.tolist() == [0.0, 1.0, 2.0] and q.note == ["mine"]
        q.fill_(9.0)
    assert p.tolist() == [0.0, 1.0, 2.0]


def test_operations_on_parameters_give_tensors():
    p = nn.Parameter(ad.ones(2))
    y = p * 2
    assert not isinstance(y, nn.Parameter)
    y.sum().backward()
    assert p.grad.tolist() == [2.0, 2.0]


# ---- calling --------------------------------------------------------------------------------------------


def test_call_passes_arguments():
    m = nn.Identity()
    x = ad.ones(2)
    assert m(x) is x
    affine = Affine()
    a, b = affine(ad.ones(1, 3)), affine(ad.ones(1, 3), offset=1.0)
    np.testing.assert_allclose((b - a).detach().numpy(), 1.0, rtol=1e-6)


def test_missing_forward():
    with pytest.raises(NotImplementedError, match='Module \\[Module\\] is missing the required "forward"'):
        nn.Module()(1)


def test_forward_set_on_the_instance_is_used():
    m = nn.Identity()
    m.forward = lambda x: x + 1
    assert m(1) == 2


# ---- traversal ------------------------------------------------------------------------------------------


def shared_model():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.Sequential(layer, nn.ReLU()))
    model.extra = nn.Parameter(ad.ones(1))
    model.twin = model.extra
    return model


def test_named_iteration_and_duplicates():
    m = shared_model()
    assert names(m.named_modules()) == ["", "0", "1", "1.1"]
    assert names(m.named_modules(remove_duplicate=False)) == ["", "0", "1", "1.0", "1.1"]
    assert names(m.named_parameters()) == ["extra", "0.weight", "0.bias"]
    assert names(m.named_parameters(remove_duplicate=False)) == [
        "extra",
        "twin",
        "0.weight",
        "0.bias",
        "1.0.weight",
        "1.0.bias",
    ]
    assert names(m.named_parameters(prefix="net")) == ["net.extra", "net.0.weight", "net.0.bias"]
    assert names(m.named_parameters(recurse=False)) == ["extra"]
    assert len(list(m.parameters())) == 3 and len(list(m.modules())) == 4
    assert names(m.named_children()) == ["0", "1"]
    assert len(list(nn.ModuleList([m[0], m[0]]).children())) == 1
    affine = Affine()
    assert names(affine.named_buffers()) == ["shift", "scratch"] and len(list(affine.buffers())) == 2


def test_access_by_dotted_name():
    m = nn.Sequential(Affine(), nn.ReLU())
    assert m.get_submodule("") is m and m.get_submodule("0.inner") is m[0].inner
    assert m.get_parameter("0.inner.weight") is m[0].inner.weight
    assert m.get_buffer("0.shift") is m[0].shift
    with pytest.raises(AttributeError, match="Affine has no attribute `nothing`"):
        m.get_submodule("0.nothing.more")
    with pytest.raises(AttributeError, match="`scale` is not an nn.Module"):
        m.get_submodule("0.scale")
    with pytest.raises(AttributeError, match="`shift` is not an nn.Parameter"):
        m.get_parameter("0.shift")
    with pytest.raises(AttributeError, match="`scale` is not a buffer"):
        m.get_buffer("0.scale")
    m.set_submodule("0.inner", nn.Identity())
    assert isinstance(m[0].inner, nn.Identity)
    with pytest.raises(ValueError, match="without a target name"):
        m.set_submodule("", nn.Identity())
    with pytest.raises(AttributeError):
        m.set_submodule("0.other", nn.Identity(), strict=True)


def test_dir_lists_members_but_no_numbers():
    listed = dir(nn.Sequential(Affine()))
    assert "0" not in listed and "forward" in listed
    assert {"scale", "shift", "inner"} <= set(dir(Affine()))


# ---- modes and gradients --------------------------------------------------------------------------------


def test_train_and_eval_recurse():
    m = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert m.eval() is m and not any(x.training for x in m.modules())
    assert all(x.training for x in m.train().modules())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        m.train(1)


def test_apply_visits_children_first():
    m, seen = shared_model(), []
    assert m.apply(seen.append) is m
    assert seen[-1] is m and seen.index(m[1][1]) < seen.index(m[1])


def test_zero_grad_and_requires_grad():
    m = nn.Linear(2, 1)
    m(ad.ones(1, 2)).sum().backward()
    grad = m.weight.grad
    m.zero_grad(set_to_none=False)
    assert m.weight.grad is grad and grad.abs().sum().item() == 0.0
    m.zero_grad()
    assert m.weight.grad is None and m.bias.grad is None
    assert m.requires_grad_(False) is m and not m.weight.requires_grad
    assert not m(ad.ones(1, 2)).requires_grad
    assert m.requires_grad_().bias.requires_grad


# ---- conversion -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert, dtype",
    [
        (lambda m: m.double(), "float64"),
        (lambda m: m.half(), "float16"),
        (lambda m: m.bfloat16(), "bfloat16"),
        (lambda m: m.to(ad.float64), "float64"),
        (lambda m: m.to(dtype=ad.float64), "float64"),
        (lambda m: m.to("cpu", ad.float64), "float64"),
        (lambda m: m.to(ad.zeros(1, dtype=ad.float64)), "float64"),
        (lambda m: m.type(ad.float64), "float64"),
        (lambda m: m.double().float(), "float32"),
        (lambda m: m.to("cpu"), "float32"),
        (lambda m: m.cpu(), "float32"),
    ],
)
def test_conversion_keeps_identity(convert, dtype):
    m = Affine()
    before = list(m.parameters())
    m.inner.weight.grad = ad.ones(3, 3)
    assert convert(m) is m
    dtype = getattr(ad, dtype)
    assert all(p.dtype == dtype for p in m.parameters()) and m.shift.dtype == dtype
    assert all(p is q for p, q in zip(m.parameters(), before, strict=True))
    assert all(p.requires_grad and p.is_leaf for p in m.parameters())
    assert m.inner.weight.grad.dtype == dtype
    assert m.scale is m._parameters["scale"] and m.shift is m._buffers["shift"]


def test_conversion_leaves_integers():
    m = nn.Module()
    m.register_buffer("count", ad.tensor([3]))
    assert m.double().count.dtype == ad.int64
    assert m.to(ad.float16).count.dtype == ad.int64


def test_conversion_errors():
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        nn.Linear(1, 1).to(ad.int64)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        nn.Linear(1, 1).to(colour=1)


def test_to_empty_keeps_shapes():
    m = nn.Linear(2, 3).to_empty(device="cpu")
    assert tuple(m.weight.shape) == (3, 2)


# ---- copies ---------------------------------------------------------------------------------------------


def check_bound(m):
    for p in (nn.Parameter(ad.zeros(3)), nn.Parameter(ad.ones(3))):
        m._parameters["scale"] = p
        assert m.scale is p
    m.scale = q = nn.Parameter(ad.zeros(3))
    assert m._parameters["scale"] is q


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_deep_copies_are_independent_and_bound(duplicate):
    m = nn.Sequential(Affine(), nn.Tanh())
    twin = duplicate(m)
    x = ad.ones(2, 3)
    np.testing.assert_array_equal(twin(x).detach().numpy(), m(x).detach().numpy())
    assert list(twin.state_dict()) == list(m.state_dict())
    assert not {id(p) for p in twin.parameters()} & {id(p) for p in m.parameters()}
    with ad.no_grad():
        twin[0].scale.fill_(7.0)
    assert m[0].scale.tolist() == [1.0, 1.0, 1.0]
    before = m[0].scale
    check_bound(twin[0])
    assert m[0].scale is before


def test_deep_copy_keeps_sharing():
    m = copy.deepcopy(shared_model())
    assert m[0] is m[1][0] and m.extra is m.twin


def test_shallow_copy_shares_the_members_until_it_gets_its_own():
    m = Affine()
    twin = copy.copy(m)
    assert twin.scale is m.scale and twin._parameters is m._parameters
    before = m.scale
    twin._parameters = dict(m._parameters)
    check_bound(twin)
    assert m.scale is before and m._parameters["scale"] is before


def test_custom_setstate_stays_bound():
    m = pickle.loads(pickle.dumps(Stubborn()))
    check_bound(m)
    assert m.restored


class Stubborn(Affine):
    def __setstate__(self, state):
        self.__dict__.update(state, restored=True)


def test_a_dropped_module_is_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        m = nn.Sequential(Affine(), nn.ReLU())
        m[0].register_forward_hook(lambda *a: None)
        alive = weakref.ref(m), weakref.ref(m[0]), weakref.ref(m[0].inner)
        m(ad.ones(1, 3))
        del m
        assert [r() for r in alive] == [None, None, None]
    finally:
        gc.enable()


# ---- repr -----------------------------------------------------------------------------------------------


def test_repr_nests():
    m = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
    assert repr(m) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(p=0.1, inplace=False)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Module()) == "Module()"


def test_repr_with_extra_lines_and_children():
    class Named(Affine):
        def extra_repr(self):
            return "first\nsecond"

    assert repr(Named()) == (
        "Named(\n  first\n  second\n  (inner): Linear(in_features=3, out_features=3, bias=True)\n)"
    )
