"""Programs written for torch: `import torch` finds Adjoint where that was asked for, and nowhere else.

What changes the process runs in one of its own. Start reading at `test_script`.
"""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
from helpers import run_python, torch_program, torch_values

from adjoint.as_torch.standins.torch_version import TorchVersion

# --- ways to ask -------------------------------------------------------------------------------------------------------

SCRIPT = """\
import sys
import torch
import beside
x = torch.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(x.grad.tolist(), sys.argv[1:], __name__, __file__ == sys.argv[0], beside.name, sys.modules["__main__"].x is x)
"""
PRINTED = "[2.0, 4.0] ['a', '-m'] __main__ True beside True\n"


def test_script(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("name = __name__")
    done = run_python("-m", "adjoint.as_torch", tmp_path / "script.py", "a", "-m")
    assert (done.stdout, done.stderr) == (PRINTED, "")


def test_module(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("name = __name__")
    done = run_python("-m", "adjoint.as_torch", "-m", "program", "a", "-m", folder=tmp_path)
    assert (done.stdout, done.stderr) == (PRINTED, "")


def test_code_has_its_arguments():
    assert (
        torch_program("import sys, torch; print(sys.argv, __name__)", "a", "-c")
        == "['-c', 'a', '-c'] __main__\n"
    )


def test_folder(tmp_path):
    (tmp_path / "__main__.py").write_text("import torch, beside; print(beside.name, torch.ones(1).item())")
    (tmp_path / "beside.py").write_text("name = __name__")
    assert run_python("-m", "adjoint.as_torch", tmp_path).stdout == "beside 1.0\n"


def test_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys, torch; print(torch.ones(1).item(), sys.argv[1:])")
    assert run_python("-m", "adjoint.as_torch", tmp_path / "program.zip", "a").stdout == "1.0 ['a']\n"


def test_standard_input(tmp_path):
    program = "import sys, torch; print(sys.argv, torch.ones(1).item())"
    command = [sys.executable, "-m", "adjoint.as_torch", "-", "a"]
    done = subprocess.run(
        command, input=program, capture_output=True, text=True, cwd=tmp_path, env=environment()
    )
    assert done.stdout == "['-', 'a'] 1.0\n", done.stderr


def environment():
    paths = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def test_help():
    done = run_python("-m", "adjoint.as_torch", "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: python -m adjoint.as_torch script.py")


def test_exit_status_and_errors_are_the_program_s_own(tmp_path):
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    assert run_python("-m", "adjoint.as_torch", tmp_path / "leaves.py").returncode == 3
    (tmp_path / "fails.py").write_text("import torch\n\ntorch.ones(2) + torch.ones(3)\n")
    done = run_python("-m", "adjoint.as_torch", tmp_path / "fails.py")
    assert done.returncode == 1 and 'fails.py", line 3' in done.stderr and "RuntimeError" in done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "usage"),
        (["-m"], "argument expected"),
        (["-x"], "unknown option: -x"),
        (["nowhere.py"], "can't open file"),
    ],
)
def test_wrong_command_lines(arguments, message):
    done = run_python("-m", "adjoint.as_torch", *arguments)
    assert done.returncode == 2 and message in done.stderr


def test_call():
    done = run_python(
        "-c",
        "import sys, adjoint\nassert 'torch' not in sys.modules\ntorch = adjoint.as_torch()\n"
        "import torch as again\nfrom adjoint.as_torch import as_torch\n"
        "print(again is torch, adjoint.as_torch() is torch, as_torch() is torch, torch.__name__)",
    )
    assert (done.stdout, done.stderr) == ("True True True torch\n", "")


def test_never_unasked(tmp_path):
    (tmp_path / "torch.py").write_text("real = True")
    done = run_python(
        "-c",
        "import adjoint, adjoint.as_torch, adjoint.as_torch._finder, torch; print(torch.real, adjoint.float32)",
        folder=tmp_path,
    )
    assert done.stdout == "True adjoint.float32\n", done.stderr


def test_refused_once_the_real_torch_is_there(tmp_path):
    (tmp_path / "torch.py").write_text("real = True")
    done = run_python(
        "-c",
        "import torch, adjoint\ntry: adjoint.as_torch()\nexcept RuntimeError as e: print(e)\nprint(torch.real)",
        folder=tmp_path,
    )
    error, after = done.stdout.splitlines()
    assert "the real torch has been imported already" in error and "torch.py" in error and after == "True"


def test_goes_before_a_real_torch(tmp_path):
    (tmp_path / "torch.py").write_text("real = True")
    (tmp_path / "program.py").write_text("import torch; print(torch.__version__)")
    assert run_python("-m", "adjoint.as_torch", tmp_path / "program.py").stdout == "2.13.0+adjoint\n"


