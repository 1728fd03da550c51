"""Hooks of all modules: before own ones, in every moment of a call, at registrations, and gone without a trace."""

import subprocess
import sys
from collections import OrderedDict

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import module as file
from adjoint.nn.module.hooks import Hookable


@pytest.fixture(autouse=True)
def no_hooks_left():
    yield
    file._global_is_full_backward_hook = None
    assert Hookable._hooks is None, "a hook of all modules was left behind"


def test_every_moment_in_order():
    m, seen = nn.Tanh(), []
    handles = [
        file.register_module_forward_pre_hook(lambda module, args: seen.append("all before")),
        file.register_module_forward_hook(lambda module, args, output: seen.append("all after")),
        file.register_module_full_backward_pre_hook(lambda module, go: seen.append("all backward before")),
        file.register_module_full_backward_hook(lambda module, gi, go: seen.append("all backward")),
    ]
    m.register_forward_pre_hook(lambda module, args: seen.append("before"))
    m.register_forward_hook(lambda module, args, output: seen.append("after"))
    m.register_full_backward_pre_hook(lambda module, go: seen.append("backward before"))
    m.register_full_backward_hook(lambda module, gi, go: seen.append("backward"))
    m(ad.tensor(0.5, requires_grad=True)).backward()
    assert seen == [
        "all before", "before", "all after", "after",
        "all backward before", "backward before", "all backward", "backward",
    ]  # fmt: skip
    for handle in handles:
        handle.remove()
    seen.clear()
    m(ad.tensor(0.5, requires_grad=True)).backward()
    assert seen == ["before", "after", "backward before", "backward"]


def test_results_take_their_places():
    x = ad.tensor([-1.0, 2.0], requires_grad=True)
    with (
        file.register_module_forward_pre_hook(lambda module, args: args[0].relu()),
        file.register_module_forward_hook(lambda module, args, output: -output),
        file.register_module_full_backward_hook(lambda module, gi, go: (gi[0] * 10,)),
    ):
        nn.Identity()(x).sum().backward()
        assert nn.Identity()(x).tolist() == [-0.0, -2.0]
    assert x.grad.tolist() == [0.0, -10.0]


def test_keywords_and_calls_that_fail():
    class Fails(nn.Module):
        def forward(self, x, by=1):
            if by == 0:
                raise ZeroDivisionError("by nothing")
            return x / by

    seen = []
    hook = file.register_module_forward_hook(
        lambda module, args, kwargs, output: seen.append((kwargs, output)), with_kwargs=True, always_call=True
    )
    assert len(file._global_forward_hooks_always_called) == 1
    Fails()(4, by=2)
    with pytest.raises(ZeroDivisionError):
        Fails()(4, by=0)
    hook.remove()
    assert seen == [({"by": 2}, 2.0), ({"by": 0}, None)]
    assert not file._global_forward_hooks_always_called and not file._global_forward_hooks_with_kwargs


def test_the_hook_of_old_and_the_full_one():
    x, seen = ad.tensor(3.0, requires_grad=True), []
    with file.register_module_backward_hook(lambda module, gi, go: seen.append(len(gi)) or (gi[0] * 2,)):
        nn.Identity()(x).backward() if nn.Identity()(x).grad_fn else None
        nn.Tanh()(x).backward()
        with pytest.raises(RuntimeError, match="as a global Module hook"):
            file.register_module_full_backward_hook(print)
    assert seen == [1]
    for wrong, count in ((lambda module, gi, go: (), 0), (lambda module, gi, go: gi + gi, 2)):
        with file.register_module_backward_hook(wrong):
            with pytest.raises(RuntimeError, match=f"got {count}, but expected 1"):
                nn.Tanh()(x).backward()


@pytest.mark.parametrize("answers", [True, False])
def test_registrations(answers):
    def note(module, name, value):
        value.noted = name
        return value if answers else None

    with (
        file.register_module_parameter_registration_hook(note),
        file.register_module_buffer_registration_hook(note),
        file.register_module_module_registration_hook(note),
    ):
        m = nn.Module()
        m.inner = nn.BatchNorm1d(2)
        m.add_module("other", nn.Identity())
        m.mean = nn.Buffer(ad.zeros(1))
    assert [child.noted for child in m.children()] == ["inner", "other"]
    assert [p.noted for p in m.parameters()] == ["weight", "bias"]
    assert [b.noted for b in m.buffers()] == ["mean", "running_mean", "running_var", "num_batches_tracked"]


def test_what_a_registration_hook_gives_is_registered():
    double = file.register_module_buffer_registration_hook(lambda module, name, buffer: buffer * 2)
    m = nn.Module()
    m.register_buffer("a", ad.ones(1))
    double.remove()
    assert m.a.item() == 2.0


def test_a_program_may_empty_the_tables():
    seen = []
    handle = file.register_module_forward_hook(lambda *x: seen.append(1))
    file._global_forward_hooks = OrderedDict()
    nn.Identity()(1)
    assert seen == []
    other = file.register_module_forward_hook(lambda *x: seen.append(2))
    nn.Identity()(1)
    assert seen == [2]
    other.remove()
    handle.remove()


def test_found_where_programs_for_torch_look():
    program = """
import adjoint; adjoint.as_torch()
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
handle = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: print(type(m).__name__))
torch.nn.Sequential(torch.nn.ReLU())(torch.ones(1))
handle.remove()
torch.nn.ReLU()(torch.ones(1))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.stdout.split() == ["ReLU", "Sequential"], result.stderr
