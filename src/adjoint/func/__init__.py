"""Transforms of functions, with torch.func's interface: derivatives, batches, and modules as functions of their parameters.

    >>> import adjoint as ad
    >>> from adjoint.func import grad, hessian
    >>> f = lambda x: (x**3).sum()
    >>> grad(f)(ad.tensor([1.0, 2.0])), hessian(f)(ad.tensor([1.0, 2.0]))
    (tensor([ 3., 12.]), tensor([[ 6.,  0.],
            [ 0., 12.]]))

They take and return containers of tensors (`adjoint.tree`; dataclasses too), nest in each other without limit, and
mix with `backward`, hooks and modes. `_reverse` holds what goes backward, `_forward` what goes forward, `_jacobians` whole
matrices, `_modules` modules as functions, `_vmap` batches. See docs/func.md.
"""

# ruff: noqa: F403 - each file says in __all__ what it publishes.
from adjoint._publish.register import listing
from adjoint.func import _forward, _identity, _jacobians, _modules, _reverse, _vmap
from adjoint.func._forward import *
from adjoint.func._identity import *
from adjoint.func._jacobians import *
from adjoint.func._modules import *
from adjoint.func._reverse import *
from adjoint.func._vmap import *

__all__ = (
    _forward.__all__
    + _identity.__all__
    + _jacobians.__all__
    + _modules.__all__
    + _reverse.__all__
    + _vmap.__all__
)
__dir__ = listing(__name__)
