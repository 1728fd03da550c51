"""Processors without wide vectors run portable loops, which nothing else here tests: attention and batches of small matrices give the
same there. Each program runs in a process of its own, since loops are chosen once."""

import os
import subprocess
import sys

import numpy as np
import pytest

ATTENTION = """
import adjoint as ad
ad.manual_seed(0)
for queries, keys, width, values in ((3, 5, 1, 1), (1, 300, 4, 2), (90, 300, 5, 1), (170, 1, 3, 4), (20, 20, 0, 2)):
    for options in ({}, {"is_causal": True}, {"dropout_p": 0.5}, {"attn_mask": ad.randn(queries, keys)}):
        leaves = [ad.randn(2, *s, dtype=ad.float64, requires_grad=True) for s in ((queries, width), (keys, width), (keys, values))]
        if "attn_mask" in options:
            options = {"attn_mask": options["attn_mask"].double().requires_grad_()}
        result = ad.nn.functional.scaled_dot_product_attention(*leaves, **options)
        (result * ad.randn(*result.shape, dtype=ad.float64)).sum().backward()
        numbers = [result.detach(), *(x.grad for x in (*leaves, *options.values()) if isinstance(x, ad.Tensor))]
        print(*ad.cat([x.flatten() for x in numbers]).tolist())
"""
SMALL = """
import adjoint as ad
ad.manual_seed(0)
for n in (1, 2, 3, 4, 5, 9, 16, 32):
    for dtype in (ad.float32, ad.float64):
        a = ad.randn(21, n, n).to(dtype) + n * ad.eye(n, dtype=dtype)
        b, s = ad.randn(21, n, 3).to(dtype), a @ a.mT / n
        values, vectors = ad.linalg.eigh(s)
        numbers = (
            ad.linalg.solve(a, b), ad.linalg.inv(a), ad.linalg.slogdet(a)[1], ad.linalg.cholesky(s),
            ad.linalg.solve_triangular(a, b, upper=True), values, (vectors * values.unsqueeze(-2)) @ vectors.mT,
        )
        print(*ad.cat([x.flatten() for x in numbers]).tolist())
"""


def numbers_of(program, **environment):
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [np.array(line.split(), float) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("program", [ATTENTION, SMALL], ids=["attention", "small matrices"])
def test_portable_loops_give_the_same(program):
    for found, wanted in zip(numbers_of(program, ADJOINT_ISA_LEVEL="0"), numbers_of(program), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)
