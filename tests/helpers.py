"""Tools for checking values and derivatives: start with `check_gradient`.

References are NumPy arrays; tensors are made from them by `tensor` and read back by `array`, so a test
states its mathematics in NumPy and never needs a second autograd system. The derivative checks perturb
every element of every input, along the real and, for complex inputs, the imaginary axis, so that both
Wirtinger directions are covered.
"""

import ast
import os
import subprocess
import sys
import tempfile
import textwrap
from contextlib import contextmanager

import numpy as np
import pytest

import adjoint as ad

#: NumPy's name for each dtype that NumPy has; bfloat16 is missing there.
NUMPY_DTYPES = {
    "bool": np.bool_,
    "uint8": np.uint8,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
ALL_DTYPES = [*NUMPY_DTYPES, "bfloat16"]
INTEGER_DTYPES = ["uint8", "int8", "int16", "int32", "int64"]
FLOAT_DTYPES = ["float16", "bfloat16", "float32", "float64"]
COMPLEX_DTYPES = ["complex64", "complex128"]

#: Relative tolerance for comparing one rounded operation in each dtype.
TOLERANCE = {
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float32": 3e-6,
    "float64": 1e-12,
    "complex64": 5e-6,
    "complex128": 1e-12,
}


def dtype_of(name):
    """The adjoint dtype called `name`."""
    return getattr(ad, name)


def name_of(dtype):
    """The bare name of an adjoint dtype: "float32"."""
    return str(dtype).rpartition(".")[2]


def tensor(values, dtype=None, requires_grad=False):
    """A new tensor that owns a copy of `values` (NumPy array, scalar or nested list)."""
    values = np.array(values)
    out = ad.tensor(values.tolist(), dtype=dtype or dtype_of(values.dtype.name))
    # An empty array says its trailing sizes only by its shape; a nested list cannot.
    out = out.reshape(values.shape) if out.shape != values.shape else out
    return out.requires_grad_() if requires_grad else out


def leaf(*values, dtype="float64"):
    """A vector of these values that requires a gradient."""
    return ad.tensor(values, dtype=dtype_of(dtype), requires_grad=True)


def allocated():
    """Bytes that live tensors hold: back to the start once all that was made is dead."""
    return ad.memory_statistics()["allocated_bytes"]


def array(value):
    """The NumPy array of a tensor, whatever its dtype; other values pass through `np.asarray`."""
    if isinstance(value, ad.Tensor):
        value = value.detach()
        if value.dtype == ad.bfloat16:
            value = value.to(ad.float32)
        return np.array(value.tolist(), dtype=NUMPY_DTYPES[name_of(value.dtype)]).reshape(tuple(value.shape))
    return np.asarray(value)


def assert_close(actual, expected, rtol=1e-9, atol=1e-12, dtype=None):
    """Compare a tensor with a reference: shape first, then values (NaN equals NaN), then dtype when asked."""
    found, wanted = array(actual), array(expected)
    assert found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape}"
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if dtype is not None:
        assert actual.dtype == dtype, f"dtype {actual.dtype}, expected {dtype}"


def assert_near(actual, expected):
    """Compare values to what float32 keeps of them after a few operations."""
    assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def assert_same(actual, expected, dtype=None):
    """Compare bit for bit (NaN equals NaN)."""
    found, wanted = array(actual), array(expected)
    assert found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape}"
    np.testing.assert_array_equal(found, wanted)
    if dtype is not None:
        assert actual.dtype == dtype, f"dtype {actual.dtype}, expected {dtype}"


