"""Names that programs for torch were seen to need: one line for each, and what it does where that is more than to be there."""

import subprocess
import sys

import pytest
from helpers import torch_values

import adjoint as ad

#: Of the packages that the page of programs counts, and of their tests.
NEEDED = """
Event Stream _VF._add_relu _weight_norm autograd._is_checkpoint_valid autograd.torch cuda.comm cuda.graph
cuda.CUDAGraph _dynamo.utils.warn_once distributed.TCPStore distributed.rpc.RRef distributed.autograd.context
testing._comparison.get_tolerances testing._comparison.default_tolerances nn.utils.stateless._reparametrize_module
ao.quantization.FakeQuantizeBase ao.quantization.ObserverBase jit._get_trace_graph _C.Graph _C.Node _C.Value
_C._nn.upsample_nearest2d _C._get_privateuse1_backend_name nn.functional.grad nn.functional.has_torch_function
nn.functional._canonical_mask distributions.kl._kl_expfamily_expfamily
distributions.dirichlet._Dirichlet_backward optim.adam.adam optim.sgd.sgd
""".split()


def test_names_that_were_seen_to_be_needed():
    assert torch_values(
        f"""
        import torch
        from operator import attrgetter
        missing = []
        for name in {NEEDED!r}:
            try:
                attrgetter(name)(torch)
            except AttributeError:
                missing.append(name)
        show(missing)
        import torch.cuda.comm, torch.distributed.autograd, torch.distributed.rpc, torch.testing._comparison
        show(torch.distributed.rpc.is_available(), torch.distributed.autograd.is_available())
        """
    ) == [[], (False, False)]


