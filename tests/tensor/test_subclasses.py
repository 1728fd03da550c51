"""Subclasses of Tensor: what keeps the class, for every operator, composition, method and attribute; copies and pickles.

What `__torch_function__` is given, and modes, is in test_overrides.py. Start reading at `test_operators_keep_the_class`.
"""

import copy
import io
import pickle

import numpy as np
import pytest
from autograd.test_compositions import FUNCTIONAL, LINALG, MORE, SPECIAL
from helpers import array
from protocol import tensors_in
from samples import OPERATORS, cases

import adjoint as ad

F = ad.nn.functional


class Plain(ad.Tensor):
    pass


class Derived(Plain):
    pass


class Other(ad.Tensor):
    pass


class Tagged(ad.Tensor):
    """With attributes, a slot and a constructor of its own."""

    __slots__ = ("unit",)

    def __new__(cls, data, tag):
        result = ad.as_tensor(data).as_subclass(cls)
        result.tag = tag
        return result

    def __init__(self, data, tag):
        self.unit = "m"


def plain(result):
    """The result with ordinary tensors."""
    return [x.as_subclass(ad.Tensor) for x in tensors_in(result)]


def public(row):
    return row["name"][0] != "_" and not row["overloads"]


def some_cases(row):
    dtype = next(d for d in ("float64", "complex128", *row["types"]) if d in row["types"])
    return cases(row, dtype)


