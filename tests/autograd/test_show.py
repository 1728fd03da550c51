"""Tables and pictures of graphs."""

import pytest

import adjoint as ad
from adjoint.autograd import graph


def test_explain():
    before = graph.set_record_lines(True)
    try:
        x = ad.ones(10, 100, requires_grad=True)
        y = (x.exp() * x).sum()
    finally:
        graph.set_record_lines(before)
    table = graph.explain(y)
    assert [row["operation"] for row in table.rows] == ["SumBackward0", "MulBackward0", "ExpBackward0"]
    assert [row["bytes"] for row in table.rows] == [0, 8000, 4000] and table.bytes == 12000
    assert all("test_show.py" in row["line"] for row in table.rows)
    assert "float32[10, 100]" in str(table) and "12,000" in str(table)
    assert "set_record_lines" in str(graph.explain(x * 2))
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        graph.explain(ad.ones(1))


def test_draw():
    net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
    picture = graph.draw(net(ad.ones(4, 2)).sum(), params=net)
    assert "0.weight\\nfloat32[3, 2]" in picture.source and "TanhBackward0" in picture.source
    assert "[4, 3]" in picture.source and picture.source.count("->") >= 5


def test_a_thousand_nodes(tmp_path):
    x = ad.ones(1, requires_grad=True)
    y = x
    for _ in range(1000):
        y = y * 2
    picture = graph.draw(y)
    assert picture.source.count("MulBackward0") == 1000
    picture.save(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == picture.source
    with pytest.raises(ValueError, match="should end in"):
        picture.save(tmp_path / "graph.txt")


def test_pictures(tmp_path):
    graphviz = pytest.importorskip("graphviz")
    picture = graph.draw((ad.ones(2, requires_grad=True) * 2).sum())
    try:
        picture.save(tmp_path / "graph.svg")
        picture.save(tmp_path / "graph.png")
    except graphviz.ExecutableNotFound:
        pytest.skip("the program dot is not installed")
    assert "<svg" in (tmp_path / "graph.svg").read_text()
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in picture._repr_svg_()
