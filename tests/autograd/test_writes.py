"""Every kind of write bumps the one version counter of its memory: each in-place operator, `out=`, items, random fills, `nn.init`,
optimisers, swaps of memory; and writes by others, where they can be seen.

test_versions.py shows how a write is caught; here is that none escapes. Start reading at `counted`.
"""

import array as stdlib
import ctypes

import numpy as np
import pytest
from helpers import leaf, shares_memory

import adjoint as ad
from adjoint.nn import init

PHRASE = "one of the variables needed for gradient computation has been modified by an inplace operation"


def counted(write, base):
    """A write to a view of `base` raises the version that the base, its views and its detached aliases share."""
    alias, view = base.detach(), base.view(-1)[:1]
    before = base._version
    assert alias._version == view._version == before
    with ad.no_grad():
        write(base)
    assert base._version > before, "not counted"
    assert alias._version == view._version == base._version, "not shared"


# --- operators ----------------------------------------------------------------------------------------------------------


def in_place_methods():
    """The in-place form of every operator that takes one tensor and keeps its shape; found by trying."""
    names = [n for n in dir(ad.Tensor) if n.endswith("_") and not n.startswith("_")]
    # Those that change no element, and those of several results, which have no place to go.
    apart = {"requires_grad_", "detach_", "resize_", "resize_as_", "set_", "share_memory_"}
    apart |= {"aminmax_", "cummax_", "cummin_", "kthvalue_", "sort_", "std_mean_", "topk_", "var_mean_"}
    found = []
    for name in sorted(set(names) - apart):
        for arguments in ((), (0.5,), (ad.full((2, 3), 0.5),), (0, 1)):
            x = ad.full((2, 3), 0.25)
            try:
                getattr(x, name)(*arguments)
            except Exception:  # these arguments are not for this one
                continue
            if x.shape == (2, 3):
                found.append((name, arguments))
                break
    return found


IN_PLACE = in_place_methods()


def test_enough_operators_were_found():
    names = {name for name, _ in IN_PLACE}
    assert len(names) >= 90
    assert {"add_", "exp_", "clamp_", "copy_", "fill_", "zero_", "uniform_", "relu_"} <= names


@pytest.mark.parametrize("name, arguments", IN_PLACE, ids=[n for n, _ in IN_PLACE])
def test_operators_in_place(name, arguments):
    counted(lambda t: getattr(t, name)(*arguments), ad.full((2, 3), 0.25))


AUGMENTED = {
    "+=": lambda t: t.__iadd__(1),
    "-=": lambda t: t.__isub__(1),
    "*=": lambda t: t.__imul__(2),
    "/=": lambda t: t.__itruediv__(2),
    "//=": lambda t: t.__ifloordiv__(2),
    "%=": lambda t: t.__imod__(2),
    "**=": lambda t: t.__ipow__(2),
}
INDEX, MASK = ad.tensor([1, 0]), ad.tensor([True, False])
OTHERS = {
    "item": lambda t: t.__setitem__((0, 1), 5.0),
    "row": lambda t: t.__setitem__(1, 5.0),
    "slice": lambda t: t.__setitem__(slice(1, 2), ad.ones(1, 3)),
    "step": lambda t: t.__setitem__((slice(None), slice(None, None, 2)), 5.0),
    "ellipsis": lambda t: t.__setitem__(..., 5.0),
    "None": lambda t: t.__setitem__(None, 5.0),
    "index": lambda t: t.__setitem__(INDEX, 5.0),
    "mask": lambda t: t.__setitem__(MASK, 5.0),
    "index and slice": lambda t: t.__setitem__((INDEX, slice(1, 3)), ad.ones(2)),
    "copy_": lambda t: t.copy_(ad.ones(3)),
    "copy_ of another dtype": lambda t: t.copy_(ad.ones(3, dtype=ad.int64)),
    "copy_ of itself": lambda t: t.copy_(t),
    "fill_": lambda t: t.fill_(3),
    "zero_": lambda t: t.zero_(),
    "index_put_": lambda t: t.index_put_((INDEX,), ad.ones(3)),
    "index_put_ accumulate": lambda t: t.index_put_((INDEX,), ad.ones(3), accumulate=True),
    "index_add_": lambda t: t.index_add_(0, INDEX, ad.ones(2, 3)),
    "index_copy_": lambda t: t.index_copy_(0, INDEX, ad.ones(2, 3)),
    "index_fill_": lambda t: t.index_fill_(0, INDEX, 3.0),
    "scatter_": lambda t: t.scatter_(1, ad.tensor([[0], [1]]), 3.0),
    "scatter_add_": lambda t: t.scatter_add_(1, ad.tensor([[0], [1]]), ad.ones(2, 1)),
    "masked_fill_": lambda t: t.masked_fill_(t > 0, 3.0),
    "masked_scatter_": lambda t: t.masked_scatter_(t > 0, ad.ones(6)),
    "fill_diagonal_": lambda t: t.fill_diagonal_(3.0),
    "addcmul_": lambda t: t.addcmul_(ad.ones(2, 3), ad.ones(2, 3)),
    "lerp_": lambda t: t.lerp_(ad.ones(2, 3), 0.5),
    "function": lambda t: ad.relu_(t),
    "through a row": lambda t: t[0].add_(1),
    "through the transpose": lambda t: t.T.mul_(2),
    "through a chain of views": lambda t: t.view(3, 2).T[1:].unsqueeze(0)[..., 0].neg_(),
    "through one of many": lambda t: t.unbind(1)[2].add_(1),
    "through an alias": lambda t: t.detach().add_(1),
    "through an alias of a view": lambda t: t[1].detach()[0].add_(1),
    "as other dtype": lambda t: t.view(ad.int32).zero_(),
    "real part": lambda t: t.real.zero_(),
    "in inference mode": lambda t: in_inference_mode(t),
    "increment_version": lambda t: ad.autograd.graph.increment_version(t),
}


