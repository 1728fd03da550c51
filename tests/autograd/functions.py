"""What the tests of Functions share: `leaf` makes inputs, `function` makes a Function of its methods."""

import adjoint as ad
from adjoint.autograd import Function


def leaf(*values):
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def function(forward, backward=None, **members):
    """A Function called My; its backward passes the first gradient on, unless another one is given."""
    methods = {"forward": forward, "backward": backward or (lambda ctx, *g: g[0])}
    return type("My", (Function,), {name: staticmethod(f) for name, f in methods.items()} | members)
