"""Programs that ask torch for its own machinery, as torch's tests do: switches, private names, old packages, words of errors."""

from helpers import torch_values


def test_names_that_test_programs_import():
    assert torch_values(
        """
        import torch
        import torch.autograd._functions
        from torch.autograd import kineto_available
        from torch.autograd.profiler import profile
        from torch.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg, _format_time
        from torch._functorch.eager_transforms import _slice_argnums
        import torch.autograd.forward_ad as forward_ad

        x = torch.ones(2, requires_grad=True)
        y = torch.autograd._functions.Resize.apply(x, (2, 1))
        y.sum().backward()
        show(tuple(y.shape), x.grad.tolist())
        show(kineto_available(), torch.autograd._profiler_enabled(), _format_time(1500.0), torch._C.has_lapack)
        with profile() as watched:
            show(torch.autograd._profiler_enabled())
            x * 2
        show(str(watched) == watched.table(), torch._C.is_grad_enabled())
        with torch.autograd._force_original_view_tracking(True):
            show(torch.autograd.is_view_replay_enabled())
        show(torch.autograd.is_view_replay_enabled(), forward_ad._is_fwd_grad_enabled())
        show(_slice_argnums((1, (2, 3), 4), (1, -3)), _slice_argnums((1, 2), -1))
        """
    ) == [
        ((2, 1), [1.0, 1.0]),
        (False, False, "1.500ms", True),
        True,
        (True, True),
        True,
        (False, True),
        (((2, 3), 1), (2,)),
    ]


def test_tangents_out_of_sight():
    assert torch_values(
        """
        import torch
        import torch.autograd.forward_ad as forward_ad
        from torch.func import jvp

        def f(x):
            with forward_ad._set_fwd_grad_enabled(False):
                show(forward_ad._is_fwd_grad_enabled())
                constant = x**2
            return x**2 - constant

        x = torch.tensor(3.0)
        show([t.item() for t in jvp(f, (x,), (torch.ones(()),))])
        with forward_ad._set_fwd_grad_enabled(False):
            show(jvp(torch.sin, (torch.zeros(()),), (torch.ones(()),))[1].item())
        show(forward_ad._is_fwd_grad_enabled(), forward_ad._current_level)
        """
    ) == [False, [0.0, 6.0], 1.0, (True, -1)]


def test_shapes_in_errors_are_those_of_torch():
    assert torch_values(
        """
        import torch
        x = torch.ones(2, 2, requires_grad=True)
        try:
            torch.autograd.grad(x * 2, x, torch.ones(2))
        except RuntimeError as error:
            show(str(error))
        """
    ) == [
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([2, 2])."
    ]


def test_nodes_that_are_no_operators_have_their_names_of_torch():
    """`name()` is the C++ name, as torch's is; types and what is printed have the short one."""
    assert torch_values(
        """
        import torch
        y, x = torch.ones(2, requires_grad=True), torch.zeros(2)
        x[0] = y[0]
        z = torch.zeros(2).copy_(y)
        leaf = torch.autograd.graph.get_gradient_edge(y).node
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
        for node in x.grad_fn, z.grad_fn, leaf, (y * 2).grad_fn, Double.apply(y).grad_fn:
            show(node.name(), type(node).__name__)
        show(repr(x))
        """
    ) == [
        ("torch::autograd::CopySlices", "CopySlices"),
        ("torch::autograd::CopyBackwards", "CopyBackwards"),
        ("torch::autograd::AccumulateGrad", "AccumulateGrad"),
        ("MulBackward0", "MulBackward0"),
        ("DoubleBackward", "DoubleBackward"),
        "tensor([1., 0.], grad_fn=<CopySlices>)",
    ]


def test_what_goes_beside_a_result_is_tensors():
    """Programs for torch are refused anything else beside what is differentiated."""
    assert (
        torch_values(
            """
        import torch
        from torch.func import grad, jacfwd, jacrev, jvp, vjp
        x = torch.ones(())
        for transform in (
            lambda f: grad(f, has_aux=True)(x),
            lambda f: vjp(f, x, has_aux=True),
            lambda f: jvp(f, (x,), (x,), has_aux=True),
            lambda f: jacrev(f, has_aux=True)(x),
            lambda f: jacfwd(f, has_aux=True)(x),
        ):
            try:
                transform(lambda x: (x * 2, [x, "text"]))
            except RuntimeError as error:
                show(str(error))
        """
        )
        == ["Expected tensors, got unsupported type <class 'str'>"] * 5
    )


