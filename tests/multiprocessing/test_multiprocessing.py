"""Tensors that processes share: through queues, pipes, arguments, pools and forks; what is written is seen, and all is freed."""

import gc
import os
import pathlib
import sys

import pytest
from helpers import run_python

import adjoint as ad
from adjoint import multiprocessing as mp
from adjoint import nn
from adjoint._tensor import segments
from adjoint.multiprocessing import reductions

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import process_functions  # noqa: E402

METHODS = ["fork", "spawn"]


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# --- sharing -----------------------------------------------------------------------------------------------------------


def test_a_tensor_is_moved_where_it_stands():
    x = ad.arange(6.0).reshape(2, 3).t()
    assert not ad.ones(2).is_shared()
    x = x.clone()
    stride, same = x.stride(), x
    assert x.share_memory_() is x is same and x.is_shared()
    assert x.stride() == stride and x.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x[1:].is_shared() and x.untyped_storage().is_shared() and not x.clone().is_shared()
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address
    assert ad.empty(0).share_memory_().shape == (0,)


@pytest.mark.parametrize("dtype", ["bool", "int64", "bfloat16", "float64", "complex64"])
def test_types(dtype):
    x = ad.tensor([1, 0, 1]).to(getattr(ad, dtype))
    assert x.share_memory_().tolist() == [1, 0, 1] and x.dtype == getattr(ad, dtype)


def test_what_others_share_is_refused():
    x = ad.ones(3)
    view = x[1:]
    with pytest.raises(RuntimeError, match=r"share_memory_\(\): other tensors share the memory"):
        x.share_memory_()
    del view
    assert x.share_memory_().is_shared()


def test_modules():
    layer = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    weight = layer[0].weight
    before = [v.clone() for v in layer.state_dict().values()]
    assert layer.share_memory() is layer and layer[0].weight is weight
    tensors = [*layer.parameters(), *layer.buffers()]
    assert all(t.is_shared() for t in tensors) and weight.requires_grad
    assert all(ad.equal(a, b) for a, b in zip(before, layer.state_dict().values(), strict=True))
    assert len({segments.find(t)[0].fd for t in tensors}) == 1
    # Each has a count of writes of its own.
    loss = layer(ad.rand(4, 2)).sum()
    with ad.no_grad():
        layer[0].bias.zero_()
    loss.backward()
    assert weight.grad is not None
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        nn.LazyLinear(2).share_memory()


def test_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Parameter(ad.zeros(4))
            self.two = nn.Parameter(self.one.data[:2])

    module = Tied().share_memory()
    with ad.no_grad():
        module.one.fill_(3.0)
    assert module.two.tolist() == [3.0, 3.0]


def test_memory_is_freed():
    before = descriptors()
    for _ in range(20):
        ad.ones(1000).share_memory_()
        nn.Linear(3, 3).share_memory()
    assert descriptors() == before
    x = ad.ones(1000).share_memory_()
    part = x[5:]
    del x
    assert part.is_shared() and part.sum().item() == 995.0


# --- between processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_arguments(method):
    context = mp.get_context(method)
    x, y = ad.zeros(3).share_memory_(), ad.zeros(2, 2, dtype=ad.int64).share_memory_()
    process = context.Process(target=process_functions.fill, args=([x[1:], y], 4))
    process.start()
    process.join()
    assert process.exitcode == 0 and x.tolist() == [0, 4, 4] and y.tolist() == [[4, 4], [4, 4]]


def test_arguments_of_which_there_are_several_over_one_memory():
    """A descriptor is handed to a spawned process once, and is open until it starts: copies have nobody else who holds it."""
    context = mp.get_context("spawn")
    shared, others = ad.zeros(4).share_memory_(), ad.ones(6)
    views = others[:2], others[2:]
    answers = context.SimpleQueue()
    process = context.Process(
        target=process_functions.add_up, args=([shared, shared[2:], *views, ad.ones(3)], answers)
    )
    process.start()
    process.join()
    assert process.exitcode == 0 and answers.get() == [0.0, 0.0, 2.0, 4.0, 3.0]
    assert shared.tolist() == [1.0, 1.0, 2.0, 2.0] and others.sum() == 6  # a copy of them was sent


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["Tensor", "Parameter"])
def test_queues(method, kind):
    context = mp.get_context(method)
    before = descriptors()
    questions, answers = context.Queue(), context.SimpleQueue()
    process = context.Process(target=process_functions.answer, args=(questions, answers))
    process.start()
    x = ad.ones(2) if kind == "Tensor" else nn.Parameter(ad.ones(2))
    questions.put(x)
    assert answers.get() == (True, kind, kind == "Parameter", [1.0, 1.0])
    assert answers.get() == "written"
    assert x.is_shared() and x.tolist() == [2.0, 2.0]
    questions.put(None)
    process.join()
    questions.close()
    questions.join_thread()
    answers.close()
    process.close()
    del questions, answers, x
    assert descriptors() <= before + 4  # the server of descriptors, and the tracker of what is spawned, stay


