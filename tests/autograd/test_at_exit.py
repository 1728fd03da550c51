"""The interpreter ends: what still lives is looked at by the last collections, and threads may be at work.

Each program runs by itself, with blocks that are checked (ADJOINT_CHECKS): what was returned is filled with addresses that
nothing has, so that whoever looks at it crashes. Start reading at `ends_well`.
"""

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

#: Objects that live until the end: in a module that refers to itself, and that nobody clears before the last collection.
KEPT = """
import sys, types
import adjoint as ad
from adjoint import nn
module = types.ModuleType("kept"); sys.modules["kept"] = module; module.module = module; module.kept = kept = []

class Twice(ad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.me = ctx
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
"""

PROGRAMS = {
    "modules with hooks": """
for _ in range(50):
    m = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 3))
    for layer in [*m, m]:
        layer.register_forward_hook(lambda m, i, o: setattr(m, "out", o))
        layer.register_full_backward_hook(lambda m, a, b: None)
    m(ad.randn(5, 7))
    kept.append(m)
""",
    "hooks of tensors": """
for _ in range(50):
    x = ad.randn(3, requires_grad=True)
    y = x * 2
    x.register_hook(lambda g, x=x: None)
    y.register_hook(lambda g, y=y: None)
    y.grad_fn.register_hook(lambda a, b, y=y: None)
    kept.append((x, y, y.grad_fn))
""",
    "Functions": """
for _ in range(50):
    x = ad.randn(3, requires_grad=True)
    y = Twice.apply(Twice.apply(x))
    y.grad_fn.extra = y
    kept.append([y, y.grad_fn] if _ % 2 else y * y)
""",
    "tensors with attributes that only the graph has": """
for _ in range(50):
    x = ad.randn(3, requires_grad=True)
    y = x.exp()
    y.mine = [y]
    x.mine = kept
    kept.append(y * x)
    del x, y
""",
    "dual numbers": """
from adjoint.autograd import forward_ad as fwAD
level = fwAD.dual_level(); level.__enter__()
for _ in range(50):
    d = fwAD.make_dual(ad.randn(3, requires_grad=True), ad.randn(3))
    d.mine = d
    kept.append(d * d)
""",
    "hooks of what is saved": """
for _ in range(50):
    x = ad.randn(3, requires_grad=True)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: [t, kept], lambda p: p[0]):
        kept.append(x.exp() * x)
""",
    "memory of others": """
import numpy as np
for _ in range(50):
    a = np.ones((2, 3))
    kept.append(ad.from_numpy(a))
    kept.append(ad.from_dlpack(ad.ones(2, 3)))
    kept.append(kept[-1].numpy())
""",
    "modes": """
from adjoint.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))
mode = Mode(); mode.kept = mode; mode.__enter__()
kept.append(ad.randn(3, requires_grad=True).exp())
""",
}

#: What daemon threads do again and again while the program ends.
WORK = {
    "large calls": "x.detach() * 2; x.detach()[index]",
    "backward passes": "(x @ x).sin().sum().backward()",
    "hooks": "y = x * 2; y.register_hook(lambda g: g * 1); y.sum().backward()",
    "Functions": "Twice.apply(x).sum().backward()",
    "passes in two threads": """
        s = 0
        for _ in range(4):
            y = x * 2
            y.register_hook(lambda g: g * 1)
            s = s + (y @ x).sum()
        with ad.autograd.set_parallel_backward(True):
            s.backward()""",
    "compositions": "ad.nn.functional.gelu(x.detach()); ad.einsum('ij,jk->ik', x.detach(), x.detach())",
}
THREADS = """
import threading, time
index = ad.arange(300)
def work():
    x = ad.randn(300, 300, requires_grad=True)
    while True:
        {work}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep({seconds})
"""


def ends_well(program, **environment):
    environment = {**os.environ, "ADJOINT_CHECKS": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", KEPT + program], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lives_until_the_end_is_whole(name):
    ends_well(PROGRAMS[name])


@pytest.mark.parametrize("name", WORK)
def test_threads_may_work_until_the_end(name):
    for seconds in (0.1, 0.13, 0.17):
        ends_well(THREADS.format(work=WORK[name], seconds=seconds))


#: A library for products that takes its memory away when the program ends, as OpenBLAS does, and then lets others compute for a while.
LIBRARY = """
#include <cstdlib>
#include <unistd.h>
static int* volatile memory = new int(0);
[[gnu::destructor]] static void end() { memory = nullptr; usleep(50000); }
static void compute() { for (int k = 0; k < 100; ++k) usleep(5000), *memory += 1; }
extern "C" {
void cblas_dgemm() {}
void cblas_zgemm() { compute(); }
void cblas_zgemv() {}
void cblas_zdotu_sub() {}
void cblas_zdotc_sub() {}
void zgeev_() { compute(); }
}
"""


@pytest.mark.parametrize("work", ["z @ z", "ad.linalg.eigvals(z)"])
def test_the_library_of_products_may_end_before_threads_do(work, tmp_path):
    compiler = (sysconfig.get_config_var("CXX") or "c++").split()[0]
    if not shutil.which(compiler):
        pytest.skip("there is no compiler")
    source = tmp_path / "products.cpp"
    source.write_text(LIBRARY)
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", tmp_path / "libproducts.so"], check=True)
    program = THREADS.format(work=f"z = ad.zeros(400, 400, dtype=ad.complex128); {work}", seconds=0.3)
    ends_well(program, ADJOINT_BLAS=str(tmp_path / "libproducts.so"))
