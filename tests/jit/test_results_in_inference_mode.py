"""Whether what a jitted function gives is an inference tensor: as eager has it, whatever modes stand around it and in it."""

import contextlib

import pytest
from twice import same

import adjoint as ad

MODES = {
    "plain": contextlib.nullcontext,
    "inference": ad.inference_mode,
    "not inference": lambda: ad.inference_mode(False),
    "no_grad": ad.no_grad,
}
FUNCTIONS = {
    "made": lambda x: x.sin(),
    "view": lambda x: x[0],
    "itself": lambda x: x,
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view of what is made": lambda x: x.sin()[0],
    "all of it": lambda x: (lambda y: (y, y.detach(), y[0]))(x * 2),
    "written": lambda x: x.add_(1),
}


@pytest.mark.parametrize("inside", MODES)
@pytest.mark.parametrize("around", MODES)
def test_results_are_inference_tensors_where_eagers_are(around, inside):
    def program(jit, see):
        kept = {}
        for function in FUNCTIONS.values():

            def stores(x, function=function):
                with MODES[inside]():
                    kept["x"] = function(x)

            def gives(x, function=function):
                with MODES[inside]():
                    return function(x)

            for given in ("normal", "inference", "leaf"):
                f, g = jit(gives), jit(stores)
                for _ in range(6):
                    with ad.inference_mode(given == "inference"):
                        x = ad.ones(2, 2)
                    x.requires_grad_(given == "leaf")
                    with see.error(), MODES[around]():
                        see(f(x), x)
                        g(x)
                        see(kept.pop("x"), x)

    same(program)
