"""Forward mode by hand: levels, dual tensors, views and writes, and what is refused.

Derivatives of all operators are in test_forward_table.py. Expectations are what torch 2.13 does, unless said.
"""

import gc
import threading

import pytest

import adjoint as ad
import adjoint.autograd.forward_ad as forward_ad
from adjoint.autograd.forward_ad import dual_level, make_dual, unpack_dual


def tangent(t):
    return unpack_dual(t).tangent


@pytest.fixture
def level():
    with dual_level() as number:
        yield number


def dual(values, tangents):
    return make_dual(ad.tensor(values), ad.tensor(tangents))


# --- packing and unpacking ---------------------------------------------------------------------------------------


def test_tangent_is_what_was_given(level):
    x, t = ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0])
    d = make_dual(x, t)
    primal, found = unpack_dual(d)
    assert found is t and primal.tolist() == [1.0, 2.0]
    assert tangent(x) is None and tangent(primal) is None
    assert d._base is x


def test_not_dual():
    x = ad.tensor([1.0], requires_grad=True)
    assert unpack_dual(x) == (x, None) and unpack_dual(x).primal is x
    with dual_level():
        assert unpack_dual(x).tangent is None
    with pytest.raises(
        RuntimeError,
        match="Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level",
    ):
        make_dual(x, x)


@pytest.mark.parametrize(
    ("x", "t", "error", "text"),
    [
        (
            ad.ones(2),
            ad.ones(3),
            RuntimeError,
            r"different size than that of the original Tensor, this is not supported. Tensor is of size \[2\]",
        ),
        (
            ad.ones(2, dtype=ad.int64),
            ad.ones(2),
            ValueError,
            "Expected primal to be floating point or complex, but got: ",
        ),
        (
            ad.ones(2),
            ad.ones(2, dtype=ad.int64),
            ValueError,
            "Expected tangent to be floating point or complex, but got: ",
        ),
        (ad.ones(2), ad.ones(2, dtype=ad.complex64), RuntimeError, "cannot have a tangent of"),
        (2.0, ad.ones(2), TypeError, "must be Tensor, not float"),
    ],
)
def test_refused(level, x, t, error, text):
    with pytest.raises(error, match=text):
        make_dual(x, t)


def test_one_tangent_per_level(level):
    d = dual([1.0], [1.0])
    with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
        make_dual(d, ad.ones(1))


def test_tangent_of_another_type_is_converted(level):
    assert tangent(make_dual(ad.ones(2), ad.ones(2, dtype=ad.float64))).dtype is ad.float32


def test_tangents_end_with_their_level():
    with dual_level():
        d = dual([1.0], [1.0])
        y = d * 2
    assert "tangent" not in repr(y) and unpack_dual(y).tangent is None
    with dual_level():
        assert tangent(y) is None and tangent(y * d) is None


def test_levels_close_in_order():
    outer = forward_ad.enter_dual_level()
    inner = forward_ad.enter_dual_level()
    with pytest.raises(
        RuntimeError, match="Trying to exit a forward AD level that was not the last one that was created"
    ):
        forward_ad.exit_dual_level(level=outer)
    forward_ad.exit_dual_level()
    forward_ad.exit_dual_level(level=outer)
    assert inner != outer
    with pytest.raises(RuntimeError, match="no forward AD level is open"):
        forward_ad.exit_dual_level()
    with pytest.raises(RuntimeError, match="not open in this thread"):
        make_dual(ad.ones(1), ad.ones(1), level=outer)


def test_an_error_closes_the_level():
    with pytest.raises(ZeroDivisionError), dual_level():
        d = dual([1.0], [1.0])
        1 / 0  # noqa: B018
    assert ad._C._current_dual_level() is None and "tangent" not in repr(d)


def test_printing(level):
    assert repr(dual([1.0, 2.0], [3.0, 4.0])) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
    x = make_dual(ad.ones(1, requires_grad=True), ad.ones(1))
    assert repr(x * 2).endswith("grad_fn=<MulBackward0>, tangent=tensor([2.]))")