def test_importing_adjoint_brings_none_of_it():
    code = "import sys, adjoint; print([m for m in sys.modules if 'as_torch' in m or m.startswith('torch')])"
    assert run_python("-c", code).stdout == "[]\n"


# --- names -------------------------------------------------------------------------------------------------------------


def test_modules_are_the_same_objects():
    assert (
        torch_values("""
        import torch, adjoint
        import torch.nn as nn
        import torch.nn.functional as F
        import torch.optim.lr_scheduler
        from torch import Tensor, linalg, no_grad, special
        from torch.nn.modules.linear import Linear
        from torch.nn.modules.container import Sequential
        from torch.nn.utils.clip_grad import clip_grad_norm_
        from torch.autograd import Variable, grad
        from torch.utils.hooks import RemovableHandle
        show(nn is adjoint.nn and torch.nn is nn and nn.Module is adjoint.nn.Module)
        show(F is adjoint.nn.functional and nn.functional is F)
        show(Linear is adjoint.nn.Linear and Sequential is adjoint.nn.Sequential)
        show(clip_grad_norm_ is adjoint.nn.utils.clip_grad_norm_)
        show(Tensor is adjoint.Tensor and linalg is adjoint.linalg and no_grad is adjoint.no_grad)
        show(torch.optim.lr_scheduler.StepLR is adjoint.optim.lr_scheduler.StepLR)
        show(adjoint.nn.__spec__.name == "adjoint.nn")
    """)
        == [True] * 7
    )


def test_submodules_come_with_torch():
    assert torch_values("""
        import torch
        show([getattr(torch, n).__name__.rpartition(".")[2] for n in
               ("nn", "optim", "autograd", "linalg", "special", "testing", "random", "utils", "jit", "cuda", "backends")])
        show(torch.nn.init.zeros_(torch.ones(2)).tolist())
    """)[1] == [0.0, 0.0]


def test_all_names_of_adjoint():
    (missing,) = torch_values("""
        import torch, adjoint, types
        names = [n for n in dir(adjoint) if n not in adjoint._LAZY and not isinstance(getattr(adjoint, n), types.ModuleType)]
        # finfo and iinfo know element types that can only be named as well.
        names = [n for n in names if n not in ("__version__", "finfo", "iinfo", "jit")]  # torch.jit is a module
        show([n for n in names if getattr(torch, n, None) is not getattr(adjoint, n)])
    """)
    assert missing == []


def test_every_standin_imports():
    folder = pathlib.Path(sys.modules["adjoint.as_torch"].__file__).parent / "standins"
    files = (p.relative_to(folder).with_suffix("").parts for p in folder.rglob("*.py"))
    names = sorted({".".join(p[:-1] if p[-1] == "__init__" else p) for p in files} - {""})
    assert {"cuda", "cuda.amp", "jit"} <= set(names)
    program = "import torch\n" + "".join(f"import torch.{n}; assert torch.{n} is not None\n" for n in names)
    # What a module says that it publishes is there.
    program += "".join(f"from torch.{n} import *\n" for n in names) + "print('all')"
    assert torch_program(program) == "all\n"


def test_what_does_not_exist_is_named():
    lines = torch_program("""
        import torch, torch.nn.functional as F
        for code in (
            "torch.no_such_thing", "torch.nn.NoSuchLayer", "F.no_such_function", "torch.jit.no_such_name", "torch.cuda.no_such_name",
            "import torch.no_such_module", "import torch.nn.no_such_module",
            "from torch import no_such_thing", "from torch.nn import NoSuchLayer",
            "from torch.nn.functional import no_such_function", "from torch.jit import no_such_name",
        ):
            try:
                exec(code)
            except (AttributeError, ImportError) as error:
                print(type(error).__name__, "|", error)
            else:
                print(code)
        print(hasattr(torch, "no_such_thing"), hasattr(torch.nn, "NoSuchLayer"), getattr(torch, "no_such_thing", 1))
    """).splitlines()
    expected = [
        "torch.no_such_thing",
        "torch.nn.NoSuchLayer",
        "torch.nn.functional.no_such_function",
        "torch.jit.no_such_name",
        "torch.cuda.no_such_name",
        "torch.no_such_module",
        "torch.nn.no_such_module",
        "torch.no_such_thing",
        "torch.nn.NoSuchLayer",
        "torch.nn.functional.no_such_function",
        "torch.jit.no_such_name",
    ]
    for k, (line, name) in enumerate(zip(lines, expected)):
        kind, _, message = line.partition(" | ")
        assert kind == ("AttributeError" if k < 5 else "ModuleNotFoundError"), line
        assert message.endswith(f"Adjoint does not have {name}"), line
    assert lines[-1] == "False False 1"