def test_pipes():
    here, there = mp.Pipe()
    x = ad.arange(4.0)
    process = mp.get_context("fork").Process(target=process_functions.send, args=(there, x[1:]))
    process.start()
    assert here.recv().tolist() == [1.0, 2.0, 3.0]
    here.send("done")
    process.join()


def test_pool():
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map(process_functions.double, [ad.ones(2), ad.full((1,), 3.0), ad.empty(0)])
    assert [r.tolist() for r in results] == [[2.0, 2.0], [6.0], []]


def test_of_a_tensor_that_others_share_a_copy_is_sent():
    x = ad.ones(3)
    view = x[1:]
    rebuild, args = reductions.reduce_tensor(view)
    assert not x.is_shared() and rebuild(*args).tolist() == [1.0, 1.0]


def test_the_same_memory_arrives_as_the_same():
    x = ad.zeros(4).share_memory_()
    rebuild, args = reductions.reduce_tensor(x)
    one, two = rebuild(*args), rebuild(*reductions.reduce_tensor(x[2:])[1])
    one.fill_(7.0)
    assert x.tolist() == [7.0] * 4 and two.tolist() == [7.0] * 2


def test_a_tensor_with_a_history_is_refused():
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        mp.SimpleQueue().put(x * 2)


# --- spawn -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_processes_train_one_model(method):
    model = nn.Linear(2, 3, bias=False).share_memory()
    before = model.weight.detach().clone()
    assert mp.start_processes(process_functions.train, (model, 5), nprocs=3, start_method=method) is None
    assert ad.allclose(model.weight, before + 5)


def test_an_exception_comes_back_and_ends_the_others():
    with pytest.raises(
        mp.ProcessRaisedException, match="-- Process 1 terminated.*(.|\n)*the reason"
    ) as found:
        mp.start_processes(process_functions.fail, nprocs=2, start_method="fork")
    assert found.value.error_index == 1 and "in fail" in str(found.value)


def test_a_process_that_ends_is_an_error():
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3") as found:
        mp.start_processes(process_functions.leave, (3,), start_method="fork")
    assert found.value.exit_code == 3
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGKILL") as found:
        mp.start_processes(process_functions.leave, (-9,), start_method="fork")
    assert found.value.signal_name == "SIGKILL"


def test_contexts_are_joined_later():
    x = ad.zeros(2, 1).share_memory_()
    holder = nn.Module()
    holder.weight = x
    context = mp.start_processes(
        process_functions.train, (holder, 1), nprocs=2, join=False, start_method="fork"
    )
    assert len(context.pids()) == 2
    while not context.join():
        pass
    assert x.tolist() == [[1.0], [1.0]]
    assert not any(os.path.exists(path) for path in context.error_files)


def test_strategies():
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    with pytest.raises(AssertionError, match="unknown sharing strategy"):
        mp.set_sharing_strategy("carrier pigeon")


def test_spawned_processes_of_a_torch_program_find_adjoint(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "import torch.multiprocessing as mp\n"
        "def work(i, x):\n"
        "    x[i] = i + 1\n"
        "    assert torch.__version__.local == 'adjoint' if hasattr(torch.__version__, 'local') else True\n"
        "if __name__ == '__main__':\n"
        "    x = torch.zeros(2).share_memory_()\n"
        "    mp.spawn(work, (x,), nprocs=2)\n"
        "    print(x.tolist())\n"
    )
    done = run_python("-m", "adjoint.as_torch", program)
    assert done.stdout == "[1.0, 2.0]\n", done.stderr