def test_decorator():
    @dual_level()
    def slope(x):
        return tangent(make_dual(x, ad.ones_like(x)) ** 2)

    assert slope(ad.tensor([3.0])).tolist() == [6.0]
    assert ad._C._current_dual_level() is None


# --- levels ------------------------------------------------------------------------------------------------------


def test_levels_do_not_mix():
    """d/dx (x · d/dy (x + y)) is 1: a tangent of the outer level is no tangent of the inner one."""
    x = ad.tensor(3.0)
    with dual_level():
        xd = make_dual(x, ad.tensor(1.0))
        with dual_level():
            yd = make_dual(ad.tensor(5.0), ad.tensor(1.0))
            inner = tangent(xd + yd)
        assert tangent(xd * inner).item() == 1.0


@pytest.mark.parametrize("orders", [2, 3, 4])
def test_nested_levels_give_higher_derivatives(orders):
    def derivative(f):
        def df(x):
            with dual_level():
                return tangent(f(make_dual(x, ad.ones_like(x))))

        return df

    f = lambda x: (x**5).sum()  # noqa: E731
    wanted = 1.0
    for k in range(orders):
        f = derivative(f)
        wanted *= 5 - k
    x = ad.tensor(2.0, dtype=ad.float64)
    assert f(x).item() == pytest.approx(wanted * 2.0 ** (5 - orders))


def test_matrix_in_nested_levels():
    """The operators without a rule of their own nest, too."""
    a = ad.tensor([[2.0, 0.5], [0.5, 3.0]], dtype=ad.float64)
    t = ad.tensor([[1.0, 0.2], [0.2, -1.0]], dtype=ad.float64)

    def f(a):
        return ad.linalg.inv(a).logsumexp(0).sum()

    def directional(f):
        def df(a):
            with dual_level():
                return tangent(f(make_dual(a, t)))

        return df

    step = 1e-5
    first = directional(f)
    wanted = (first(a + step * t) - first(a - step * t)) / (2 * step)
    assert directional(first)(a).item() == pytest.approx(wanted.item(), rel=1e-6)


def test_threads_have_levels_of_their_own():
    found, errors = [], []

    def work(k):
        try:
            for _ in range(50):
                with dual_level():
                    x = make_dual(ad.tensor([float(k)]), ad.ones(1))
                    found.append(tangent((x * x).sum()).item() == 2.0 * k)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and all(found) and len(found) == 500


# --- reverse mode ------------------------------------------------------------------------------------------------


def test_gradient_of_a_dual_has_a_tangent(level):
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    d = make_dual(x, ad.tensor([1.0, 0.0]))
    (g,) = ad.autograd.grad((d**3).sum(), d)
    assert g.tolist() == [3.0, 12.0] and tangent(g).tolist() == [6.0, 0.0]
    (d.exp() * d).sum().backward()  # saves its own result
    assert tangent(x.grad).tolist() == pytest.approx([3 * 2.718281828, 0.0])


def test_accumulated_gradients_add_their_tangents(level):
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    d = make_dual(x, ad.tensor([1.0, 1.0]))
    for _ in range(2):
        (d**2).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0] and tangent(x.grad).tolist() == [4.0, 4.0]


def test_modes(level):
    x = dual([2.0], [1.0])
    with ad.no_grad():
        assert tangent(x * x).tolist() == [4.0]
    # Unlike torch, which drops tangents there without a word.
    with ad.inference_mode():
        assert tangent(x * x).tolist() == [4.0]
        assert tangent(ad.logsumexp(x * x, 0)).item() == 4.0
    assert tangent(x.detach()) is None


def test_saved_tensor_hooks_keep_tangents(level):
    x = ad.tensor([2.0], requires_grad=True)
    d = make_dual(x, ad.ones(1))
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (d * d * d).sum()
    assert tangent(ad.autograd.grad(y, d)[0]).tolist() == [12.0]


