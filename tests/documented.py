"""What the documentation of a callable lacks, by NumPy's sections. Start reading at `lacks`."""

import enum
import importlib
import inspect
import operator
import re

import adjoint as ad

#: The public modules whose callables, and the methods of whose classes, are looked at.
MODULES = (
    "adjoint",
    "Tensor",
    "amp",
    "autograd",
    "autograd.forward_ad",
    "autograd.functional",
    "autograd.graph",
    "distributions",
    "distributed",
    "fft",
    "func",
    "fx",
    "hub",
    "library",
    "linalg",
    "masked",
    "models",
    "multiprocessing",
    "nn",
    "nn.attention",
    "nn.functional",
    "nn.grad",
    "nn.init",
    "nn.parallel",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "random",
    "safetensors",
    "scipy",
    "serialization",
    "signal.windows",
    "sparse",
    "special",
    "testing",
    "tree",
    "utils.checkpoint",
    "utils.data",
    "utils.hooks",
)

_HEAD = re.compile(
    r"^(Parameters|Returns|Yields|Raises|Examples|Notes|See Also|Attributes|References|Warns)\n-+\n", re.M
)


def sections(doc):
    found = _HEAD.split(doc)[1:]
    return dict(zip(found[::2], found[1::2]))


def described(text):
    """The parameters of a section of which a type or a sentence is said."""
    said, names = set(), []
    for line in text.split("\n"):
        if line[:1].strip():
            head, _, kind = line.partition(" :")
            names = [n.strip("* ") for n in head.split(",")]
            said.update(names if kind.strip() else ())
        elif line.strip():
            said.update(names)
    return said


def parameters(value, method=False):
    """The names of what a callable takes, None where nothing says it; members of enumerations are not made."""
    if isinstance(value, enum.EnumMeta):
        return []
    try:
        names = [p.name for p in inspect.signature(value).parameters.values()]
    except (TypeError, ValueError):
        return None
    return [n for n in names[method:] if not n.startswith("_")]


def _returns_none(value):
    """Whether its annotation says that there is no result."""
    return getattr(value, "__annotations__", {}).get("return", "") in (None, "None")


def lacks(value, method=False):
    """Yield what is missing: "parameters a, b", "returns", "example"."""
    doc = inspect.getdoc(value) or ""
    if isinstance(value, type) and value.__doc__ is None:
        doc = ""
    found, names = sections(doc), parameters(value, method)
    missing = [] if names is None else [n for n in names if n not in described(found.get("Parameters", ""))]
    if missing:
        yield "parameters " + ", ".join(missing)
    if not isinstance(value, type) and not _returns_none(value) and not {"Returns", "Yields"} & set(found):
        yield "returns"
    if ">>>" not in doc:
        yield "example"


def callables(module):
    """Yield (name, callable, whether it is a method) of a public module, or of "Tensor"; not what the standard library documents."""
    if module == "Tensor":
        for name in dir(ad.Tensor):
            value = inspect.getattr_static(ad.Tensor, name)
            if name[0] != "_" and callable(value) and getattr(ad, name, None) is not value:
                yield name, value, True
        return
    owner = ad if module == "adjoint" else importlib.import_module("adjoint." + module)
    for name in getattr(owner, "__all__", None) or dir(owner):
        value = getattr(owner, name)
        foreign = module == "multiprocessing" and not getattr(value, "__module__", "").startswith("adjoint")
        if name[0] != "_" and callable(value) and not inspect.ismodule(value) and not foreign:
            yield name, value, False


def lacking(module):
    """What each callable of a module lacks, by name; those that lack nothing are not in it."""
    found = {name: list(lacks(value, method)) for name, value, method in callables(module)}
    return {name: lacking for name, lacking in found.items() if lacking}


def _typed(value):
    """The parameters of a method that its signature gives a type, and whether it gives the result one; `*args` may be anything."""
    open_ended = [p.name for p in inspect.signature(value).parameters.values() if str(p).startswith("*")]
    written = getattr(value, "__annotations__", {})
    types = {n: a for n, a in written.items() if a not in ("Any", "") or n in open_ended}
    return types.keys() - {"return"}, "return" in types or value.__name__ == "forward"


def methods(module):
    """Yield (name, function) of the methods that public classes of a module bring; what overrides one means the same."""
    for _, cls, _ in callables(module):
        for name, value in vars(cls).items() if isinstance(cls, type) else ():
            function = getattr(value, "__func__", value)
            if (
                name[0] != "_"
                and inspect.isfunction(function)
                and not any(name in vars(b) for b in cls.__mro__[1:])
            ):
                yield f"{cls.__name__}.{name}", function, not isinstance(value, staticmethod)


def lacking_of_methods(module):
    """What the methods of a module's classes lack: a sentence, and of each parameter and the result a type or a description."""
    found = {}
    for name, function, bound in methods(module):
        said, result = _typed(function)
        missing = [] if function.__doc__ else ["sentence"]
        for part in lacks(function, bound):
            if part.startswith("parameters"):
                names = [n for n in part.removeprefix("parameters ").split(", ") if n not in said]
                missing += ["parameters " + ", ".join(names)] if names else []
            elif part == "returns" and not result:
                missing.append(part)
        if missing:
            found[name] = missing
    return found


#: Classes that programs use daily: each of their public methods has an example. (Generator is the core's.)
DAILY = ("nn.Module", "optim.Optimizer", "optim.lr_scheduler.LRScheduler", "utils.data.DataLoader")


def without_example(name):
    """The methods of a class, inherited ones too, whose documentation has no example."""
    cls = operator.attrgetter(name)(ad)
    methods = {n: inspect.getattr_static(cls, n) for n in dir(cls) if n[0] != "_"}
    return [
        n for n, value in methods.items() if callable(value) and ">>>" not in (inspect.getdoc(value) or "")
    ]
