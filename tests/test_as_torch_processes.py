"""Programs for torch that start processes, and names that torch's own tests import."""

import importlib.util
import platform

from helpers import run_python, torch_values

WORKERS = """\
import torch
from torch import multiprocessing

def double(x, answers):
    answers.put((type(x).__module__, (2 * x).tolist()))

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        answers = context.Queue()
        process = context.Process(target=double, args=(torch.ones(2), answers))
        process.start()
        print(method, *answers.get(timeout=60))
        process.join()
"""


def test_processes_of_a_program_find_torch_too(tmp_path):
    (tmp_path / "script.py").write_text(WORKERS)
    done = run_python("-m", "adjoint.as_torch", "script.py", folder=tmp_path)
    assert done.stdout.splitlines() == [
        f"{method} torch [2.0, 2.0]" for method in ("spawn", "forkserver", "fork")
    ], done.stderr


STARTER = """\
import subprocess, sys
print(*(subprocess.run([*start, *sys.argv[1:]], capture_output=True, text=True, input="import torch; print(torch.ones(1))").stdout.strip()
    for start in (
        [sys.executable, "child.py"], [sys.executable, "-u", "-W", "ignore", "-m", "child"], (sys.executable, "-c", "import child"),
        [sys.executable, "-m", "adjoint.as_torch", "child.py"], [sys.executable, "-"], [sys.executable, "--version"], ["echo", "x"])), sep="\\n", flush=True)
subprocess.run(args=[sys.executable, "-X", "utf8", "grandchild.py"], check=True)
"""


def test_python_programs_that_a_program_starts_find_torch_too(tmp_path):
    (tmp_path / "script.py").write_text(STARTER)
    (tmp_path / "child.py").write_text("import sys, torch\nprint(torch.ones(1), __name__, sys.argv[1:])\n")
    (tmp_path / "grandchild.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py', '-c'], check=True)\n"
    )
    done = run_python("-m", "adjoint.as_torch", "script.py", "a", "-b", folder=tmp_path)
    assert done.stdout.splitlines() == [
        "tensor([1.]) __main__ ['a', '-b']",
        "tensor([1.]) __main__ ['a', '-b']",
        "tensor([1.]) child ['a', '-b']",
        "tensor([1.]) __main__ ['a', '-b']",
        "tensor([1.])",
        f"Python {platform.python_version()}",
        "x a -b",
        "tensor([1.]) __main__ ['-c']",
    ], done.stderr
    # A program that calls as_torch() itself leaves others alone.
    call = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'])"
    done = run_python("-c", f"import adjoint; adjoint.as_torch(); {call}", folder=tmp_path)
    assert "No module named 'torch'" in done.stderr or importlib.util.find_spec("torch")


def test_names_that_torch_s_own_tests_import():
    assert torch_values("""
        import torch
        from torch.__future__ import get_swap_module_params_on_conversion, set_overwrite_module_params_on_conversion
        from torch._utils import ExceptionWrapper
        from torch.optim.lr_scheduler import EPOCH_DEPRECATION_WARNING
        from torch.nn.utils import prune
        from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL
        set_overwrite_module_params_on_conversion(True)
        layer = torch.nn.Linear(1, 1)
        before = layer.weight
        show(layer.double().weight is before, torch.__future__.get_overwrite_module_params_on_conversion())
        torch.__future__.set_swap_module_params_on_conversion(True)
        show(get_swap_module_params_on_conversion(), MP_STATUS_CHECK_INTERVAL)
        show(prune._compute_nparams_toprune(0.4, tensor_size=17), prune._compute_norm(torch.ones(2, 4), 2, 0).tolist())
        for amount, kind in (("x", TypeError), (1.5, ValueError), (-1, ValueError)):
            try: prune._validate_pruning_amount_init(amount)
            except kind as error: show(type(error).__name__)
        with torch.backends.cudnn.flags(enabled=True): show(torch.backends.cudnn.enabled)
        show(torch.backends.cudnn.enabled)
        try: 1 / 0
        except ZeroDivisionError: wrapped = ExceptionWrapper(where="somewhere")
        try: wrapped.reraise()
        except ZeroDivisionError as error: show("Caught ZeroDivisionError somewhere" in str(error))
        show(torch.native_channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2).flatten().tolist())
    """) == [
        (False, True), (True, 5.0), (7, [2.0, 2.0]), "TypeError", "ValueError", "ValueError", True, False, True,
        [0.0, 2.0, 1.0, 3.0],
    ]  # fmt: skip


def test_programs_keep_their_own_future_statements(tmp_path):
    (tmp_path / "script.py").write_text("def f(x: int): pass\nprint(f.__annotations__)\n")
    assert (
        run_python("-m", "adjoint.as_torch", "script.py", folder=tmp_path).stdout == "{'x': <class 'int'>}\n"
    )
    assert (
        run_python("-m", "adjoint.as_torch", "-c", "x: int\nprint(__annotations__)").stdout
        == "{'x': <class 'int'>}\n"
    )


def test_functions_that_torch_took_away_say_so():
    assert torch_values("""
        import torch

        x, said = torch.eye(2), []
        for name in ("eig", "symeig", "matrix_rank", "lstsq", "solve"):
            for where in (torch, torch.Tensor):
                try:
                    getattr(where, name)(x)
                except (RuntimeError, AttributeError) as error:
                    said.append("is now removed" in str(error))
        show(said)
        show([float(torch.nuclear_norm(x)), round(float(torch.frobenius_norm(x, [0, 1])), 3)])
    """) == [[True] * 5 + [False] + [True] * 4, [2.0, 1.414]]  # fmt: skip