def test_modules_inside_of_standins():
    assert torch_values("""
        import torch.backends.cudnn as cudnn, torch
        import torch.backends.cuda
        from torch.backends import mkl
        show(cudnn is torch.backends.cudnn, cudnn.is_available(), mkl is torch.backends.mkl)
        cudnn.benchmark = True
        for code in ("cudnn.no_such", "torch.backends.mps.no_such", "import torch.backends.no_such"):
            try: exec(code)
            except (AttributeError, ImportError) as error: show(str(error).partition(": ")[2])
        show(torch.mps.is_available(), torch.xpu.device_count(), torch.mps is torch.xpu)
        try: torch.xpu.Stream
        except AttributeError as error: show(str(error).partition(": ")[2])
    """) == [
        (True, False, True),
        "Adjoint does not have torch.backends.cudnn.no_such",
        "Adjoint does not have torch.backends.mps.no_such",
        "Adjoint does not have torch.backends.no_such",
        (False, 0, False),
        "Adjoint does not have torch.xpu.Stream",
    ]


def test_adjoint_itself_is_not_found_below_torch():
    assert torch_values(
        "import torch; show([hasattr(torch, n) for n in ('as_torch', 'demo', '_lines')])"
    ) == [[False] * 3]
    # Of torch's core there is a stand-in, which is not Adjoint's.
    assert torch_values(
        "import torch, adjoint; show(torch._C is adjoint._C, hasattr(torch._C, '_run_backward'))"
    ) == [(False, False)]


# --- legacy types, versions, text ----------------------------------------------------------------------------------------


def test_tensor_types_of_old():
    assert torch_values(
        """
        import torch
        from torch.autograd import Variable
        x = torch.FloatTensor([1, 2])
        show(x.tolist(), x.type(), isinstance(x, torch.FloatTensor), isinstance(x, torch.DoubleTensor))
        show(tuple(torch.LongTensor(2, 3).shape), torch.LongTensor(2, 3).type(), torch.IntTensor().tolist())
        show(x.type(torch.LongTensor).type(), x.type("torch.DoubleTensor").type(), x.double().type(torch.Tensor).type())
        show(torch.ByteTensor([1]).dtype is torch.uint8, torch.BoolTensor([1]).tolist(), str(torch.HalfTensor.dtype))
        show(isinstance(torch.nn.Parameter(x), torch.FloatTensor), isinstance(3, torch.FloatTensor))
        show(tuple(x.new(2, 3).shape), x.new([3]).tolist(), x.new(x).data_ptr() == x.data_ptr())
        show(tuple(torch.Tensor(2, 3).shape), torch.Tensor([1, 2]).tolist())
        v = Variable(x, requires_grad=True)
        show(isinstance(x, Variable), v.requires_grad, x.requires_grad, v.data_ptr() == x.data_ptr())
        torch.set_default_tensor_type("torch.DoubleTensor")
        show(torch.ones(1).type())
        torch.set_default_tensor_type(torch.FloatTensor)
        show(torch.ones(1).type())
        show(repr(torch.FloatTensor), isinstance(x, torch.cuda.FloatTensor))
    """
    ) == [
        ([1.0, 2.0], "torch.FloatTensor", True, False),
        ((2, 3), "torch.LongTensor", []),
        ("torch.LongTensor", "torch.DoubleTensor", "torch.FloatTensor"),
        (True, [True], "torch.float16"),
        (True, False),
        ((2, 3), [3.0], True),
        ((2, 3), [1.0, 2.0]),
        (True, True, False, True),
        "torch.DoubleTensor",
        "torch.FloatTensor",
        ("<class 'torch.FloatTensor'>", False),
    ]


@pytest.mark.parametrize(
    "code, error, message",
    [
        ("torch.FloatTensor(torch.ones(1, dtype=torch.float64))", "TypeError", "torch.float32"),
        ("torch.FloatTensor(1.5)", "TypeError", "must be a sequence"),
        ("torch.cuda.FloatTensor(2)", "TypeError", "no CUDA device"),
        ("torch.ones(1).type(torch.cuda.FloatTensor)", "TypeError", "no CUDA device"),
        ("torch.ones(1).type('torch.cuda.FloatTensor')", "TypeError", "no CUDA device"),
        ("torch.ones(1).cuda()", "NoDeviceError", "Torch not compiled with CUDA enabled"),
        ("torch.set_default_tensor_type(torch.LongTensor)", "TypeError", "floating-point"),
        ("torch.autograd.Variable(3)", "TypeError", "Variable data has to be a tensor, but got int"),
        ("torch.autograd.Variable(torch.ones(1), volatile=True)", "TypeError", "no_grad"),
        ("torch.cuda.current_device()", "AssertionError", "Torch not compiled with CUDA enabled"),
    ],
)
def test_refusals(code, error, message):
    out = torch_program(f"import torch\ntry: {code}\nexcept Exception as e: print(type(e).__name__, e)")
    assert out.startswith(error) and message in out


