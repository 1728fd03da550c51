"""What the package offers is there: names in `dir` and `__all__` can be read, and what is missing is missing to `hasattr`."""

import ast
import importlib
import inspect
import pkgutil
import textwrap

import pytest
from helpers import run_python

import adjoint as ad


def modules():
    """Every module of the package that can be imported without running a program."""
    for info in pkgutil.walk_packages(ad.__path__, "adjoint."):
        if not info.name.endswith(("__main__", "demo")):
            yield info.name


@pytest.mark.parametrize("name", ["adjoint", *modules()])
def test_what_a_module_offers_is_there(name):
    module = importlib.import_module(name)
    missing = [n for n in {*dir(module), *getattr(module, "__all__", ())} if not hasattr(module, n)]
    assert missing == []


def test_a_subpackage_that_another_thread_imports_is_waited_for():
    program = """
import sys, threading
import adjoint as ad
sys.setswitchinterval(1e-6)
threading.Thread(target=lambda: ad.nn).start()
while "adjoint.nn" not in sys.modules:
    pass
print(hasattr(ad.nn, "Parameter"))
"""
    assert run_python("-c", program).stdout == "True\n"


# torch's names. Which of them Adjoint has changes; that `hasattr`, `dir` and `import` agree on it does not.
LINALG = (
    "cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor "
    "ldl_solve lstsq lu lu_factor lu_solve matmul matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr "
    "slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm"
).split()
TOP = "fft func linalg special distributions sparse cholesky svd qr det inverse lstsq stft vmap load save".split()


@pytest.mark.parametrize("module, names", [(ad.linalg, LINALG), (ad, TOP)], ids=["linalg", "adjoint"])
def test_dir_hasattr_and_import_agree(module, names):
    for name in names:
        there = hasattr(module, name)
        assert there == (name in dir(module)), name
        if there:
            continue
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
        with pytest.raises(ImportError, match=name):
            exec(f"from {module.__name__} import {name}")


def test_nothing_is_published_that_only_says_it_is_missing():
    """A function whose whole body raises NotImplementedError would pass `hasattr` and fail at the call.

    Programs for torch are given some by name, which `is_name_only` knows; Adjoint has none.
    """
    from adjoint.as_torch.standins._refused import is_name_only

    given_and_not_called = {"fallthrough_kernel"}  # a mark for `Library.impl`
    found, known = [], 0
    for name in modules():
        module = importlib.import_module(name)
        for key, value in [*vars(module).items()]:
            if is_name_only(value) and key.strip("_") == key and name.startswith("adjoint.as_torch.standins"):
                known += 1
            elif inspect.isfunction(
                inspect.unwrap(value) if callable(value) else value
            ) and not key.startswith("_"):
                if refuses(inspect.unwrap(value)) and key not in given_and_not_called:
                    found.append(f"{name}.{key}")
    assert found == []
    assert known > 20, "the modules of `as_torch` that have names only were not looked at"


def refuses(function):
    """Whether all that a function does is to raise NotImplementedError."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    if not isinstance(tree.body[0], ast.FunctionDef):
        return False
    body = [s for s in tree.body[0].body if not isinstance(getattr(s, "value", None), ast.Constant)]
    return (
        len(body) == 1
        and isinstance(body[0], ast.Raise)
        and isinstance(body[0].exc, ast.Call)
        and getattr(body[0].exc.func, "id", "") == "NotImplementedError"
    )
