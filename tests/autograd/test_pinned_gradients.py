"""What torch's own tests pin of `grad`, of instances of Functions, of checkpoints and of `gradcheck`'s older relatives.

Each test says in its own way what a program written for torch relies on. What imports torch runs in a process of its own.
Start reading at `test_zeros_can_be_differentiated_again`.
"""

import warnings

import pytest
from helpers import announced, run_python

import adjoint as ad
from adjoint.autograd import Function, grad
from adjoint.autograd.function import once_differentiable
from adjoint.autograd.gradcheck import get_analytical_jacobian, get_numerical_jacobian
from adjoint.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_debug_enabled


def leaf(*values, dtype=ad.float64):
    return ad.tensor(values, dtype=dtype, requires_grad=True)


# --- grad ----------------------------------------------------------------------------------------------------------------


def test_zeros_can_be_differentiated_again():
    x, a = leaf(0.5), leaf(1.0)
    (first,) = grad(x * a, x, ad.ones(1), create_graph=True)
    (zero,) = grad(first, x, ad.ones(1), create_graph=True, materialize_grads=True)
    assert zero.requires_grad and zero.tolist() == [0.0]
    (again,) = grad(zero, x, ad.ones(1), materialize_grads=True)
    assert again.tolist() == [0.0] and not again.requires_grad


def test_inputs_by_name():
    x, y = leaf(2.0), leaf(3.0)
    found = grad((x * y).sum(), {"x": x, "y": y})
    assert list(found) == ["x", "y"] and found["x"].tolist() == [3.0] and found["y"].tolist() == [2.0]
    found = grad(x.sum(), {"y": y}, materialize_grads=True)
    assert found["y"].tolist() == [0.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        grad(x.sum(), {})


def test_only_inputs_is_ignored():
    x = leaf(2.0)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated and is ignored now"):
        assert grad(x.sum(), x, only_inputs=False)[0].tolist() == [1.0]


def test_what_the_gradients_of_a_node_look_like():
    x = ad.ones(3, 2, requires_grad=True)
    (one,) = (x * 2).grad_fn._input_metadata
    assert one.shape == (3, 2) and one.dtype is ad.float32 and "float32" in repr(one)
    variance, mean = ad.var_mean(x, dim=0)
    assert [m.shape for m in mean.grad_fn._input_metadata] == [(2,), (2,)]

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    assert Same.apply(x).grad_fn._input_metadata[0].shape == (3, 2)


def test_the_warning_of_create_graph_each_time():
    program = """
import warnings
import torch
x = torch.ones(2, requires_grad=True)
def count():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            (x * x).sum().backward(create_graph=True)
            x.grad = None
    return len(seen)
print(count(), count())
torch.set_warn_always(True)
print(count())
torch.set_warn_always(False)
print(count())
"""
    done = run_python("-m", "adjoint.as_torch", "-c", program)
    assert done.stdout.split() == ["1", "0", "3", "0"], done.stderr


# --- leaves and NumPy ----------------------------------------------------------------------------------------------------


def test_numpy_where_nothing_is_recorded():
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        x.numpy()
    with ad.no_grad():
        assert x.numpy().tolist() == [1.0, 2.0] and y.numpy().tolist() == [2.0, 4.0]
    with ad.no_grad():
        x.numpy()[0] = 5.0
    assert x.tolist() == [5.0, 2.0] and x.requires_grad and x.is_leaf


# --- Functions -----------------------------------------------------------------------------------------------------------


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_variables
        assert x.shape == g.shape
        return g * 2


def test_an_instance_is_made_but_computes_nothing():
    with pytest.warns(DeprecationWarning, match=r"Twice'> should not be instantiated.*Twice\.apply"):
        instance = Twice()
    assert isinstance(instance, Twice)
    with pytest.raises(RuntimeError, match="non-static forward method is deprecated"):
        instance(leaf(1.0))
    assert Twice.apply(leaf(1.0)).grad_fn.name() == "TwiceBackward"


def test_the_older_name_of_saved_tensors():
    x = leaf(1.0)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
        Twice.apply(x).backward()
    assert x.grad.tolist() == [2.0]


# --- checkpoints ---------------------------------------------------------------------------------------------------------


def other_shapes():
    """A part that does something else the second time."""
    calls = []

    def part(x):
        calls.append(1)
        return x.sin().exp() if len(calls) == 1 else x.sin() * ad.ones(2, dtype=ad.float64)

    return part


def test_a_mismatch_says_why_it_says_so_much():
    phrase = "You are seeing this error because you passed `debug=True` to checkpoint"
    with pytest.raises(CheckpointError, match=phrase):
        checkpoint(other_shapes(), leaf(1.0), use_reentrant=False, debug=True).backward()
    with pytest.raises(CheckpointError, match=phrase), set_checkpoint_debug_enabled(True):
        checkpoint(other_shapes(), leaf(1.0), use_reentrant=False).backward()
    with pytest.raises(CheckpointError, match="Recomputed values for the following tensors have") as caught:
        checkpoint(other_shapes(), leaf(1.0), use_reentrant=False).backward()
    assert phrase not in str(caught.value)


def test_the_older_form_works_with_backward_alone():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"adjoint.utils.checkpoint is incompatible with .grad\(\)"):
        grad(checkpoint(ad.exp, x, use_reentrant=True).sum(), x)
    checkpoint(ad.exp, x, use_reentrant=True).sum().backward()
    assert ad.allclose(x.grad, x.exp())


