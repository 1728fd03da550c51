"""What the package offers is there: names in `dir` and `__all__` can be read, and what is missing is missing to `hasattr`."""

import importlib
import inspect
import pkgutil

import pytest

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
    """A function whose whole body raises NotImplementedError would pass `hasattr` and fail at the call."""
    found = []
    for name in modules():
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == name and not key.startswith("_"):
                lines = inspect.getsource(value).split(":\n", 1)[-1].strip().splitlines()
                if lines and lines[0].strip().startswith("raise NotImplementedError"):
                    found.append(f"{name}.{key}")
    assert found == []
