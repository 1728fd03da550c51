"""`import adjoint` is light: it leaves NumPy alone and pulls in few modules. Each check runs in its own
process.
"""

import sys

import pytest
from helpers import run_python

import adjoint as ad


def modules_after(code):
    script = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_does_not_import_numpy():
    assert not {m for m in modules_after("import adjoint") if m.partition(".")[0] == "numpy"}


def test_import_is_small():
    # A count is exact where a time is noisy: what costs at import is modules.
    assert len(modules_after("import adjoint")) < 120
    heavy = {"asyncio", "multiprocessing", "unittest", "urllib", "http", "email", "scipy", "rich", "sklearn"}
    heavy |= {"collections", "functools", "inspect", "re", "typing"}
    assert not heavy & modules_after("import adjoint")


def test_import_takes_what_an_interpreter_has():
    """Where no package has loaded more at its start (`-S`)."""
    done = run_python(
        "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; import adjoint; print(*sys.modules)"
    )
    assert done.returncode == 0, done.stderr
    assert not {"importlib", "warnings"} & set(done.stdout.split())


PROGRAM = """
import adjoint as ad
x = ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
y = (ad.tanh(x @ x) * x[0]).sum().log()
y.backward()
repr(x.grad); x.grad.tolist(); float(y); ad.randn(3); x[x > 1]; ad.cat([x, x])
import pickle; pickle.loads(pickle.dumps(x))
"""


def test_ordinary_work_needs_no_numpy():
    assert "numpy" not in modules_after(PROGRAM)


def test_numpy_arrives_when_asked_for():
    assert "numpy" in modules_after("import adjoint as ad; ad.ones(2).numpy()")


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ImportError("numpy is not installed")
sys.meta_path.insert(0, Block())
"""


def test_works_where_numpy_is_not_installed():
    modules_after(BLOCKED + PROGRAM)


ASK = """
import adjoint as ad
try:
    ad.ones(2).numpy()
except Exception as error:
    assert "umpy" in str(error), error
else:
    raise SystemExit("no error")
"""


def test_missing_numpy_is_named():
    modules_after(BLOCKED + ASK)


@pytest.mark.parametrize("name", ["__version__", "Tensor", "autograd", "nn", "optim"])
def test_public_names(name):
    assert hasattr(ad, name)
