"""The demonstration: reaches its accuracy, checks its gradient, writes its picture, says what is missing."""

import os

import pytest
from helpers import run_python

from adjoint import demo

for package in ("numpy", "sklearn", "tqdm", "matplotlib"):
    pytest.importorskip(package)


def test_the_main_job(tmp_path, monkeypatch):
    picture = tmp_path / "digits.png"
    result = run_python("-m", "adjoint.demo", "--output", picture, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "target 97%: reached" in result.stdout and "relative error" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG") and os.path.getsize(picture) > 10_000
    assert "of the time that it takes without ad.jit" in result.stdout
    monkeypatch.setenv("ADJOINT_JIT", "0")
    eager = run_python("-m", "adjoint.demo", "--no-plot", folder=tmp_path).stdout.splitlines()
    assert [line for line in eager if "held-out" in line or "reverse" in line] == [
        line for line in result.stdout.splitlines() if "held-out" in line or "reverse" in line
    ]
    assert "30/30" in result.stderr  # the progress bar


def test_a_missed_target_is_status_1(tmp_path, capsys):
    assert demo.main(["--epochs", "1", "--no-plot"]) == 1
    assert "MISSED" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    assert demo.main([]) == 2
    text = capsys.readouterr().err
    assert f'pip install "{demo.distribution}[demo]"' in text
    for package in ("numpy", "scikit-learn", "tqdm", "matplotlib"):
        assert package in text
    assert "matplotlib" not in " ".join(demo.missing_packages(plot=False))


def test_bad_arguments():
    with pytest.raises(SystemExit):
        demo.main(["--epochs", "0"])


def test_data():
    images, labels = demo.load_digits()
    assert tuple(images.shape) == (1797, 64) and tuple(labels.shape) == (1797,)
    assert images.min().item() == 0.0 and images.max().item() == 1.0
    assert sorted(set(labels.tolist())) == list(range(10))
