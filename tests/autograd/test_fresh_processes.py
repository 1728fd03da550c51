"""What depends on what a process did before: nothing. Each case runs in a process of its own."""

import subprocess
import sys

import pytest

BEGIN = "import adjoint as ad\nfrom adjoint.autograd import Function\n"
FORWARD = """
class Slope(Function):
    @staticmethod
    def forward(ctx, x):
        return ad.func.jvp(ad.sin, (x,), (ad.ones(()),))[1]
    @staticmethod
    def backward(ctx, g):
        return g
print(Slope.apply(ad.tensor(0.0)).item(), Slope.apply(ad.tensor(0.0)).item())
"""
SWITCHED_OFF = """
from adjoint.autograd import forward_ad
before = ad._C._set_forward_enabled(False)
with forward_ad.dual_level():
    x = forward_ad.make_dual(ad.tensor(2.0), ad.tensor(1.0))
    ad._C._set_forward_enabled(True)
    print(forward_ad.unpack_dual(x * x).tangent.item())
"""


def output(program):
    done = subprocess.run([sys.executable, "-c", BEGIN + program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_first_derivative_inside_of_a_function_is_one():
    assert output(FORWARD) == ["1.0", "1.0"]


def test_the_first_level_can_be_opened_while_none_is_looked_at():
    assert output(SWITCHED_OFF) == ["4.0"]


@pytest.mark.parametrize("stream", ["", "ad._C._serve_torch(True)\n"], ids=["counter", "torch"])
def test_without_a_seed_each_process_draws_its_own_numbers(stream):
    program = stream + "print(ad.initial_seed(), ad.rand(()).item(), ad.Generator().initial_seed())"
    (seed, number, constant), other = output(program), output(program)
    assert seed != other[0] and number != other[1]
    assert constant == other[2] == "67280421310721"
    again = output(stream + f"ad.manual_seed({seed})\nprint(ad.initial_seed(), ad.rand(()).item())")
    assert again == [seed, number]
