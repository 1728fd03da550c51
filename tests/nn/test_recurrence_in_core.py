"""The core's way through time against the composition that goes step by step: values and gradients in every floating type,
packed, in both directions, at sizes around the loops' tiles, for any number of threads; second derivatives and batches."""

import itertools

import numpy as np
import pytest
from helpers import array, tensor

import adjoint as ad
from adjoint import nn
from adjoint.nn import _recurrence
from adjoint.nn.utils.rnn import pack_padded_sequence

KINDS = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def results_of(net, x, states=None):
    output, state = net(x, *([] if states is None else [states]))
    output = output.data if isinstance(output, nn.utils.rnn.PackedSequence) else output
    return [output, *(state if isinstance(state, tuple) else [state])]


def with_gradients(net, x, prepare=lambda x: x):
    """The results, and gradients by the input and all parameters, under cotangents that differ between elements."""
    x = x.detach().requires_grad_()
    results = results_of(net, prepare(x))
    loss = sum((r.double() * wave(r)).sum() for r in results)
    return [*results, *ad.autograd.grad(loss, [x, *net.parameters()])]


def wave(t):
    return ad.arange(t.numel(), dtype=ad.float64).reshape(t.shape).mul(0.7).sin()


def compare(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        a, b = array(a.detach().double()), array(b.detach().double())
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def by_steps(monkeypatch, f):
    with monkeypatch.context() as patch:
        patch.setattr(_recurrence, "_in_core", lambda *_: False)
        return f()


def nodes(result):
    seen, names, left = set(), [], [result.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        names.append(node.name())
        left += [n for n, _ in node.next_functions]
    return names


@every_kind
@pytest.mark.parametrize(
    "dtype, tolerance", [("float64", 1e-11), ("float32", 2e-4), ("bfloat16", 0.06), ("float16", 0.01)]
)
def test_the_core_agrees_with_steps(kind, dtype, tolerance, monkeypatch):
    ad.manual_seed(1)
    net = KINDS[kind](3, 5, num_layers=2, bidirectional=True, dtype=getattr(ad, dtype))
    x = ad.randn(6, 4, 3, dtype=getattr(ad, dtype))
    for prepare in (lambda x: x, lambda x: pack_padded_sequence(x, [6, 4, 4, 1])):
        expected = by_steps(monkeypatch, lambda: with_gradients(net, x, prepare))
        compare(with_gradients(net, x, prepare), expected, tolerance)


@every_kind
@pytest.mark.parametrize("hidden, batch", [(1, 1), (8, 1), (7, 3), (16, 7), (33, 13), (65, 2)])
def test_sizes_around_tiles(kind, hidden, batch, monkeypatch):
    ad.manual_seed(2)
    net = KINDS[kind](2, hidden, dtype=ad.float64)
    x = ad.randn(3, batch, 2, dtype=ad.float64)
    compare(with_gradients(net, x), by_steps(monkeypatch, lambda: with_gradients(net, x)), 1e-10)


@every_kind
def test_the_number_of_threads_changes_no_bit(kind):
    ad.manual_seed(3)
    net = KINDS[kind](8, 48)
    x = ad.randn(20, 40, 8)
    threads, found = ad.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            ad.set_num_threads(count)
            found.append(with_gradients(net, x))
    finally:
        ad.set_num_threads(threads)
    for other in found[1:]:
        assert all(bool((a == b).all()) for a, b in zip(found[0], other, strict=True))


@every_kind
def test_a_layer_is_one_node_however_many_steps(kind):
    net = KINDS[kind](2, 3)
    few, many = (nodes(net(ad.ones(steps, 2, 2))[0]) for steps in (2, 50))
    assert "RecurrenceBackward0" in many and len(few) == len(many) < 10


def test_what_stays_a_composition():
    """Projections and complex numbers."""
    for net in (nn.LSTM(2, 3, proj_size=2), nn.GRU(2, 3).to(ad.complex128)):
        names = nodes(net(ad.ones(2, 1, 2, dtype=net.weight_ih_l0.dtype))[0])
        assert "RecurrenceBackward0" not in names and "SigmoidBackward0" in names


@every_kind
@pytest.mark.parametrize("packed", [False, True])
def test_second_derivatives(kind, packed):
    ad.manual_seed(4)
    net = KINDS[kind](2, 3, bidirectional=True, dtype=ad.float64)
    names = [n for n, _ in net.named_parameters()]

    def f(x, *parameters):
        values = dict(zip(names, parameters, strict=True))
        x = pack_padded_sequence(x, [3, 1]) if packed else x
        output, state = ad.func.functional_call(net, values, (x,))
        return output.data if packed else output, *(state if isinstance(state, tuple) else (state,))

    values = [p.detach().requires_grad_() for p in net.parameters()]
    x = ad.randn(3, 2, 2, dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradgradcheck(f, (x, *values), atol=1e-5)
    assert ad.autograd.gradcheck(f, (x, *values), check_forward_ad=True, atol=1e-6)


@pytest.mark.parametrize("kind, blocks", [("lstm", 4), ("gru", 3), ("tanh", 1), ("relu", 1)])
@pytest.mark.parametrize("steps, reverse", [(1, False), (3, False), (3, True)])
def test_second_derivatives_of_parts(kind, blocks, steps, reverse):
    """By each argument alone and by all, from each result alone and from all: gates have gradients, too."""
    ad.manual_seed(5)
    lstm, gru, wide = kind == "lstm", kind == "gru", blocks * 2
    state = (2, 2)
    shapes = [(steps, 2, 3), state, lstm and state, (wide, 3), (wide, 2), (wide,), gru and (wide,)]
    given = [ad.randn(*s, dtype=ad.float64) if s else None for s in shapes]
    there = [i for i, t in enumerate(given) if t is not None]
    for wanted, which in itertools.product([there, *([i] for i in there)], [[0], [1], [0, 1], [0, 1, 2]]):
        if (which == [1] or which == [0, 1]) and not lstm:
            continue

        def f(*by):
            results = ad._C._recurrence(
                *(dict(enumerate(given)) | dict(zip(wanted, by, strict=True))).values(), kind, [], reverse
            )
            return tuple(results[i].square().sum() for i in which if results[i] is not None)

        by = [given[i].detach().requires_grad_() for i in wanted]
        assert ad.autograd.gradgradcheck(f, by, atol=1e-5)


@every_kind
def test_batches_of_samples(kind):
    """A batch of inputs joins the sequences; gradients for each sample and ensembles of networks need no loop either."""
    ad.manual_seed(5)
    net = KINDS[kind](2, 3, num_layers=2, dtype=ad.float64)
    parameters = {n: p.detach() for n, p in net.named_parameters()}
    x = ad.randn(4, 5, 2, 2, dtype=ad.float64)

    def run(parameters, x):
        output, state = ad.func.functional_call(net, parameters, (x,))
        return output, *(state if isinstance(state, tuple) else (state,))

    def loss(parameters, x):
        return sum((r * wave(r)).sum() for r in run(parameters, x))

    many = {n: ad.stack([p * (1 + 0.1 * k) for k in range(4)]) for n, p in parameters.items()}
    gradient = ad.func.grad(loss, argnums=(0, 1))
    for f, given, dims in (
        (run, parameters, (None, 0)),
        (run, many, (0, 0)),
        (gradient, parameters, (None, 0)),
        (gradient, many, (0, 0)),
    ):
        before = dict(ad.func.vmap_fallbacks())
        found = ad.func.vmap(f, in_dims=dims)(given, x)
        assert dict(ad.func.vmap_fallbacks()) == before
        one = [f({n: p[k] for n, p in given.items()} if dims[0] == 0 else given, x[k]) for k in range(4)]
        leaves = [ad.tree.leaves(t) for t in (found, *one)]
        for got, *want in zip(*leaves, strict=True):
            np.testing.assert_allclose(array(got), array(ad.stack(want)), rtol=1e-9, atol=1e-12)


@every_kind
def test_several_cotangents_at_once(kind):
    ad.manual_seed(6)
    net = KINDS[kind](2, 3, dtype=ad.float64)
    y = net(ad.randn(4, 2, 2, dtype=ad.float64))[0]
    seeds = ad.randn(3, *y.shape, dtype=ad.float64)
    parameters = list(net.parameters())
    found = ad.autograd.grad(y, parameters, seeds, is_grads_batched=True, retain_graph=True)
    for k, seed in enumerate(seeds):
        one = ad.autograd.grad(y, parameters, seed, retain_graph=True)
        for a, b in zip(found, one, strict=True):
            np.testing.assert_allclose(array(a[k]), array(b), rtol=1e-10, atol=1e-12)


@every_kind
def test_only_what_is_needed(kind):
    """The state alone is used; parameters are frozen; the first state needs a gradient."""
    net = KINDS[kind](2, 3, dtype=ad.float64)
    x = ad.ones(4, 2, 2, dtype=ad.float64)
    results = results_of(net, x)
    results[-1].sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in net.parameters())
    net.requires_grad_(False)
    first = [ad.zeros(1, 2, 3, dtype=ad.float64, requires_grad=True) for _ in results[1:]]
    results = results_of(net, x, tuple(first) if len(first) > 1 else first[0])
    assert all(bool((g != 0).any()) for g in ad.autograd.grad(results[0].sum(), first))


GOOD = {
    "input": tensor(np.ones((3, 2, 3))),
    "hidden": tensor(np.ones((2, 2))),
    "cell": tensor(np.ones((2, 2))),
    "w_ih": tensor(np.ones((8, 3))),
    "w_hh": tensor(np.ones((8, 2))),
    "b_ih": None,
    "b_hh": None,
    "kind": "lstm",
    "sizes": [],
    "reverse": False,
}


@pytest.mark.parametrize(
    "text, change",
    [
        ("Expected sequence length to be larger than 0 in RNN", {"input": ad.ones(0, 2, 3).double()}),
        ("shapes cannot be multiplied", {"input": ad.ones(3, 2, 7).double()}),
        ("expected 8 numbers for each step", {"w_ih": ad.ones(7, 3).double()}),
        ("expected steps of 2 sequences", {"input": ad.ones(3, 4, 3).double()}),
        ("expected a hidden state of shape", {"hidden": ad.ones(2).double()}),
        ("a cell state of shape", {"cell": ad.ones(2, 3).double()}),
        ("a cell state is there for an LSTM", {"cell": None}),
        ("a weight of shape", {"w_hh": ad.ones(6, 2).double()}),
        (
            "expected one dtype, but the input is of float64 and a hidden state of float32",
            {"hidden": ad.ones(2, 2)},
        ),
        (
            "not implemented for 'complex128'",
            {
                n: ad.ones(*sizes, dtype=ad.complex128)
                for n, sizes in (("input", (3, 2, 3)), ("w_ih", (8, 3)))
            },
        ),
        ("expected 'lstm', 'gru', 'tanh' or 'relu', but got 'elman'", {"kind": "elman"}),
        ("the bias of the recurrence is added to that of the inputs", {"b_hh": ad.ones(8).double()}),
        ("begin with the batch, 2, and never grow", {"input": ad.ones(3, 3).double(), "sizes": [1, 2]}),
        ("begin with the batch, 2, and never grow", {"input": ad.ones(1, 3).double(), "sizes": [1]}),
        ("begin with the batch, 2, and never grow", {"input": ad.ones(2, 3).double(), "sizes": [2, 0]}),
        ("expected 3 rows", {"input": ad.ones(4, 3).double(), "sizes": [2, 1]}),
    ],
)
def test_wrong_arguments_of_the_row(text, change):
    with pytest.raises(RuntimeError, match=text):
        ad._C._recurrence(*(GOOD | change).values())


def test_an_empty_batch_has_gradients():
    for kind, steps in itertools.product(KINDS, (1, 3)):
        net = KINDS[kind](2, 3)
        for g in with_gradients(net, ad.ones(steps, 0, 2))[-4:]:
            assert bool((g == 0).all())
