"""Numbers of torch's generator: what torch 2.13 gave for each expression, around the sizes where its method changes.

`tests/data/torch_stream.json` holds, for each expression, the first values that torch gave after ``manual_seed(7)`` and a
checksum of all of them as doubles. ``python tests/tensor/test_torch_stream.py`` writes it anew, with torch.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import sys
import zlib

import pytest

RECORDED = pathlib.Path(__file__).parent.parent / "data" / "torch_stream.json"
FLOATS = ("float32", "float64", "float16", "bfloat16")


def expressions():
    """Each draws from the default generator; `t` is the library."""
    for dtype, n in itertools.product(FLOATS, (1, 2, 15, 16, 17, 33, 1001)):
        yield f"t.rand({n}, dtype=t.{dtype})"
        yield f"t.randn({n}, dtype=t.{dtype})"
    # Across the words that are made at once, and the numbers.
    for dtype, n in itertools.product(FLOATS, (624, 1024, 1039, 1040, 5003)):
        yield f"t.rand({n}, dtype=t.{dtype})"
        yield f"t.randn({n}, dtype=t.{dtype})"
    yield "t.cat([t.rand(617), t.randn(1040), t.randn(3), t.rand(700), t.randint(9, (5,)), t.randn(40)])"
    yield "t.cat([t.randn(3, dtype=t.float64), t.rand(301, dtype=t.float64), t.rand(1), t.randn(40, dtype=t.float64)])"
    yield "t.empty(20, dtype=t.complex64).uniform_(-1, 2).real"
    yield "t.view_as_real(t.empty(3, dtype=t.complex128).uniform_())"
    for dtype, n in itertools.product(FLOATS, (3, 40)):
        yield f"t.empty({n}, dtype=t.{dtype}).uniform_(-0.37, 0.713)"
        yield f"t.empty({n}, dtype=t.{dtype}).normal_(0.3, 1.7)"
        yield f"t.empty({n}, dtype=t.{dtype}).bernoulli_(0.3)"
        yield f"t.bernoulli(t.full(({n},), 0.4, dtype=t.{dtype}))"
        yield f"t.empty({n}, dtype=t.{dtype}).exponential_(0.7)"
        yield f"t.nn.functional.dropout(t.ones({n}, dtype=t.{dtype}), 0.3)"
    for dtype in ("uint8", "int8", "int16", "int32", "int64", "bool", *FLOATS):
        yield f"t.empty(20, dtype=t.{dtype}).random_()"
    for high in ("10", "2**28 - 1", "2**28", "2**32", "2**40", "2**62"):
        yield f"t.randint({high}, (20,))"
        yield f"t.randint(-5, {high}, (4, 5))"
    yield "t.empty(9, dtype=t.int64).random_(-2**63, None)"
    for n in (0, 1, 2, 1000):
        yield f"t.randperm({n})"
    for method in ("uniform_()", "normal_()", "bernoulli_(0.4)", "random_(50)"):
        yield f"t.empty(4, 6).t().{method}"
        yield f"t.empty(40)[::2].{method}"
    for n in (7, 8, 9):
        yield f"t.view_as_real(t.randn({n}, dtype=t.complex64))"
    for dtype in ("float32", "float64"):
        weights = f"t.linspace(0.1, 1, 12, dtype=t.{dtype}).reshape(3, 4)"
        yield f"t.multinomial({weights}, 1)"
        yield f"t.multinomial({weights}, 3)"
        yield f"t.multinomial({weights}, 9, True)"
    yield "t.cat([t.randn(3), t.randn(2), t.rand(2), t.randn(20), t.randn(1)])"
    yield "t.normal(t.arange(20.0), t.arange(1.0, 21.0))"
    for layer in (
        "Linear(7, 5)",
        "Conv2d(3, 8, 3)",
        "LSTM(5, 6, 2)",
        "Embedding(10, 6)",
        "MultiheadAttention(8, 2)",
    ):
        yield f"t.cat([p.detach().reshape(-1) for p in t.nn.{layer}.parameters()])"
    for scheme in (
        "xavier_uniform_",
        "xavier_normal_",
        "kaiming_uniform_",
        "kaiming_normal_",
        "trunc_normal_",
    ):
        yield f"t.nn.init.{scheme}(t.empty(9, 6))"
    yield "t.nn.init.trunc_normal_(t.empty(30), 0.0, 1.0, 1.0, 1.2)"
    for dtype, n in itertools.product(("float32", "float64"), (3, 40)):
        a = f"t.arange(1.0, {n + 1}, dtype=t.{dtype})"
        for rates in (f"{a} / 4", f"{a} + 30"):
            yield f"t.poisson({rates})"
            yield f"t.binomial({a} * 9, 1 / ({rates} + 1))"
            yield f"t.binomial({a} * 9, 1 - 1 / ({rates} + 1))"
            yield f"t.distributions.Gamma({rates}, t.ones({n}, dtype=t.{dtype})).sample()"
        if (dtype, n) != ("float64", 40):  # whose sum torch takes in another order
            yield f"t.distributions.Dirichlet({a} / 3).sample((2,))"
        yield f"t.distributions.Beta({a}, {a} / 3).sample()"
        yield f"t.distributions.Chi2({a}).sample((2,))"
        yield f"t.distributions.StudentT({a}).sample()"
        yield f"t.empty({n}, dtype=t.{dtype}).cauchy_(0.2, 1.3)"
        yield f"t.empty({n}, dtype=t.{dtype}).geometric_(0.3)"
        yield f"t.empty({n}, dtype=t.{dtype}).log_normal_(0.2, 0.5)"
        yield f"t.rrelu({a} / 8 - 1, training=True)"
        yield f"t.normal({a}, 2.0)"
        yield f"t.normal(0.5, {a})"
    yield "t.poisson(t.arange(20.0).to(t.bfloat16))"
    yield "t.poisson(t.arange(20.0).to(t.float16))"
    yield "t.normal(t.zeros(4, 5, dtype=t.float16), t.ones(5))"
    for method in (
        "cauchy_()",
        "geometric_(0.4)",
        "log_normal_()",
        "exponential_()",
        "bernoulli_(t.full((6, 4), 0.3))",
        "random_(-5, 2**40)",
    ):
        yield f"t.empty(4, 6).t().{method}"
        yield f"t.empty(6, 4, dtype=t.float64).{method}"
        yield f"t.empty(6, 8)[:, ::2].{method}"
    yield "t.normal(t.zeros(6, 8).t(), 1.0)"
    yield "t.distributions.VonMises(t.tensor(0.0), t.tensor(2.0)).sample((20,))"
    yield "t.nn.Dropout2d(0.4)(t.ones(3, 5, 2, 2))"
    yield "t.cat([b for (b,) in t.utils.data.DataLoader(t.utils.data.TensorDataset(t.arange(20.0)), 6, shuffle=True)])"
    yield "t.tensor(list(t.utils.data.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7], 3, False)))"


def drawn(library, expression):
    """What is recorded of an expression."""
    library.manual_seed(7)
    values = eval(expression, {"t": library}).detach().to(library.float64).contiguous()
    return [*values.flatten()[:3].tolist(), zlib.crc32(values.numpy().tobytes())]


PROGRAM = """
import json, sys
import adjoint
torch = adjoint.as_torch()
sys.path.insert(0, {folder!r})
from test_torch_stream import drawn, expressions
print(json.dumps({{e: drawn(torch, e) for e in expressions()}}))
"""


@pytest.fixture(scope="module")
def given():
    program = PROGRAM.format(folder=str(pathlib.Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_expression_is_recorded():
    assert [*json.loads(RECORDED.read_text(encoding="utf-8"))] == [*expressions()]


@pytest.mark.parametrize("expression", expressions())
def test_numbers(expression, given):
    """Under `as_torch`, each number is torch's to the last bit."""
    assert given[expression] == json.loads(RECORDED.read_text(encoding="utf-8"))[expression]


