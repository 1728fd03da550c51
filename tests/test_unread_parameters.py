"""Every parameter of a public function is read, or declared by `ignores` to have no effect, of which a call says so once."""

import ast
import pathlib
import warnings

import pytest

import adjoint as ad
from adjoint._publish.arguments import ignores, told

ROOT = pathlib.Path(ad.__file__).parent
#: Methods whose signature is that of a protocol, of which one class or the other needs less; and of what only raises.
PROTOCOLS = {
    "log_abs_det_jacobian",  # of transforms: x and y
    "compute_mask",  # of pruning methods
    "noop_mask",  # a function of four indices
    "Identity.__init__",  # takes what the module in whose place it stands would take
    "SpectralNorm.__call__",  # hooks before forward: the module and its inputs
    "WeightNorm.__call__",
    "BasePruningMethod.__call__",
    "BackwardHookFunction.forward",
    "BackwardHookFunction.backward",
    "Function.__init__",  # refused: a Function is called by apply
    "Function.__call__",
    "MPIGroup.__init__",  # made as every group is; MPI itself knows rank and size
    "MPIGroup.monitored_barrier",
    "ProcessGroup.monitored_barrier",
    "ZeroRedundancyOptimizer.join_hook",
    "Tracer.is_leaf_module",  # of torch.fx: programs override them
    "Tracer.getattr",
    "GraphModule.__new__",
    "Interpreter.placeholder",
    "Interpreter.get_attr",
    "Interpreter.output",
    "Transformer.placeholder",
}


def declared(function):
    """The names that decorators of a function say are not read."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name):
            if decorator.func.id in ("ignores", "one_implementation"):
                yield from (argument.value for argument in decorator.args)


def only_refuses(function):
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return all(
        isinstance(s, (ast.Pass, ast.Raise)) or ast.unparse(s).startswith("self._refuse(") for s in body
    )


def unread(function, bound):
    """The parameters of a function that no expression in it names."""
    read = set()
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                read.add(node.id)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals":
                return []
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args)][bound:] + [a.arg for a in given.kwonlyargs]
    names += [a.arg for a in (given.vararg, given.kwarg) if a is not None]
    return [n for n in names if n not in read and not n.startswith("_")]


def functions(body, path=()):
    """Every public function of a module with the names of its classes; not those within functions."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body, (*path, node.name))
        elif isinstance(node, ast.FunctionDef) and (
            not node.name.startswith("_") or node.name in ("__init__", "__new__", "__call__")
        ):
            yield (*path, node.name), node


def files():
    return [f for f in sorted(ROOT.rglob("*.py")) if "as_torch" not in f.parts]


def test_every_parameter_is_read_or_declared_to_have_no_effect():
    found = []
    for file in files():
        for path, function in functions(ast.parse(file.read_text()).body):
            name = ".".join(path)
            if only_refuses(function) or name in PROTOCOLS or path[-1] in PROTOCOLS:
                continue
            static = any(getattr(d, "id", None) == "staticmethod" for d in function.decorator_list)
            lost = {*unread(function, len(path) > 1 and not static)} - {*declared(function)}
            found += [f"{file.relative_to(ROOT)}: {name}({parameter}=)" for parameter in sorted(lost)]
    assert found == []


# --- what a call says -------------------------------------------------------------------------------------------------


def heard(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in told]


def test_a_warning_comes_once_and_for_values_that_ask_for_something():
    @ignores("fast", "hint", why="there is one way")
    @ignores("quiet", why="it is a permission", warns=False)
    def double(x, fast=None, *, hint=7, quiet=False):
        """Twice x."""
        return 2 * x

    assert heard(lambda: [double(1), double(1, None), double(1, False), double(1, hint=7, quiet=True)]) == []
    assert heard(lambda: double(1, True)) == ["double(): fast=True has no effect: there is one way"]
    assert heard(lambda: [double(1, True), double(1, fast=3)]) == []
    assert heard(lambda: double(1, hint=8)) == ["double(): hint=8 has no effect: there is one way"]
    assert (double(4), double.__name__, double.__doc__) == (8, "double", "Twice x.")


