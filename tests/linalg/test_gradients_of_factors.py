"""Gradients by factors and eigenvectors: symmetric where the matrix is, and by all of a Cholesky factor."""

import pytest

import adjoint as ad


@pytest.mark.parametrize("dtype", [ad.float64, ad.complex128], ids=str)
def test_the_gradient_of_eigh_is_hermitian(dtype):
    ad.manual_seed(0)
    a = ad.randn(2, 4, 4, dtype=dtype)
    a = (a + a.mH).requires_grad_()
    values, vectors = ad.linalg.eigh(a)
    # Of a function that does not depend on the phases of the vectors.
    weights = ad.arange(16.0, dtype=ad.float64).view(4, 4)
    (values.square().sum() + (vectors.abs().square() * weights).sum()).backward()
    assert ad.equal(a.grad, a.grad.mH) or ad.allclose(a.grad, a.grad.mH, rtol=1e-12, atol=1e-13)
    assert a.grad.abs().sum() > 0


def factors(dtype=ad.float64):
    ad.manual_seed(1)
    return ad.randn(2, 3, 3, dtype=dtype).tril() + 3 * ad.eye(3, dtype=dtype), ad.randn(2, 3, 2, dtype=dtype)


@pytest.mark.parametrize("dtype", [ad.float64, ad.complex128], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_solve_is_differentiated_by_all_of_the_factor(dtype, upper):
    L, b = (t.requires_grad_() for t in factors(dtype))
    weights = ad.randn(2, 3, 2, dtype=dtype)

    def dense(L, b):
        return ad.linalg.solve(L @ L.mH, b)

    def by_factor(L, b):
        return ad.cholesky_solve(b, L.mH if upper else L, upper)

    found, wanted = (
        ad.autograd.grad((f(L, b) * weights).real.square().sum(), (L, b), create_graph=True)
        for f in (by_factor, dense)
    )
    for x, y in zip(found, wanted):
        assert ad.allclose(x, y)
    assert found[0].triu(1).abs().sum() > 0
    again = [ad.autograd.grad(g[0].abs().square().sum(), (L, b)) for g in (found, wanted)]
    for x, y in zip(*again):
        assert ad.allclose(x, y)
    tangents = (ad.randn_like(L), ad.randn_like(b))
    forwards = [ad.func.jvp(f, (L.detach(), b.detach()), tangents)[1] for f in (by_factor, dense)]
    assert ad.allclose(*forwards)


def test_cholesky_inverse_and_broadcasting():
    L, b = factors()
    L.requires_grad_()
    found, wanted = (
        ad.autograd.grad(f.square().sum(), L)[0] for f in (ad.cholesky_inverse(L), ad.linalg.inv(L @ L.mH))
    )
    assert ad.allclose(found, wanted)
    one = L.detach()[0].requires_grad_()
    found, wanted = (
        ad.autograd.grad(x.square().sum(), one)[0]
        for x in (ad.cholesky_solve(b, one), ad.linalg.solve(one @ one.mH, b))
    )
    assert ad.allclose(found, wanted)


def test_only_the_triangle_is_read():
    L, b = factors()
    full = (L + ad.ones(3, 3, dtype=L.dtype).triu(1) * 7).requires_grad_()
    L.requires_grad_()
    x, y = ad.cholesky_solve(b, full), ad.cholesky_solve(b, L)
    assert ad.equal(x, y)
    x.sum().backward()
    y.sum().backward()
    assert ad.allclose(full.grad, L.grad)


def test_of_no_reflectors_the_product_still_depends_on_its_arguments():
    a = ad.rand(3, 2, requires_grad=True)
    tau = ad.rand(0, requires_grad=True)
    q = ad.linalg.householder_product(a, tau)
    assert q.requires_grad and ad.equal(q, ad.eye(3, 2))
    q.sum().backward()
    assert a.grad.eq(0).all() and tau.grad.shape == (0,)


def test_singular_values_are_written():
    u, s, v = (ad.empty(0) for _ in range(3))
    result = ad.svd(ad.eye(3) * 2, compute_uv=False, out=(u, s, v))
    assert s.tolist() == [2.0] * 3 and u.eq(0).all() and v.shape == (3, 3) and result.S is s


def test_qr_is_refused_where_a_derivative_does_not_exist_and_not_before():
    tall, square = (ad.randn(*shape, dtype=ad.float64, requires_grad=True) for shape in ((4, 2), (3, 3)))
    q, r = ad.linalg.qr(tall, mode="complete")
    assert q.shape == (4, 4)
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        q.sum().backward()
    assert ad.linalg.qr(tall, mode="r").Q.numel() == 0
    assert ad.autograd.gradcheck(lambda a: ad.linalg.qr(a, mode="r").R, [square])


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (2, 4)])
def test_the_gradient_of_qr_needs_its_factors_alone(shape):
    ad.manual_seed(2)
    a = ad.randn(shape, dtype=ad.float64, requires_grad=True)

    def gradient(between):
        Q, R = ad.linalg.qr(a)
        between()
        return ad.autograd.grad((Q * R.abs().sum()).square().sum() + R.exp().sum(), a)[0]

    def write():
        with ad.no_grad():
            a.mul_(1)

    assert ad.equal(gradient(write), gradient(lambda: None))
