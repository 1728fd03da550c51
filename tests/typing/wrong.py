"""Wrong calls, each of which a type checker has to reject: an error in every line that ends in ``wrong``, and in no other.

Nothing runs this file. See tools/check_types.py.
"""

from __future__ import annotations

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.utils.checkpoint import checkpoint
from adjoint.utils.data import DataLoader, TensorDataset

x = ad.randn(2, 3)
model = nn.Linear(3, 2)

x.sum(0, keepdim="no")  # wrong
x.sum("rows")  # wrong
x.softmax("q")  # wrong
x.add("three")  # wrong
x.view("a")  # wrong
x.transpose(0)  # wrong
x.clamp(min="0")  # wrong
x.to(dtype="float32")  # wrong
x.backward("gradient")  # wrong
x.nonsense()  # wrong
x + "three"  # wrong
x @ 3.0  # wrong
x.shape.nonsense  # wrong
x.requires_grad_("yes", 1)  # wrong
x.sort(descending="yes")  # wrong
x.topk(1).nonsense  # wrong
x.normal_(generator=0)  # wrong
ad.add(x, "three")  # wrong
ad.matmul(x, 3)  # wrong
ad.cat(x, dim="0")  # wrong
ad.stack([x, "x"])  # wrong
ad.sin(3.0)  # wrong
ad.zeros("two")  # wrong
ad.ones(2, dtype="float32")  # wrong
ad.tensor([1.0], requires_grad="yes")  # wrong
ad.arange("three")  # wrong
ad.rand(2, generator=0)  # wrong
ad.manual_seed("zero")  # wrong
ad.where(x, x)  # wrong
ad.nonsense(x)  # wrong
ad.device(0.5)  # wrong
ad.set_grad_enabled("no", 1)  # wrong
ad.autograd.grad(x, "x")  # wrong
ad.func.grad("f")  # wrong
ad.vmap(3)  # wrong
ad.finfo("float32")  # wrong
nn.Linear("a", "b")  # wrong
nn.Conv2d(3, 8)  # wrong
nn.Conv2d(3, 8, kernel_size="three")  # wrong
nn.MaxPool2d(2, strides=1)  # wrong
nn.ZeroPad2d("one")  # wrong
nn.Dropout(p="half")  # wrong
nn.LSTMCell(3, "four")  # wrong
nn.Embedding(10, [3])  # wrong
nn.BatchNorm2d("channels")  # wrong
nn.CrossEntropyLoss(label_smoothing="some")  # wrong
nn.Parameter([1.0, 2.0])  # wrong
nn.LazyLinear("two")  # wrong
nn.utils.clip_grad_norm_(model.parameters(), "one")  # wrong
nn.init.normal_("weight")  # wrong
F.max_pool2d("image", 2)  # wrong
F.relu(x, inplace="yes")  # wrong
F.conv2d(x, "kernel")  # wrong
F.cross_entropy(x, x, reduction=0)  # wrong
F.interpolate(x, size="large")  # wrong
F.nonsense(x)  # wrong
F.one_hot(3)  # wrong
F.dropout(x, p="half")  # wrong
model.train("yes", 1)  # wrong
model.load_state_dict(3)  # wrong
optim.SGD(model.parameters(), lr="fast")  # wrong
optim.Adam(model.parameters(), betas=0.9)  # wrong
optim.lr_scheduler.StepLR(model, step_size=1)  # wrong
DataLoader(TensorDataset(x), batch_size="two")  # wrong
TensorDataset("x")  # wrong
checkpoint(3, x)  # wrong
ad.special.nonsense(x)  # wrong
ad.linalg.nonsense(x)  # wrong