def test_a_generator_of_its_own():
    import adjoint as ad

    generator = ad.Generator(stream="torch").manual_seed(7)
    assert generator.stream == "torch" and generator.initial_seed() == 7
    assert (
        ad.rand(3, generator=generator).tolist()
        == json.loads(RECORDED.read_text())["t.rand(15, dtype=t.float32)"][:3]
    )
    assert ad.Generator().stream == "counter"
    with pytest.raises(ValueError, match="expected stream to be 'counter' or 'torch', but got 'mkl'"):
        ad.Generator(stream="mkl")


def test_its_state():
    """A state that was read goes on with the same numbers, half a pair of normal numbers included."""
    import adjoint as ad

    generator = ad.Generator(stream="torch").manual_seed(3)
    ad.randn(3, generator=generator)
    state = generator.get_state()
    assert state.shape == (5056,)
    expected = ad.randn(5, generator=generator)
    assert ad.equal(ad.randn(5, generator=ad.Generator(stream="torch").set_state(state)), expected)
    with pytest.raises(RuntimeError, match="has 5056 bytes, got 16"):
        generator.set_state(ad.Generator().get_state())
    with pytest.raises(ValueError, match="position"):
        generator.set_state(ad.full((5056,), 255, dtype=ad.uint8))
    with pytest.raises(ValueError, match="has 16 bytes, got 5056"):
        ad.Generator().set_state(state)


def test_draws_for_each_element():
    """What a vmap has for each sample takes the same numbers after the same seed."""
    import adjoint as ad

    generator = ad.Generator(stream="torch")
    draws = [ad.poisson(ad.full((6,), 3.0), generator=generator.manual_seed(5)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]
    rates = ad.full((3, 2), 3.0)
    mapped = ad.func.vmap(lambda r: ad.poisson(r, generator=generator.manual_seed(5)), randomness="different")
    assert mapped(rates).tolist() == ad.poisson(rates, generator=generator.manual_seed(5)).tolist()


if __name__ == "__main__":
    import torch

    RECORDED.write_text(
        json.dumps({e: drawn(torch, e) for e in expressions()}, indent=0) + "\n", encoding="utf-8"
    )
