"""torch.library's interface: operators with schemas, their pieces, libraries, and ``torch.ops``."""

import warnings

import numpy as np
import pytest
from helpers import array, normal, tensor, torch_program

import adjoint as ad
from adjoint import library
from adjoint.library import _custom, _libraries


@pytest.fixture(autouse=True)
def the_registry_as_it_was():
    before = {ns: dict(names) for ns, names in _custom.operators.items()}
    libraries = dict(_libraries._libraries)
    yield
    for ns, names in _custom.operators.items():
        for name, overloads in names.items():
            if name not in before.get(ns, ()):
                for op in list(overloads.values()):
                    ad._C._withdraw_operator(op._qualname)
    _custom.operators.clear()
    _custom.operators.update(before)
    _custom._pending.clear()
    _libraries._libraries.clear()
    _libraries._libraries.update(libraries)


def product():
    @library.custom_op("test_library::product", mutates_args=())
    def product(x: ad.Tensor, y: ad.Tensor, *, scale: float = 1.0) -> ad.Tensor:
        """A product by NumPy."""
        return ad.from_numpy(np.asarray(scale * x.numpy() * y.numpy()))

    return product


def with_derivative(op):
    def setup_context(ctx, inputs, output, keyword_only_inputs):
        x, y = inputs
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, y if ctx.needs_input_grad[0] else None)
        ctx.scale = keyword_only_inputs["scale"]

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (
            g * y * ctx.scale if ctx.needs_input_grad[0] else None,
            g * x * ctx.scale if ctx.needs_input_grad[1] else None,
        )

    op.register_autograd(backward, setup_context=setup_context)
    return op


def leaves(*shapes):
    return [tensor(normal(*shape, seed=k), requires_grad=True) for k, shape in enumerate(shapes)]


def test_a_custom_operator_is_a_row_of_the_table():
    op = product()
    x, y = (t.detach() for t in leaves((3,), (3,)))
    np.testing.assert_allclose(array(op(x, y, scale=2.0)), 2 * array(x) * array(y))
    (row,) = [row for row in ad._C.operators() if row["name"] == "test_library::product"]
    assert row["signature"] == "test_library::product(x, y, *, scale=1.0)"
    assert op.__doc__ == "A product by NumPy."


def test_its_derivatives():
    op = with_derivative(product())
    x, y = leaves((3,), (3,))
    assert ad.autograd.gradcheck(lambda x, y: op(x, y, scale=3.0), (x, y))
    assert ad.autograd.gradgradcheck(lambda x, y: op(x, y, scale=3.0), (x, y))
    node = op(x, y.detach()).grad_fn
    assert node.name() == "GeneratedBackwardFor_test_library_product_defaultBackward"
    assert node.saved_tensors[0] is None


def test_a_derivative_that_is_missing_says_how_to_add_it():
    x, y = leaves((3,), (3,))
    z = product()(x, y)
    with pytest.raises(
        RuntimeError, match="Trying to backward through test_library.product.default but no autograd formula"
    ):
        z.sum().backward()
    op = with_derivative(product())
    with pytest.raises(
        RuntimeError, match="to return 2 gradients, one for each input, or None, but it returned 1"
    ):
        op.register_autograd(lambda ctx, g: g)
        op(x, y).sum().backward()


def test_lists_of_tensors_have_gradients():
    @library.custom_op("test_library::total", mutates_args=())
    def total(xs: list[ad.Tensor], w: ad.Tensor, n: int = 1) -> ad.Tensor:
        return sum(x.detach() for x in xs) * w * n

    seen = []

    def setup_context(ctx, inputs, output):
        ctx.xs, ctx.w, ctx.n = inputs
        seen.append(ctx.needs_input_grad)

    total.register_autograd(
        lambda ctx, g: ([g * ctx.w * ctx.n for _ in ctx.xs], sum(ctx.xs) * g * ctx.n, None),
        setup_context=setup_context,
    )
    a, b, w = leaves((2,), (2,), (2,))
    assert ad.autograd.gradcheck(lambda a, b, w: total([a, b], w, 2), (a, b, w))
    assert seen[0] == ([True, True], True, False)

    @library.custom_op("test_library::halves", mutates_args=())
    def halves(x: ad.Tensor) -> list[ad.Tensor]:
        return [x / 2, x / 2]

    assert isinstance(halves(a.detach()), list)
    halves.register_autograd(lambda ctx, gs: (gs[0] + gs[1]) / 2)
    results = halves(a)
    assert isinstance(results, list)
    sum(results).sum().backward()
    np.testing.assert_allclose(array(a.grad), 1.0)


def test_vmap_by_a_rule_or_sample_by_sample():
    x, y = leaves((3, 2), (3, 2))
    op = product()
    np.testing.assert_allclose(array(ad.vmap(op)(x.detach(), y.detach())), array(x * y))
    seen = []

    def rule(info, in_dims, x, y, *, scale):
        seen.append((info.batch_size, in_dims))
        return op(x, y, scale=scale), 0

    op.register_vmap(rule)
    np.testing.assert_allclose(array(ad.vmap(op)(x.detach(), y.detach())), array(x * y))
    with_derivative(op)
    np.testing.assert_allclose(array(ad.vmap(op)(x, y)), array(x * y))
    assert seen == [(3, (0, 0))] * 2