def test_functions_mapped_in_parts():
    assert torch_values(
        """
        import torch
        from functorch.experimental import chunk_vmap

        x = torch.arange(30.0).reshape(5, 6)
        for chunks in (1, 2, 4, 9):
            calls = []
            f = lambda pair: (calls.append(1), {"sum": pair["a"].sum() + pair["b"]})[1]
            found = chunk_vmap(f, in_dims=({"a": 1, "b": None},), chunks=chunks)({"a": x, "b": 1.0})
            show(len(calls), torch.equal(found["sum"], x.sum(0) + 1))
        show(torch._is_all_true(x >= 0).item(), torch._is_all_true(x > 0).item(), torch._is_any_true(x < 0).item())
        """
    ) == [(1, True), (2, True), (3, True), (6, True), (True, False, False)]


def test_what_files_of_functorch_import():
    assert torch_values(
        """
        import torch
        from functorch import functional_init, functional_init_with_buffers, make_fx
        from torch._C import _functorch
        from torch._functorch.make_functional import functional_init as again
        from torch._functorch.utils import enable_single_level_autograd_function
        from torch._ops import HigherOrderOperator
        from torch.fx.experimental.proxy_tensor import make_fx

        x, inside = torch.randn(2, 3), []
        weights, f, names = functional_init(torch.nn.Linear)(3, 4)
        show([tuple(w.shape) for w in weights], names, tuple(f(weights, (x,)).shape))
        weights, f, _ = functional_init(torch.nn.Linear, (5,))(3, 4)
        show([tuple(w.shape) for w in weights], tuple(torch.vmap(f, (0, None))(weights, (x,)).shape))
        params, buffers, f, names, others = functional_init_with_buffers(torch.nn.BatchNorm1d, [2])(3)
        show(len(params), [tuple(b.shape) for b in buffers], others)
        for make, kind in ((lambda: functional_init(torch.nn.Linear, (5, 2)), ValueError), (lambda: functional_init(torch.nn.BatchNorm1d)(3), RuntimeError), (lambda: make_fx(torch.sin), NotImplementedError)):
            try: make()
            except kind as error: show(kind.__name__)
        torch.vmap(lambda x: (inside.append((_functorch.is_batchedtensor(x), tuple(_functorch.get_unwrapped(x).shape))), x)[1])(x)
        show(inside, torch._C._functorch.is_batchedtensor(x), torch._C._functorch.maybe_get_bdim(x))
        """
    ) == [
        ([(4, 3), (4,)], ["weight", "bias"], (2, 4)),
        ([(5, 4, 3), (5, 4)], (5, 2, 4)),
        (2, [(2, 3), (2, 3), (2,)], ["running_mean", "running_var", "num_batches_tracked"]),
        "ValueError",
        "RuntimeError",
        "NotImplementedError",
        ([(True, (2, 3))], False, -1),
    ]


def test_functorch():
    assert torch_values(
        """
        import warnings
        import torch
        import functorch
        from functorch import combine_state_for_ensemble, make_functional, make_functional_with_buffers, vmap
        from functorch.experimental import replace_all_batch_norm_modules_
        from torch._functorch.make_functional import make_functional as again

        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            show(functorch.grad(torch.sin)(torch.zeros(())).item())
            show(vmap(torch.sum)(torch.ones(2, 3)).tolist())
        for warning in seen:
            show(warning.category.__name__, str(warning.message).partition("Please use ")[2].partition(" ")[0])

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)
                self.again = self.linear
                self.register_buffer("shift", torch.ones(3))

            def forward(self, x):
                return self.again(self.linear(x)) + self.shift

        model, x = Tied(), torch.randn(2, 3)
        plain = torch.nn.Linear(3, 3)
        f, params = again(plain)
        show(len(params), torch.equal(f(params, x), plain(x)), make_functional is again)
        show([p.requires_grad for p in make_functional(plain, disable_autograd_tracking=True)[1]])
        g, params, buffers = make_functional_with_buffers(model)
        show(len(buffers), torch.equal(g(params, buffers, x), model(x)))
        zeros = tuple(torch.zeros_like(p) for p in params)
        show(torch.equal(g(zeros, buffers, x), torch.ones(2, 3)))
        models = [Tied() for _ in range(2)]
        f, params, buffers = combine_state_for_ensemble(models)
        found = torch.vmap(f)(params, buffers, torch.stack([x, x]))
        show(torch.allclose(found, torch.stack([m(x) for m in models]), atol=1e-6))
        """
    ) == [
        1.0,
        [3.0, 3.0],
        ("FutureWarning", "`torch.func.grad`"),
        ("FutureWarning", "`torch.vmap`"),
        (2, True, True),
        [False, False],
        (1, True),
        True,
        True,
    ]
