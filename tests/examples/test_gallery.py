"""The examples of docs/gallery.md: in their short mode, each does what it says and draws its picture."""

import pathlib
import re

import pytest
from test_examples import run

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "gallery.md"


def numbers(pattern, text):
    return [float(n) for n in re.search(pattern, text, re.MULTILINE).groups()]


def run_with_picture(name, tmp_path):
    text = run(f"{name}.py", tmp_path)
    if "none: matplotlib" not in text:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return text


def test_variational_inference_comes_near_the_evidence_from_below(tmp_path):
    text = run_with_picture("variational_inference", tmp_path)
    first, last, evidence = numbers(r"^bound +(\S+) -> (\S+); log evidence ([-\d.]+)", text)
    assert first < evidence - 10 and evidence - 0.6 < last < evidence + 0.05


def test_hamiltonian_monte_carlo_finds_the_moments(tmp_path):
    text = run_with_picture("hamiltonian_monte_carlo", tmp_path)
    (accepted,) = numbers(r"^accepted +([\d.]+)%", text)
    x, y = numbers(r"^means +(\S+), (\S+) ", text)
    x2, y2 = numbers(r"^variances +(\S+), (\S+) ", text)
    assert 75 < accepted < 99
    assert abs(x) < 0.12 and abs(y) < 0.2 and abs(x2 - 1) < 0.15 and abs(y2 - 2.25) < 0.5


def test_a_neural_differential_equation_learns_by_its_adjoint(tmp_path):
    text = run_with_picture("neural_ode", tmp_path)
    (difference,) = numbers(r"relative difference (\S+)$", text)
    first, last = numbers(r"^loss +([\d.]+) -> ([\d.]+),", text)
    assert difference < 1e-4 and last < 0.6 * first


def test_the_conductivity_is_found_from_thermometers(tmp_path):
    text = run_with_picture("heat_equation", tmp_path)
    first, last = numbers(r"^misfit +([\d.]+) -> ([\d.]+) ", text)
    (off,) = numbers(r"^error +([\d.]+)%", text)
    assert first > 10 and last < 1.5 and off < 20


def test_the_shares_of_pixels_add_up(tmp_path):
    pytest.importorskip("sklearn")
    text = run_with_picture("saliency", tmp_path)
    (right,) = numbers(r"^accuracy +([\d.]+)%", text)
    (off,) = numbers(r"within ([\d.]+)%", text)
    assert right > 75 and off < 2


def test_penalties_fall_on_features_that_do_not_matter(tmp_path):
    text = run_with_picture("hyperparameters", tmp_path)
    before, after = numbers(r"^test +([\d.]+) -> ([\d.]+) ", text)
    useful, others = numbers(r"^penalty +([\d.]+) .*, ([\d.]+) of the others", text)
    assert after < 0.8 * before and others > 1.5 * useful


def test_one_step_of_descent_is_enough_after_meta_training(tmp_path):
    text = run_with_picture("maml", tmp_path)
    _, untrained = numbers(r"^untrained ([\d.]+), .* ([\d.]+)$", text)
    before, after = numbers(r"^trained +([\d.]+), .*descent ([\d.]+),", text)
    assert after < 0.95 * before and after < 0.5 * untrained


def test_learned_step_sizes_are_better_than_a_constant(tmp_path):
    text = run_with_picture("step_sizes", tmp_path)
    learned, known, constant = numbers(r"^error +(\S+) learned, (\S+) Chebyshev's, (\S+) constant", text)
    assert learned < known < constant / 5


def test_the_renderer_finds_the_discs(tmp_path):
    text = run_with_picture("renderer", tmp_path)
    first, last = numbers(r"^loss +([\d.]+) -> ([\d.]+),", text)
    assert last < 0.1 * first


def test_the_page_shows_every_example_with_a_small_picture():
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"^!\[.+\]\(pictures/(\w+)\.png\)$", page, re.MULTILINE)
    assert len(shown) == 9
    for name in shown:
        assert f"(../examples/{name}.py)" in page
        assert 1000 < (PAGE.parent / "pictures" / f"{name}.png").stat().st_size < 30_000
