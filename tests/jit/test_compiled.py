"""Replay by other names: `Module.compile`, and under `as_torch` `torch.compile`, `torch.jit.trace` and what they give."""

import copy
import gc
import pickle
import warnings
import weakref

import pytest
from helpers import torch_values
from twice import numbers

import adjoint as ad
from adjoint._replay.compiled import Unsupported, compiled

X = numbers(5, 4)


def network():
    ad.manual_seed(0)
    return ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Dropout(0.25), ad.nn.Linear(8, 1))


def trained(model, steps=8):
    """What is seen of a few steps."""
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ad.manual_seed(1)
    seen = []
    for k in range(steps):
        model.train(k != 4)
        optimizer.zero_grad()
        loss = model(X).square().mean()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen + [p.tolist() for p in model.parameters()]


def test_a_compiled_module_is_trained_the_same():
    model = network()
    model.compile()
    assert trained(model) == trained(network())
    assert model.forward.stats()["replayed"] >= 3


def test_hooks_run_around_a_compiled_forward():
    model, seen = network().eval(), []
    model.compile()
    model.register_forward_hook(lambda m, args, result: seen.append(result.shape))
    model.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    plain = network().eval()
    for _ in range(6):
        assert ad.equal(model(X), plain(X * 2))
    assert len(seen) == 6 and model.forward.stats()["replayed"]


def test_copies_of_a_compiled_module_are_of_their_own():
    model = network().eval()
    model.compile()
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with ad.no_grad():
            copied[0].weight.zero_()
        for _ in range(5):
            assert not ad.equal(copied(X), model(X))
        assert copied.forward.stats()["replayed"] and copied.forward.function.__self__ is copied
    assert list(model.state_dict()) == list(network().state_dict())