def layer():
    return ad.nn.Linear(2, 2)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: ad.optim.Adadelta(layer().parameters(), foreach=True), "Adadelta(): foreach=True"),
        (lambda: ad.optim.AdamW(layer().parameters(), fused=True), "AdamW(): fused=True"),
        (lambda: ad.optim.NAdam(layer().parameters(), capturable=True), "NAdam(): capturable=True"),
        (lambda: ad.nn.utils.clip_grad_value_(layer().parameters(), 1.0, foreach=True), "foreach=True"),
        (lambda: ad.nn.DataParallel(layer(), device_ids=[0, 1]), "DataParallel(): device_ids=[0, 1]"),
        (lambda: ad.autograd.graph.save_on_cpu(pin_memory=True), "save_on_cpu(): pin_memory=True"),
        (lambda: ad.utils.data.DataLoader([1], pin_memory=True), "DataLoader(): pin_memory=True"),
        (lambda: ad.nn.functional.gumbel_softmax(ad.ones(2), eps=0.1), "`eps` parameter is deprecated"),
        (lambda: ad.lobpcg(ad.eye(6), 1, ortho_iparams={}), "lobpcg(): ortho_iparams={}"),
    ],
)
def test_options_without_effect_say_so(call, words):
    told.clear()
    said = heard(call)
    assert [words in text for text in said if "no effect" in text] == [True], said
    assert not [text for text in heard(call) if "no effect" in text]


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: ad.zeros(2, pin_memory=True), RuntimeError, "pin_memory=True requires"),
        (lambda: ad.empty_like(ad.ones(2), pin_memory=True), RuntimeError, "pin_memory=True requires"),
        (lambda: ad.tensor(2, pin_memory=True), RuntimeError, "pin_memory=True requires"),
        (
            lambda: ad.sparse_coo_tensor([[0]], [1.0], pin_memory=True),
            RuntimeError,
            "pin_memory=True requires",
        ),
        (lambda: ad.zeros(2, names=("a",)), TypeError, "dimensions have no names"),
        (lambda: ad.full((2,), 1.0, names=("a",)), TypeError, "dimensions have no names"),
        (lambda: ad.rand(2, 3, names=("a", "b")), TypeError, "dimensions have no names"),
        (
            lambda: ad.cdist(ad.ones(1, 2), ad.ones(1, 2), compute_mode="foo"),
            ValueError,
            "foo is not a valid value",
        ),
        (lambda: ad.repeat_interleave(ad.ones(2), 2, output_size=5), RuntimeError, "expected 4 but got 5"),
        (
            lambda: ad.ones(2, 2).repeat_interleave(ad.tensor([1, 2]), 0, output_size=4),
            RuntimeError,
            "expected 3",
        ),
        (lambda: ad.lobpcg(ad.eye(6), 1, method="nonsense"), ValueError, "'basic' or 'ortho'"),
        (lambda: ad.lobpcg(ad.eye(6), 1, bogus_=1), TypeError, "bogus_"),
        (lambda: ad.lobpcg(ad.eye(6), 1, tracker=print), NotImplementedError, "a tracker"),
        (lambda: ad.func.jacfwd(ad.sin, randomness="no")(ad.ones(2)), RuntimeError, "Only allowed values"),
        (lambda: ad.nn.SyncBatchNorm(3, process_group=5), TypeError, "must be a ProcessGroup"),
        (lambda: layer().compile(backend="nonsense"), RuntimeError, "Invalid backend: 'nonsense'"),
        (
            lambda: ad.eye(2).to_sparse().requires_grad_().to_dense(masked_grad=False),
            NotImplementedError,
            "the stored elements",
        ),
    ],
)
def test_options_that_cannot_be_met_are_refused(call, kind, words):
    with pytest.raises(kind) as raised:
        call()
    assert words in str(raised.value)


def test_ways_of_attention():
    from adjoint.nn.attention import SDPBackend, sdpa_kernel

    x = ad.rand(1, 2, 3)
    for ways in (SDPBackend.MATH, [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
        with sdpa_kernel(ways):
            ad.nn.functional.scaled_dot_product_attention(x, x, x)
    for ways in (SDPBackend.CUDNN_ATTENTION, [], [SDPBackend.OVERRIDEABLE]):
        with pytest.raises(RuntimeError, match="No viable backend"), sdpa_kernel(ways):
            pass


def without_out(function):
    """The lines of a function that takes `out` where it returns something else than what came from there."""
    given = {"out"}

    def named(expression):
        return any(isinstance(node, ast.Name) and node.id in given for node in ast.walk(expression))

    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and named(node.value):
            given.update(n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))

    def lines(block, seen):
        for statement in block:
            if isinstance(statement, ast.Return):
                value = statement.value
                if not (seen or value is None or isinstance(value, ast.Constant) or named(value)):
                    yield statement.lineno
            elif isinstance(statement, ast.If):
                asks = named(statement.test)
                yield from lines(statement.body, seen or asks)
                yield from lines(statement.orelse, seen or asks)
                seen = seen or (asks and isinstance(statement.body[-1], (ast.Return, ast.Raise)))
            else:
                for name in ("body", "orelse", "finalbody"):
                    if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                        yield from lines(getattr(statement, name, []), seen)

    return list(lines(function.body, False))


def test_every_way_through_a_function_gives_to_out():
    """A way that forgets it leaves what the program reads afterwards as it was."""
    found, functions = [], 0
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                if any(a.arg == "out" for a in (*node.args.args, *node.args.kwonlyargs)):
                    functions += 1
                    found += [f"{path.relative_to(ROOT)}:{line}" for line in without_out(node)]
    assert functions > 100 and found == []


def test_out_is_written_where_a_function_goes_another_way():
    z = ad.tensor([1 + 2j, 0])
    for function, arguments in ((ad.special.xlog1py, (z, z)), (ad.nn.functional.hardshrink, (z, 0.5))):
        out = ad.empty(2, dtype=z.dtype)
        assert function(*arguments, out=out) is out and ad.allclose(out, function(*arguments))
    with pytest.raises(TypeError, match="leave one of the two out"):
        ad.nonzero(ad.ones(2), as_tuple=True, out=ad.empty(0, dtype=ad.int64))
    x = ad.ones(2, dtype=ad.float16, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        ad.nextafter(x, x.detach() + 1, out=ad.empty(2, dtype=ad.float16))