@pytest.mark.parametrize(
    "name", ["utils.data.DataLoader", "utils.checkpoint.checkpoint", "utils.dlpack", "utils.hooks"]
)
def test_submodules_are_reached_without_an_import_and_not_imported_before(name):
    code = f"""
import sys, adjoint
module = "adjoint." + ".".join({name!r}.split(".")[:2])
assert module not in sys.modules
adjoint.{name}
assert module in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_those_names_do():
    assert torch_values(
        """
        import torch
        from torch.testing._comparison import default_tolerances, get_tolerances
        x = torch.arange(6.0).view(2, 3)
        show(get_tolerances(torch.ones(1), torch.float64, rtol=None, atol=None), default_tolerances(torch.int8))
        show(torch._VF._add_relu(torch.tensor([-1.0, 2.0]), torch.ones(2)).tolist(), torch._VF.relu(-x).sum().item())
        show(torch._weight_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]])).tolist())
        up = torch._C._nn
        image = torch.arange(4.0).view(1, 1, 2, 2)
        show(torch.equal(up.upsample_nearest2d(image, (4, 6)), torch.nn.functional.interpolate(image, (4, 6))))
        show(torch.equal(up.upsample_bilinear2d(image, None, True, (2.0, 3.0)),
             torch.nn.functional.interpolate(image, scale_factor=(2.0, 3.0), mode="bilinear", align_corners=True)))
        show(x.__rdiv__(6.0)[1].tolist(), (x.requires_grad_() * 2)._grad_fn.name(), x._cdata == x._cdata, x._cdata == torch.ones(1)._cdata)
        import warnings
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            y = x.resize(3, 2)
            torch._dynamo.utils.warn_once("said once")
            torch._dynamo.utils.warn_once("said once")
        y.sum().backward()
        show(tuple(y.shape), x.grad.sum().item(), [str(w.message) for w in told])
        """
    ) == [
        ((1.3e-6, 1e-5), (0.0, 0.0)),
        ([0.0, 3.0], 0.0),
        [[6.0, 8.0]],
        True,
        True,
        ([2.0, 1.5, 1.2000000476837158], "MulBackward0", True, False),
        ((3, 2), 6.0, ["non-inplace resize is deprecated", "said once"]),
    ]


def test_steps_of_optimisers_as_functions():
    """Against the classes, from the same state."""
    assert (
        torch_values(
            """
        import torch
        from torch.optim.adam import adam
        from torch.optim.sgd import sgd

        for amsgrad in (False, True):
            p, g = torch.nn.Parameter(torch.tensor([1.0, -2.0])), torch.tensor([0.5, 0.25])
            q = torch.nn.Parameter(p.detach().clone())
            state = [torch.zeros(2) for _ in range(3)] + [torch.tensor(0.0)]
            whole = torch.optim.Adam([q], 0.1, weight_decay=0.1, amsgrad=amsgrad)
            for _ in range(3):
                adam([p], [g], [state[0]], [state[1]], [state[2]] if amsgrad else [], [state[3]], amsgrad=amsgrad,
                     beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.1, eps=1e-8, maximize=False)
                q.grad = g
                whole.step()
            show(torch.equal(p, q) and p.grad is None, state[3].item(), torch.equal(state[0], whole.state[q]["exp_avg"]))
        p, q = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        buffers, whole = [None], torch.optim.SGD([q], 0.1, momentum=0.9)
        for _ in range(3):
            sgd([p], [g], buffers, weight_decay=0, momentum=0.9, lr=0.1, dampening=0, nesterov=False, maximize=False)
            q.grad = g
            whole.step()
        show(torch.equal(p, q), 3.0, torch.equal(buffers[0], whole.state[q]["momentum_buffer"]))
        """
        )
        == [(True, 3.0, True)] * 3
    )


def test_a_module_with_other_parameters_for_a_while():
    assert torch_values(
        """
        import torch
        from torch.nn.utils.stateless import _reparametrize_module
        net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.BatchNorm1d(1))
        own = net[0].weight
        given = {"0.weight": torch.tensor([[3.0]]), "1.num_batches_tracked": torch.tensor(5)}
        with _reparametrize_module(net, given):
            show(net[0](torch.ones(1, 1)).item())
            net[1].num_batches_tracked = torch.tensor(6)
        show(net[0].weight is own, net[1].num_batches_tracked.item(), given["1.num_batches_tracked"].item())
        try:
            with _reparametrize_module(net, given, strict=True):
                pass
        except RuntimeError as error:
            show("Missing key(s)" in str(error))
        """
    ) == [3.0, (True, 0, 6), True]


# --- forms of calls ---------------------------------------------------------------------------------------------------


def test_einsum_of_operands_and_lists():
    x, y = ad.arange(6.0).view(2, 3), ad.arange(3.0)
    assert ad.einsum(x, [0, 1], x, [2, 1], [0, 2]).equal(x @ x.T)
    assert ad.einsum(x, [..., 1], y, [1], [...]).equal(x @ y)
    assert ad.einsum(x, [27, 0]).equal(x.T)  # without an output: in the order of the numbers
    for wrong, kind in (((x, [0, 52]), ValueError), ((x, [0, 1], y), TypeError), ((x, [0, "a"]), TypeError)):
        with pytest.raises(kind):
            ad.einsum(*wrong)


@pytest.mark.parametrize(
    "factors, beta, alpha", [((), 1, 1), ((3,), 3, 1), ((3, 2), 3, 2)], ids=["none", "beta", "both"]
)
def test_factors_of_addbmm_before_the_operands(factors, beta, alpha):
    x, a, b = ad.rand(2, 4), ad.rand(5, 2, 3), ad.rand(5, 3, 4)
    wanted = beta * x + alpha * (a @ b).sum(0)
    ad.testing.assert_close(x.addbmm(*factors, a, b), wanted)
    before = (beta, x, alpha)[: len(factors) + 1] if factors else (x,)
    ad.testing.assert_close(ad.addbmm(*before, a, b), wanted)
    with pytest.raises(TypeError):
        ad.addbmm(1, 2, a, b)


def test_a_size_is_a_node_of_trees():
    from adjoint.as_torch.standins import _pytree as pytree

    leaves, form = pytree.tree_flatten({"a": ad.ones(2, 3).shape})
    assert leaves == [2, 3]
    assert pytree.tree_unflatten(leaves, treespec=form) == {"a": (2, 3)}
    assert pytree.str_to_pytree(json=pytree.pytree_to_str(treespec=form)) == form
    assert pytree.treespec_pprint(treespec=form) == "{'a': (*, *)}"
    assert pytree.treespec_loads(pytree.treespec_dumps(form)) == form


def test_an_empty_sparse_tensor_by_its_size_alone():
    assert ad.sparse_coo_tensor(size=(2, 3)).to_dense().equal(ad.zeros(2, 3))
    with pytest.raises(TypeError, match="or the size of a tensor without entries"):
        ad.sparse_coo_tensor()


def test_an_optimiser_with_groups_of_its_own():
    class Own(ad.optim.Optimizer):
        def add_param_group(self, group):
            self.param_groups.append(group)

    assert Own([ad.ones(1)], []).defaults == []


def test_what_is_kept_for_forward_mode_is_read_beside_what_is_kept_for_backward():
    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.save_for_backward(x * 2)
            assert ctx.saved_for_forward[0] is x
            return x * x

        @staticmethod
        def jvp(ctx, tangent):
            return 2 * ctx.saved_for_forward[0] * tangent

        @staticmethod
        def backward(ctx, gradient):
            assert ctx.saved_for_forward is None
            return gradient * ctx.saved_tensors[0]

    x = ad.tensor(3.0, requires_grad=True)
    assert ad.func.jvp(Square.apply, (x.detach(),), (ad.ones(()),))[1] == 6
    assert ad.autograd.grad(Square.apply(x), x)[0] == 6


def test_memory_of_a_computed_tensor_is_exchanged_where_nothing_is_recorded():
    y = ad.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="its gradient would be lost"):
        y.set_(ad.zeros(3))
    with ad.no_grad():
        assert y.set_(ad.zeros(3)) is y
    assert y.tolist() == [0, 0, 0]


def test_distributions_that_are_modules_keep_their_buffers():
    class Learned(ad.distributions.LogNormal, ad.nn.Module):
        def __init__(self):
            base = ad.distributions.Normal(ad.zeros(2), ad.ones(2))
            ad.distributions.TransformedDistribution.__init__(self, base, [ad.distributions.ExpTransform()])
            self.register_buffer("offset", ad.ones(2))

    made = Learned()
    assert made.offset.tolist() == [1, 1]
    assert made.loc.tolist() == [0, 0]
    with pytest.raises(AttributeError, match="nothing"):
        made.nothing


def test_a_mismatch_of_input_and_weight_is_said_of_them():
    with pytest.raises(RuntimeError, match=r"m1 and m2 to have the same dtype.*double != float"):
        ad.nn.Linear(3, 2)(ad.ones(1, 3, dtype=ad.float64))


def test_names_of_what_has_none_are_those_of_torch():
    """Overloads, keys of the dispatcher, compilers: torch's, and no others."""
    assert (
        torch_values(
            """
        import torch
        mm = torch.ops.aten.mm
        show(mm.default is mm.out, hasattr(torch.ops.aten.sum, "dim_IntList"), hasattr(mm, "foo"))
        keys = torch._C.DispatchKey
        show(keys.AutogradCPU == "AutogradCPU", keys.SparseCsrCUDA == "SparseCsrCUDA", hasattr(keys, "Foo"))
        try:
            torch.compile(abs, backend="nonsense")
        except RuntimeError as error:
            show("Invalid backend: 'nonsense'" in str(error), "inductor" in torch._dynamo.list_backends(), torch.compile(abs, disable=True) is not abs)
        """
        )
        == [(True, True, False)] * 3
    )


def test_frozen_modules_are_copies_that_need_no_gradient():
    assert torch_values(
        """
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
        try:
            torch.jit.freeze(torch.jit.script(net))
        except RuntimeError as error:
            show("eval mode" in str(error))
        net.eval()
        frozen = torch.jit.freeze(torch.jit.script(net))
        x = torch.ones(1, 2)
        show(torch.equal(frozen(x), net(x)), any(p.requires_grad for p in frozen.parameters()), net[0].weight.requires_grad)
        show(torch.jit.optimize_for_inference(frozen) is frozen)
        """
    ) == [True, (True, False, True), True]