def test_compile_is_undone():
    model = network()
    model.compile()
    model.compile(fullgraph=True)
    assert type(model.forward).__name__ == "_Whole"
    model.compile(disable=True)
    assert "forward" not in vars(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    own = network()
    own.forward = f = lambda x: x * 2
    own.compile()
    assert ad.equal(own(X), X * 2)
    own.compile(disable=True)
    assert own.forward is f


def test_a_function_that_must_be_replayed():
    def prints(x):
        print(end="")
        return x

    def differs(x, values=iter(range(100))):
        return x + next(values)

    f = compiled(prints, fullgraph=True)
    with pytest.raises(Unsupported, match="prints cannot be replayed as a whole: it calls print in line"):
        for _ in range(3):
            f(X)
    f = compiled(differs, fullgraph=True)
    with pytest.raises(Unsupported, match="differs cannot be replayed"):
        for _ in range(12):
            f(X)
    good = compiled(lambda x: x * 2, fullgraph=True)
    for n in range(1, 12):
        for _ in range(4):
            good(ad.ones(n))
    assert good.stats()["replayed"] >= 11

    def generator(x):
        yield x

    with pytest.raises(Unsupported, match="generator"):
        compiled(generator, fullgraph=True)


OPTIONS = {
    "backend": ({"backend": "nonsense"}, RuntimeError, "Invalid backend: 'nonsense'"),
    "mode": ({"mode": "fast"}, RuntimeError, "Unrecognized mode=fast"),
    "both": ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options"),
    "unknown": ({"speed": 3}, TypeError, "speed"),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_options_that_are_refused(what):
    options, error, words = OPTIONS[what]
    with pytest.raises(error, match=words):
        compiled(ad.sin, **options)
    with pytest.raises(error, match=words):
        network().compile(**options)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="expected a function or a module, not int"):
        compiled(3)


def test_modules_under_jit_are_still_modules_to_their_users():
    model = network()
    f = ad.jit(model)
    assert trained_by(f) == trained_by(network()) and f.stats()["replayed"]
    assert list(f.state_dict()) == list(model.state_dict())
    f.eval()
    assert not model.training and f.training is False


def trained_by(f):
    seen = []
    ad.manual_seed(1)
    for _ in range(6):
        f.zero_grad()
        loss = f(X).sum()
        loss.backward()
        seen.append([loss.item(), *(p.grad.tolist() for p in f.parameters())])
    return seen


def test_torch_compile():
    values = torch_values("""
        import copy, pickle, torch, warnings
        warnings.simplefilter("error")
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        c = torch.compile(model, mode="max-autotune", dynamic=True)
        x = torch.randn(5, 4)
        show(all(torch.equal(c(x), model(x)) for _ in range(6)), c._call.stats()["replayed"])
        show(isinstance(c, torch.nn.Module), isinstance(c, torch._dynamo.OptimizedModule), c._orig_mod is model, list(c.state_dict()))
        c.eval()
        c.extra = 3
        show(model.training, c.training, model.extra, c[0] is model[0], len(c), bool(c))
        del c.extra
        show(hasattr(model, "extra"), "extra_repr" in dir(c), repr(c).startswith("OptimizedModule("))
        show([torch.equal(k(x), model(x)) for k in (copy.deepcopy(c), pickle.loads(pickle.dumps(c)))])
        c.to(torch.float64)
        show(str(model[0].weight.dtype), [n for n, _ in c.named_parameters()] == list(c.state_dict()))

        @torch.compile(fullgraph=True)
        def prints(x):
            print(end="")
            return x
        try:
            for _ in range(3):
                prints(x)
        except torch._dynamo.exc.Unsupported as error:
            show("calls print" in str(error))

        @torch.compile
        def quiet(x):
            print(end="")
            return x
        for _ in range(20):
            quiet(x)
        show(quiet.stats()["eager"] > 0)
    """)
    keys = ["_orig_mod.0.weight", "_orig_mod.0.bias", "_orig_mod.2.weight", "_orig_mod.2.bias"]
    assert values == [
        (True, 3),
        (True, True, True, keys),
        (False, False, 3, True, 3, True),
        (False, True, True),
        [True, True],
        ("torch.float64", True),
        True,
        True,
    ]


def test_torch_jit():
    values = torch_values("""
        import copy, io, pickle, torch
        torch.manual_seed(0)
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = torch.nn.Linear(4, 4)
                self.register_buffer("shift", torch.ones(4))
            def forward(self, x):
                return self.lin(x) if x.sum() > 0 else x - self.shift
            def other(self, x):
                return x * 2
        model, x = Model(), torch.randn(3, 4).abs()
        t = torch.jit.trace(model, x)
        show([torch.equal(t(y), model(y)) for y in (x, x, -x, x, -x, x)], t._called["forward"].stats()["replayed"] > 0)
        show(isinstance(t, torch.jit.ScriptModule), isinstance(t, torch.jit.TracedModule), t.original_name, list(t.state_dict()))
        show(list(t.parameters())[0] is model.lin.weight, t.lin is model.lin, torch.equal(t.other(x), x * 2))
        t.eval()
        show(t.training, model.training, t.lin.training)
        c = copy.deepcopy(t)
        with torch.no_grad():
            c.lin.weight.zero_()
        show(torch.equal(c(x), t(x)), torch.equal(t(x), model(x)), c._original is model)
        for f in (lambda: t.save("file"), lambda: torch.jit.save(t, "file"), lambda: torch.jit.load("file"), lambda: t.graph,
                  lambda: torch.jit.trace(model), lambda: torch.jit.trace(3, x), lambda: torch.jit.trace_module(model, x)):
            try:
                f()
            except Exception as error:
                show(type(error).__name__, str(error)[:48])
        m = torch.jit.trace_module(model, {"forward": (x,), "other": x})
        show(torch.equal(m.other(x), x * 2), torch.equal(m(x), model(x)), sorted(m._called))
        f = torch.jit.trace(lambda a, b: a @ b.t(), (x, x))
        show([torch.equal(f(x, y), x @ y.t()) for y in (x, x, 2 * x, x)], isinstance(f, torch.jit.ScriptFunction), f.stats()["replayed"])
        show(torch.jit.trace(f, x) is f, torch.jit.trace(model.other, x).other.stats()["calls"])
        s = torch.jit.script(model)
        show(isinstance(s, torch.jit.ScriptModule), s is torch.jit.script(s), torch.equal(s(x), model(x)), "original_name=Model" in repr(s))
        s.lin.weight.grad = None
        s(x).sum().backward()
        show(model.lin.weight.grad is not None)
    """)
    assert values == [
        ([True] * 6, True),
        (True, True, "Model", ["shift", "lin.weight", "lin.bias"]),
        (True, True, True),
        (False, False, False),
        (False, True, False),
        ("NotImplementedError", "Adjoint does not have torch.jit.ScriptModule.sav"),
        ("NotImplementedError", "Adjoint does not have torch.jit.save: programs a"),
        ("NotImplementedError", "Adjoint does not have torch.jit.load: programs a"),
        ("AttributeError", "Adjoint does not have torch.jit.ScriptModule.gra"),
        ("RuntimeError", "example_kwarg_inputs should be a dict"),
        ("TypeError", "trace(): expected a function or a module, not in"),
        ("AttributeError", "expected a dictionary of (method_name, input) pa"),
        (True, True, ["forward", "other"]),
        ([True] * 4, True, 1),  # (x, x) and (x, y) share memory in different ways
        (True, 1),
        (True, True, True, True),
        True,
    ]


def test_a_warning_natively():
    model = ad.nn.Linear(4, 1)
    model.register_forward_hook(lambda *a: None)

    class Prints(ad.nn.Module):
        def forward(self, x):
            print(end="")
            return x

    module = Prints()
    module.compile()
    with pytest.warns(UserWarning, match="Prints.forward is not replayed: it calls print"):
        for _ in range(12):
            module(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(X)