def in_inference_mode(t):
    with ad.inference_mode():
        t.add_(1)


@pytest.mark.parametrize("write", [*AUGMENTED.values(), *OTHERS.values()], ids=[*AUGMENTED, *OTHERS])
def test_other_writes(write):
    counted(write, ad.full((2, 3), 0.25))


@pytest.mark.parametrize("write", [AUGMENTED["+="], OTHERS["row"], OTHERS["index"], OTHERS["zero_"]])
def test_writes_of_integers(write):
    counted(write, ad.ones(2, 3, dtype=ad.int64))


def test_parts_of_complex_numbers():
    for write in (
        lambda z: z.real.zero_(),
        lambda z: setattr(z, "imag", ad.ones(2)),
        lambda z: ad.view_as_real(z).mul_(2),
        lambda z: z.conj_physical_(),
    ):
        counted(write, ad.ones(2, dtype=ad.complex64))


OUT = {
    "add": lambda t: ad.add(ad.ones(2, 3), 1, out=t),
    "sin": lambda t: ad.sin(ad.ones(2, 3), out=t),
    "matmul": lambda t: ad.matmul(ad.ones(2, 2), ad.ones(2, 3), out=t),
    "sum": lambda t: ad.sum(ad.ones(4, 2, 3), 0, out=t),
    "cat": lambda t: ad.cat([ad.ones(1, 3), ad.ones(1, 3)], out=t),
    "where": lambda t: ad.where(ad.ones(2, 3) > 0, ad.ones(2, 3), ad.zeros(2, 3), out=t),
    "clamp": lambda t: ad.clamp(ad.ones(2, 3), 0, 1, out=t),
}


@pytest.mark.parametrize("write", OUT.values(), ids=OUT)
def test_out(write):
    counted(write, ad.zeros(2, 3))


def test_out_of_several():
    values, indices = ad.zeros(2), ad.zeros(2, dtype=ad.int64)
    ad.max(ad.ones(2, 3), 1, out=(values, indices))
    assert values._version > 0 and indices._version > 0


# --- random fills, initialisation, optimisers -----------------------------------------------------------------------------

RANDOM = {
    "uniform_": lambda t: t.uniform_(),
    "normal_": lambda t: t.normal_(1, 2),
    "exponential_": lambda t: t.exponential_(),
    "log_normal_": lambda t: t.log_normal_(),
    "cauchy_": lambda t: t.cauchy_(),
    "geometric_": lambda t: t.geometric_(0.5),
    "random_": lambda t: t.random_(0, 5),
    "bernoulli_": lambda t: t.bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda t: t.bernoulli_(ad.full((2, 3), 0.5)),
    "rand, out=": lambda t: ad.rand(2, 3, out=t),
    "randn, out=": lambda t: ad.randn(2, 3, out=t),
    "normal, out=": lambda t: ad.normal(0.0, 1.0, (2, 3), out=t),
    "dropout": lambda t: ad.nn.functional.dropout(t, 0.5, training=True, inplace=True),
}


@pytest.mark.parametrize("write", RANDOM.values(), ids=RANDOM)
def test_random_fills(write):
    counted(write, ad.full((2, 3), 0.25))


INIT = {
    name: getattr(init, name)
    for name in sorted(dir(init))
    if name.endswith("_") and not name.startswith("_") and name not in ("constant_", "dirac_", "sparse_")
}
INIT["constant_"] = lambda t: init.constant_(t, 3.0)
INIT["dirac_"] = init.dirac_
INIT["sparse_"] = lambda t: init.sparse_(t, 0.5)


