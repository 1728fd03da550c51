"""What libraries written for torch ask of it before they compute anything: its metadata, private names, absent machinery.

Each program runs in a process of its own. Start reading at `test_metadata`.
"""

import pytest
from helpers import run_python, torch_program


def values(*expressions):
    """What expressions of torch are, as text."""
    return torch_program("import torch\n" + "\n".join(f"print({e})" for e in expressions)).splitlines()


def test_metadata():
    """Libraries decide by it whether there is a torch, most of them before they import it."""
    lines = torch_program(
        "import importlib.metadata as m, torch\n"
        "print(m.version('torch'), m.version('torch') == str(torch.__version__), m.metadata('Torch')['Name'])\n"
        "print([d.version for d in m.distributions() if d.name == 'torch'], m.requires('torch'))\n"
        "import adjoint\n"
        "try: m.version('no-such-thing')\n"
        "except m.PackageNotFoundError: print('others are asked')\n"
    ).splitlines()
    assert lines == ["2.13.0+adjoint True torch", "['2.13.0+adjoint'] None", "others are asked"]


def test_metadata_is_what_is_installed_without_as_torch():
    code = (
        "import importlib.metadata as m, adjoint\n"
        "print(any(type(d).__module__.startswith('adjoint') for d in m.distributions()))"
    )
    assert run_python("-c", code).stdout == "False\n"


def test_modules_of_layers_are_found_by_import_and_by_attribute():
    assert values(
        "torch.nn.modules.container.Sequential is torch.nn.Sequential",
        "torch.nn.modules.utils._pair(2)",
        "torch.nn.modules.Linear is torch.nn.Linear",
        "torch.nn.utils.clip_grad_norm_.__name__",
        "isinstance(torch.nn.Conv2d(1, 1, 1), torch.nn.modules.conv._ConvNd)",
        "isinstance(torch.nn.ConvTranspose1d(1, 1, 1), torch.nn.modules.conv._ConvTransposeNd)",
        "isinstance(torch.nn.BatchNorm1d(1), torch.nn.modules.batchnorm._NormBase)",
        "torch.nn.modules.transformer._get_activation_fn('relu') is torch.nn.functional.relu",
        "isinstance(torch.nn.Linear(1, 1).load_state_dict({}, strict=False), "
        "torch.nn.modules.module._IncompatibleKeys)",
    ) == ["True", "(2, 2)", "True", "clip_grad_norm_", "True", "True", "True", "True", "True"]


def test_private_names_of_modules_are_found_in_imports():
    code = """
import torch
from torch.autograd.functional import _as_tuple, _construct_standard_basis_for, _grad_postprocess, _tuple_postprocess
from torch.distributions.multivariate_normal import _precision_to_scale_tril
from torch.hub import urlparse
from torch.nn.modules.module import _IncompatibleKeys
from torch.utils._pytree import SUPPORTED_NODES, _dict_flatten, _dict_unflatten, _get_node_type
from torch.utils.checkpoint import get_device_states, set_device_states
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter, _collate_fn_t
a, b = torch.ones(2), torch.ones(1)
print([t.tolist() for t in _construct_standard_basis_for((a, b), (2, 1))])
print(_as_tuple(a, 'x', 'f')[0], _tuple_postprocess(((a,),), (False, False)) is a)
P = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
L = _precision_to_scale_tril(P)
print(torch.allclose(L @ L.mT, torch.linalg.inv(P)))
print(_dict_unflatten(*_dict_flatten({'a': 1})), _get_node_type({}) is dict, get_device_states(a))
loader = torch.utils.data.DataLoader([1, 2])
print(isinstance(iter(loader), _BaseDataLoaderIter), isinstance(iter(loader), _MultiProcessingDataLoaderIter))
"""
    assert torch_program(code).splitlines() == [
        "[[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[0.0], [0.0], [1.0]]]",
        "False True",
        "True",
        "{'a': 1} True ([], [])",
        "True False",
    ]


def test_line_search_of_lbfgs_under_torchs_name():
    code = """
import torch
from torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe
def f(x, t, d):
    p = (x + t * d).requires_grad_()
    value = (p - 3).pow(4).sum()
    return float(value), torch.autograd.grad(value, p)[0]
x, d = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
value, g = f(x, 0, d)
new, g, t, count = _strong_wolfe(f, x, 1.0, d, value, g, g.dot(d))
print(new < value, abs(float(g)) <= 0.9 * 108, 0 < t < 6, count >= 1)
print(_cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0))
"""
    assert torch_program(code).splitlines() == ["True True True True", "1.0"]


