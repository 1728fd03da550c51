"""How the package is laid out: modules do not import each other in circles, and files of families have their names.

Start reading at `test_no_module_imports_itself_by_way_of_others`.
"""

import ast
import importlib
import inspect
import operator
import pathlib
import pickle
import pkgutil
import re

import pytest
from helpers import run_python

import adjoint as ad
from adjoint import _moved
from adjoint._help._composition import _function_of_layer
from adjoint._publish import register

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "adjoint"

#: Files of src/adjoint/ops that are named as no header of core/ops, each with its reason.
OWN_NAMES = {
    "einsum": "a small language of its own, whose parser would hide the other products",
    "fourier": "its operators are declared in Python",
}


def modules():
    """Every module of the package: its dotted name and its file."""
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def imports(name, file, known):
    """The modules that a file imports, wherever in it; the package itself, which imports nearly all, does not count."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # What type checkers alone import is imported by no program.
    tree.body = [
        n for n in tree.body if not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            outer = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*outer, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                found.add(inner if inner in known else source)
    # Names for annotations, of which `_types` has some from modules that use the others.
    return (found & known) - {"adjoint", "adjoint._types", name}


def circle(graph):
    """Modules of which each imports the next and the last the first; empty where there are none."""
    done = set()

    def visit(name, path):
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])


def test_no_module_imports_itself_by_way_of_others():
    files = dict(modules())
    assert circle({name: imports(name, file, set(files)) for name, file in files.items()}) == []


@pytest.mark.parametrize(
    "graph, found",
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c"]),
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, []),
    ],
)
def test_a_circle_is_found(graph, found):
    assert circle(graph) == found


def test_imports_are_found_wherever_they_stand(tmp_path):
    file = tmp_path / "m.py"
    file.write_text(
        "from . import a\ndef f():\n    from ..q import name\nfrom adjoint import b\nimport adjoint.c\nimport math\n"
    )
    known = {"adjoint", "adjoint.p.a", "adjoint.q", "adjoint.b", "adjoint.c", "adjoint.p.m"}
    assert imports("adjoint.p.m", file, known) == {"adjoint.p.a", "adjoint.q", "adjoint.b", "adjoint.c"}


def test_compositions_lie_in_files_named_as_the_families_of_the_core():
    families = {file.stem for file in (ROOT / "core" / "ops").glob("*.h")}
    files = {file.stem for file in (SOURCE / "ops").glob("*.py")} - {"__init__"}
    assert files - families == set(OWN_NAMES)
    assert files == {name for name in vars(ad.ops) if not name.startswith("_")}


#: One guess each (Note: where a name lives): the folder or file of src/adjoint in which a public function is written.
HOMES = {
    "nn.functional.max_pool2d": "nn/pooling",
    "nn.functional.dropout": "nn/dropout.py",
    "nn.functional.cross_entropy": "nn/loss",
    "nn.functional.layer_norm": "nn/normalization",
    "nn.functional.embedding": "nn/embedding",
    "nn.functional.linear": "nn/linear",
    "nn.functional.pad": "nn/padding.py",
    "nn.Module": "nn/module",
    "nn.Sequential": "nn/module",
    "linalg.svd": "linalg",
    "svd": "ops/linalg.py",
    "zeros": "_tensor/creation.py",
    "randn": "_tensor/random.py",
    "tensor": "_tensor/data.py",
    "einsum": "ops/einsum.py",
    "Tensor.backward": "_tensor/gradients.py",
    "Tensor.numpy": "_tensor/data.py",
    "tree.map": "tree",
    "utils.checkpoint.checkpoint": "utils/checkpoint.py",
    "utils.data.DataLoader": "utils/data",
}


@pytest.mark.parametrize("name", HOMES)
def test_a_name_is_found_in_one_guess(name):
    public = operator.attrgetter(name)(ad)
    installed = pathlib.Path(inspect.getsourcefile(ad)).parent
    file = pathlib.Path(inspect.getsourcefile(inspect.unwrap(public))).relative_to(installed)
    assert file == pathlib.Path(HOMES[name]) or pathlib.Path(HOMES[name]) in file.parents


def test_a_layer_lies_beside_its_function():
    """max_pool2d beside MaxPool2d: in one file or folder of nn, but for convolutions, which are functions of `adjoint` too."""
    apart = set()
    for name in ad.nn.__all__:
        layer, function = getattr(ad.nn, name), _function_of_layer(name)
        if isinstance(layer, type) and function is not None:
            written = inspect.unwrap(getattr(ad.nn.functional, function)).__module__
            if written.split(".")[:3] != layer.__module__.split(".")[:3]:
                apart.add((function, written))
    assert {written for _, written in apart} == {"adjoint.ops.convolution"}


def test_texts_use_the_field_s_words():
    """No relative clauses where the field has a noun."""
    words = re.compile(
        r"\b(of old|nobody|somebody|whoever|in the place of|in vain)\b|(\"\"\"|#: )As `", re.IGNORECASE
    )
    found = []
    for file in [f for kind in ("*.py", "*.txt") for f in sorted(SOURCE.rglob(kind))]:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{file.relative_to(SOURCE)}:{number}: {line.strip()}"] * bool(words.search(line))
    assert found == []


def test_what_has_moved_is_imported_by_its_new_name():
    known = {name for name, _ in modules()}
    assert set(_moved.MOVED.values()) <= known and not known & set(_moved.MOVED)
    old = re.compile(r"\b(" + "|".join(map(re.escape, _moved.MOVED)) + r")\b(?! import)")
    for name, file in modules():
        for target in imports(name, file, known | set(_moved.MOVED)):
            assert target not in _moved.MOVED, f"{file}: {target} is now {_moved.MOVED[target]}"
        assert file.name in ("_moved.py", "names.py") or not old.search(file.read_text("utf-8")), file
    for name, new in _moved.MOVED.items():
        assert importlib.import_module(name) is importlib.import_module(new)


def test_a_composition_has_no_operator_s_name():
    assert [
        name for name in register.functions if isinstance(getattr(ad._C, name, None), ad._C.Operator)
    ] == []


def test_what_is_published_is_known_by_the_name_that_users_see():
    for name, function in register.functions.items():
        assert getattr(ad, name) is function and function.__module__ == "adjoint", name
        assert pickle.loads(pickle.dumps(function)) is function


def test_the_walk_leads_through_the_house_as_it_is():
    """Each step of docs/notes/walk.md names a function that is in that file; and they are as many as it says."""
    text = (ROOT / "docs/notes/walk.md").read_text(encoding="utf-8")
    steps = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\*\*|\Z)", text, re.MULTILINE | re.DOTALL)
    files = set()
    for path, name in re.findall(r"`(\S+): ([^`]*)`", text):
        file = next(f for f in (ROOT / "core" / path, ROOT / path) if f.is_file())
        files.add(file)
        names = re.findall(r"\w+", re.split(r"[<(]", name)[0])
        for word in names:
            assert re.search(rf"\b{word}\b", file.read_text(encoding="utf-8")), (path, name)
    assert [int(n) for n, _ in steps] == [*range(1, len(steps) + 1)]
    told = re.search(r"(\d+) steps through (\d+) files", text)
    assert (len(steps), len(files)) == tuple(map(int, told.groups()))


def test_no_file_is_longer_than_500_lines():
    files = [
        f for folder in ("core", "src", "tests", "tools", "benchmarks") for f in (ROOT / folder).rglob("*")
    ]
    sources = [f for f in files if f.suffix in (".py", ".h", ".cpp")]
    assert len(sources) > 800  # it has looked
    assert [
        f"{f.relative_to(ROOT)}: {n}" for f in sources if (n := len(f.read_text("utf-8").splitlines())) > 500
    ] == []


def test_types_of_attributes_can_be_asked_for_at_run_time():
    """`typing.get_type_hints` of a subclass evaluates those of its bases, without what only type checkers import."""
    found = []
    for info in pkgutil.walk_packages(ad.__path__, "adjoint."):
        parts = info.name.split(".")
        if "as_torch" in parts or parts[-1] == "__main__":
            continue
        module = importlib.import_module(info.name)
        for cls in {value for value in vars(module).values() if isinstance(value, type)}:
            hints = vars(cls).get("__annotations__", {})
            if cls.__module__ != info.name or not isinstance(hints, dict):
                continue
            for name, hint in hints.items():
                try:
                    eval(hint, dict(vars(module)), dict(vars(cls))) if isinstance(hint, str) else None
                except NameError:
                    found.append(f"{info.name}.{cls.__name__}.{name}: {hint}")
    assert found == [], "declare them below `if TYPE_CHECKING:`"


#: Where the rest of the package reaches what it has for torch's sake, and when.
DOORS = {
    "adjoint": "ad.FloatTensor, which is looked up when it is asked for",
    "adjoint.sparse": "sparse.FloatTensor likewise",
    "adjoint._files.reading": "a file that names torch's classes, which only `weights_only=False` takes",
}


def test_what_is_there_for_torch_s_sake_is_not_imported_by_the_rest():
    files = dict(modules())
    found = set()
    for name, file in files.items():
        if not name.startswith("adjoint.as_torch") and any(
            other.startswith("adjoint.as_torch") for other in imports(name, file, set(files))
        ):
            found.add(name)
            at_import = "".join(
                ast.unparse(n) for n in ast.parse(file.read_text()).body if isinstance(n, ast.ImportFrom)
            )
            assert "as_torch" not in at_import, name
    assert found == set(DOORS)
    public = "; ".join(f"getattr(ad, {name!r})" for name in ad._LAZY if name != "as_torch")
    left = "[m for m in sys.modules if m.startswith('adjoint.as_torch')]"
    assert run_python("-c", f"import sys, adjoint as ad; {public}; print({left})").stdout == "[]\n"


@pytest.mark.parametrize("module, name", [(m, n) for m, names in _moved.PAST.items() for n in names])
def test_what_torch_has_given_up_is_found_unlisted(module, name):
    holder = importlib.import_module(module)
    value = getattr(holder, name)
    assert name not in dir(holder) and (value.__name__.rpartition(".")[2] == name)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}_of_old'"):
        getattr(holder, name + "_of_old")


def test_a_submodule_does_not_hide_the_function_of_its_name():
    hook = importlib.import_module("adjoint.nn.utils.weight_norm").WeightNorm
    assert hook.__module__ == "adjoint.as_torch.past.weight_norm"
    layer = ad.nn.utils.weight_norm(ad.nn.Linear(3, 2))
    assert isinstance(pickle.loads(pickle.dumps(layer)), ad.nn.Linear) and layer.weight_g.shape == (2, 1)


def test_whole_functions_that_torch_deprecates_are_in_its_folder():
    """Functions that begin by saying so, rather than for an argument; a method stays with its class."""
    found = []
    for name, file in modules():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and "as_torch" not in name:
                first = [s for s in node.body if not isinstance(getattr(s, "value", None), ast.Constant)][:1]
                found += [f"{name}.{node.name}" for s in first if ast.unparse(s).startswith("announce(")]
    assert found == ["adjoint.distributions.distribution.sample_n"]


#: Files that speak of a program that is started by this name, or of the package as such.
OF_THE_PACKAGE = {"demo.py", "distributed/run.py"}


def test_errors_name_the_namespace_that_is_loaded():
    """`switches.package`, rather than one that is written down: adjoint, or torch under `as_torch` (where alone `announce` speaks)."""
    written = re.compile(r"(?<![\w'.#-])(?<!-m )(?<!import )(torch|adjoint)\.[a-zA-Z]")
    found = []
    for file in SOURCE.rglob("*.py"):
        tree, path = ast.parse(file.read_text(encoding="utf-8")), file.relative_to(SOURCE).as_posix()
        texts = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "announce":
                texts |= {id(n) for n in ast.walk(node)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in texts else None
            # A sentence; what has examples or sections is documentation.
            if isinstance(text, str) and " " in text.strip() and not re.search(">>>|---|`, or", text):
                found += [f"{path}:{node.lineno}: {text}"] * bool(written.search(text))
    assert [f for f in found if not f.startswith(("as_torch/", *OF_THE_PACKAGE))] == []