# --- the Jacobians of gradcheck, by themselves ---------------------------------------------------------------------------


def pair(inputs):
    x, y = inputs
    return 2 * x + y, x * y


def test_numerical_jacobian():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with announced(FutureWarning, match="`get_numerical_jacobian` was part of PyTorch's private API"):
        (only,) = get_numerical_jacobian(pair, (x, y), target=x, eps=1e-6)
    eye = ad.eye(2, dtype=ad.float64)
    assert ad.allclose(only, 2 * eye)
    both = get_numerical_jacobian(pair, (x, y))
    assert len(both) == 2 and ad.allclose(both[0], 2 * eye) and ad.allclose(both[1], eye)
    assert x.tolist() == [1.0, 2.0]


def test_analytical_jacobian():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with announced(FutureWarning, match="`get_analytical_jacobian` was part of PyTorch's private API"):
        matrices, reentrant, sizes, types = get_analytical_jacobian((x, y, 3), pair((x, y))[1])
    assert ad.allclose(matrices[0], ad.diag(y)) and ad.allclose(matrices[1], ad.diag(x))
    assert reentrant and sizes and types
    passes = []

    def differs(g):
        passes.append(1)
        return g * (1 + 0.01 * len(passes))

    z = x * 1
    z.register_hook(differs)
    assert not get_analytical_jacobian((x,), z)[1]


def test_what_the_older_jacobians_refuse():
    x = leaf(1.0)
    z = ad.ones(1, dtype=ad.complex128, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="Expected grad_out to be 1.0"):
            get_numerical_jacobian(lambda inputs: inputs[0], (x,), grad_out=2.0)
        with pytest.raises(ValueError, match="Expected grad_out to be 1.0"):
            get_analytical_jacobian((x,), x * 1, grad_out=2.0)
        with pytest.raises(ValueError, match="Expected output to be non-complex"):
            get_analytical_jacobian((z,), z * 1)


# --- what programs reach of torch's core ---------------------------------------------------------------------------------


def test_questions_to_the_core():
    program = """
import torch
x = torch.ones(2, requires_grad=True)
y = x * 2
unused = x.exp()
numbers, runs = [], []
def look(g):
    numbers.append(torch._C._current_graph_task_id())
    runs.append([torch._C._will_engine_execute_node(t.grad_fn) for t in (y, unused)])
y.register_hook(look)
for _ in range(2):
    y.sum().backward(retain_graph=True)
print(numbers[1] - numbers[0], runs, torch._C._current_graph_task_id())
accumulate = y.grad_fn.next_functions[0][0]
kind = torch._C._functions.AccumulateGrad
print(isinstance(accumulate, kind), isinstance(y.grad_fn, kind), issubclass(kind, torch.autograd.graph.Node))
for wrong in (y, y.grad_fn):
    try:
        torch._C._will_engine_execute_node(wrong)
    except RuntimeError as error:
        print(error)
"""
    done = run_python("-m", "adjoint.as_torch", "-c", program)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1 [[True, False], [True, False]] -1" and lines[1].startswith("True False")
    assert "expects an grad_fn" in lines[2] and "during the backward pass" in lines[3]


def test_weak_references_and_tracing_states():
    program = """
import torch
x = torch.ones(2, requires_grad=True)
gone = torch._C._WeakTensorRef(torch.ones(1))
print(gone.expired(), torch._C._WeakTensorRef(x).expired(), torch._C._get_tracing_state())
"""
    done = run_python("-m", "adjoint.as_torch", "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True False None"]
