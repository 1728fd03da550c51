"""Gradients through a replayed call are views of what they are views of without `jit`, also of what a pass was given, and also
where they lie as that does.
"""

import pytest
import twice

import adjoint as ad

OTHER = ad.arange(9.0).reshape(3, 3)
FUNCTIONS = {
    "stacked and added up": lambda x: ad.stack([x, OTHER]).sum(0),
    "a row of an expanded one": lambda x: x.expand(2, 3, 3)[0],
    "transposed twice": lambda x: x.t().t(),
    "flat and back": lambda x: x.view(9).view(3, 3),
    "transposed": lambda x: x.t(),
    "the one that is given": lambda x: x + OTHER,
    "of one number": lambda x: x.sum(),
    "of a row": lambda x: (x + OTHER).sum(0),
}


def seen(function, seed):
    x = ad.ones(3, 3, requires_grad=True)
    y = function(x)
    given = seed(y)
    (g,) = ad.autograd.grad(y, x, given)
    base = g._base
    return (
        twice.picture(g),
        (g is given, g._is_view(), base is given, None if base is None else twice.picture(base)),
        g.data_ptr() == given.data_ptr(),
    )


@pytest.mark.parametrize("seed", [ad.ones_like, lambda y: ad.ones(2, *y.shape)[1]], ids=["whole", "a view"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_that_are_views(name, seed):
    function = FUNCTIONS[name]
    jitted = ad.jit(function)
    for _ in range(5):
        assert seen(jitted, seed) == seen(function, seed)
    assert jitted.stats()["replayed"] >= 2
