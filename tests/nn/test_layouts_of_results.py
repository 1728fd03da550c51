"""The order in memory of results of images, by the rule: channels innermost where steps grow from channels to images."""

import pytest

import adjoint as ad
from adjoint.nn import functional as F


def grows(x):
    """Whether steps in memory grow from channels to columns, rows and images, as a loop over the sorted dimensions sees it."""
    least = 0
    for d in (1, *range(x.ndim - 1, 1, -1), 0):
        if x.stride(d) < least or (d == 0 and x.stride(0) == x.stride(1)):
            return False
        least = x.stride(d) * x.shape[d]
    return True


def images(n):
    """Images with channels innermost: as they are, every other channel, one of a batch by a slice and by an index; and plain ones."""
    sizes = (2, 4, *(8,) * n)
    format = ad.channels_last if n == 2 else ad.channels_last_3d
    x = ad.rand(sizes).to(memory_format=format)
    yield from (x, x[:, ::2], x[:1], x[0][None], x[:, :, 2:], ad.rand(sizes), ad.rand(sizes)[:, ::2])


OPERATIONS = {
    "conv": lambda x, n: getattr(F, f"conv{n}d")(x, ad.ones(3, x.shape[1], *(3,) * n)),
    "conv of one element": lambda x, n: getattr(F, f"conv{n}d")(x, ad.ones(3, x.shape[1], *(1,) * n)),
    "conv_transpose": lambda x, n: getattr(F, f"conv_transpose{n}d")(x, ad.ones(x.shape[1], 3, *(3,) * n)),
    "max_pool": lambda x, n: getattr(F, f"max_pool{n}d")(x, 2),
    "interpolate": lambda x, n: F.interpolate(x, scale_factor=0.5),
}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_laid_as_their_images(name, n):
    operation = OPERATIONS[name]
    for x in images(n):
        plain = x.contiguous().requires_grad_()
        laid = x.detach().requires_grad_()
        y, z = operation(laid, n), operation(plain, n)
        ad.testing.assert_close(y, z)
        assert y.is_contiguous() == (x.is_contiguous() or not grows(x)), (x.shape, x.stride(), y.stride())
        assert y.is_contiguous(memory_format=ad.channels_last if n == 2 else ad.channels_last_3d) == grows(x)
        for g, h in zip(ad.autograd.grad(y.square().sum(), laid), ad.autograd.grad(z.square().sum(), plain)):
            ad.testing.assert_close(g, h)


def test_the_same_dtype_keeps_every_stride():
    x = ad.zeros(2, 5, 4)[1::2, 1:]
    assert x.view(x.dtype).stride() == x.stride() == (40, 4, 1)
    assert x.view(x.dtype).data_ptr() == x.data_ptr()


def test_a_change_of_size_is_one_write():
    for size, versions in ((2, 0), (1, 1), (5, 1), (500, 1)):
        x = ad.ones(2)
        y = x[:1]
        x.resize_(size)
        assert x._version == versions, size
        assert y.tolist() == [1]
    x = ad.ones(2)
    assert x.resize_as_(ad.ones(4))._version == 1
    # What was saved is out of date, as it was.
    w = ad.ones(2, requires_grad=True)
    x = ad.ones(2)
    z = w * x
    x.resize_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (
            lambda: ad.addr(ad.ones(2, 2), ad.ones(2), ad.ones(2), beta=True),
            RuntimeError,
            "Boolean beta only supported",
        ),
        (
            lambda: ad.addr(ad.ones(2, 2), ad.ones(2), ad.ones(2), alpha=True),
            RuntimeError,
            "Boolean alpha only",
        ),
        (lambda: ad.nn.Unfold(2)(ad.ones(1, 0, 4, 4)), RuntimeError, "other non-zero dimensions"),
        (
            lambda: F.nll_loss(ad.rand(10, 3), ad.zeros(10, 2).long()),
            RuntimeError,
            "0D or 1D target tensor expected",
        ),
        (
            lambda: ad.nn.utils.spectral_norm(ad.nn.LazyLinear(3)),
            ValueError,
            "can't have uninitialized parameters",
        ),
        (
            lambda: ad.linalg.householder_product(ad.ones(3, 2), ad.ones(2).int()),
            RuntimeError,
            "tau dtype Int does not match input dtype Float",
        ),
    ],
)
def test_words_of_refusals(call, kind, words):
    with pytest.raises(kind) as raised:
        call()
    assert words in str(raised.value)


def test_a_module_that_cannot_be_split_stays_as_it_was():
    layer = ad.nn.LazyLinear(3)
    with pytest.raises(ValueError, match="can't have uninitialized parameters"):
        ad.nn.utils.weight_norm(layer)
    assert layer(ad.ones(1, 2)).shape == (1, 3)


def test_bools_scale_sums_of_bools():
    x = ad.tensor([True, False])
    assert ad.addr(ad.zeros(2, 2).bool(), x, x, beta=True, alpha=True).tolist() == [
        [True, False],
        [False, False],
    ]


def test_a_tangent_has_no_tangent_of_the_same_level():
    from adjoint.autograd import forward_ad

    with forward_ad.dual_level():
        x = ad.ones(2)
        dual = forward_ad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="itself has a forward gradient at the same level"):
            forward_ad.make_dual(ad.ones(2), dual)


def test_out_of_frequencies_says_that_it_is_resized():
    for function in (ad.fft.fftfreq, ad.fft.rfftfreq):
        with pytest.warns(UserWarning, match="does not match the computed number"):
            function(3, out=ad.empty(5))
