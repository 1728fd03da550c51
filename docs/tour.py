"""A tour of Adjoint that runs: ``python docs/tour.py``. Each part states what it shows and checks it."""

import math

import adjoint as ad
from adjoint import nn, optim

# --- Tensors ---------------------------------------------------------------------------------------------------------
a = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
assert a.shape == (2, 2) and a.dtype is ad.float32
assert (a @ a).tolist() == [[7.0, 10.0], [15.0, 22.0]]
assert a[0].tolist() == [1.0, 2.0]  # a view: no copy
assert (a > 2).sum().item() == 2

# --- Gradients -------------------------------------------------------------------------------------------------------
x = ad.tensor(3.0, requires_grad=True)
y = x**2 + 2 * x + 1
y.backward()
assert x.grad.item() == 8.0

# The graph is what ran: loops and branches need no special form.
x = ad.tensor(2.0, requires_grad=True, dtype=ad.float64)
y = x
for _ in range(3):
    y = y * y if y < 100 else y + 1
(slope,) = ad.autograd.grad(y, x)
assert slope.item() == 8 * 2.0**7

# --- Derivatives of derivatives --------------------------------------------------------------------------------------
x = ad.tensor(0.5, requires_grad=True, dtype=ad.float64)
(first,) = ad.autograd.grad(ad.sin(x), x, create_graph=True)
(second,) = ad.autograd.grad(first, x)
assert math.isclose(second.item(), -math.sin(0.5))

# --- Without recording -----------------------------------------------------------------------------------------------
with ad.no_grad():
    assert not (x * 2).requires_grad

# --- Training --------------------------------------------------------------------------------------------------------
ad.manual_seed(0)
inputs = ad.randn(64, 2)
targets = inputs[:, :1] * 2 - inputs[:, 1:] + 0.5
model = nn.Linear(2, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(200):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
assert nn.functional.mse_loss(model(inputs), targets).item() < 1e-6


# --- Replay: the same step without Python ----------------------------------------------------------------------------
@ad.jit
def step(inputs: ad.Tensor, targets: ad.Tensor) -> ad.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()


for _ in range(10):
    loss = step(inputs, targets)
assert step.stats()["replayed"] == 7

print("the tour is complete")
