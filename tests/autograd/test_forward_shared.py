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


def test_an_expanded_result_with_an_expanded_tangent_has_views():
    x, one = ad.tensor(0.25, dtype=ad.float64), ad.ones((), dtype=ad.float64)
    rows = ad.zeros(3, dtype=ad.float64)
    for of in (
        lambda z: ad.vmap(lambda u: z * 3)(rows)[1],  # the same for all samples: expanded after the map
        lambda z: ad.vmap(ad.func.grad(lambda u: z * 3 * u))(rows)[1],
        lambda z: ad.vmap(lambda u: ad.stack([z, 2 * z]))(rows)[1].sum(),
        lambda z: ad.vmap(ad.vmap(lambda u: z * 3))(ad.stack([rows, rows]))[1, 2],
    ):
        value, tangent = ad.func.jvp(of, (x,), (one,))
        assert (value.item(), tangent.item()) == (0.75, 3.0)
    with forward_ad.dual_level():
        pair = forward_ad.make_dual(
            ad.tensor([[1.0], [2.0]]).expand(2, 3), ad.tensor([[5.0], [6.0]]).expand(2, 3)
        )
        assert forward_ad.unpack_dual(pair[1]).tangent.tolist() == [6.0, 6.0, 6.0]
        assert forward_ad.unpack_dual(pair.T[2]).tangent.tolist() == [5.0, 6.0]