def test_nothing_is_left_behind():
    gc.collect()
    before = ad.memory_stats()["allocated_bytes.all.current"] if hasattr(ad, "memory_stats") else None
    if before is None:
        pytest.skip("no statistics of memory")
    for _ in range(3):
        with dual_level():
            x = make_dual(ad.ones(1000, requires_grad=True), ad.ones(1000))
            y = (
                x.exp() * x
            ).exp()  # tangents that are recorded, and lead back to what they are the tangents of
            del x, y
    assert ad.memory_stats()["allocated_bytes.all.current"] == before


# --- views and writes --------------------------------------------------------------------------------------------


def test_tangent_of_a_view_is_a_view(level):
    x = dual([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]) * 1
    row = x[1]
    assert tangent(row).tolist() == [7.0, 8.0]
    row.mul_(10)
    assert tangent(x).tolist() == [[5.0, 6.0], [70.0, 80.0]]
    x.zero_()
    assert tangent(row).tolist() == [0.0, 0.0] and tangent(x.t()).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_writing_a_dual_into_part_of_a_tensor(level):
    base = ad.zeros(2, 2)
    before = base[0]
    base[0].copy_(dual([1.0, 2.0], [3.0, 4.0]))
    assert tangent(base).tolist() == [[3.0, 4.0], [0.0, 0.0]]
    # The view that was there before, too.
    assert tangent(before).tolist() == [3.0, 4.0] and tangent(before * 2).tolist() == [6.0, 8.0]
    assert tangent(base.sum()).item() == 7.0


