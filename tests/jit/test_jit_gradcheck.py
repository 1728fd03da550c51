"""Derivatives of jitted functions against finite differences: first and second ones, over the table of operators.

What is checked is replayed: each function is called before until it has a trace. A case of each row by default; ADJOINT_JIT_TABLE=all
takes all of `test_jit_table.differentiable`.
"""

import warnings

import pytest
from test_jit_table import ALL, PIECES, differentiable

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck


def judged(check, f, leaves):
    """What a check says: True, or the words of its failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check(f, leaves, fast_mode=not ALL, nondet_tol=1e-7)
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]


@pytest.mark.parametrize("piece", range(len(PIECES)))
def test_derivatives_of_jitted_functions(piece):
    replayed = rows = 0
    for row in PIECES[piece]:
        for case, call, leaves, varied in list(differentiable(row))[: None if ALL else 1]:

            def f(*xs, call=call):
                return tuple(call(*xs))

            jitted = ad.jit(f)
            for _ in range(4):
                xs = leaves()
                if sum(x.numel() for x in xs) > 60 and not ALL:
                    break
                jitted(*xs)
            else:
                rows += 1
                for check in (gradcheck, gradgradcheck):
                    expected = judged(check, f, tuple(leaves()))
                    if expected is True:
                        found = judged(check, jitted, tuple(leaves()))
                        assert found is True, f"{check.__name__} of {case}: {found}\n{jitted.stats()}"
                replayed += jitted.stats()["replayed"] > 3
    assert replayed >= rows // 2, f"{replayed} of {rows} rows were replayed"
