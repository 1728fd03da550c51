"""Tangents that results have in common with inputs: a write to the one does not reach the other."""

import adjoint as ad
from adjoint.autograd import forward_ad


def test_a_write_does_not_reach_the_tangents_of_earlier_results():
    def tangent(t):
        return forward_ad.unpack_dual(t).tangent.tolist()

    for view in (False, True):
        with forward_ad.dual_level():
            z = forward_ad.make_dual(ad.tensor(2.0), ad.tensor(1.0))
            a = z * ad.ones(2) * 3  # its tangent has memory of its own
            written = a[:] if view else a
            results = [a + 1, a.clone(), -(-a), a.reshape(2, 1) + 0, a.double(), ad.stack([a, a])]
            late = written + 1
            before = [tangent(t) for t in (*results, late)]
            written.mul_(10)
            assert [tangent(t) for t in (*results, late)] == before
            assert tangent(a) == tangent(written) == [30.0, 30.0]
