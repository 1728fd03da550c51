"""The C++ mathematics against mpmath: accuracy and IEEE special values, for each instruction set of this machine.

Compiles check_math.cpp and feeds it raw values. Run with pytest, or as a program to print a table of errors:
``python tests/cpp/check_math.py [v2|v3|v4 [names]]``. The bounds are those of tests/math_reference.py.
"""

from __future__ import annotations

import functools
import math
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

mp = pytest.importorskip("mpmath")

HERE = pathlib.Path(__file__).resolve().parent
CORE = HERE.parent.parent / "core"
sys.path.insert(0, str(HERE.parent))

import math_reference  # noqa: E402 - found by the line above

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
FLAGS = {
    "portable": [],
    "v2": ["-march=x86-64-v2"],
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
#: The best one of this machine is checked by default; the others by naming them in ADJOINT_CHECK_MATH.
NEEDS = {
    "v4": {"avx512f", "avx512dq", "avx512vl", "avx512bw"},
    "v3": {"avx2", "fma", "bmi2"},
    "v2": {"sse4_2"},
}


def compiler() -> list[str] | None:
    for name in filter(None, [os.environ.get("CXX"), "g++", "clang++", "c++"]):
        if shutil.which(name.split()[0]):
            return name.split()
    return None


def instruction_sets() -> list[str]:
    chosen = os.environ.get("ADJOINT_CHECK_MATH")
    if chosen:
        return chosen.split(",")
    try:
        flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    except OSError:
        flags = set()
    if platform.machine() in ("x86_64", "AMD64"):
        for name, needed in NEEDS.items():
            if needed <= flags:
                return [name]
    return ["portable"]


@functools.cache
def program(instruction_set: str) -> str:
    """Compile check_math.cpp for the instruction set and return the path of the program."""
    folder = tempfile.mkdtemp(prefix="check_math_")
    path = os.path.join(folder, "check_math")
    command = [
        *(compiler() or []), "-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
        *FLAGS[instruction_set], f"-DADJOINT_ISA=isa_{instruction_set}", "-Wall", "-Wextra", "-Werror",
        f"-I{CORE}", str(HERE / "check_math.cpp"), str(CORE / "kernels/cpu/math/turns.cpp"), "-o", path,
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return path


def evaluate(instruction_set: str, name: str, *arguments: np.ndarray) -> np.ndarray:
    """Apply the C++ function to arrays of one dtype."""
    dtype = arguments[0].dtype
    code = next(code for code, t in TYPES.items() if dtype == t)
    raw = b"".join(np.ascontiguousarray(a).tobytes() for a in arguments)
    done = subprocess.run([program(instruction_set), name, code], input=raw, capture_output=True, check=True)
    return np.frombuffer(done.stdout, dtype)


def accuracy(instruction_set: str, name: str, dtype: type, count: int = 40) -> tuple[float, tuple]:
    reference = math_reference.TABLE[name]
    arguments = math_reference.points(reference, np.dtype(dtype), count)
    return math_reference.worst(reference, arguments, evaluate(instruction_set, name, *arguments))


needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
each_set = pytest.mark.parametrize("instruction_set", instruction_sets())
each_real = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@needs_compiler
@each_set
@each_real
@pytest.mark.parametrize("name", math_reference.TABLE)
def test_accuracy(instruction_set: str, name: str, dtype: type) -> None:
    error, where = accuracy(instruction_set, name, dtype)
    assert error <= 1, f"{name}: (arguments, result, true value, error in ulp) = {where}"


INF, NAN, PI = math.inf, math.nan, math.pi
#: Arguments and results; a zero must have the right sign. Results in float64 are rounded to the dtype that is tested.
SPECIAL: dict[str, list[tuple]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (1000, INF), (-1000, 0.0)],
    "exp2": [(0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (10, 1024), (-3, 0.125), (2000, INF), (-2000, 0), (1, 2)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (-1000, -1), (1000, INF), (1e-40, 1e-40)],
    "log": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (-INF, NAN), (-1, NAN), (NAN, NAN)],
    "log2": [(0.0, -INF), (1, 0.0), (8, 3), (0.25, -2), (INF, INF), (-1, NAN), (NAN, NAN), (2.0**-130, -130)],
    "log10": [(0.0, -INF), (1, 0.0), (10, 1), (1000, 3), (1e10, 10), (INF, INF), (-1, NAN), (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (1e-40, 1e-40)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-40, 1e-40)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-40, 1e-40)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, PI / 2), (-1, -PI / 2), (1.5, NAN), (-INF, NAN), (NAN, NAN), (1e-40, 1e-40)],
    "acos": [(1, 0.0), (-1, PI), (0.0, PI / 2), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (NAN, NAN), (1e-40, 1e-40)],
    "atan2": [(0.0, 1, 0.0), (-0.0, 1, -0.0), (0.0, -1, PI), (-0.0, -1, -PI), (0.0, 0.0, 0.0), (0.0, -0.0, PI),
              (-0.0, -0.0, -PI), (1, 0.0, PI / 2), (-1, 0.0, -PI / 2), (INF, INF, PI / 4), (INF, -INF, 3 * PI / 4),
              (-INF, INF, -PI / 4), (1, INF, 0.0), (-1, INF, -0.0), (1, -INF, PI), (INF, 1, PI / 2), (NAN, 1, NAN),
              (1, NAN, NAN), (NAN, INF, NAN), (INF, NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1000, INF), (-1000, -INF), (1e-40, 1e-40)],
    "cosh": [(0.0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (1000, INF), (-1000, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (100, 1), (1e-40, 1e-40)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1e-40, 1e-40)],
    "acosh": [(1, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (INF, NAN), (NAN, NAN), (1e-40, 1e-40)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (30, 1)],
    "erfc": [(0.0, 1), (INF, 0.0), (-INF, 2), (NAN, NAN), (30, 0.0), (-30, 2)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (-INF, NAN), (NAN, NAN)],
    "lgamma": [(1, 0.0), (2, 0.0), (0.0, INF), (-0.0, INF), (-1, INF), (-3, INF), (INF, INF), (-INF, INF), (NAN, NAN)],
    "digamma": [(0.0, -INF), (-0.0, INF), (-1, NAN), (-7, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "sigmoid": [(0.0, 0.5), (INF, 1), (-INF, 0.0), (NAN, NAN), (1000, 1), (-1000, 0.0)],
    "softplus1": [(0.0, math.log(2)), (INF, INF), (-INF, 0.0), (NAN, NAN), (1000, 1000), (-1000, 0.0)],
    "log_sigmoid": [(0.0, -math.log(2)), (INF, -0.0), (-INF, -INF), (NAN, NAN), (-1000, -1000)],
    "pow": [(2, 3, 8), (-2, 3, -8), (-2, 2, 4), (-2, 0.5, NAN), (0.0, 0.0, 1), (NAN, 0.0, 1), (1, NAN, 1), (1, INF, 1),
            (-1, INF, 1), (-1, -INF, 1), (0.0, -1, INF), (-0.0, -1, -INF), (-0.0, -2, INF), (-0.0, 3, -0.0),
            (-0.0, 2, 0.0), (0.0, 0.5, 0.0), (-0.0, 0.5, 0.0), (2, INF, INF), (2, -INF, 0.0), (0.5, INF, 0.0),
            (0.5, -INF, INF), (-2, INF, INF), (-0.5, INF, 0.0), (INF, 2, INF), (INF, -1, 0.0), (-INF, 3, -INF),
            (-INF, 2, INF), (-INF, 0.5, INF), (-INF, -3, -0.0), (NAN, 1, NAN), (2, NAN, NAN), (2, 5000, INF),
            (-2, 5001, -INF), (-2, -5001, -0.0), (3, 1, 3), (-3, 1, -3), (-3, -1, -1 / 3)],
    "hypot": [(3, 4, 5), (0.0, -0.0, 0.0), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1, NAN), (1, NAN, NAN), (-INF, 1, INF),
              (3e38, 0.0, 3e38), (1e-40, 0.0, 1e-40)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (27, 3), (-8, -2), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (4, 2), (-1, NAN), (INF, INF), (NAN, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4, 0.5), (-1, NAN), (INF, 0.0), (NAN, NAN)],
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN), (-2, 2)],
    "floor": [(-0.5, -1), (0.5, 0.0), (-0.0, -0.0), (INF, INF), (NAN, NAN), (1e20, 1e20)],
    "ceil": [(-0.5, -0.0), (0.5, 1), (-INF, -INF), (NAN, NAN)],
    "trunc": [(-1.5, -1), (1.5, 1), (-0.5, -0.0), (-INF, -INF), (NAN, NAN)],
    "round": [(0.5, 0.0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-2.5, -2), (INF, INF), (NAN, NAN)],
    "sign": [(-2, -1), (3, 1), (0.0, 0.0), (NAN, NAN), (-INF, -1)],
    "fmod": [(5, 3, 2), (-5, 3, -2), (5, -3, 2), (5, 0.0, NAN), (INF, 3, NAN), (5, INF, 5), (-5, INF, -5), (NAN, 1, NAN),
             (1, NAN, NAN), (-6, 3, -0.0), (0.0, 3, 0.0)],
    "floor_mod": [(5, 3, 2), (-5, 3, 1), (5, -3, -1), (-5, -3, -2), (5, 0.0, NAN), (INF, 3, NAN), (5, INF, 5),
                  (-5, -INF, -5), (-5, INF, INF), (5, -INF, -INF), (NAN, 1, NAN), (1, NAN, NAN)],
    "floor_divide": [(5, 3, 1), (-5, 3, -2), (5, -3, -2), (-5, -3, 1), (5, 0.0, INF), (-5, 0.0, -INF), (0.0, 0.0, NAN),
                     (INF, 3, NAN), (INF, 0.0, INF), (5, INF, 0.0), (-5, INF, -1), (5, -INF, -1), (0.0, 3, 0.0),
                     (-0.0, 3, -0.0), (NAN, 1, NAN), (1, NAN, NAN), (INF, INF, NAN)],
    "min": [(1, 2, 1), (NAN, 1, NAN), (1, NAN, NAN), (-INF, 1, -INF)],
    "max": [(1, 2, 2), (NAN, 1, NAN), (1, NAN, NAN), (INF, 1, INF)],
    "copysign": [(1, -0.0, -1), (-1, 2, 1), (INF, -1, -INF)],
}  # fmt: skip


