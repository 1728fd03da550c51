"""Functions with a `jvp`, and the checks and functionals that use forward mode. Expectations are what torch 2.13 does."""

import pytest

import adjoint as ad
from adjoint.autograd import Function, gradcheck, gradgradcheck
from adjoint.autograd.forward_ad import dual_level, make_dual, unpack_dual
from adjoint.autograd.functional import hessian, jacobian


def tangent(t):
    return unpack_dual(t).tangent


class Product(Function):
    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.scale = scale
        return x * y * scale

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.scale, g * x * ctx.scale, None

    @staticmethod
    def jvp(ctx, s, t, none):
        assert none is None
        x, y = ctx.saved_tensors
        return (s * y + x * t) * ctx.scale


def pair():
    return tuple(ad.tensor(v, dtype=ad.float64, requires_grad=True) for v in ([1.0, 2.0], [3.0, 5.0]))


def test_jvp():
    x, y = pair()
    with dual_level():
        d = make_dual(x, ad.ones_like(x))
        z = Product.apply(d, y, 2.0)
        assert z.tolist() == [6.0, 20.0] and tangent(z).tolist() == [6.0, 10.0]
        # The other argument's tangent is zeros.
        assert tangent(Product.apply(y, d, 1.0)).tolist() == [3.0, 5.0]
        # Reverse over forward, and forward over reverse.
        (g,) = ad.autograd.grad(tangent(z).sum(), y, retain_graph=True)
        assert g.tolist() == [2.0, 2.0]
        (g,) = ad.autograd.grad(z.sum(), y)
        assert g.tolist() == [2.0, 4.0] and tangent(g).tolist() == [2.0, 2.0]


def test_jvp_in_nested_levels():
    x = ad.tensor(3.0, dtype=ad.float64)
    one = ad.ones((), dtype=ad.float64)
    with dual_level():
        a = make_dual(x, one)
        with dual_level():
            b = make_dual(a, one)
            first = tangent(Product.apply(b, Product.apply(b, b, 1.0), 1.0))
        assert first.item() == 27.0 and tangent(first).item() == 18.0