def test_base_written_after_its_view_was_made(level):
    base = ad.ones(3)
    view = base[1:]
    base.copy_(dual([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    assert tangent(view).tolist() == [5.0, 6.0]
    view.mul_(2)
    assert tangent(base).tolist() == [4.0, 10.0, 12.0]


@pytest.mark.parametrize(
    ("write", "wanted"),
    [
        (lambda x: x.mul_(2), [6.0, 8.0]),
        (lambda x: x.add_(1), [3.0, 4.0]),
        (lambda x: x.exp_(), [3.0 * 2.718281828, 4.0 * 7.389056099]),
        (lambda x: x.zero_(), [0.0, 0.0]),
        (lambda x: x.fill_(2.0), [0.0, 0.0]),
        (lambda x: x.__setitem__(0, 7.0), [0.0, 4.0]),
        (lambda x: x.__setitem__(ad.tensor([1]), ad.tensor([7.0])), [3.0, 0.0]),
        (lambda x: x.masked_fill_(ad.tensor([True, False]), 0.0), [0.0, 4.0]),
        (lambda x: x.cumsum_(0), [3.0, 7.0]),
        (lambda x: x.copy_(ad.ones(2)), [0.0, 0.0]),
        (lambda x: x.clamp_(1.5, 3.0), [0.0, 4.0]),
        (lambda x: x.index_add_(0, ad.tensor([0]), x[1:]), [7.0, 4.0]),
        (lambda x: x.scatter_(0, ad.tensor([0]), 1.0), [0.0, 4.0]),
        (lambda x: ad.mul(x, x, out=x), [6.0, 16.0]),
        (lambda x: x.lt_(0), [0.0, 0.0]),
    ],
)
def test_writes(level, write, wanted):
    x = dual([1.0, 2.0], [3.0, 4.0]) * 1
    write(x)
    assert tangent(x).tolist() == pytest.approx(wanted)


def test_result_written_does_not_change_the_input(level):
    t = ad.tensor([3.0, 4.0])
    x = make_dual(ad.tensor([1.0, 2.0]), t)
    y = x + 1
    part = y[0]
    y.mul_(2)
    assert tangent(x).tolist() == [3.0, 4.0] == t.tolist()
    assert tangent(y).tolist() == [6.0, 8.0] and tangent(part).item() == 6.0


def test_out(level):
    x, out = dual([1.0, 2.0], [3.0, 4.0]), ad.empty(2)
    ad.exp(x, out=out)
    assert tangent(out).tolist() == pytest.approx(tangent(x.exp()).tolist())
    ad.sum(x, 0, out=(total := ad.empty(())))
    assert tangent(total).item() == 7.0
    ad.exp(ad.zeros(2), out=out)
    assert tangent(out).tolist() == [0.0, 0.0]


def test_conversions(level):
    x = dual([1.0, 2.0], [3.0, 4.0])
    assert tangent(x.double()).dtype is ad.float64
    assert tangent(x.to(ad.complex64)).tolist() == [3.0, 4.0]
    assert tangent(x.half().float()).tolist() == [3.0, 4.0]
    assert tangent(x.long()) is None and tangent(x > 1) is None and tangent(x.argmax()) is None


def test_written_in_place_while_recorded(level):
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    d = make_dual(x, ad.tensor([1.0, 0.0]))
    y = d * 1
    y.mul_(d)
    y[1:] *= 3
    (g,) = ad.autograd.grad(y.sum(), d)
    assert g.tolist() == [2.0, 12.0] and tangent(g).tolist() == [2.0, 0.0]
    assert tangent(y).tolist() == [2.0, 0.0]


# --- operators ---------------------------------------------------------------------------------------------------


def test_operator_without_derivative(level):
    with pytest.raises(
        NotImplementedError,
        match="Trying to use forward AD with _geqrf that does not support it because it has not been implemented yet",
    ):
        ad._C._geqrf(make_dual(ad.eye(2), ad.eye(2)))


def test_composition(level):
    layer = ad.nn.Linear(3, 4, dtype=ad.float64)
    f = lambda x: ad.nn.functional.softmax(ad.nn.functional.layer_norm(layer(x), (4,)), -1)  # noqa: E731
    x = make_dual(ad.randn(4, 3, dtype=ad.float64), ad.randn(4, 3, dtype=ad.float64))
    y = f(x)
    step = 1e-5
    primal, t = unpack_dual(x)
    wanted = (f(primal + step * t) - f(primal - step * t)) / (2 * step)
    assert ad.allclose(tangent(y).detach(), wanted.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        ad.unique,
        ad.unique_consecutive,
        ad.histc,
    ],
)
def test_compositions_without_derivative(level, call):
    with pytest.raises(NotImplementedError, match="Trying to use forward AD with"):
        call(dual([1.0, 2.0], [1.0, 0.0]))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: ad.nextafter(x, ad.zeros(2)), [1.0, 0.0]),
        (lambda x: ad.linalg.lstsq(ad.eye(2) * 2, x[:, None]).solution[:, 0], [0.5, 0.0]),
        (lambda x: ad.polygamma(1, x), [-2.4041138, 0.0]),
        (lambda x: ad.linalg.eigvalsh(ad.diag(x)), [1.0, 0.0]),
        (lambda x: ad.linalg.svdvals(ad.diag(x)), [0.0, 1.0]),
    ],
)
def test_compositions_that_ask_whether_they_are_differentiated(call, wanted):
    with dual_level():
        found = tangent(call(dual([1.0, 2.0], [1.0, 0.0])))
        assert found.tolist() == pytest.approx(wanted, rel=1e-5)


def test_detach_in_place_takes_the_tangent_away():
    x, t = ad.tensor([0.5, 2.0]), ad.tensor([1.0, 10.0])

    def f(x):
        y = x * 3
        y.detach_()
        return y * x

    assert ad.func.jvp(f, (x,), (t,))[1].tolist() == (x * 3 * t).tolist()
    with ad.no_grad():
        assert ad.func.jvp(f, (x,), (t,))[1].tolist() == (x * 3 * t).tolist()
    with dual_level():
        dual = make_dual(x, t) * 2
        before = dual.sin()
        assert unpack_dual(dual.detach_()).tangent is None
        assert unpack_dual(before).tangent.tolist() == (2 * t * (2 * x).cos()).tolist()