def test_types_print_as_torch_s():
    assert torch_program("""
        import torch
        print(torch.float32, repr(torch.int64), torch.Size([2, 3]), torch.strided, torch.contiguous_format)
        print(torch.ones(2, dtype=torch.float64))
        import pickle
        print(pickle.loads(pickle.dumps(torch.float16)) is torch.float16)
    """) == (
        "torch.float32 torch.int64 torch.Size([2, 3]) torch.strided torch.contiguous_format\n"
        "tensor([1., 1.], dtype=torch.float64)\nTrue\n"
    )


def test_version():
    version = TorchVersion("2.13.0+adjoint")
    assert isinstance(version, str) and version.split("+")[0] == "2.13.0"
    for older in (
        "2.8",
        "1.13.1",
        (2, 12),
        (2, 13),
        "2.13.0",
        "2.13.0rc1",
        "2.13.0.dev20260101",
        "2.13.0a0+git123",
    ):
        assert version > older and version >= older and not version < older and version != older, older
    for newer in ("2.14", "3", (2, 13, 1), "2.13.1", "2.100.0a0"):
        assert version < newer and version <= newer and not version > newer, newer
    assert version == "2.13.0+adjoint" and version <= "2.13.0+adjoint" and {version: 1}["2.13.0+adjoint"]
    assert version != "no version" and version != 3


def test_version_parses():
    packaging = pytest.importorskip("packaging.version")
    version = TorchVersion("2.13.0+adjoint")
    parsed = packaging.parse(version)
    assert (
        parsed.release == (2, 13, 0)
        and parsed >= packaging.parse("2.13")
        and version >= packaging.parse("2.8")
    )
    assert torch_values("import torch; show(str(torch.__version__)); show(torch.version.cuda)") == [
        "2.13.0+adjoint",
        None,
    ]


# --- what programs touch on a CPU -----------------------------------------------------------------------------------------


def test_questions_have_answers():
    out = torch_values(
        """
        import torch
        show([torch.cuda.is_available(), torch.cuda.device_count(), torch.backends.mps.is_available(),
               torch.backends.cudnn.is_available(), torch.distributed.is_available(), torch.jit.is_scripting(),
               torch.is_autocast_enabled(), torch.is_storage(3), torch.is_tensor(torch.ones(1)), torch.compiler.is_compiling()])
        torch.cuda.manual_seed_all(0), torch.cuda.empty_cache(), torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.set_float32_matmul_precision("high")
        show(str(torch.get_default_device()), str(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
        show(torch.finfo(torch.float).bits, torch.long is torch.int64)
    """
    )
    assert out == [
        [False, 0, False, False, True, False, False, False, True, False],
        ("cpu", "cpu"),
        (32, True),
    ]


def test_decorators_leave_functions_as_they_are():
    assert torch_values("""
        import torch
        def f(x): return x + 1
        m = torch.nn.Linear(1, 1)
        show([g is f for g in (torch.jit.script(f), torch.jit.ignore(f), torch.jit.ignore(drop=True)(f), torch.jit.unused(f),
               torch.jit.export(f), torch.compile(f, disable=True), torch.compiler.disable(f))])
        show(torch.compile(m, disable=True) is m)
    """) == [[True] * 7, True]


def test_functions_that_torch_has_twice():
    assert (
        torch_values("""
        import torch
        x = torch.tensor([-1.0, 2.0])
        show(torch.relu_(x) is x and x.tolist() == [0.0, 2.0])
        show(not torch.detach(x.requires_grad_()).requires_grad)
        show(torch.cosine_similarity(torch.ones(1, 2), torch.ones(1, 2)).item() > 0.99)
    """)
        == [True] * 3
    )


def test_training_as_written_for_torch():
    (losses,) = torch_values("""
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch.optim import Adam
        torch.manual_seed(0)
        torch.backends.cudnn.deterministic = True
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        optimizer = Adam(net.parameters(), lr=0.05)
        x = torch.rand(64, 2, device=device)
        y = x.prod(1, keepdim=True)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        show([losses[0], losses[-1]])
    """)
    assert losses[1] < 0.1 * losses[0]


def test_children_are_not_touched(tmp_path):
    # Where the program asks for torch's names itself, its subprocesses find what they would find alone (those of
    # `python -m adjoint.as_torch` do find them: test_as_torch_processes.py).
    child = "import sys; print(list(map(str, sys.meta_path)))"
    code = (
        "import subprocess, sys; "
        f"print(subprocess.run([sys.executable, '-c', {child!r}], capture_output=True, text=True).stdout)"
    )
    # Elsewhere: the folder of the sources would be found before what is installed.
    command = [sys.executable, "-c", "import adjoint; adjoint.as_torch(); " + code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "BuiltinImporter" in found and "as_torch" not in found