# --- machinery that is not there ----------------------------------------------------------------------------------------


def test_element_types_without_kernels_can_be_named():
    code = """
import pickle, torch
table = {torch.uint16: 2, torch.uint32: 4, torch.uint64: 8, torch.float8_e4m3fn: 1, torch.float8_e5m2: 1, torch.complex32: 4}
print(all(kind.itemsize == size for kind, size in table.items()), torch.uint16, torch.ones(1).dtype == torch.uint16)
print(torch.finfo(torch.float8_e4m3fn).max, torch.finfo(torch.float8_e5m2).max, torch.iinfo(torch.uint16).max)
print(torch.finfo(torch.float32).eps == 2**-23, torch.finfo().bits, torch.iinfo(torch.int8).min)
print(torch.float8_e5m2.is_floating_point, torch.uint16.is_signed)
for call in (lambda: torch.zeros(1, dtype=torch.uint16), lambda: torch.finfo(torch.uint16)):
    try: call()
    except TypeError as error: print('uint16' in str(error))
"""
    assert torch_program(code).splitlines() == [
        "True torch.uint16 False",
        "448.0 57344.0 65535",
        "True 32 -128",
        "True False",
        "True",
        "True",
    ]


def test_several_processes_are_adjoint_s_and_sharding_is_names_that_refuse():
    code = """
import torch, adjoint
import torch.distributed as dist
from torch.distributed import all_reduce
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.distributed.elastic.multiprocessing.errors import record
import torch.distributed.algorithms._checkpoint.checkpoint_wrapper
from torch.distributed.algorithms.join import Join
from torch.distributed.distributed_c10d import _get_default_group
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import DistributedDataParallel as same
def f(op=dist.ReduceOp.SUM, group: dist.ProcessGroup | None = dist.group.WORLD): return 1
print(dist is adjoint.distributed, record(f)(), isinstance(torch.ones(1), DTensor), DistributedDataParallel is same)
print(dist.is_available(), dist.is_initialized(), hasattr(dist, 'no_such_name'), dist.ProcessGroupNCCL.__name__)
for call in (dist.get_rank, lambda: all_reduce(torch.ones(1)), lambda: FullyShardedDataParallel(None), lambda: DTensor()):
    try: call()
    except (ValueError, NotImplementedError) as error: print(type(error).__name__, str(error)[:62])
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(2); dist.all_reduce(x); print(x, dist.get_backend(), _get_default_group().size())
"""
    assert torch_program(code).splitlines() == [
        "True 1 False True",
        "True False False ProcessGroupNCCL",
        "ValueError Default process group has not been initialized, please make su",
        "ValueError Default process group has not been initialized, please make su",
        "NotImplementedError Adjoint does not have torch.distributed.fsdp.FullyShardedDataP",
        "NotImplementedError Adjoint does not have torch.distributed.tensor.DTensor: every ",
        "tensor([1., 1.]) gloo 1",
    ]


def test_questions_to_compilers_and_devices_are_answered():
    assert values(
        "torch.accelerator.is_available()",
        "torch.accelerator.current_accelerator()",
        "'USE_CUDA=0' in torch.__config__.show()",
        "torch.compiler.is_exporting()",
        "torch.torch is torch",
        "torch.cuda.memory_stats()",
        "torch.cuda.is_current_stream_capturing()",
        "torch.cuda.OutOfMemoryError is torch.OutOfMemoryError",
        "isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule)",
        "isinstance(3, (torch.SymInt, torch.SymFloat, torch.SymBool))",
        "torch.profiler.kineto_available()",
        "torch._assert_async(torch.ones(1))",
        "torch.Future is __import__('torch.futures').futures.Future",
    ) == [
        "False",
        "None",
        "True",
        "False",
        "True",
        "{}",
        "False",
        "True",
        "False",
        "False",
        "False",
        "None",
        "True",
    ]
    code = """
import torch
import torch._dynamo
from torch._dynamo import OptimizedModule
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch.cuda import nvtx
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.node import Node, Target
print(is_fake(torch.ones(1)), isinstance(1, FakeTensor), get_proxy_mode(), isinstance(1, (OptimizedModule, Node)))
with nvtx.range('x'), torch._dynamo.config.patch(verbose=True): torch._dynamo.mark_dynamic(torch.ones(1), 0)
class Old(torch.jit.ScriptModule):
    @torch.jit.script_method
    def forward(self, x): return x + 1
print(Old()(torch.ones(1)).item(), torch.jit.wait(torch.jit.fork(lambda: 3)))
print(torch._C._nn._parse_to('cpu', torch.float64))
"""
    assert torch_program(code).splitlines() == [
        "False False None False",
        "2.0 3",
        "(device(type='cpu'), torch.float64, False, None)",
    ]


