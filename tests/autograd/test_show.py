"""Tables and pictures of graphs."""

import random
import re
import shutil
from xml.etree import ElementTree

import pytest

import adjoint as ad
from adjoint.autograd import graph

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's program dot is not installed")


@pytest.fixture
def lines():
    before = graph.set_record_lines(True)
    yield
    graph.set_record_lines(before)


def test_explain(lines):
    x = ad.ones(10, 100, requires_grad=True)
    y = (x.exp() * x).sum()
    table = graph.explain(y)
    assert [row["operation"] for row in table.rows] == ["SumBackward0", "MulBackward0", "ExpBackward0"]
    assert [row["bytes"] for row in table.rows] == [0, 8000, 4000] and table.bytes == 12000
    assert all(re.search(r"test_show\.py:\d+ in test_explain", row["line"]) for row in table.rows)
    assert "float32[10, 100]" in str(table) and "12,000" in str(table)
    graph.set_record_lines(False)
    assert "set_record_lines" in str(graph.explain(x * 2)) and "set_record_lines" not in str(table)
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        graph.explain(ad.ones(1))


def test_each_operation_has_its_own_line(lines):
    x = ad.ones(3, requires_grad=True)
    y = x.exp()  # the first
    z = y * x  # the second
    with open(__file__, encoding="utf-8") as file:
        source = file.read().splitlines()
    numbers = [int(re.search(r"test_show\.py:(\d+)", row["line"])[1]) for row in graph.explain(z).rows]
    assert ["second" in source[n - 1] for n in numbers] == [True, False] and "the first" in source[
        numbers[1] - 1
    ]


def test_the_text_of_a_table():
    x = ad.ones(1000, requires_grad=True)
    text = str(graph.explain((x.exp() * 2.0).sum())).splitlines()
    assert text[0].split() == ["operation", "result", "saves", "bytes", "line"]
    assert text[2].split() == ["SumBackward0", "float32[]", "0"]
    assert text[4].split() == ["ExpBackward0", "float32[1000]", "result", "4,000"]
    assert text[-2].split()[:2] == ["3", "operations"]


def test_what_can_be_explained():
    x = ad.ones(2, requires_grad=True)
    y = x * 3
    z = y.exp()
    for what in (z, z.grad_fn, graph.get_gradient_edge(z), [z, y], (z,)):
        rows = graph.explain(what).rows
        assert [row["operation"] for row in rows] == ["ExpBackward0", "MulBackward0"]
    assert graph.explain(x).rows == []
    # A part that two results share is listed once.
    assert len(graph.explain([z.sin(), z.cos()]).rows) == 4


def test_functions_views_and_writes():
    class Exp(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x.exp())
            return x.exp(), x * 2

        @staticmethod
        def backward(ctx, g, h):
            return g

    x = ad.ones(1000, requires_grad=True)
    a, b = Exp.apply(x)
    y = a * a
    y[0:10].mul_(2)
    root = y.view(10, 100).unbind()[1].sum() + b.sum()
    table, picture = graph.explain(root), graph.draw(root, params={"x": x})
    names = [row["operation"] for row in table.rows]
    assert names[-1] == "ExpBackward" and "CopySlices" in names and "UnbindBackward0" in names
    assert table.rows[-1]["bytes"] == 8000 and table.rows[-1]["result"] == "float32[1000]"
    assert (
        all(f'label="{name}"' in picture.source for name in names) and "x\\nfloat32[1000]" in picture.source
    )
    # Once it has run, nothing is held any more.
    root.backward()
    assert graph.explain(root).bytes == 0


def test_explaining_frees_and_unpacks_nothing():
    calls = []
    x = ad.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: calls.append(1) or t):
        y = x.exp()
    graph.explain(y)
    graph.draw(y)
    assert calls == []
    y.sum().backward()
    assert graph.explain(y).rows[0]["operation"] == "ExpBackward0"


def test_draw():
    net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
    picture = graph.draw(net(ad.ones(4, 2)).sum(), params=net)
    assert "0.weight\\nfloat32[3, 2]" in picture.source and "0.bias\\nfloat32[3]" in picture.source
    assert "TanhBackward0" in picture.source and picture.source.count("->") >= 5
    # Shapes on edges.
    assert re.search(r'n\d+ -> n\d+ \[label="\[4, 3\]"\]', picture.source)
    assert "Drawing" in repr(picture) and ".save(" in repr(picture)


def test_names_of_leaves():
    w, u = ad.ones(3, requires_grad=True), ad.ones(3, requires_grad=True)
    source = graph.draw((w * u).sum(), params={'quoted "w" \\': w}).source
    assert 'quoted \\"w\\" \\\\\\nfloat32[3]' in source and "leaf\\nfloat32[3]" in source
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        graph.draw(ad.ones(1))


