"""How programs written for torch tell tensors from other things: modules of types, pickles, texts of errors."""

import pytest
from helpers import torch_program, torch_values

import adjoint as ad


def test_the_modules_of_types_are_torch_s():
    program = """
        import torch
        show(type(torch.ones(1)).__module__, str(torch.Tensor))
        show(torch.nn.Parameter.__module__, type(torch.nn.Parameter(torch.ones(1))).__module__)
        class Own(torch.Tensor): pass
        show(Own.__module__)
    """
    assert torch_values(program) == [
        ("torch", "<class 'torch.Tensor'>"),
        ("torch.nn.parameter", "torch.nn.parameter"),
        "__main__",
    ]


def test_without_it_they_are_adjoint_s():
    assert ad.Tensor.__module__ == "adjoint" and ad.nn.Parameter.__module__ == "adjoint.nn.parameter"


def test_files_say_the_same_with_it_and_without(tmp_path):
    program = f"""
        import pickle, torch
        layer = torch.nn.Linear(1, 1)
        layer.weight.note = "kept"
        torch.save(dict(layer.state_dict(), x=torch.ones(2), p=layer.weight, b=torch.nn.Buffer(torch.ones(1)), d=torch.float16,
                        s=torch.Size([3]), device=torch.device("cuda:1")), {str(tmp_path / "saved")!r})
        print(pickle.loads(pickle.dumps(torch.Tensor)) is torch.Tensor, end="")
    """
    assert torch_program(program) == "True"
    loaded = ad.load(tmp_path / "saved")
    assert (
        type(loaded["x"]) is ad.Tensor and type(loaded["p"]) is ad.nn.Parameter and loaded["p"].note == "kept"
    )
    assert type(loaded["b"]) is ad.nn.Buffer and loaded["d"] is ad.float16 and loaded["s"] == ad.Size([3])
    assert loaded["device"] == ad.device("cuda:1")


def test_types_are_called_in_errors_as_torch_calls_them():
    with pytest.raises(AttributeError, match="^'Tensor' object has no attribute 'nothing'"):
        ad.ones(1).nothing  # noqa: B018
    with pytest.raises(AttributeError, match="^'dtype' object has no attribute 'nothing'"):
        ad.float32.nothing  # noqa: B018


def test_what_is_missing_below_a_module_is_named_too():
    program = """
        import torch
        for path in ("nn.utils.missing", "optim.lr_scheduler.Missing", "nn.functional.missing", "linalg.missing"):
            value = torch
            try:
                for name in path.split("."):
                    value = getattr(value, name)
                show("there")
            except AttributeError as error:
                show(f"Adjoint does not have torch.{path}" in str(error))
    """
    assert torch_values(program) == [True] * 4