ROWS = [row for row in OPERATORS if public(row)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_operators_keep_the_class(row):
    tried = 0
    for case in some_cases(row):
        if not case.inputs:
            continue
        for which in {0, len(case.inputs) - 1}:
            expected = case.call(case.tensors())
            tensors = case.tensors()
            tensors[which] = tensors[which].as_subclass(Plain)
            result = case.call(tensors)
            tried += 1
            assert {type(x) for x in tensors_in(result)} <= {Plain}, (case, which)
            assert type(result) is type(expected) or isinstance(expected, ad.Tensor)
            for x, y in zip(plain(result), plain(expected), strict=True):
                np.testing.assert_array_equal(array(x), array(y))
    assert tried or not any("Tensor" in kind for kind in row["kinds"])


@pytest.mark.parametrize("row", [r for r in ROWS if r["inplace"]], ids=lambda row: row["name"])
def test_forms_in_place_write_the_same_object(row):
    done = 0
    for case in some_cases(row):
        tensors = case.tensors()
        tensors[0] = tensors[0].as_subclass(Plain)
        args, kwargs = case.arguments(tensors)
        try:
            result = getattr(ad.Tensor, row["name"] + "_")(*args, **kwargs)
        except (RuntimeError, TypeError):
            continue  # the result has another shape or type
        assert result is tensors[0] and type(result) is Plain
        done += 1
    assert done or row["name"] in {"t", "transpose", "squeeze", "unsqueeze"} or row["returns"], (
        "no case could be written in place"
    )


@pytest.mark.parametrize(
    ("f", "leaves"),
    [
        pytest.param(f, leaves, id=f"{room} {name}")
        for room, table in (("nn", FUNCTIONAL), ("linalg", LINALG), ("special", SPECIAL), ("", MORE))
        for name, (f, *leaves) in table.items()
    ],
)
def test_compositions_keep_the_class(f, leaves):
    ad.manual_seed(0)
    result = f(*[x.detach().clone().as_subclass(Plain) for x in leaves])
    ad.manual_seed(0)
    expected = f(*[x.detach().clone() for x in leaves])
    kept = [*tensors_in(result)]
    assert kept and {type(x) for x in kept} == {Plain}
    for x, y in zip(plain(result), plain(expected), strict=True):
        np.testing.assert_array_equal(array(x), array(y))


def test_python_s_operators():
    s, x = ad.ones(2, 2).as_subclass(Plain), ad.ones(2, 2)
    for result in (
        s + x,
        x + s,
        2 + s,
        s - 1,
        1 - s,
        x * s,
        s / 2,
        2 / s,
        s // x,
        x % s,
        s**2,
        2**s,
        s @ x,
        x @ s,
        -s,
        +s,
        abs(s),
    ):
        assert type(result) is Plain
    for result in (s == x, x == s, s < 1, 1 < s, x >= s, s != x):
        assert type(result) is Plain
    i = ad.ones(2, dtype=ad.int64).as_subclass(Plain)
    for result in (i & 1, 1 | i, i ^ i, ~i, i << 1, 1 >> i):
        assert type(result) is Plain
    before = s
    s += x
    s *= 2
    s -= 1
    s /= 3
    s **= 2
    assert s is before and type(s) is Plain
    # As in torch, the result is of the class, over the memory that was written.
    y = x
    y += s
    assert (
        type(x) is ad.Tensor
        and type(y) is Plain
        and x.data_ptr() == y.data_ptr()
        and x.tolist() == y.tolist()
    )


def test_attributes_and_methods():
    s = ad.arange(6.0).reshape(2, 3).as_subclass(Plain)
    for name in ("T", "mT", "data", "real"):
        assert type(getattr(s, name)) is Plain, name
    assert s.shape == (2, 3) and isinstance(s.shape, ad.Size) and s.dtype is ad.float32 and s.ndim == 2
    assert s.size(0) == 2 and s.stride() == (3, 1) and s.dim() == 2 and len(s) == 2 and s[0, 1].item() == 1.0
    assert s.tolist() == [[0, 1, 2], [3, 4, 5]] and bool(s.sum() == 15) and float(s[1, 2]) == 5 and 5.0 in s
    for result in (
        s[0],
        s[..., None],
        s[s > 2],
        s[[0, 1]],
        s.detach(),
        s.clone(),
        s.to(ad.float64),
        s.double(),
        s.view(6),
        s.contiguous(),
    ):
        assert type(result) is Plain
    for result in (
        s.new_zeros(2),
        s.new_ones((2,)),
        s.new_full((2,), 3.0),
        s.new_empty(1),
        s.new_tensor([1.0]),
        ad.zeros_like(s),
        ad.rand_like(s),
    ):
        assert type(result) is Plain
    assert [type(row) for row in s] == [Plain, Plain] and type(reversed(s)) is Plain
    assert type(s.numpy()) is np.ndarray and type(np.asarray(s)) is np.ndarray
    assert s.requires_grad_() is s and type(s.cpu()) is Plain
    assert type(ad.tensor([s[0, 0], s[0, 1]])) is ad.Tensor and ad.as_tensor(s) is s and ad.is_tensor(s)


def test_several_results_and_their_names():
    s = ad.tensor([[3.0, 1.0], [2.0, 4.0]]).as_subclass(Plain)
    values, indices = result = ad.max(s, 1)
    assert (
        type(values) is type(indices) is Plain
        and result.values is values
        and type(result) is type(ad.max(ad.ones(2, 2), 1))
    )
    assert [type(x) for x in s.split(1)] == [Plain, Plain] and type(s.split(1)) is tuple
    assert {type(x) for x in ad.broadcast_tensors(ad.ones(2), s)} == {Plain}
    # What is taken out of a result is not a view of another tensor.
    assert (s * 2)._base is None and not s.sum()._is_view()


def test_a_list_of_tensors():
    s, x = ad.ones(2).as_subclass(Plain), ad.ones(2)
    for result in (
        ad.cat([x, s]),
        ad.stack((x, s)),
        ad.hstack([x, s]),
        ad.einsum("i,i", [x, s]),
        ad.block_diag(x, s),
    ):
        assert type(result) is Plain


def test_the_most_derived_class_answers():
    s, d, o, x = (ad.ones(2).as_subclass(c) for c in (Plain, Derived, Other, ad.Tensor))
    assert type(x) is ad.Tensor
    assert type(s + d) is type(d + s) is type(x * d * s) is Derived
    for call in (lambda: o + s, lambda: s * d * o, lambda: s < o):
        with pytest.raises(TypeError, match="not supported|unsupported operand"):
            call()
    with pytest.raises(
        TypeError,
        match=r"no implementation found for 'adjoint.add' on types that implement __torch_function__: \[.*Plain.*Other",
    ):
        ad.add(s, o)
    assert type(s == o) is bool  # each declines, and Python compares the objects


def test_out_is_what_was_given():
    s, x = ad.ones(2).as_subclass(Plain), ad.ones(2)
    out = ad.zeros(2).as_subclass(Plain)
    assert ad.add(x, x, out=out) is out and out.tolist() == [2, 2]
    out = ad.zeros(2)
    result = ad.mul(s, 3, out=out)
    assert type(result) is Plain and out.tolist() == [3, 3] and result.data_ptr() == out.data_ptr()


def test_histories_and_gradients():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    s = x.as_subclass(Plain)
    assert not s.is_leaf and s._base is x and s.data_ptr() == x.data_ptr()
    (s * s).sum().backward()
    assert x.grad.tolist() == [2, 4] and type(x.grad) is ad.Tensor
    leaf = Plain([1.0, 2.0]).requires_grad_()
    y = (leaf**3).sum()
    assert type(y) is Plain and y.grad_fn.name() == (x**3).sum().grad_fn.name()
    y.backward()
    assert type(leaf.grad) is ad.Tensor and leaf.grad.tolist() == [3, 12]
    (g,) = ad.autograd.grad((leaf * 2).sum(), leaf)
    assert type(g) is Plain and g.tolist() == [2, 2]
    (g,) = ad.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
    assert ad.autograd.grad(g.sum(), leaf)[0].tolist() == [6, 12]
    written = leaf.clone()
    view = written[:1]
    view.mul_(3)
    assert type(view) is Plain and view._base is not None and written.tolist() == [3, 2]
    assert ad.autograd.grad(written.sum(), leaf)[0].tolist() == [3, 1]


def test_an_object_survives_in_the_graph():
    inner = Plain([1.0, 2.0]).requires_grad_() * 2
    inner.note = "kept"
    outer = inner * inner
    del inner
    saved = outer.grad_fn._saved_self
    assert type(saved) is Plain and saved.note == "kept"


class Save(ad.autograd.Function):
    types: list = []

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        Save.types = [type(x)]
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        Save.types += [type(gradient), type(ctx.saved_tensors[0])]
        return gradient * 2


class Same(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_functions():
    leaf = Plain([1.0]).requires_grad_()
    y = Save.apply(leaf)
    y.backward()
    assert type(y) is Plain and Save.types == [Plain, ad.Tensor, Plain] and leaf.grad.tolist() == [2]
    assert type(Same.apply(leaf)) is type(Same.apply(leaf.detach())) is Plain
    assert type(Same.apply(ad.nn.Parameter(ad.ones(1)))) is ad.Tensor


def test_constructors():
    assert type(Plain([1.0, 2.0])) is type(Plain(2, 3)) is type(Plain(ad.ones(2))) is Plain
    assert Plain().shape == (0,) and ad.Tensor._make_subclass(Plain, ad.ones(2), True).is_leaf
    t = Tagged([1.0, 2.0], "a")
    assert (t.tag, t.unit, t.tolist()) == ("a", "m", [1, 2]) and not hasattr(t * 2, "tag")
    assert type(t.new_zeros(1)) is Tagged
    with pytest.raises(TypeError, match="expected a subclass of Tensor"):
        t.as_subclass(int)
    with pytest.raises(NotImplementedError, match="Tagged without memory of its own"):
        ad.Tensor._make_wrapper_subclass(Tagged, (2,))


def test_out_of_the_class():
    s = ad.ones(2).as_subclass(Plain)
    x = s.as_subclass(ad.Tensor)
    assert type(x) is ad.Tensor and x.data_ptr() == s.data_ptr() and type(x + 1) is ad.Tensor


def copies():
    yield copy.copy
    yield copy.deepcopy
    for protocol in (2, 4, 5):
        yield lambda x, p=protocol: pickle.loads(pickle.dumps(x, p))


@pytest.mark.parametrize("again", [*copies()])
def test_copies_and_pickles(again):
    t = Tagged([1.0, 2.0], ["a"])
    u = again(t)
    assert type(u) is Tagged and u.tag == ["a"] and u.unit == "m" and u.tolist() == [1, 2]
    assert (u.data_ptr() == t.data_ptr()) == (again is copy.copy)
    both = again([t, t])
    assert both[0] is both[1]


class WithState(ad.Tensor):
    def __getstate__(self):
        return {"secret": self.value}

    def __setstate__(self, state):
        self.value = state["secret"] + 1


def test_a_state_of_its_own():
    x = ad.ones(1).as_subclass(WithState)
    x.value = 3
    assert pickle.loads(pickle.dumps(x)).value == 4


def test_files():
    t = Tagged([1.0, 2.0], "a")
    file = io.BytesIO()
    ad.save(t, file)
    file.seek(0)
    u = ad.load(file, weights_only=False)
    assert type(u) is Tagged and u.tag == "a" and u.tolist() == [1, 2]


def test_printing():
    s = Plain([1.0, 2.0])
    assert repr(s) == str(s) == "Plain([1., 2.])" and f"{s}" == "Plain([1., 2.])"
    assert repr(s.requires_grad_() * 2) == "Plain([2., 4.], grad_fn=<MulBackward0>)"