@pytest.mark.parametrize("name", INIT)
def test_initialisation(name):
    counted(INIT[name], ad.ones(2, 3, 4) if name == "dirac_" else ad.ones(4, 3))
    p = ad.nn.Parameter(ad.ones(2, 3, 4) if name == "dirac_" else ad.ones(4, 3))
    loss = (p * p).sum()
    INIT[name](p)  # initialisers may write to leaves
    assert p.requires_grad and p.is_leaf
    with pytest.raises(RuntimeError, match=PHRASE):
        loss.backward()


OPTIMISERS = {
    "SGD": lambda p: ad.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "SGD, maximize": lambda p: ad.optim.SGD(p, lr=0.1, maximize=True),
    "Adam": lambda p: ad.optim.Adam(p),
    "Adam, amsgrad": lambda p: ad.optim.Adam(p, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: ad.optim.AdamW(p),
    "RMSprop": lambda p: ad.optim.RMSprop(p),
    "RMSprop, centered": lambda p: ad.optim.RMSprop(p, centered=True, momentum=0.9),
}


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16], ids=str)
@pytest.mark.parametrize("contiguous", [True, False], ids=["", "transposed"])
def test_steps_of_optimisers(make, dtype, contiguous):
    """Steps of the fused kernels and of the tensor operations that stand in where those do not reach."""
    memory = ad.ones(2, 3, dtype=dtype)
    w = (memory if contiguous else memory.T).requires_grad_()
    b = ad.ones(3, dtype=dtype, requires_grad=True)
    optimiser = make([w, b])
    for _ in range(2):
        loss = (w * w).sum() + (b * b).sum()
        (w * 1).sum().backward()
        (b * 1).sum().backward()
        before = w._version, b._version
        optimiser.step()
        assert w._version > before[0] and b._version > before[1] and w.detach()._version == w._version
        with pytest.raises(RuntimeError, match=PHRASE):
            loss.backward()
        optimiser.zero_grad(set_to_none=False)
        assert w.grad._version > 0


def test_loading_and_initialising_modules_count():
    for change in (
        lambda m: m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}),
        lambda m: m.reset_parameters(),
        lambda m: ad.nn.utils.vector_to_parameters(ad.zeros(6), m.parameters()),
    ):
        module = ad.nn.Linear(2, 2)
        loss = (module.weight * module.weight).sum()
        change(module)
        with pytest.raises(RuntimeError, match=PHRASE):
            loss.backward()
    table = ad.nn.Embedding(3, 2, max_norm=0.1)
    before = table.weight._version
    table(ad.tensor([0, 1]))  # shrinks the rows that it looks up
    assert table.weight._version > before


def test_clipping_gradients_counts():
    w = leaf(3.0, 4.0)
    w.grad = ad.tensor([30.0, 40.0], dtype=ad.float64)
    for clip in (ad.nn.utils.clip_grad_norm_, ad.nn.utils.clip_grad_value_):
        before = w.grad._version
        clip([w], 1.0)
        assert w.grad._version > before


def test_accumulation_counts():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    g = x.grad
    before = g._version
    (x * 2).sum().backward()
    assert x.grad is g and g._version > before


# --- memory that is exchanged ---------------------------------------------------------------------------------------------


def test_resizing_and_setting_are_writes():
    for swap in (
        lambda t: t.resize_(3),
        lambda t: t.resize_(1),
        lambda t: t.resize_as_(ad.ones(4)),
        lambda t: t.set_(ad.ones(2, dtype=ad.float64)),
    ):
        for writes_before in (0, 3):
            x, c = leaf(1.0, 2.0), ad.ones(2, dtype=ad.float64)
            for _ in range(writes_before):
                c.mul_(1)
            y = (x * c).sum()
            swap(c)
            assert c._version > writes_before
            with pytest.raises(RuntimeError, match=PHRASE):
                y.backward()
    c = ad.ones(2)
    assert c.resize_(2) is c and c._version == 0, "the same shape is no write"
    other = ad.ones(3)
    c.set_(other)
    c.add_(1)
    assert shares_memory(c, other) and other._version == c._version


def test_set_refuses_what_would_lose_a_gradient():
    x = leaf(1.0, 2.0)
    for program, phrase in (
        (
            lambda: x.set_(ad.ones(2)),
            "a leaf Variable that requires grad is being used in an in-place operation: set_",
        ),
        (lambda: (x * 1).set_(ad.ones(2)), "its gradient would be lost"),
        (lambda: ad.ones(2).set_(x), "derivative for set_ is not implemented"),
        (lambda: ad.ones(2).set_(x * 1), "derivative for set_ is not implemented"),
        (lambda: x.resize_(3), "cannot resize variables that require grad"),
        (lambda: (x * 1).resize_(3), "cannot resize variables that require grad"),
        (lambda: x.resize_as_(ad.ones(3)), "cannot resize variables that require grad"),
    ):
        with pytest.raises(RuntimeError, match=phrase):
            program()
    with ad.no_grad():
        x.set_(ad.zeros(3, dtype=ad.float64))
        with pytest.raises(RuntimeError, match="cannot resize variables"):
            x.resize_(4)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


