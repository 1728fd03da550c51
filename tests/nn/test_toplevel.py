"""Functions of networks that torch publishes at its top level: there, in the order of arguments that they have there."""

import pytest

import adjoint as ad
from adjoint.as_torch.past import toplevel
from adjoint.nn import functional as F


def test_all_are_found_at_the_top():
    later = {name for name, home in ad._LATER.items() if home == toplevel.__name__}
    assert later == set(toplevel.__all__)
    assert all(getattr(ad, name) is getattr(toplevel, name) for name in later)
    same = {name for name, home in ad._LATER.items() if home == "adjoint.nn.functional"}
    assert len(same) > 10 and all(getattr(ad, name) is getattr(F, name) for name in same)


def test_normalisations_take_parameters_first():
    x, weight, bias = ad.randn(4, 3, 5), ad.randn(3), ad.randn(3)
    mean, var = ad.randn(3), ad.rand(3) + 1
    for ours, theirs in (
        (
            ad.batch_norm(x, weight, bias, mean, var, False, 0.1, 1e-5, True),
            F.batch_norm(x, mean, var, weight, bias),
        ),
        (
            ad.instance_norm(x, weight, bias, None, None, True, 0.1, 1e-5, True),
            F.instance_norm(x, None, None, weight, bias),
        ),
        (ad.group_norm(x, 3, weight, bias), F.group_norm(x, 3, weight, bias)),
    ):
        assert bool((ours == theirs).all())


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("number, name", list(enumerate(["none", "mean", "sum"])))
def test_reductions_may_be_numbers(number, name):
    x, y, t = ad.rand(4, 3), ad.rand(4, 3), ad.tensor([1, -1, 1, -1])
    for ours, theirs in (
        (ad.kl_div(x, y, number), F.kl_div(x, y, reduction=name)),
        (
            ad.poisson_nll_loss(x, y, True, True, 1e-8, number),
            F.poisson_nll_loss(x, y, full=True, reduction=name),
        ),
        (ad.margin_ranking_loss(x, y, y, 0.5, number), F.margin_ranking_loss(x, y, y, 0.5, reduction=name)),
        (ad.hinge_embedding_loss(x, y, 0.5, number), F.hinge_embedding_loss(x, y, 0.5, reduction=name)),
        (
            ad.cosine_embedding_loss(x, y, t, 0.5, number),
            F.cosine_embedding_loss(x, y, t, 0.5, reduction=name),
        ),
        (
            ad.triplet_margin_loss(x, y, x + y, 0.5, 2.0, 1e-6, False, number),
            F.triplet_margin_loss(x, y, x + y, 0.5, reduction=name),
        ),
        (
            ad.ctc_loss(x.log_softmax(-1).unsqueeze(1), ad.tensor([[1]]), (4,), (1,), 0, number),
            F.ctc_loss(x.log_softmax(-1).unsqueeze(1), ad.tensor([[1]]), (4,), (1,), reduction=name),
        ),
    ):
        assert ours.shape == theirs.shape and bool((ours == theirs).all())
