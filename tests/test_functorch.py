"""``import functorch`` in a program written for torch: the transforms, and modules as functions as they used to be made."""

import subprocess
import sys

PROGRAM = """
import adjoint; adjoint.as_torch()
import functorch, torch
from functorch import combine_state_for_ensemble, make_functional, make_functional_with_buffers, vmap
import functorch as ft
from torch import nn

torch.manual_seed(0)

assert float(functorch.grad(torch.sin)(torch.tensor(0.0))) == 1 and ft.vmap(torch.sin)(torch.zeros(2)).tolist() == [0, 0]
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
x = torch.ones(4, 2)
func, params = make_functional(model)
assert len(params) == 4 and all(a is b for a, b in zip(params, model.parameters()))
assert torch.equal(func(params, x), model(x))
assert float(func([p * 0 for p in params], x).sum()) == 0 and float(model[2].bias.detach().abs()) > 0
_, tangent = ft.jvp(lambda p: func(p, x).sum(), (params,), (tuple(torch.zeros_like(p) for p in params),))
assert float(tangent) == 0
_, free = make_functional(model, disable_autograd_tracking=True)
assert not any(p.requires_grad for p in free)
norm = nn.BatchNorm1d(2)
try:
    make_functional(norm)
except RuntimeError as error:
    assert "has buffers" in str(error)
func, params, buffers = make_functional_with_buffers(norm.eval())
assert len(buffers) == 3 and torch.equal(func(params, buffers, x), norm(x))
models = [nn.Linear(2, 3) for _ in range(5)]
func, params, buffers = combine_state_for_ensemble(models)
together = vmap(func, (0, 0, None))(params, buffers, x)
assert torch.allclose(together, torch.stack([m(x) for m in models]), atol=1e-6)
try:
    functorch.nothing
except AttributeError as error:
    print(error)
"""


def test_what_it_has():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (
        run.stdout
        == "module 'functorch' has no attribute 'nothing': Adjoint does not have functorch.nothing\n"
    ), run.stderr
