"""Each public function of these modules, and each layer in both modes, under `jit`, with what its own example calls it with: the
same bits as eagerly, and replays, or one of a few reasons.

A function is called through the package (`ad.linalg.solve`), as programs do, so that what its code names is followed from the
program's names. Start reading at `captured`.
"""

import copy
import doctest
import functools
import importlib
import inspect
import re
import types
import warnings

import pytest
import twice
from documented import callables

import adjoint as ad
from adjoint.nn.module.global_hooks import register_module_forward_hook

F = ad.nn.functional
MODULES = (
    "adjoint",
    "autograd",
    "autograd.functional",
    "fft",
    "func",
    "linalg",
    "nn",
    "nn.functional",
    "nn.utils.rnn",
    "signal.windows",
    "special",
    "utils.checkpoint",
)
CALLS = 6

#: Words in the reason why calls are not replayed, and whose.
LEFT = {
    "it calls numpy": "adjoint.from_dlpack",
    # What they do depends on elements.
    "is another at each call": "adjoint.binomial adjoint.poisson",
    "sparse": "adjoint.hspmm adjoint.smm adjoint.spmm adjoint.sparse_coo_tensor adjoint.sparse_compressed_tensor adjoint.sparse_csc_tensor "
    "adjoint.sparse_csr_tensor",
    # What they give is no tensor, or one that asks for a gradient of its own.
    "it returns an object of type": "adjoint.jit func.linearize func.vjp func.functionalize func.replace_all_batch_norm_modules_ "
    "utils.checkpoint.create_selective_checkpoint_contexts utils.checkpoint.noop_context_fn",
    "a tensor inside of it requires grad that is no input": "func.stack_module_state utils.checkpoint.detach_variable",
    # The graph that is returned runs the part again; one that is used inside is followed.
    "inside of it has hooks": "utils.checkpoint.checkpoint utils.checkpoint.checkpoint_sequential",
    # About the library, its files and generators.
    "it calls": "autograd.gradcheck autograd.gradgradcheck adjoint.bug_report adjoint.from_file adjoint.show_config",
    "which cannot be looked into": "adjoint.from_numpy adjoint.frombuffer",
    "of a generator": "adjoint.get_rng_state adjoint.initial_seed",
    # What is not compared at each call.
    "it asks": "adjoint.get_num_threads adjoint.memory_statistics adjoint.is_anomaly_enabled adjoint.is_anomaly_check_nan_enabled",
}
#: What is no program by itself: it changes modes, files or types, or tells of the library.
NO_PROGRAMS = set("save load compile manual_seed seed set_rng_state Generator".split())


def fresh(value):
    """The same arguments in memory of their own."""
    if isinstance(value, ad.Tensor):
        if value.is_sparse or type(value) not in (ad.Tensor, ad.nn.Parameter):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return type(value)((k, fresh(v)) for k, v in value.items()) if type(value) is dict else value
    if type(value) in (list, tuple):
        return type(value)(map(fresh, value))
    return value


class Found(Exception):
    """The example came to the call."""


def captured(module, name, value):
    """What the example of a callable calls it with, and, where that gives a function, what this is called with; a layer with
    the arguments of its `forward`. None where the example never calls it by its name.
    """
    calls = []
    is_layer = isinstance(value, type) and issubclass(value, ad.nn.Module)

    def tell(*args, **kwargs):
        calls.append((fresh(args), fresh(kwargs)))

    if is_layer:
        owner, key, before = value, "forward", value.__dict__.get("forward")

        def spy(self, *args, **kwargs):
            calls.append((self,))
            tell(*args, **kwargs)
            raise Found
    else:
        owner = ad if module == "adjoint" else importlib.import_module("adjoint." + module)
        key, before = name, vars(owner).get(name)

        def spy(*args, **kwargs):
            tell(*args, **kwargs)
            result = value(*args, **kwargs)
            if not isinstance(result, types.FunctionType):
                raise Found

            def inner(*args, **kwargs):
                tell(*args, **kwargs)
                raise Found

            return functools.wraps(result)(inner)

    space = {"ad": ad}
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
    setattr(owner, key, spy)
    try:
        for example in examples:
            exec(compile(example.source, "<example>", "single"), space)
    except Found:
        return calls
    except Exception:
        return None
    finally:
        if before is None:
            delattr(owner, key)
        else:
            setattr(owner, key, before)
    return calls or None


def program(module, name, value, calls):
    """(function, arguments) of what is jitted."""
    path = "ad." + (name if module == "adjoint" else f"{module}.{name}")
    if len(calls) == 2 and len(calls[0]) == 1:
        return [
            (calls[0][0].train(mode), "lambda *args, **kwargs: layer(*args, **kwargs)", calls[1])
            for mode in (True, False)
        ]
    if len(calls) == 1:
        return [(None, f"lambda *args, **kwargs: {path}(*args, **kwargs)", calls[0])]
    space = calls[0]
    return [(space, f"lambda *args, **kwargs: {path}(*layer[0], **layer[1])(*args, **kwargs)", calls[1])]


