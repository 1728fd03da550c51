"""The programs of examples/ run, in their short mode, and do what they say."""

import importlib.util
import pathlib
import re

import pytest
from helpers import run_python

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"


def run(name, tmp_path, *arguments):
    done = run_python(FOLDER / name, "--short", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_in_the_gallery():
    page = (FOLDER.parent / "docs" / "gallery.md").read_text()
    assert [file.name for file in FOLDER.glob("*.py") if f"(../examples/{file.name})" not in page] == []


def test_fine_tuning_learns_with_a_frozen_base_that_keeps_nothing(tmp_path):
    pytest.importorskip("numpy")
    pytest.importorskip("sklearn")
    text = run("fine_tune_resnet18.py", tmp_path)
    learning, frozen = map(float, re.search(r"kept +([\d.]+) MB .* ([\d.]+) MB", text).groups())
    assert frozen < learning / 100
    before, after = map(float, re.search(r"head +([\d.]+)% .* before, ([\d.]+)% after", text).groups())
    assert after > before + 20
    if "none: matplotlib" not in text:
        assert (tmp_path / "fine_tune.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "name, package", [("gpt", None), ("lstm", None), ("vae", "sklearn"), ("unet", "sklearn")]
)
def test_networks_learn(name, package, tmp_path):
    if package:
        pytest.importorskip(package)
    text = run(f"{name}.py", tmp_path)
    first, last = map(float, re.search(r"^loss ([\d.]+) -> ([\d.]+),", text, re.MULTILINE).groups())
    assert last < 0.85 * first


def test_losses_are_those_of_torch_where_it_is_installed(tmp_path):
    done = run_python(FOLDER / "compare_with_torch.py", folder=tmp_path)
    if importlib.util.find_spec("torch"):
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert (done.returncode, done.stdout) == (2, "") and "torch is not installed" in done.stderr
