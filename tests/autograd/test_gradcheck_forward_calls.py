"""What a function sees while `gradcheck` runs it in forward mode: how often it is moved, and that nothing is recorded then."""

import pytest

import adjoint as ad
from adjoint.autograd import Function, forward_ad, gradcheck


def checked(f, inputs, **options):
    return gradcheck(
        f, inputs, check_forward_ad=True, check_backward_ad=False, check_batched_grad=False, **options
    )


@pytest.mark.parametrize(
    "both, undefined, batched, wanted",
    [
        (True, False, False, 2),  # along each input
        (True, True, False, 6),  # each alone with zeros, each alone without
        (True, True, True, 12),  # for each input two directions one by one, and both at once
        (False, True, True, 5),
    ],
)
def test_how_often_a_function_is_moved(both, undefined, batched, wanted):
    calls = []

    class Both(Function):
        @staticmethod
        def forward(ctx, x, y):
            if forward_ad._current_level >= 0:
                assert not x.requires_grad and not y.requires_grad
            return x.clone(), y.clone()

        @staticmethod
        def jvp(ctx, s, t):
            calls.append(1)
            return s, t

    x = ad.rand(1, dtype=ad.float64, requires_grad=True)
    y = ad.rand(1, dtype=ad.float64, requires_grad=both)
    assert checked(Both.apply, (x, y), check_undefined_grad=undefined, check_batched_forward_grad=batched)
    assert len(calls) == wanted


@pytest.mark.parametrize("fast", [True, False])
def test_tangents_that_a_function_spoils_are_found(fast):
    def spoilt(x, y):
        if forward_ad._current_level >= 0:
            primal, tangent = forward_ad.unpack_dual(y)
            y = forward_ad.make_dual(primal, tangent * 1.1)
        return x + y, y

    inputs = [ad.rand(2, dtype=ad.float64, requires_grad=True) for _ in range(2)]
    wrong = "Jacobian computed with forward mode mismatch for output 0 with respect to input 1"
    with pytest.raises(RuntimeError, match=wrong):
        gradcheck(spoilt, inputs, check_forward_ad=True, fast_mode=fast)


def test_random_numbers_in_a_batch_of_tangents():
    class Noisy(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            ad.randn_like(t)
            return t * 2

    with pytest.raises(RuntimeError, match="We do not yet support calling random operations inside of vmap"):
        checked(
            Noisy.apply, (ad.rand(2, dtype=ad.float64, requires_grad=True),), check_batched_forward_grad=True
        )
