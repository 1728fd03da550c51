"""The package as it is installed: its version, its types, its licence, its libraries.

What only an installation has is skipped where the tests run on the sources with the core built into them.
"""

import ast
import builtins
import importlib.metadata
import importlib.util
import inspect
import pathlib
import re

import pytest

import adjoint as ad
from adjoint._version import distribution

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(ad.__file__).resolve().parent

installed = pytest.mark.skipif(
    PACKAGE == ROOT / "src" / "adjoint", reason="runs on the sources, not on an installation"
)


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", ad.__version__)


def test_the_name_on_the_index_is_stated_once():
    # pyproject.toml states it; what is imported has it for messages, and text follows it: `adjoint` is somebody else's there.
    stated = re.search(r'^name = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert stated[1] == distribution
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    texts += [p for folder in ("src", "tests", "tools", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    wrong = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install (?:-\S+ )*[\"']?adjoint(?!-ad\b)", line)
    }
    assert not wrong


@installed
def test_the_version_is_the_one_installed():
    assert importlib.metadata.version(distribution) == ad.__version__


def test_typed():
    assert (PACKAGE / "py.typed").is_file()


def declared(stub):
    """The names that a stub declares, and the names in its classes as Class.name."""
    names = set()
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets}
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        else:
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            members = [m for m in node.body if isinstance(m, (ast.AnnAssign, ast.FunctionDef))]
            inner = [m.target.id if isinstance(m, ast.AnnAssign) else m.name for m in members]
            names |= {f"{node.name}.{name}" for name in inner}
    return names


@installed
def test_stubs_declare_every_public_name():
    names = declared(PACKAGE / "__init__.pyi")
    # Modules that another test has imported stand in the package too: only those count that it brings itself.
    public = {name for name in dir(ad) if name not in ad._LAZY and not inspect.ismodule(getattr(ad, name))}
    public |= {name for name in ad._LAZY if importlib.util.find_spec(f"adjoint.{name}")}
    assert public - names == set()


@installed
def test_stubs_declare_every_method():
    names = declared(PACKAGE / "_C.pyi")
    public = {f"Tensor.{name}" for name in vars(ad.Tensor) if not name.startswith("_")}
    assert public - names == set()


@installed
def test_stubs_name_nothing_that_they_do_not_have():
    for stub in ("__init__.pyi", "_C.pyi"):
        tree = ast.parse((PACKAGE / stub).read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        types = [f.returns for f in functions] + [a.annotation for f in functions for a in arguments(f)]
        used = {n.id for t in types if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}
        assert used - declared(PACKAGE / stub) - set(dir(builtins)) == set(), stub


def arguments(function):
    own = function.args
    return [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]


@installed
def test_licence():
    files = importlib.metadata.files(distribution)
    text = next(f for f in files if f.name == "LICENSE").read_text(encoding="utf-8")
    assert text == (ROOT / "LICENSE").read_text(encoding="utf-8") and "BSD 3-Clause" in text


@installed
def test_nothing_but_the_package_is_installed():
    tops = {f.parts[0] for f in importlib.metadata.files(distribution)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"adjoint"}


@installed
def test_size():
    # What is promised: at most 40 MB on the disk, the BLAS included.
    total = 0
    for name in (distribution, "scipy-openblas32"):
        files = importlib.metadata.files(name)
        total += sum(f.locate().stat().st_size for f in files if f.suffix != ".pyc" and f.locate().exists())
    assert total <= 40e6
