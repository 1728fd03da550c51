"""Details of layers that torch's programs rely on: defaults of lazy norms, sizes that do not change, the order of noise."""

import pytest
from helpers import array

import adjoint as ad

F, nn = ad.nn.functional, ad.nn


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["BatchNorm", "InstanceNorm"])
def test_lazy_norms_have_parameters_and_statistics(kind, n):
    layer = getattr(nn, f"Lazy{kind}{n}d")()
    layer(ad.ones(2, 3, *[4] * n))
    assert layer.affine and layer.track_running_stats
    assert list(layer.state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    assert layer.running_mean.shape == (3,)


@pytest.mark.parametrize("n, mode", [(1, "linear"), (2, "bilinear"), (3, "trilinear")])
@pytest.mark.parametrize("antialias", [False, True])
def test_a_dimension_that_keeps_its_size_is_copied_whatever_the_scale(n, mode, antialias):
    if antialias and n != 2:
        return
    x = ad.randn(1, 2, *[3] * n)
    for options in ({}, {"recompute_scale_factor": False}):
        y = F.interpolate(x, scale_factor=1.3, mode=mode, antialias=antialias, **options)
        assert ad.equal(x, y) and y is not x and y.data_ptr() != x.data_ptr()
    if n == 2:
        wide = F.interpolate(x, scale_factor=(1.3, 2.0), mode=mode, antialias=antialias)
        assert ad.equal(wide, F.interpolate(x, size=(3, 6), mode=mode, antialias=antialias))


def test_noise_of_gumbel_softmax_is_drawn_in_order_of_the_elements():
    def drawn(logits):
        ad.manual_seed(0)
        return array(F.gumbel_softmax(logits, hard=True)).tolist()

    assert drawn(ad.zeros(3, 2).t()) == drawn(ad.zeros(2, 3))
    assert ad.legacy_contiguous_format is ad.contiguous_format
