"""Types and names as users and their tools find them, as far as no type checker is needed: that is tools/check_types.py.

Start reading at `test_dir_shows_what_is_published`.
"""

import ast
import importlib
import pathlib
import subprocess
import sys
import types

import pytest
import typical

import adjoint as ad

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "adjoint"
CHECKOUT = (ROOT / "tools" / "stubs.py").exists()


def public_modules():
    """The modules that one reaches from the package by the names that `dir` shows."""
    found, rest = {}, [ad]
    while rest:
        module = rest.pop()
        found[module.__name__] = module
        inner = [getattr(module, name) for name in dir(module)]
        names = [m for m in inner if isinstance(m, types.ModuleType) and m.__name__.startswith("adjoint.")]
        rest += [m for m in names if m.__name__ not in found and "as_torch" not in m.__name__]
    return found


def test_typical_programs_run():
    typical.main()


def check_dir():
    """In a process of its own, since it imports every public module, some of which declare operators."""
    modules = public_modules()
    assert {"adjoint.nn.functional", "adjoint.utils.data", "adjoint.optim.lr_scheduler"} <= {*modules}
    for name, module in modules.items():
        shown = dir(module)
        assert shown == sorted({*shown}) and "annotations" not in shown, name
        if name not in ("adjoint", "adjoint.return_types"):
            more = {*shown} - {*module.__all__}
            assert {*module.__all__} <= {*shown} and more <= {
                n for n in more if getattr(module, n) is sys.modules.get(f"{name}.{n}")
            }
        published = getattr(module, "__all__", ["__version__"])
        for n in {*shown} - {*published}:
            value = getattr(module, n)
            foreign = isinstance(value, types.ModuleType) and not value.__name__.startswith("adjoint.")
            assert not foreign and n[0] != "_", (name, n)


def test_dir_shows_what_is_published():
    program = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); import test_typing as t; t.check_dir()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_nothing_else_reaches_dir():
    # What programs import later becomes an attribute of the package.
    importlib.import_module("adjoint._version")
    ad.nn.functional.something = math = types.ModuleType("math")
    try:
        assert "something" not in dir(ad.nn.functional) and "_version" not in dir(ad) and math
    finally:
        del ad.nn.functional.something


def test_subpackages_need_no_import_of_their_own():
    program = (
        "import adjoint as ad, sys; before = {*sys.modules}; assert not any('utils.data' in m for m in before);"
        "print(ad.utils.data.DataLoader.__name__, ad.utils.checkpoint.checkpoint.__name__, ad.nn.utils.rnn.__name__)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["DataLoader", "checkpoint", "adjoint.nn.utils.rnn"]


#: Modules that add names at run time, each with its reason.
MADE_LATER = {
    "__init__.py": "publishes the operators that the core declares",
    "return_types.py": "so do their named tuples",
    "autograd/__init__.py": "keeps what it has imported late",
}


def test_names_are_written_down():
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and node.value
            updated = isinstance(node, ast.Attribute) and node.attr == "update" and node.value
            if (where := stored or updated) and ast.unparse(where) == "globals()":
                found.add(file.relative_to(SOURCE).as_posix())
    assert {f for f in found if not f.startswith("as_torch")} == {*MADE_LATER}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    if not CHECKOUT:
        pytest.skip("the tools are in the checkout")
    folder = tmp_path_factory.mktemp("stubs")
    # As the build does: in a process of its own, where nothing declares operators but the core.
    subprocess.run([sys.executable, ROOT / "tools" / "stubs.py", ad._C.__file__, folder], check=True)
    return {file.stem: ast.parse(file.read_text(encoding="utf-8")) for file in folder.iterdir()}


def test_no_type_in_a_stub_is_hidden_by_a_value(stubs):
    assert {*stubs} == {"__init__", "_C", "return_types"}
    for tree in stubs.values():
        classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
        values = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        for node in ast.walk(tree):
            values |= {node.target.id} if isinstance(node, ast.AnnAssign) else set()
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        kinds = [f.returns for f in functions] + [
            a.annotation for f in functions for a in ast.walk(f.args) if isinstance(a, ast.arg)
        ]
        used = {n.id for kind in kinds if kind is not None for n in ast.walk(kind) if isinstance(n, ast.Name)}
        assert used & values - {c.name for c in classes} == set()


def test_the_stub_types_every_argument_of_an_operator(stubs):
    core = {n.name: n for n in stubs["_C"].body if isinstance(n, ast.FunctionDef)}
    said = ast.unparse(core["sum"].args)
    assert "input: Tensor" in said and "keepdim: _bool" in said and "out: Tensor | None" in said
    untyped = [
        f"{row['name']}({a.arg})"
        for row in ad._C.operators()
        if (function := core.get(row["name"]))
        for a in [*function.args.args, *function.args.kwonlyargs]
        if a.annotation is None or ast.unparse(a.annotation) == "_Any"
    ]
    assert untyped == []


@pytest.mark.parametrize("name", ["typical", "wrong"])
def test_programs_for_type_checkers_are_there(name):
    lines = (pathlib.Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8").splitlines()
    marked = sum(line.endswith("# wrong") for line in lines)
    assert len(lines) > 60 and (marked >= 40 if name == "wrong" else marked == 0)