def shares_memory(a, b):
    """Whether writing through tensor `a` could be seen through tensor `b`: they stand on one storage."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def layouts(values, dtype=None):
    """Yield (label, tensor) for several memory layouts that all hold `values`.

    Contiguous, transposed, every second element of a larger block, at an offset, and with a broadcast
    dimension in front where the values allow it.
    """
    values = np.asarray(values)
    yield "contiguous", tensor(values, dtype)
    if values.ndim >= 2:
        yield "transposed", tensor(np.swapaxes(values, -1, -2).copy(), dtype).transpose(-1, -2)
    if values.ndim >= 1:
        double = np.repeat(values, 2, axis=-1)
        yield "strided", tensor(double, dtype)[..., ::2]
        padded = np.concatenate([values[:1], values], axis=0) if values.shape[0] else values
        yield "offset", tensor(padded, dtype)[1:] if values.shape[0] else tensor(padded, dtype)


def _flat_outputs(result):
    return [r for r in (result if isinstance(result, (tuple, list)) else (result,)) if _differentiable(r)]


def _differentiable(t):
    return isinstance(t, ad.Tensor) and (t.is_floating_point() or t.is_complex())


def _loss(fn, arrays, cotangents):
    """Re⟨v, f(x)⟩ as a Python float: the real function whose gradient the engine must return."""
    with ad.no_grad():
        outputs = _flat_outputs(fn(*[tensor(a) for a in arrays]))
    return sum(float(np.sum(np.conj(v) * array(y)).real) for v, y in zip(cotangents, outputs, strict=True))


def _random_like(rng, y):
    v = rng.standard_normal(tuple(y.shape))
    if y.is_complex():
        v = v + 1j * rng.standard_normal(tuple(y.shape))
    return v


def numerical_gradient(fn, arrays, cotangents, eps=1e-6):
    """∂L/∂a + i ∂L/∂b for every element a + ib of every array, by central differences of L = Re⟨v, f⟩."""
    grads = []
    for k, original in enumerate(arrays):
        grad = np.zeros(original.shape, original.dtype)
        for index in np.ndindex(original.shape):
            for step in (eps, 1j * eps) if np.iscomplexobj(original) else (eps,):
                ends = []
                for sign in (1, -1):
                    moved = [a.copy() for a in arrays]
                    moved[k][index] += sign * step
                    ends.append(_loss(fn, moved, cotangents))
                slope = (ends[0] - ends[1]) / (2 * eps)
                grad[index] += slope if step == eps else 1j * slope
        grads.append(grad)
    return grads


def check_gradient(fn, inputs, *, eps=1e-6, rtol=1e-5, atol=1e-7, seed=0):
    """Check `autograd.grad` of `fn` against central finite differences.

    `inputs` are float64 or complex128 arrays (or nested lists); `fn` takes that many tensors and returns a
    tensor or a tuple of tensors. A random cotangent makes the check cover all outputs at once.
    """
    arrays = [_double(x) for x in inputs]
    leaves = [tensor(a, requires_grad=True) for a in arrays]
    outputs = _flat_outputs(fn(*leaves))
    assert outputs, "nothing differentiable came back"
    assert all(y.requires_grad for y in outputs), "an output does not require a gradient"
    rng = np.random.default_rng(seed)
    cotangents = [_random_like(rng, y) for y in outputs]
    grad_outputs = [tensor(v, dtype=y.dtype) for v, y in zip(cotangents, outputs, strict=True)]
    analytic = ad.autograd.grad(outputs, leaves, grad_outputs, allow_unused=True)
    numeric = numerical_gradient(fn, arrays, cotangents, eps)
    for k, (found, wanted, leaf) in enumerate(zip(analytic, numeric, leaves, strict=True)):
        if found is None:
            np.testing.assert_allclose(wanted, 0, atol=atol, err_msg=f"input {k} got no gradient")
            continue
        assert found.dtype == leaf.dtype and found.shape == leaf.shape
        np.testing.assert_allclose(
            array(found), wanted, rtol=rtol, atol=atol, err_msg=f"gradient of input {k}"
        )


def check_along(fn, inputs, *, eps=1e-6, rtol=1e-5, atol=1e-7, seed=0):
    """Like `check_gradient`, but along two random directions only: a wrong element shows, which it is does not."""
    arrays = [_double(x) for x in inputs]
    leaves = [tensor(a, requires_grad=True) for a in arrays]
    outputs = _flat_outputs(fn(*leaves))
    rng = np.random.default_rng(seed)
    cotangents = [_random_like(rng, y) for y in outputs]
    grad_outputs = [tensor(v, dtype=y.dtype) for v, y in zip(cotangents, outputs, strict=True)]
    found = ad.autograd.grad(outputs, leaves, grad_outputs, allow_unused=True)
    for _ in range(2):
        direction = [_random_like(rng, x) for x in leaves]
        ends = [
            _loss(fn, [a + eps * sign * d for a, d in zip(arrays, direction, strict=True)], cotangents)
            for sign in (1, -1)
        ]
        parts = [
            0 if g is None else np.sum(np.conj(array(g)) * d).real
            for g, d in zip(found, direction, strict=True)
        ]
        scale = 1 + np.sum(np.abs(parts))
        np.testing.assert_allclose(
            sum(parts), (ends[0] - ends[1]) / (2 * eps), rtol=0, atol=rtol * scale + atol
        )


def check_second_derivative(fn, inputs, *, eps=1e-6, rtol=1e-4, atol=1e-6, seed=1, check=check_gradient):
    """Check second derivatives: the vjp of `fn`, recorded, is itself checked."""
    arrays = [_double(x) for x in inputs]
    with ad.no_grad():
        probes = _flat_outputs(fn(*[tensor(a) for a in arrays]))
    rng = np.random.default_rng(seed)
    cotangents = [_random_like(rng, y) for y in probes]
    count = len(arrays)

    def vjp(*args):
        with ad.enable_grad():
            xs = [x if x.requires_grad else x.detach().requires_grad_() for x in args[:count]]
            ys = _flat_outputs(fn(*xs))
            grads = ad.autograd.grad(ys, xs, list(args[count:]), create_graph=True, allow_unused=True)
        # Adding a zero multiple of each input keeps a gradient that is constant attached to the graph.
        return tuple(x * 0 if g is None else g + x * 0 for g, x in zip(grads, xs, strict=True))

    check(vjp, [*arrays, *cotangents], eps=eps, rtol=rtol, atol=atol, seed=seed)


def _double(x):
    x = np.array(x)
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def check_derivatives(fn, inputs, **options):
    """First and second derivative together."""
    check_gradient(fn, inputs, **options)
    check_second_derivative(fn, inputs, **{k: v for k, v in options.items() if k == "eps"})


def normal(*shape, seed=0, kind="real"):
    """A reproducible standard normal array, real or complex."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if kind == "complex" else x


def uniform(lo, hi, *shape, seed=0):
    """A reproducible array of uniform draws between `lo` and `hi`."""
    return np.random.default_rng([seed, *shape]).uniform(lo, hi, shape)


def run_python(*arguments, folder=None):
    """Run the interpreter on the same Adjoint, and return what it wrote.

    It runs in `folder`, by default an empty one: in the folder of the sources it would find those first.
    """
    path = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    with tempfile.TemporaryDirectory() as empty:
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=folder or empty,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def torch_program(source, *arguments):
    """What a program prints that runs under ``python -m adjoint.as_torch -c``; it must succeed."""
    done = run_python("-m", "adjoint.as_torch", "-c", textwrap.dedent(source), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def torch_values(source):
    """What a program hands to `show`, call by call; several arguments as a tuple."""
    show = "def show(*values): print(repr(values[0] if len(values) == 1 else values))\n"
    return [ast.literal_eval(line) for line in torch_program(show + textwrap.dedent(source)).splitlines()]


@contextmanager
def announced(kind, match):
    """What only programs for torch are told, because torch will change it: no other program is."""
    ad.as_torch()
    try:
        with pytest.warns(kind, match=match):
            yield
    finally:
        ad.as_torch.undo()
