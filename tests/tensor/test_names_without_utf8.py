"""Names that are no UTF-8, as those of files may be, in what users are told: escaped, and never an error of their own."""

import pathlib
import runpy

import pytest

import adjoint as ad

ODD = "b\udc80"
ESCAPED = "b\\udc80"


def in_odd_file(tmp_path, program, **more):
    """Run a program from a folder whose name has a byte that is no UTF-8."""
    folder = pathlib.Path(tmp_path) / ODD
    try:
        folder.mkdir()
    except (OSError, UnicodeError):
        pytest.skip("the system has no such names of files")
    file = folder / "program.py"
    file.write_text("import adjoint as ad\n" + program)
    return runpy.run_path(str(file), init_globals=more)


def test_lines_that_saved_and_wrote(tmp_path):
    before = ad.autograd.graph.set_record_lines(True)
    try:
        y = in_odd_file(tmp_path, "y = ad.zeros(1, requires_grad=True).exp()\nz = y * 1\n")["y"]
        with ad.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as told:
            y.sum().backward()
        assert "program.py" in str(told.value)
        assert "program.py" in str(ad.autograd.graph.explain(y))
    finally:
        ad.autograd.graph.set_record_lines(before)


@pytest.mark.filterwarnings("ignore")
def test_anomalies(tmp_path):
    with ad.autograd.detect_anomaly():
        y = in_odd_file(tmp_path, "y = ad.zeros(1, requires_grad=True).sqrt() * 0\n")["y"]
        with pytest.raises(RuntimeError, match="returned nan values"):
            y.sum().backward()


def test_names_of_functions_and_keywords():
    def hook(g):
        return 3

    hook.__name__ = ODD
    y = ad.ones(3, requires_grad=True)
    y.register_hook(hook)
    with pytest.raises(TypeError) as told:
        (y * 2).sum().backward()
    assert ESCAPED in str(told.value)
    for call in (ad.sin, ad.sum, ad.max, ad.zeros):
        with pytest.raises(TypeError) as told:
            call(ad.ones(3) if call is not ad.zeros else 3, **{ODD: 1})
        str(told.value).encode()


def test_replay_names_what_differs(tmp_path):
    class Box:
        pass

    box, table, long = Box(), {ODD: 1.0}, "é" * 57
    setattr(box, ODD, 1.0)
    program = (
        "def f(x, **more):\n    return x * getattr(box, key) + table[key] + len(text()) * more[key]\n"
        "def told(x):\n    x.numpy()\n    return x\n"
    )
    made = in_odd_file(tmp_path, program, box=box, table=table, key=ODD, text=lambda: long)
    f, told = ad.jit(made["f"]), ad.jit(made["told"])
    x = ad.ones(2)
    for k in range(12):
        setattr(box, ODD, float(k // 4))
        table[ODD] = float(k // 6)
        more = {ODD: float(k // 8)}
        long = ("é" * 57, "x" + "é" * 57)[k % 3 == 2]
        assert f(x, **more).tolist() == made["f"](x, **more).tolist()
        told(x) if k < 8 else None
    with pytest.warns(UserWarning, match="not replayed"):
        told(x)
    assert "program.py" in ad.jit.explain(told) and "\\udc80" in ad.jit.explain(told)
    ad.jit.explain(f).encode(errors="surrogateescape")