def test_derivatives_inside_and_outside_of_vmap():
    op = with_derivative(product())
    x, y = (t.detach() for t in leaves((3, 2), (3, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside = ad.vmap(ad.func.grad(lambda x, y: op(x, y).sum()))(x, y)
        outside = ad.func.grad(lambda x: ad.vmap(op)(x, y).sum())(x)
    np.testing.assert_allclose(array(inside), array(y))
    np.testing.assert_allclose(array(outside), array(y))
    np.testing.assert_allclose(array(ad.func.jacrev(lambda x: op(x, y[0]))(x[0])), np.diag(array(y[0])))


def test_writes_are_counted_and_others_refused():
    @library.custom_op("test_library::fill", mutates_args={"x"})
    def fill(x: ad.Tensor, value: float) -> None:
        x.detach().numpy()[...] = value

    x = ad.zeros(3)
    version = x._version
    assert fill(x, 2.0) is None
    assert x.tolist() == [2.0] * 3 and x._version > version
    assert str(fill._schema) == "test_library::fill(Tensor(a0!) x, float value) -> ()"
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        fill.register_autograd(lambda ctx: None)


def test_results_are_new_tensors():
    @library.custom_op("test_library::same", mutates_args=())
    def same(x: ad.Tensor) -> ad.Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        same(ad.ones(2))


def test_kernels_of_devices():
    @library.custom_op("test_library::of_cuda", mutates_args=(), device_types="cuda")
    def of_cuda(x: ad.Tensor) -> ad.Tensor:
        return x.clone()

    with pytest.raises(
        NotImplementedError,
        match="Could not run 'test_library::of_cuda' with arguments from the 'CPU' backend",
    ):
        of_cuda(ad.ones(2))
    library.register_kernel("test_library::of_cuda", "cpu", lambda x: x + 1)
    assert of_cuda(ad.ones(2)).tolist() == [2.0, 2.0]


def test_a_library_defines_and_implements():
    lib = library.Library("test_lib", "DEF")
    assert (
        lib.define("shifted(Tensor x, Tensor? y=None, *, float by=1.0, int[2] k=[1, 2]) -> Tensor")
        == "shifted"
    )
    op = library.get_op("test_lib::shifted")
    with pytest.raises(NotImplementedError, match="Could not run 'test_lib::shifted'"):
        op(ad.ones(2))
    lib.impl("shifted", lambda x, y, *, by, k: x * 2 + by + k[1], "CompositeImplicitAutograd")
    (x,) = leaves((2,))
    op(x, by=3.0).sum().backward()  # recorded as what it calls
    assert x.grad.tolist() == [2.0, 2.0]
    assert op(ad.zeros(1)).tolist() == [3.0]
    with pytest.raises(RuntimeError, match="with the same name and overload name multiple times"):
        lib.define("shifted(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        library.Library("test_lib", "DEF")
    library.Library("test_lib", "FRAGMENT").define("other.overload(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="Unsupported kind: BAD"):
        library.Library("test_lib", "BAD")
    lib._destroy()
    with pytest.raises(RuntimeError, match="operator test_lib::shifted does not exist"):
        library.get_op("test_lib::shifted")


def test_kernels_may_come_before_the_operator():
    library.impl("test_lib::early", "CPU")(lambda x: x + 1)
    seen = []
    library.register_fake("test_lib::early", lambda x: seen.append(x))
    library.define("test_lib::early", "(Tensor x) -> Tensor")
    op = library.get_op("test_lib::early")
    assert op(ad.zeros(1)).item() == 1 and op._fake is not None


def test_an_autograd_kernel_runs_above_the_others():
    library.define("test_lib::cubed", "(Tensor x) -> Tensor")
    library.impl("test_lib::cubed", "cpu", lambda x: x.detach() ** 3)
    op = library.get_op("test_lib::cubed")

    class Cube(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with _custom.below_autograd():
                return op(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * x

    library.impl("test_lib::cubed", "Autograd", Cube.apply)
    (x,) = leaves((3,))
    assert ad.autograd.gradcheck(op, (x,))


def test_schemas_are_inferred():
    from typing import List, Optional, Sequence  # noqa: UP035 - as programs of other days write them

    def f(
        x: ad.Tensor,
        y: Optional[ad.Tensor],  # noqa: UP045
        xs: Sequence[ad.Tensor],
        ks: List[int],  # noqa: UP006
        n: int = 2,
        p: float | None = None,
        *,
        s: str = "a",
        c: int | float | bool = 1,
        d: ad.dtype | None = None,
    ) -> tuple[ad.Tensor, ad.Tensor]: ...

    assert library.infer_schema(f, mutates_args={"x"}, op_name="ns::f") == (
        'ns::f(Tensor(a0!) x, Tensor? y, Tensor[] xs, SymInt[] ks, SymInt n=2, float? p=None, *, str s="a", Scalar c=1, '
        "ScalarType? d=None) -> (Tensor, Tensor)"
    )

    def untyped(x): ...

    def returning(x: ad.Tensor): ...

    def of_dicts(x: dict) -> ad.Tensor: ...

    for function, words in [
        (untyped, "Parameter x must have a type annotation"),
        (returning, "No return type annotation was provided"),
        (of_dicts, "Parameter x has unsupported type <class 'dict'>"),
    ]:
        with pytest.raises(ValueError, match=words):
            library.infer_schema(function, mutates_args=())
    with pytest.raises(ValueError, match="not found"):
        library.infer_schema(of_dicts.__class__ and f, mutates_args={"zz"})
    with pytest.raises(RuntimeError, match="expected an operator's schema"):
        library.Library("test_lib", "FRAGMENT").define("no schema")
    with pytest.raises(ValueError, match="of the form `namespace::name`"):
        library.custom_op("bare", mutates_args=(), schema="(Tensor x) -> Tensor")(lambda x: x)


def test_arguments_that_do_not_fit_the_schema():
    op = product()
    x = ad.ones(1)
    for args, kwargs, error, words in [
        ((x,), {}, RuntimeError, "missing value for argument 'y'"),
        ((x, x, 1.0), {}, RuntimeError, "expected at most 2 argument"),
        (
            (x, x),
            {"by": 1},
            RuntimeError,
            "Unknown keyword argument 'by' for operator 'test_library::product'",
        ),
        ((x, x), {"x": x}, RuntimeError, "got argument 'x' twice"),
        ((x, "x"), {}, TypeError, "argument 'y' .* must be Tensor, not str"),
    ]:
        with pytest.raises(error, match=words):
            op(*args, **kwargs)


def test_opcheck_finds_what_is_wrong():
    op = with_derivative(product())
    op.register_fake(lambda x, y, *, scale=1.0: ad.empty_like(x))
    x, y = leaves((3,), (3,))
    assert set(library.opcheck(op, (x, y)).values()) == {"SUCCESS"}
    op.register_fake(lambda x, y, *, scale=1.0: ad.empty(2))
    with pytest.raises(library.OpCheckError, match="test_faketensor failed"):
        library.opcheck(op, (x, y))
    found = library.opcheck(op, (x, y), raise_exception=False)
    assert [name for name, result in found.items() if result != "SUCCESS"] == ["test_faketensor"]

    @library.custom_op("test_library::writes", mutates_args=())
    def writes(x: ad.Tensor) -> ad.Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(library.OpCheckError, match="not defined as mutable"):
        library.opcheck(writes, (ad.ones(2),), test_utils="test_schema")


def test_autocast_of_an_operator():
    op = product()
    op.register_autocast("cpu", ad.bfloat16)
    kinds = []

    @op.register_kernel("cpu")
    def _(x, y, *, scale):
        kinds.append((x.dtype, y.dtype))
        return x * y

    with ad.autocast("cpu"):
        op(ad.ones(2), ad.ones(2))
    op(ad.ones(2), ad.ones(2))
    assert kinds == [(ad.bfloat16,) * 2, (ad.float32,) * 2]


def test_torch_programs_reach_them():
    program = """
    import torch

    @torch.library.custom_op("mine::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(2 * x.numpy())

    torch.library.register_autograd("mine::twice", lambda ctx, g: 2 * g)
    x = torch.ones(2, requires_grad=True)
    y = torch.ops.mine.twice(x)
    y.sum().backward()
    print(x.grad.tolist(), torch.ops.mine.twice.default(x).tolist(), torch.ops.mine.twice.overloads())
    print(torch.ops.mine.twice, torch.ops.mine.twice.default, hasattr(torch.ops.mine, "thrice"), dir(torch.ops.mine))
    try:
        torch.ops.load_library("compiled.so")
    except OSError as error:
        print("Could not load this library" in str(error))

    lib = torch.library.Library("compiled", "IMPL", "Meta")
    lib.impl("absent", lambda x: x)

    @torch.library.register_fake("compiled::absent")
    def fake(x):
        return x

    import torch._custom_ops
    print(torch.ops.aten.mm.default is torch.mm)
    """
    assert torch_program(program).splitlines() == [
        "[2.0, 2.0] [2.0, 2.0] ['default']",
        "mine.twice mine.twice.default False ['twice']",
        "True",
        "True",
    ]


def test_a_policy_of_checkpoints_knows_an_overload():
    from adjoint.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    runs = []

    @library.custom_op("test_library::counted", mutates_args=())
    def counted(x: ad.Tensor) -> ad.Tensor:
        runs.append(1)
        return x * 2

    counted.register_autograd(lambda ctx, g: 2 * g)
    saved = {counted._opoverload}
    x = ad.ones(2, requires_grad=True)

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE

    y = checkpoint(
        lambda x: counted(x * 1).sin(),
        x,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy),
    )
    y.sum().backward()
    np.testing.assert_allclose(array(x.grad), 2 * np.cos(2 * np.ones(2)), rtol=1e-6)
    assert len(runs) == 1
