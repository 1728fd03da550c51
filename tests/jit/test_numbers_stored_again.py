"""A number that is stored where the same number stood is stored by a replay, too, which may find another one there."""

import random

import pytest
import twice

import adjoint as ad


class Holder:
    def __init__(self):
        self.table, self.row, self.n = {"n": 0.25}, [0.25], 0.25


def in_a_dict(h, n):
    h.table["n"] = n


def in_a_list(h, n):
    h.row[0] = n


def in_an_attribute(h, n):
    h.n = n


@pytest.mark.parametrize("store", [in_a_dict, in_a_list, in_an_attribute])
def test_numbers_stored_again(store):
    def program(jit, see):
        for seed in range(8):
            h, draw = Holder(), random.Random(seed)

            def f(x, n, h=h):
                store(h, n)
                return x * 2 if n > 0.5 else x

            f = jit(f)
            for _ in range(14):
                see(f(ad.ones(2), draw.choice((0.3, 0.7, 1.5))), h.table, h.row, h.n)

    twice.same(program)
