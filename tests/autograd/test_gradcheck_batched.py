"""gradcheck's check of tangents for several directions at once, under vmap."""

import pytest

import adjoint as ad
from adjoint.autograd import gradcheck
from adjoint.autograd.gradcheck import GradcheckError


def real(*shape):
    return ad.rand(*shape, dtype=ad.float64).requires_grad_()


@pytest.mark.parametrize("fast", [False, True])
def test_tangents_for_several_directions_at_once(fast):
    asked = {"check_forward_ad": True, "check_batched_forward_grad": True, "fast_mode": fast}
    m = ad.randn(3, 3, dtype=ad.float64, requires_grad=True)
    assert gradcheck(lambda a, b: ((a @ b).sin(), a.sum(0) * b), (m, real(3)), **asked)
    z = ad.randn(2, dtype=ad.complex128, requires_grad=True)
    assert gradcheck(lambda z: (z * z.conj(), z.exp()), z, **asked)
    assert gradcheck(ad.sin, real(2), check_backward_ad=False, **asked)

    class Wrong(ad.autograd.Function):
        """A jvp that is right for one direction, and not for several at once."""

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, t):
            return t * (3 if ad._C._is_batched(t) else 2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    assert gradcheck(Wrong.apply, real(2), check_forward_ad=True, fast_mode=fast)
    with pytest.raises(GradcheckError, match="For output 0 and input 0:\\n\\n.*with forward-mode AD"):
        gradcheck(Wrong.apply, real(2), **asked)

    class OneByOne(Wrong):
        @staticmethod
        def jvp(ctx, t):
            return ad.tensor([v * 2 for v in t.tolist()], dtype=t.dtype)

    assert gradcheck(OneByOne.apply, real(2), check_forward_ad=True, fast_mode=fast)
    with pytest.raises(GradcheckError, match="While computing batched gradients, got: "):
        gradcheck(OneByOne.apply, real(2), **asked)
