"""Rows whose launches are kept: replays over other numbers equal eager in bits, whatever the recording saw.

A row is prepared once per shape, on a device without elements, and run again over whatever lies in its operands. So
each case is called with other numbers each time, and with its operands at other places. Start reading at `test_table`.
"""

import warnings

import pytest
import twice
from samples import OPERATORS, cases, function_of

import adjoint as ad

F = ad.nn.functional
PIECES = [OPERATORS[k::12] for k in range(12)]


def counts(jitted):
    """The last trace's instructions by kind."""
    line = next(s for s in str(ad.jit.explain(jitted)).splitlines() if "operations" in s)
    words = line.replace(",", "").split()
    return {name: int(n) for n, name in zip(words, words[1:], strict=False) if n.isdigit()}


def other_numbers(tensors, k):
    """The same shapes with other values, still within the intervals that most operators ask for."""
    return [t * (1 - 0.07 * k) if t.is_floating_point() and t.ndim else t for t in tensors]


def outcome(f, args, kwargs):
    try:
        return twice.picture([f(*args, **kwargs), args])
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_table(piece):
    for row in PIECES[piece]:
        if row["name"] in ("_empty", "_empty_like"):
            continue
        for dtype in ("float64", "float32"):
            for case in list(cases(row, dtype))[:3] if dtype in row["types"] else ():
                jitted = ad.jit(function_of(row))
                for k in range(5):
                    seen = []
                    for f in (function_of(row), jitted):
                        ad.manual_seed(k)
                        args, kwargs = case.arguments(other_numbers(case.tensors(), k))
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            seen.append(outcome(f, args, kwargs))
                    assert seen[0] == seen[1], f"{case}, call {k}: {seen[1]}\nexpected {seen[0]}"


def net_loss(x, target, w, b):
    y = F.layer_norm(F.linear(x, w, b), (6,))
    return F.cross_entropy(y, target) + ad.logsumexp(y, 1).mean() + ad.stack([y, y]).amax()


def test_rows_of_small_networks_are_prepared():
    x, w, b = ad.randn(5, 4), ad.randn(6, 4, requires_grad=True), ad.randn(6, requires_grad=True)
    target = ad.tensor([0, 5, 2, 2, 1])

    def step(x, target):
        loss = net_loss(x, target, w, b)
        return loss.detach(), *ad.autograd.grad(loss, (w, b))

    jitted = ad.jit(step)
    for k in range(6):
        assert twice.picture(jitted(x * k, (target + k) % 6)) == twice.picture(step(x * k, (target + k) % 6))
    found = counts(jitted)
    assert found["prepared"] >= 8
    assert found["rows"] == 0, str(ad.jit.explain(jitted))
    # What is wrong with a value is found where eager finds it.
    with pytest.raises(IndexError, match="Target 6 is out of bounds"):
        jitted(x, target + 1)
    assert twice.picture(jitted(x, target)) == twice.picture(step(x, target))


def gathered(x, i, q):
    """Rows whose launches have plans and problems among their arguments, which hold tensors."""
    y = x.index_put((i,), q[0, :5], accumulate=True)[i - 1] + F.pad(x, (1, 1), mode="reflect")[:5, 2:]
    return F.scaled_dot_product_attention(q, q, q) * ad.cdist(y, y)[0, 0], y


def test_rows_with_plans_are_prepared():
    x, i, q = ad.randn(6, 4), ad.tensor([0, 5, 2, 2, 1]), ad.randn(2, 7, 4)
    jitted = ad.jit(gathered)
    for k in range(6):
        call = x * k, (i + k) % 6 - 2, q + k
        assert twice.picture(jitted(*call)) == twice.picture(gathered(*call))
    assert counts(jitted)["rows"] == 0, str(ad.jit.explain(jitted))
    for wrong in (i + 1, i - 7):
        assert outcome(jitted, (x, wrong, q), {}) == outcome(gathered, (x, wrong, q), {})
    assert twice.picture(jitted(x, i, q)) == twice.picture(gathered(x, i, q))


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16, ad.complex64])
@pytest.mark.parametrize("n", [1024, 1025, 1032, 4096, 20_000])
def test_reductions_end_chains_with_eager_bits(n, dtype):
    x = ad.randn(n, dtype=dtype if dtype is not ad.float16 else ad.float32).to(dtype)

    def f(x):
        y = ad.tanh(x) * x + 0.5
        total = y.sum()
        z = y * 2
        return total, z, z.mean() + total

    jitted = ad.jit(f)
    threads = ad.get_num_threads()
    try:
        for k in range(6):
            ad.set_num_threads(1 + k % 2)
            assert twice.picture(jitted(x * (k + 1))) == twice.picture(f(x * (k + 1)))
    finally:
        ad.set_num_threads(threads)


def test_long_reductions_end_chains_on_several_threads():
    x = ad.randn(300_001)
    jitted, threads = ad.jit(lambda x: (ad.tanh(x) * x).mean()), ad.get_num_threads()
    expected = (ad.tanh(x) * x).mean().item()
    try:
        for k in range(6):
            ad.set_num_threads(1 + k % 2)
            assert jitted(x).item() == expected
    finally:
        ad.set_num_threads(threads)
    assert counts(jitted)["chained"] == 3


def test_extremes_and_what_follows_them():
    def f(x):
        y = (x * x).reshape(64, -1)
        top = y.amax()
        y.mul_(3)
        return top, y.max(), (y - top).abs().min()

    jitted = ad.jit(f)
    x = ad.randn(64 * 50)
    x[77] = float("nan")
    for k in range(6):
        assert twice.picture(jitted(x[::1] - k)) == twice.picture(f(x - k))
    assert counts(jitted)["chains"] >= 1


def test_a_chain_that_ends_in_a_sum_makes_no_memory():
    x = ad.randn(300_000)
    jitted = ad.jit(lambda x: (ad.tanh(x) * x + ad.exp(-x * x)).sum())
    for _ in range(4):
        jitted(x)
    assert counts(jitted)["arena_bytes"] < 1024


def test_what_warns_or_asks_stays_a_row():
    """A launch says nothing, so a row that has something to say, or to ask, is not one."""
    jitted = ad.jit(lambda x: x.std(0))
    for _ in range(6):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            jitted(ad.ones(1, 3))
        assert [str(w.message)[:5] for w in heard] == ["std()"]
    jitted = ad.jit(lambda x, y: x // y)
    for y in ([1, 2], [2, 1], [3, 3], [1, 1], [2, 2]):
        jitted(ad.tensor([5, 7]), ad.tensor(y))
    with pytest.raises(RuntimeError, match="ZeroDivisionError|by zero"):
        jitted(ad.tensor([5, 7]), ad.tensor([1, 0]))