# --- writes by others -----------------------------------------------------------------------------------------------------


def as_bytes(*values):
    return np.array(values).tobytes()


def numpy_array(make):
    def both():
        a = np.array([1.0, 2.0])
        return make(a), lambda: a.__imul__(2)

    return both


def byte_array():
    b = bytearray(as_bytes(1.0, 2.0))
    return ad.frombuffer(b, dtype=ad.float64), lambda: b.__setitem__(slice(0, 8), as_bytes(7.0))


def memory_view():
    b = memoryview(bytearray(as_bytes(1.0, 2.0)))
    return ad.frombuffer(b, dtype=ad.float64), lambda: b.__setitem__(slice(8, 16), as_bytes(7.0))


def standard_array(make):
    def both():
        b = stdlib.array("d", [1.0, 2.0])
        return make(b), lambda: b.__setitem__(1, 7.0)

    return both


def c_array():
    b = (ctypes.c_double * 2)(1.0, 2.0)
    return ad.frombuffer(b, dtype=ad.float64), lambda: b.__setitem__(0, 7.0)


OWNERS = {
    "from_numpy": numpy_array(ad.from_numpy),
    "as_tensor": numpy_array(ad.as_tensor),
    "asarray": numpy_array(ad.asarray),
    "from_dlpack": numpy_array(ad.from_dlpack),
    "a view": numpy_array(lambda a: ad.from_numpy(a).view(2, 1)[:, 0]),
    "an alias": numpy_array(lambda a: ad.from_numpy(a).detach()),
    "a slice of the array": numpy_array(lambda a: ad.from_numpy(a[::-1][::-1])),
    "bytearray": byte_array,
    "memoryview": memory_view,
    "array.array": standard_array(lambda b: ad.frombuffer(b, dtype=ad.float64)),
    "array.array, as_tensor": standard_array(ad.as_tensor),
    "ctypes": c_array,
}
SAVERS = {
    "mul": lambda x, c: x * c,
    "mul, saved twice": lambda x, c: x * c + c * x,
    "pow": lambda x, c: c**x,
    "dot": lambda x, c: x @ c,
    "exp of the leaf": lambda x, c: (x + c).exp() * c,
}


class Product(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x, c):
        ctx.save_for_backward(c)
        return x * c

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None


SAVERS["a Function"] = Product.apply


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("save", SAVERS.values(), ids=SAVERS)
def test_memory_that_others_own(owner, save):
    """torch's failing case: there `z.backward()` gives the gradient of what the array holds by then, without a word."""
    c, change = owner()
    x = leaf(3.0, 4.0)
    y, z = save(x, c).sum(), save(x, c).sum()
    y.backward()
    expected = x.grad.clone()
    change()
    with pytest.raises(RuntimeError, match=PHRASE) as caught:
        z.backward()
    assert "memory that belongs to somebody else" in str(caught.value) and "clone()" in str(caught.value)
    assert x.grad.tolist() == expected.tolist()


def test_a_leaf_over_an_array():
    a = np.array([1.0, 2.0])
    x = ad.from_numpy(a).requires_grad_()
    y = (x * x).sum()
    a *= 2
    with pytest.raises(RuntimeError, match="memory that belongs to somebody else"):
        y.backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_other_parts_of_an_array_may_change():
    a = np.ones((3, 2))
    c, x = ad.from_numpy(a)[1], leaf(1.0, 2.0)
    y = (x * c).sum()
    a[0] = 7
    a[2] = 7
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_own_writes_to_an_array_are_seen_too():
    a = np.ones(2)
    c, x = ad.from_numpy(a), leaf(1.0, 2.0)
    y = (x * c).sum()
    c.add_(1)
    assert c._version == 1 and a.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match=PHRASE):
        y.backward()


def test_arrays_stay_writable_and_read_only_ones_stay_so():
    a, fixed = np.ones(2), np.ones(2)
    fixed.flags.writeable = False
    x = leaf(1.0, 2.0)
    y = (x * ad.from_numpy(a)).sum() + (x * ad.from_numpy(fixed)).sum()
    assert a.flags.writeable and not fixed.flags.writeable
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]
    a += 1
    with pytest.raises((RuntimeError, ValueError), match="(?i)read-?only"):
        ad.from_numpy(fixed).add_(1)
