"""Steps at the corners: gradients of zero, steps that are differentiated, rows that are just too long."""

import pytest

import adjoint as ad
from adjoint import optim


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_without_a_tolerance_at_a_gradient_of_zero(search):
    w = ad.ones(3, requires_grad=True)
    o = optim.LBFGS([w], tolerance_grad=-1, line_search_fn=search)

    def closure():
        o.zero_grad()
        loss = (w * 0).sum()
        loss.backward()
        return loss

    for _ in range(2):
        assert o.step(closure).item() == 0
    assert w.eq(1).all()


def test_a_line_search_ends_with_the_evaluations_of_its_step():
    """torch's rule: a search may make as many iterations as the step has evaluations left."""
    w = ad.tensor([1.0, 2.0, 3.0, -1.5], dtype=ad.float64, requires_grad=True)
    o = optim.LBFGS([w], lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    evaluated = []

    def closure():
        o.zero_grad()
        loss = (w.sin() * w**2).sum()  # without a lower bound: searches go on for long
        loss.backward()
        evaluated[-1] += 1
        return loss

    for _ in range(8):
        evaluated.append(0)
        o.step(closure)
    most = 5 * 5 // 4
    # The first point of a search is not one of its iterations.
    assert max(evaluated) <= most + 1


def test_nadam_is_differentiated_by_its_product():
    def stepped(product):
        w = ad.ones(3, dtype=ad.float64, requires_grad=True).clone()
        o = optim.NAdam([w], differentiable=True, lr=0.1)
        zero = ad.zeros(3, dtype=ad.float64)
        o.state[w].update(
            step=ad.tensor(0.0), mu_product=product.clone(), exp_avg=zero.clone(), exp_avg_sq=zero.clone()
        )
        w.grad = ad.tensor([0.1, 0.2, 0.3], dtype=ad.float64)
        o.step()
        return w.sum()

    product = ad.tensor(0.9, dtype=ad.float64, requires_grad=True)
    (slope,) = ad.autograd.grad(stepped(product), product)
    h = 1e-6
    with ad.no_grad():
        difference = (stepped(product + h) - stepped(product - h)) / (2 * h)
    assert slope.item() == pytest.approx(difference.item(), rel=1e-6) and slope.item() != 0


def test_norms_are_limited_but_for_a_rounding():
    ad.manual_seed(0)
    longer = 0
    for _ in range(50):
        w = ad.randn(10, 8)
        ad.nn.functional.embedding(ad.arange(10), w, max_norm=1.0)
        for rows in (w, ad.renorm(ad.randn(10, 8), 2, 0, 1.0)):
            longer += int((ad.linalg.vector_norm(rows, 2, 1) > 1).any())
    assert longer <= 10  # of 100 draws