# --- what stands in and works ---------------------------------------------------------------------------------------------


def test_foreach():
    code = """
import torch
xs = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
show = lambda ts: [t.tolist() for t in ts]
print(show(torch._foreach_add(xs, 1.0)), show(torch._foreach_add(xs, xs, alpha=2)), show(torch._foreach_mul(xs, [2.0, 3.0])))
print(show(torch._foreach_pow(2.0, xs)), show(torch._foreach_norm(xs)), show(torch._foreach_lerp(xs, xs, 0.5)))
print(show(torch._foreach_addcdiv(xs, xs, xs, [1.0, 2.0])), show(torch._foreach_add(xs, torch.tensor(2.0))))
ys = [x.clone() for x in xs]
print(torch._foreach_mul_(ys, xs)[0] is ys[0], show(ys), show(torch._foreach_copy_(ys, xs)), show(torch._foreach_zero_(ys)))
print(type(torch._foreach_neg(xs)).__name__, hasattr(torch, '_foreach_no_such'))
for other, words in (([1.0], 'scalar list'), (xs[:1], 'same number of tensors, got 2 and 1')):
    try: torch._foreach_add(xs, other)
    except RuntimeError as error: print(words in str(error))
"""
    assert torch_program(code).splitlines() == [
        "[[2.0, 3.0], [4.0]] [[3.0, 6.0], [9.0]] [[2.0, 4.0], [9.0]]",
        "[[2.0, 4.0], [8.0]] [2.2360680103302, 3.0] [[1.0, 2.0], [3.0]]",
        "[[2.0, 3.0], [5.0]] [[3.0, 4.0], [5.0]]",
        "True [[1.0, 4.0], [9.0]] [[1.0, 2.0], [3.0]] [[0.0, 0.0], [0.0]]",
        "tuple False",
        "True",
        "True",
    ]


def test_lists_of_tensors_by_dtype():
    code = """
import torch
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
a, b, c = torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)
groups = _group_tensors_by_device_and_dtype([[a, b, c], [None, 1, 2], []], with_indices=True)
for (device, dtype), (lists, numbers) in groups.items():
    print(device, dtype, [len(part) for part in lists], lists[1], numbers)
"""
    assert torch_program(code).splitlines() == [
        "cpu torch.float32 [2, 2, 0] [None, 2] [0, 2]",
        "cpu torch.float64 [1, 1, 0] [1] [1]",
    ]


def test_modes_of_dispatch_are_found():
    code = """
from torch.utils._python_dispatch import TorchDispatchMode
import torch
class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func.__name__)
        return func(*args, **(kwargs or {}))
with Log(): torch.ones(2).exp()
"""
    assert torch_program(code).split()[-1] == "exp"


def test_futures():
    code = """
from torch.futures import Future, collect_all, wait_all
a, b = Future(), Future()
both, twice = collect_all([a, b]), a.then(lambda f: f.value() * 2)
seen = []
a.add_done_callback(lambda f: seen.append(f.wait()))
print(a.done()); a.set_result(3); print(both.done(), twice.wait(), seen); b.set_result(4)
print(wait_all([a, b]), both.wait() == [a, b], collect_all([]).wait())
failed = Future(); failed.set_exception(KeyError('x'))
for call in (failed.wait, failed.then(lambda f: f.wait()).wait, lambda: a.set_result(1), Future().value):
    try: call()
    except (KeyError, RuntimeError) as error: print(type(error).__name__)
"""
    assert torch_program(code).splitlines() == [
        "False",
        "False 6 [3]",
        "[3, 4] True []",
        *["KeyError"] * 2,
        *["RuntimeError"] * 2,
    ]


def test_profiler(tmp_path):
    code = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
x = torch.ones(4, 4, requires_grad=True)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
    with record_function("region"):
        (x @ x).sum().backward()
    x.detach().exp().exp()
