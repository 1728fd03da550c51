"""What nodes show, what is warned of, and names and words that programs for torch rely on.

The expectations are literal: what torch 2.13 does in the same program.
"""

import re
import warnings

import pytest
from helpers import announced

import adjoint as ad
from adjoint import nn
from adjoint.autograd import graph


def leaf(n):
    return ad.arange(1.0, n + 1).requires_grad_()


# --- what is saved -------------------------------------------------------------------------------------------------------


def saved(node):
    return {n[7:]: getattr(node, n) for n in dir(node) if n.startswith("_saved_") and n != "_saved_self"}


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: x.clamp(0, 1), {"min": 0, "max": 1}),
        (lambda x: x.clamp(min=0.5), {"min": 0.5}),
        (lambda x: nn.functional.leaky_relu(x, 0.01), {"negative_slope": 0.01}),
        (lambda x: nn.functional.softplus(x, 1, 20), {"beta": 1, "threshold": 20}),
        (lambda x: x.logit(1e-3), {"eps": 1e-3}),
    ],
)
def test_parameters_are_shown_by_nodes(function, expected):
    shown = saved(function(ad.rand(3, requires_grad=True)).grad_fn)
    assert {name: shown[name] for name in expected} == expected


def parameterised():
    return [
        row
        for row in ad._C.operators()
        if row["kind"] == "elementwise" and row["parameters"] and row["differentiable"] and row["arity"] == 1
    ]


@pytest.mark.parametrize("row", parameterised(), ids=lambda row: row["name"])
def test_every_parameter_of_an_element_wise_operator_is_shown(row):
    names = re.findall(r"(\w+)=", row["signature"])
    assert len(names) == row["parameters"]
    y = getattr(ad._C, row["name"])(ad.full((2,), 0.5, requires_grad=True), **dict.fromkeys(names, 0.25))
    if y.grad_fn is None:
        pytest.skip("it has no gradient")
    assert [getattr(y.grad_fn, "_saved_" + name) for name in names] == [0.25] * len(names)


def test_hooks_of_what_was_freed():
    y = leaf(2) * leaf(2)
    raw = y.grad_fn._raw_saved_self
    y.sum().backward()
    with pytest.raises(
        RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"
    ):
        raw.register_hooks(lambda t: t, lambda t: t)


@pytest.mark.parametrize("kind", ["element-wise", "reduction", "joining", "creation"])
def test_out_is_a_write_that_saved_tensors_outlive(kind):
    write = {
        "element-wise": lambda out: ad.sin(ad.ones(2), out=out),
        "reduction": lambda out: ad.sum(ad.ones(2, 2), 0, out=out),
        "joining": lambda out: ad.cat([ad.zeros(1), ad.ones(1)], out=out),
        "creation": lambda out: ad.zeros(2, out=out),
    }[kind]
    with graph.allow_mutation_on_saved_tensors():
        w, c = leaf(2), ad.ones(2) * 3
        y = w * c
        write(c)
        y.sum().backward()
    assert w.grad.tolist() == [3, 3] and c.tolist() != [3, 3]


# --- other words and names -----------------------------------------------------------------------------------------------


