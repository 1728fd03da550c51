"""ADJOINT_BLAS: a library by its name or its file, and no other where it cannot be used."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import adjoint as ad
a = ad.arange(2500.0).reshape(50, 50) / 2500
x = ad.linalg.solve(ad.eye(50) + a, a)
print(float(((ad.eye(50) + a) @ x - a).abs().max()) < 1e-5)
ad.show_config()
"""


def run(program, **environment):
    child = {name: value for name, value in os.environ.items() if name != "ADJOINT_BLAS"}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=child | environment, timeout=60
    )


def line_of(done, name):
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True\n")
    return next(line for line in done.stdout.splitlines() if line.startswith(name))


def test_openblas_by_name_and_by_file():
    pytest.importorskip("scipy_openblas32")
    named = line_of(run(PROGRAM, ADJOINT_BLAS="openblas"), "BLAS")
    assert "openblas" in named
    file = named.split(maxsplit=1)[1]
    assert pathlib.Path(file).is_file()
    assert line_of(run(PROGRAM, ADJOINT_BLAS=file), "BLAS").split(maxsplit=1)[1] == file


@pytest.mark.skipif(
    not list(pathlib.Path(sys.prefix, "lib").glob("libmkl_rt.so.*")), reason="MKL is not installed"
)
def test_mkl_by_name():
    assert "libmkl_rt" in line_of(run(PROGRAM, ADJOINT_BLAS="mkl"), "BLAS")


@pytest.mark.parametrize("asked", ["/no/such/library.so", "magic", "accelerate", "libm.so.6"])
def test_what_cannot_be_used_is_an_error_and_not_another_library(asked):
    if asked == "accelerate" and sys.platform == "darwin":
        pytest.skip("is there")
    a = "ad.ones(50, 50, dtype=ad.complex64)"  # real ones may not need a library
    done = run(f"import adjoint as ad; {a} @ {a}", ADJOINT_BLAS=asked)
    assert done.returncode != 0
    assert f"ADJOINT_BLAS asks for '{asked}'" in done.stderr and "Tried:" in done.stderr
    # The library that a program would have had without being asked is not among those.
    assert "scipy_openblas" not in done.stderr
    # What reports of bugs begin with says so, too.
    report = run("import adjoint as ad; ad.show_config()", ADJOINT_BLAS=asked)
    assert report.returncode == 0 and f"none: ADJOINT_BLAS asks for '{asked}'" in report.stdout


def test_built_in_loops():
    done = run(
        "import adjoint as ad; print((ad.ones(50, 50) @ ad.ones(50, 50)).sum()); ad.show_config()",
        ADJOINT_BLAS="built-in",
    )
    assert done.returncode == 0 and "125000" in done.stdout and "built-in" in done.stdout