found = {e.key: e for e in p.key_averages()}
print(found["aten::exp"].count, found["aten::mm"].count, found["region"].count)
print(found["region"].cpu_time_total > found["region"].self_cpu_time_total > 0, p.events()[0].input_shapes)
text = p.key_averages().table(sort_by="count", row_limit=1)
print(text.splitlines()[3].split()[::5], "Self CPU time total" in text, "aten::exp" in text)
p.export_chrome_trace(sys.argv[1])
print(len(json.load(open(sys.argv[1]))["traceEvents"]) == len(p.events()))
rounds = []
with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
             on_trace_ready=lambda p: rounds.append((p.step_num, len(p.events())))) as p:
    for _ in range(6):
        x.detach().exp()
        p.step()
print(rounds)
with record_function("alone"): print(torch.autograd.profiler.record_function is record_function)
with torch.autograd.profiler.profile() as p: torch.ones(2).sin()
print("aten::sin" in str(p.key_averages()))
"""
    assert torch_program(code, tmp_path / "trace.json").splitlines() == [
        "2 3 1",
        "True [[4, 4], [4, 4]]",
        "['aten::mm', '3'] True False",
        "True",
        "[(4, 2)]",
        "True",
        "True",
    ]


@pytest.mark.parametrize(
    "setup, call, forward, backward",
    [
        ("m = torch.nn.Linear(3, 4); x = torch.ones(5, 3, requires_grad=True)", "m(x)", 120, 360),
        (
            "x = torch.ones(2, 3, 4, requires_grad=True)",
            "torch.bmm(x, x.mT)",
            2 * 2 * 9 * 4,
            3 * 2 * 2 * 9 * 4,
        ),
        (
            "m = torch.nn.Conv2d(2, 4, 3); x = torch.ones(1, 2, 6, 6, requires_grad=True)",
            "m(x)",
            2 * 16 * 4 * 18,
            3 * 2 * 16 * 4 * 18,
        ),
        (
            "x = torch.ones(1, 2, 4, 8, requires_grad=True)",
            "torch.nn.functional.scaled_dot_product_attention(x, x, x)",
            2 * 2 * 2 * 4 * 4 * 8,
            7 * 2 * 2 * 4 * 4 * 8,
        ),
    ],
)
def test_operations_counted(setup, call, forward, backward):
    code = f"""
import torch
from torch.utils.flop_counter import FlopCounterMode
{setup}
with FlopCounterMode(display=False) as count: y = {call}
print(count.get_total_flops())
with FlopCounterMode(display=False) as count: {call}.sum().backward()
print(count.get_total_flops(), sum(count.get_flop_counts()['Global'].values()), 'Global' in count.get_table())
"""
    assert torch_program(code).split() == [str(forward), str(backward), str(backward), "True"]


def test_operators_that_only_the_dispatcher_calls_so():
    """Libraries key tables of their own by them; those that Adjoint has not can be named, and refuse when they are called."""
    assert values(
        "torch.ops.aten._to_copy.default(torch.ones(2), dtype=torch.int64).tolist()",
        "torch.ops.aten.slice.Tensor(torch.arange(6), 0, 1, 5, 2).tolist()",
        "torch.ops.aten.index.Tensor(torch.arange(4).view(2, 2), [None, torch.tensor([1])]).tolist()",
        "torch.ops.aten.alias.default(torch.ones(1)).tolist()",
        "callable(torch.ops.aten._sparse_addmm.default)",
        "hasattr(torch.ops.aten, 'nothing_of_the_kind')",
    ) == ["[1, 1]", "[1, 3]", "[[1], [3]]", "[1.0]", "True", "False"]


def test_private_helpers_of_printing_losses_and_first_values():
    assert values(
        "torch._tensor_str._tensor_str(torch.tensor([[1.0, 2.5]]), 0)",
        "torch._tensor_str._add_suffixes('Index([1', ['dim_size=3'], 6, False)",
        "torch._tensor_str._str_intern(torch.ones(1), tensor_contents='[one]')",
        "torch.nn._reduction.get_enum('sum')",
        "torch.nn._reduction.legacy_get_string(False, None, emit_warning=False)",
        "torch.nn.init._calculate_correct_fan(torch.ones(3, 5), 'fan_out')",
        "torch.nn.init._no_grad_fill_(torch.ones(1), 2.0).tolist()",
        "torch._has_compatible_shallow_copy_type(torch.ones(1), torch.ones(2).double())",
        "torch._has_compatible_shallow_copy_type(torch.ones(1), torch.ones(1).to_sparse())",
        "torch.nn.grad is __import__('adjoint').nn.grad",
    ) == [
        "[[1.0000, 2.5000]]",
        "Index([1, dim_size=3)",
        "tensor([one])",
        "2",
        "sum",
        "3",
        "[2.0]",
        "True",
        "False",
        "True",
    ]