def test_checkpoint_asks_for_the_choice():
    from adjoint.utils.checkpoint import checkpoint, checkpoint_sequential

    x = leaf(2)
    with announced(
        UserWarning, match="torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly"
    ):
        checkpoint(lambda t: t * t, x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    with announced(UserWarning, match="checkpoint_sequential: the use_reentrant parameter should be passed"):
        checkpoint_sequential([ad.sin, ad.cos], 2, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint(lambda t: t * t, x, use_reentrant=False)


def test_conjugation_is_never_pending():
    z, x = ad.tensor([1 + 2j]), ad.ones(2)
    assert not ad.is_conj(z.conj()) and not z.conj().is_conj() and not ad.is_neg(z.conj().imag)
    assert ad.resolve_conj(z) is z and z.resolve_neg() is z and ad.resolve_neg(x) is x
    assert ad.resolve_conj(z.conj()).tolist() == [1 - 2j] and x.conj() is x


def test_tensor_types_of_old():
    assert ad.FloatTensor([1, 2]).tolist() == [1, 2] and ad.LongTensor(2, 3).shape == (2, 3)
    assert ad.LongTensor([1.7]).dtype is ad.int64 and isinstance(ad.ones(2), ad.FloatTensor)
    assert not isinstance(ad.ones(2), ad.DoubleTensor) and ad.ones(2).type(ad.ByteTensor).dtype is ad.uint8
    with pytest.raises(AttributeError):
        ad.ComplexFloatTensor  # noqa: B018


@pytest.mark.parametrize(
    "values, name, expected",
    [
        ([1.0, 2.0, 2.0, 3.0], "median", [0, 0.5, 0.5, 0]),
        ([1.0, 2.0, 2.0, 2.0, 3.0], "median", [0, 1 / 3, 1 / 3, 1 / 3, 0]),
        ([1.0, 2.0, 2.0, 2.0, float("nan")], "nanmedian", [0, 1 / 3, 1 / 3, 1 / 3, 0]),
    ],
)
def test_a_median_shares_its_gradient_among_equals(values, name, expected):
    x = ad.tensor(values, requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == pytest.approx(expected)


def test_padding_by_nothing_is_a_copy():
    for mode, pad in (("constant", (0, 0)), ("constant", (-1, 0)), ("reflect", (0, 0)), ("circular", (0, 0))):
        x = ad.ones(1, 2, 3)
        y = nn.functional.pad(x, pad, mode=mode)
        y.add_(1)
        assert y._base is None and x.tolist() == ad.ones(1, 2, 3).tolist()
    assert nn.functional.pad(leaf(2), (0, 0)).grad_fn is not None


def test_adam_with_a_tensor_for_its_rate():
    x = leaf(2)
    with pytest.raises(
        ValueError, match="lr as a Tensor is not supported for capturable=False and foreach=True"
    ):
        ad.optim.Adam([x], lr=ad.tensor(0.1), foreach=True)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        ad.optim.AdamW([x], lr=ad.tensor([0.1, 0.2]))
    ad.optim.Adam([x], lr=ad.tensor(0.1))


def test_modules_that_write_their_parameters():
    m = nn.Linear(2, 2)
    m(ad.ones(1, 2)).sum().backward()
    weight, g, version = m.weight, m.weight.grad, m.weight._version
    m._apply(lambda t: t.mul_(2))
    assert (
        m.weight is weight
        and weight._version > version
        and weight.grad is g
        and g.tolist() == [[2, 2], [2, 2]]
    )
    version = weight._version
    m.double()
    assert weight._version == version and weight.dtype is g.dtype is ad.float64 and weight.grad is g
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        m.to(ad.complex64)


def test_bases_behind_module():
    class Mixin:
        def __init__(self, k=1):
            self.k = k

    class Called(nn.Module, Mixin):
        call_super_init = True

        def __init__(self, **keywords):
            super().__init__(**keywords)
            self.layer = nn.Linear(1, 1)

    class Plain(nn.Module, Mixin):
        pass

    assert Called(k=5).k == 5 and len(list(Called().parameters())) == 2 and not hasattr(Plain(), "k")
    with pytest.raises(TypeError, match=r"Plain\.__init__\(\) got an unexpected keyword argument 'k'"):
        Plain(k=1)
    with pytest.raises(TypeError, match=r"Plain\.__init__\(\) takes 1 positional argument but 2 were given"):
        Plain(1)


def test_sizes_in_messages_are_written_as_sizes():
    with pytest.raises(
        ValueError, match=r"Target size \(\w+\.Size\(\[3\]\)\) must be the same as input size"
    ):
        nn.functional.binary_cross_entropy_with_logits(ad.ones(2), ad.ones(3))
    with pytest.warns(
        UserWarning, match=r"a target size \(\w+\.Size\(\[3\]\)\) that is different to the input size"
    ):
        with pytest.raises(RuntimeError):
            nn.functional.mse_loss(ad.ones(2), ad.ones(3))