def test_checks():
    x, y = pair()
    f = lambda x, y: Product.apply(x, y, 2.0)  # noqa: E731
    for fast in (False, True):
        assert gradcheck(f, (x, y), check_forward_ad=True, fast_mode=fast)
        assert gradcheck(
            f,
            (x, y),
            check_forward_ad=True,
            check_backward_ad=False,
            check_undefined_grad=False,
            fast_mode=fast,
        )
        assert gradgradcheck(f, (x, y), check_fwd_over_rev=True, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_wrong_jvp_is_found(fast):
    class Wrong(Product):
        @staticmethod
        def jvp(ctx, s, t, none):
            x, y = ctx.saved_tensors
            return s * y * 2 + x * t * 2.1

    x, y = pair()
    f = lambda x, y: Wrong.apply(x, y, 2.0)  # noqa: E731
    assert gradcheck(f, (x, y), fast_mode=fast)
    with pytest.raises(
        ad.autograd.gradcheck.GradcheckError,
        match="Jacobian computed with forward mode mismatch for output 0 with respect to input 1",
    ):
        gradcheck(f, (x, y), check_forward_ad=True, fast_mode=fast)
    assert not gradcheck(f, (x, y), check_forward_ad=True, fast_mode=fast, raise_exception=False)


def test_jvp_that_adds_a_constant_is_found():
    class Shifted(Product):
        @staticmethod
        def forward(ctx, x, y, scale):
            ctx.set_materialize_grads(False)
            return Product.forward(ctx, x, y, scale)

        @staticmethod
        def jvp(ctx, s, t, none):
            x, y = ctx.saved_tensors
            return x if s is None else s * y if t is None else s * y + x * t

    x, y = pair()
    with pytest.raises(ad.autograd.gradcheck.GradcheckError):
        gradcheck(lambda x, y: Shifted.apply(x, y, 1.0), (x, y), check_forward_ad=True)


def test_complex():
    z = ad.tensor([1 + 2j, -0.5 + 1j], dtype=ad.complex128, requires_grad=True)
    for f in (
        lambda z: z * z.conj(),
        lambda z: z.abs() * z,
        lambda z: z.real.exp(),
        lambda z: ad.angle(z),
        ad.view_as_real,
    ):
        assert gradcheck(f, (z,), check_forward_ad=True)
        assert gradcheck(f, (z,), check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(f, (z,), check_fwd_over_rev=True)


def result(jvp, forward=lambda ctx, x: x * 2):
    class F(Function):
        backward = staticmethod(lambda ctx, g: g)

    F.forward, F.jvp = staticmethod(forward), staticmethod(jvp)
    F._backward_cls = ad._C._backward_class(F)
    with dual_level():
        y = F.apply(make_dual(ad.ones(2), ad.tensor([1.0, 2.0])) * 1)
        return y, tangent(y)


@pytest.mark.parametrize(
    ("jvp", "text"),
    [
        (
            lambda ctx, t: (t, t),
            r"Function's jvp returned an invalid number of forward gradients \(expected 1 but got 2\)",
        ),
        (
            lambda ctx, t: ad.ones(3),
            "Trying to set a forward gradient that has a different size than that of the original Tensor",
        ),
        (lambda ctx, t: 3, r"expected Variable or None \(got int\) for grad output 0."),
        (lambda ctx, t: ad.ones(2, dtype=ad.int64), "jvp returned a tangent of"),
    ],
)
def test_wrong_results_of_jvp(jvp, text):
    with pytest.raises(RuntimeError, match=text):
        result(jvp)


def test_no_jvp():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with dual_level():
        x = make_dual(ad.ones(2), ad.ones(2))
        with pytest.raises(
            NotImplementedError,
            match="You must implement the jvp function for custom autograd.Function to use it with forward mode AD.",
        ):
            Plain.apply(x)
        assert Plain.apply(ad.ones(2)).tolist() == [2.0, 2.0]


def test_no_tangent():
    assert result(lambda ctx, t: None)[1] is None


def test_mark_dirty():
    def write(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    y, t = result(lambda ctx, t: t.mul_(2), write)
    assert y.tolist() == [2.0, 2.0] and t.tolist() == [2.0, 4.0]
    with pytest.raises(
        RuntimeError, match="An inplace custom Function is not modifying the forward mode gradients inplace"
    ):
        result(lambda ctx, t: t * 2, write)


def test_mark_dirty_leaves_the_given_tangent_alone():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(2)

    with dual_level():
        t = ad.ones(2)
        y = Double.apply(make_dual(ad.ones(2), t))
        assert tangent(y).tolist() == [2.0, 2.0] and t.tolist() == [1.0, 1.0]


def test_views():
    y, t = result(lambda ctx, t: t.view(2, 1), lambda ctx, x: x.view(2, 1))
    assert t.tolist() == [[1.0], [2.0]]
    for forward in (lambda ctx, x: x.view(2, 1), lambda ctx, x: x):
        with pytest.raises(
            RuntimeError,
            match=r"A custom Function's forward is returning a view \(or an input as-is\) but the jvp is not returning a view.",
        ):
            result(lambda ctx, t: t.clone().view(forward(None, t).shape), forward)


def test_mark_non_differentiable():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            whole = x.floor()
            ctx.mark_non_differentiable(whole)
            return x - whole, whole, x.long()

        @staticmethod
        def jvp(ctx, t):
            return t, None, None

    with dual_level():
        fraction, whole, number = Split.apply(make_dual(ad.tensor([1.5]), ad.ones(1)))
        assert tangent(fraction).tolist() == [1.0] and tangent(whole) is None and number.tolist() == [1]


@pytest.mark.parametrize("whole", [True, False])
def test_no_tangent_for_what_cannot_have_one(whole):
    class Rounded(Function):
        @staticmethod
        def forward(ctx, x):
            rounded = x.round() if whole else x.round().long()
            if whole:
                ctx.mark_non_differentiable(rounded)
            return x.clone(), rounded

        @staticmethod
        def jvp(ctx, t):
            return t, t.clone()

    with (
        dual_level(),
        pytest.raises(
            RuntimeError, match=r"a gradient at position 1, .*You should return None at that position instead"
        ),
    ):
        Rounded.apply(make_dual(ad.tensor([1.5]), ad.ones(1)))


@pytest.mark.parametrize("of_view", [True, False])
@pytest.mark.parametrize(
    "jvp, wanted",
    [
        (lambda t: t[:2], None),
        (lambda t: t[:2].clone(), "the jvp is not returning a view"),
        (
            lambda t: t[:2].clone().view_as(t[:2]),
            "the jvp is not returning a view of the given grad input: .*of the same base as the given grad input",
        ),
    ],
)
def test_a_view_moves_as_a_view(jvp, wanted, of_view):
    class Head(Function):
        @staticmethod
        def forward(ctx, x):
            return x[:2]

        @staticmethod
        def jvp(ctx, t):
            return jvp(t)

    with dual_level():
        x = make_dual(ad.arange(4.0), ad.ones(4))
        x = x.view_as(x) if of_view else x
        if wanted is None:
            assert tangent(Head.apply(x)).tolist() == [1.0, 1.0]
            return
        with pytest.raises(RuntimeError, match=wanted):
            Head.apply(x)


@pytest.mark.parametrize(
    "jvp, fine", [(lambda t: t.view_as(t), True), (lambda t: t, False), (lambda t: t * 2, False)]
)
def test_an_argument_that_is_returned_moves_as_a_view_of_it(jvp, fine):
    class Itself(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y, x

        @staticmethod
        def jvp(ctx, s, t):
            return s + t, jvp(s)

    with dual_level():
        direction = ad.ones(2)
        x = make_dual(ad.tensor([1.0, 2.0]), direction)
        if fine:
            assert tangent(Itself.apply(x, ad.ones(2))[1])._base is direction
            return
        with pytest.raises(RuntimeError, match=r"returning a view \(or an input as-is\) but the jvp is not"):
            Itself.apply(x, ad.ones(2))


@pytest.mark.parametrize("jvp", [lambda t: t, lambda t: t * 2])
def test_the_tangent_of_what_is_written_is_written(jvp):
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return jvp(t)

    with (
        dual_level(),
        pytest.raises(RuntimeError, match="jvp function must modify the corresponding gradient inplace"),
    ):
        Double.apply(make_dual(ad.tensor([1.0]), ad.ones(1)).clone())


def test_what_is_saved_for_backward_is_not_for_jvp():
    class Kept(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def jvp(ctx, t):
            assert ctx.saved_tensors == ()
            return t

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x

    x = ad.tensor([3.0], requires_grad=True)
    with dual_level():
        Kept.apply(make_dual(x, ad.ones(1))).backward()
    assert x.grad.tolist() == [3.0]


def test_forward_mode_inside_of_forward():
    """What is differentiated there has levels of its own; those around are out of sight."""

    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            _, slope = ad.func.jvp(ad.cos, (x,), (ad.ones_like(x),))
            return -slope

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ad.func.jvp(ad.sin, (x,), (ad.ones_like(x),))[1]

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t * x.cos()

    x = ad.tensor([0.3, 1.2], dtype=ad.float64, requires_grad=True)
    y = Sine.apply(x)
    assert ad.allclose(y, x.sin())
    assert ad.allclose(ad.autograd.grad(y.sum(), x)[0], x.cos())
    with dual_level():
        y = Sine.apply(make_dual(x.detach(), ad.ones_like(x)))
        assert ad.allclose(y, x.sin()) and ad.allclose(tangent(y), x.cos())


def test_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 2 * x * t

    with dual_level():
        assert tangent(Square.apply(make_dual(ad.tensor([3.0]), ad.ones(1)))).tolist() == [6.0]


# --- functional --------------------------------------------------------------------------------------------------


def test_jacobian_in_forward_mode():
    f = lambda x, y: (x.exp() * y.sum(), ad.outer(x, y))  # noqa: E731
    x, y = ad.tensor([0.1, 0.2, 0.3], dtype=ad.float64), ad.tensor([1.0, 2.0], dtype=ad.float64)
    forward, reverse = (jacobian(f, (x, y), strategy=s) for s in ("forward-mode", "reverse-mode"))
    for a, b in zip(forward, reverse, strict=True):
        for p, q in zip(a, b, strict=True):
            assert p.shape == q.shape and ad.allclose(p, q)
    assert jacobian(lambda x: x**2, ad.tensor([2.0]), strategy="forward-mode", vectorize=True).tolist() == [
        [4.0]
    ]
    assert jacobian(lambda x: x, ad.zeros(0), strategy="forward-mode").shape == (0, 0)


def test_jacobian_in_forward_mode_recorded():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    j = jacobian(lambda x: x**3, x, create_graph=True, strategy="forward-mode")
    j.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_hessian_forward_over_reverse():
    f = lambda x: (x**3).sum() * x[0]  # noqa: E731
    x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64)
    assert ad.allclose(hessian(f, x, outer_jacobian_strategy="forward-mode"), hessian(f, x))


def test_strategies():
    with pytest.raises(
        AssertionError, match='Expected strategy to be either "forward-mode" or "reverse-mode"'
    ):
        jacobian(lambda x: x, ad.ones(1), strategy="sideways")
    with pytest.raises(
        RuntimeError, match='`strict=True` and `strategy="forward-mode"` are not supported together'
    ):
        jacobian(lambda x: x, ad.ones(1), strict=True, strategy="forward-mode")


def test_jvp_is_told_none_for_what_cannot_have_a_tangent():
    told = []

    class Pick(ad.autograd.Function):
        @staticmethod
        def forward(x, index, other, flag):
            return x[index] * other

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs[:3])

        @staticmethod
        def jvp(ctx, x, index, other, flag):
            told.append((index, flag, other.tolist()))
            _, at, factor = ctx.saved_tensors
            return x[at] * factor

    point, index, factor = ad.tensor([1.0, 2.0]), ad.tensor([1]), ad.tensor(3.0)
    _, t = ad.func.jvp(lambda x: Pick.apply(x, index, factor, True), (point,), (ad.tensor([5.0, 7.0]),))
    assert t.tolist() == [21.0] and told == [(None, None, 0.0)]