def outcome(function, args, kwargs):
    try:
        seen = repr(twice.picture([function(*args, **kwargs), args]))
        return re.sub("at 0x[0-9a-f]+", "", seen)
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


def swept(name, held, source, call):
    """Why calls differ, or are not replayed although nothing is known about it; None where all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states, pictures = [], []
        other = copy.deepcopy(held) if isinstance(held, ad.nn.Module) else held
        jitted = ad.jit(eval(source, {"ad": ad, "layer": other}))
        for function in (eval(source, {"ad": ad, "layer": held}), jitted):
            ad.manual_seed(0)
            pictures.append([outcome(function, *fresh(call)) for _ in range(CALLS)])
            states.append(ad.rand(1).item())
    stats = jitted.stats()
    if pictures[0] != pictures[1] or states[0] != states[1]:
        return f"differs: {pictures[1]}, and eagerly {pictures[0]}"
    known = [words for words, names in LEFT.items() if name in names.split()]
    if stats["replayed"]:
        return "it is replayed: take it out of the list" if known else None
    if all(isinstance(p[0], type) for p in pictures[0]):
        return None  # it fails, with the same words
    right = known and any(known[0] in reason for reason in stats["reasons"])
    return None if right else str(stats["reasons"] or stats)


@pytest.mark.parametrize("module", MODULES)
def test_public_functions_are_replayed(module):
    wrong, seen = {}, 0
    for name, value, _ in callables(module):
        if (
            name in NO_PROGRAMS
            or name.startswith("set_")
            or (isinstance(value, type) and not issubclass(value, ad.nn.Module))
        ):
            continue
        calls = captured(module, name, value)
        if calls is None:
            continue
        for held, source, call in program(module, name, value, calls):
            seen += 1
            found = swept(f"{module}.{name}", held, source, call)
            if found:
                wrong[f"{module}.{name}", getattr(held, "training", None)] = found
    assert not wrong, "\n".join(f"{name}: {why[:400]}" for name, why in wrong.items())
    assert seen > 2, seen


OPTIMIZERS = [
    name
    for name, value, _ in callables("optim")
    if isinstance(value, type) and issubclass(value, ad.optim.Optimizer)
]


#: Those whose steps are another program at each of the first calls, by words of the reason.
LEFT_STEPS = {
    "SparseAdam": "sparse",
}


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n != "Optimizer"])
def test_steps_of_optimizers_are_replayed(name):
    def trained(wrap):
        net = ad.nn.Sequential(
            ad.nn.Linear(3, 4, dtype=ad.float64), ad.nn.Tanh(), ad.nn.Linear(4, 1, dtype=ad.float64)
        )
        for k, w in enumerate(net.parameters()):
            w.data = twice.numbers(*w.shape, seed=k, dtype=ad.float64)
        params = [w for w in net.parameters() if name != "Muon" or w.ndim == 2]
        if name == "SparseAdam":
            params, rows = [ad.zeros(4, 2, requires_grad=True)], ad.tensor([1, 3])
        optimizer = getattr(ad.optim, name)(params, lr=0.01)

        def step(x):
            def closure():
                optimizer.zero_grad()
                loss = (
                    F.embedding(rows, params[0], sparse=True).sum()
                    if name == "SparseAdam"
                    else (net(x) ** 2).mean()
                )
                loss.backward()
                return loss

            if name == "LBFGS":
                return optimizer.step(closure).detach()
            loss = closure()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        losses = [step(twice.numbers(5, 3, seed=9, dtype=ad.float64)) for _ in range(9)]
        return repr(twice.picture([losses, params, [optimizer.state[w] for w in params]])), step

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = trained(lambda f: f)
        found, step = trained(ad.jit)
    assert found == expected
    reasons = str(step.stats()["reasons"])
    assert step.stats()["replayed"] if name not in LEFT_STEPS else LEFT_STEPS[name] in reasons, step.stats()


#: What the library's own code reads through modules of its own, replaced.
REPLACED = {
    "a function of a module": (lambda: ad.nn.functional, "gelu", lambda x, *_, **__: x + 7),
    "a function of another": (lambda: ad.nn.functional, "linear", lambda x, *_: x - 7),
    "a class": (lambda: ad.nn.Linear, "forward", lambda self, x: x * 3),
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_in_the_library_is_seen(name, monkeypatch):
    owner, key, other = REPLACED[name]
    net = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.GELU(), ad.nn.ReLU())
    run = ad.jit(lambda x: net(x))
    x = ad.ones(1, 2)
    for _ in range(5):
        assert ad.equal(run(x), net(x))
    assert run.stats()["replayed"]
    monkeypatch.setattr(owner(), key, other)
    for _ in range(5):
        assert ad.equal(run(x), net(x))


def test_hooks_of_all_modules_are_seen():
    layer = ad.nn.Linear(2, 2)
    run = ad.jit(lambda x: layer(x))
    x = ad.ones(1, 2)
    before = [run(x) for _ in range(5)][-1]
    assert run.stats()["replayed"]
    with register_module_forward_hook(lambda layer, args, result: result * 2):
        assert ad.equal(run(x), before * 2)
    assert ad.equal(run(x), before)