@needs_compiler
@each_set
@each_real
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(instruction_set: str, name: str, dtype: type) -> None:
    rows = SPECIAL[name]
    # Repeated, so that every row meets the vector loop and its remainder.
    arguments = [np.array(column * 5, dtype) for column in zip(*(row[:-1] for row in rows))]
    expected = np.array([row[-1] for row in rows] * 5, dtype)
    results = evaluate(instruction_set, name, *arguments)
    same = np.isclose(results, expected, rtol=2 * np.finfo(dtype).eps, atol=0, equal_nan=True)
    same &= np.isnan(expected) | (np.signbit(results) == np.signbit(expected))
    exact = np.isinf(expected) | (expected == np.rint(expected)) & np.isfinite(expected)
    same &= ~exact | (results == expected)
    wrong = [(*(a[i] for a in arguments), results[i], expected[i]) for i in np.flatnonzero(~same)]
    assert not wrong, f"{name}: (arguments, result, expected) = {wrong[:5]}"


COMPLEX = [
    "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "reciprocal",
]  # fmt: skip


@needs_compiler
@each_set
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_against_numpy(instruction_set: str, name: str, dtype: type) -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=400) + 1j * generator.normal(size=400)
    z = np.concatenate([z, 1e-3 * z, 1e-6 * z, 5 * z])
    # The branch cuts, from both sides: a signed zero tells which.
    axis = np.array([-3.0, -1.5, -0.5, 0.5, 1.5, 3.0])
    cuts = [complex(a, s) for a in axis for s in (0.0, -0.0)] + [
        complex(s, a) for a in axis for s in (0.0, -0.0)
    ]
    z = np.concatenate([z, cuts]).astype(dtype)
    names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
    wide = z.astype(np.complex128)
    if name == "log1p":  # NumPy's loses the digits of a small real part
        with mp.workprec(200):
            expected = np.array([complex(mp.log(1 + mp.mpc(v))) for v in wide])
        expected.imag = np.copysign(expected.imag, wide.imag)  # mpmath's zero has no sign
    else:
        expected = getattr(np, {**names, "atanh": "arctanh"}.get(name, name))(wide)
    results = evaluate(instruction_set, name, z)
    error = np.abs(results - expected) / np.maximum(np.abs(expected), np.finfo(dtype).tiny)
    # NumPy's log1p and arctan lose digits near 0 in double; ours are judged more sharply in float.
    assert error.max() < (1e-6 if dtype == np.complex64 else 1e-9 if name == "log1p" else 1e-13), z[
        error.argmax()
    ]