def chain(length):
    x = ad.ones(1, requires_grad=True)
    y = x
    for _ in range(length):
        y = y * 2
    return y


def tangle(length):
    """Every operation takes two of the latest results."""
    r = random.Random(0)
    pool = [ad.ones(2, requires_grad=True)]
    for _ in range(length):
        a, b = r.choice(pool[-4:]), r.choice(pool[-4:])
        pool.append(a * b if r.random() < 0.5 else a + b)
    return sum(pool[-4:])


def test_a_thousand_nodes(tmp_path):
    picture = graph.draw(chain(1000))
    assert picture.source.count("MulBackward0") == 1000
    picture.save(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == picture.source
    with pytest.raises(ValueError, match=r"should end in \.svg"):
        picture.save(tmp_path / "graph.txt")
    assert len(graph.explain(chain(1000)).rows) == 1000


@needs_dot
@pytest.mark.parametrize("make", [chain, tangle])
def test_a_picture_of_a_thousand_nodes(make, tmp_path):
    picture = graph.draw(make(1000))
    picture.save(tmp_path / "graph.svg")
    svg = (tmp_path / "graph.svg").read_text()
    # Titles name nodes and edges: none is missing.
    assert svg.count('class="node"') > 800 and svg.count('class="edge"') == picture.source.count("->")


@needs_dot
def test_pictures(tmp_path):
    x = ad.ones(2, requires_grad=True)
    picture = graph.draw((x * 2).sum(), params={"weights & <more>": x})
    for name in ("graph.svg", "graph.png", "graph.pdf"):
        picture.save(tmp_path / name)
    svg = (tmp_path / "graph.svg").read_text()
    assert "<svg" in svg and "SumBackward0" in svg and "weights &amp; &lt;more&gt;" in svg
    assert "<a " not in svg and "<script" not in svg
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "graph.pdf").read_bytes().startswith(b"%PDF")
    assert picture._repr_svg_() == svg
    assert picture._repr_mimebundle_() == {"image/svg+xml": svg, "text/plain": repr(picture)}


@pytest.fixture
def without_dot(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_without_dot(tmp_path, without_dot):
    picture = graph.draw(chain(2))
    with pytest.raises(
        RuntimeError, match="needs the program `dot` of Graphviz, which was not found: install Graphviz"
    ):
        picture.save(tmp_path / "graph.png")
    assert not (tmp_path / "graph.png").exists()
    picture.save(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == picture.source
    picture.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text() == picture._repr_svg_()
    assert picture._repr_mimebundle_()["image/svg+xml"] in picture._repr_html_()


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("make", [chain, tangle])
def test_a_picture_without_dot_has_all_nodes_and_edges(make, without_dot):
    picture = graph.draw(make(300))
    svg = ElementTree.fromstring(picture._repr_svg_())
    boxes = svg.findall(f".//{SVG}rect")
    assert len(boxes) == len(re.findall(r'^  \w+ \[label="', picture.source, re.MULTILINE)) > 200
    lines = svg.findall(f".//{SVG}line")
    assert len(lines) == picture.source.count("->")
    # Arrows point up, to the result; boxes do not overlap.
    assert all(float(e.get("y1")) > float(e.get("y2")) for e in lines)
    places = [[float(b.get(k)) for k in ("x", "y", "width", "height")] for b in boxes]
    for n, (x, y, w, h) in enumerate(places):
        for u, v, s, t in places[:n]:
            assert x >= u + s or u >= x + w or y >= v + t or v >= y + h


def test_texts_of_a_picture_without_dot(without_dot):
    w = ad.ones(3, requires_grad=True)
    name = 'weights & <more> "w" \\n'
    svg = ElementTree.fromstring(graph.draw((w * 2).sum(), params={name: w})._repr_svg_())
    assert {name, "float32[3]", "SumBackward0"} <= {t.text for t in svg.iter(f"{SVG}text")}


def test_notebooks_show_an_explanation_as_a_table():
    table = graph.explain((ad.ones(1000, requires_grad=True) * 2.0).exp().sum())
    rows = ElementTree.fromstring(table._repr_html_()).findall("./tbody/tr")
    assert [[cell.text or "" for cell in row][:4] for row in rows] == [
        [r["operation"], r["result"], ", ".join(r["saved"]), f"{r['bytes']:,}"] for r in table.rows
    ]


@needs_dot
def test_what_dot_refuses(tmp_path):
    picture = graph.draw(chain(1))
    picture.source = "digraph {"
    with pytest.raises(RuntimeError, match="dot could not draw the graph: .*syntax error"):
        picture.save(tmp_path / "graph.svg")