@needs_compiler
@each_set
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_powers_and_quotients(instruction_set: str, dtype: type) -> None:
    generator = np.random.default_rng(1)
    z, w = (generator.normal(size=(2, 300)) + 1j * generator.normal(size=(2, 300))).astype(dtype)
    w[:50] = np.round(w[:50].real * 3)
    tolerance = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(evaluate(instruction_set, "pow", z, w), z.astype(complex) ** w, rtol=tolerance)
    np.testing.assert_allclose(
        evaluate(instruction_set, "divide", z, w), z.astype(complex) / w, rtol=tolerance
    )
    large = np.array([complex(1e38, 1e38), complex(3, 4)] * 8, dtype) * (
        1 if dtype == np.complex64 else 1e269
    )
    np.testing.assert_allclose(evaluate(instruction_set, "divide", large, large), 1, rtol=tolerance)
    zero = np.zeros(4, dtype)
    np.testing.assert_array_equal(
        evaluate(instruction_set, "pow", zero, np.array([0, 1, 2, 1j], dtype))[:3], [1, 0, 0]
    )
    sums = evaluate(instruction_set, "sigmoid", z) + evaluate(instruction_set, "sigmoid", -z)
    np.testing.assert_allclose(sums, 1, rtol=tolerance)
    np.testing.assert_allclose(np.abs(evaluate(instruction_set, "sgn", z)), 1, rtol=tolerance)
    assert not evaluate(instruction_set, "sgn", zero).any()


def main() -> None:
    chosen = sys.argv[1] if len(sys.argv) > 1 else instruction_sets()[0]
    for name in sys.argv[2:] or math_reference.TABLE:
        for dtype in (np.float32, np.float64):
            error, where = accuracy(chosen, name, dtype, 1000)
            mark = "" if error <= 1 else "  <-- beyond the bound"
            print(
                f"{name:14} {dtype.__name__:8} {where[-1] if where else 0.0:8.3f} ulp at {where[:-1]}{mark}"
            )


if __name__ == "__main__":
    main()
