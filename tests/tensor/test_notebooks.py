"""What notebooks show of tensors, and what reports of bugs say. Start reading at `test_a_table`."""

import html.parser

import pytest

import adjoint as ad


class Table(html.parser.HTMLParser):
    """Rows of cells; tags that are closed."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "td":
            self.rows[-1].append(data.strip())
        self.text += data


def test_a_table():
    t = Table(ad.tensor([[1.5, -2.0], [0.0, 30.25]])._repr_html_())
    assert t.rows == [["1.5000", "-2.0000"], ["0.0000", "30.2500"]]
    assert t.text.startswith("Tensor shape (2, 2), float32, cpu")
    assert Table(ad.tensor([1, 2, 3])._repr_html_()).rows == [["1", "2", "3"]]


def test_of_many_elements_the_ends():
    t = Table(ad.arange(100 * 50).reshape(100, 50)._repr_html_())
    assert len(t.rows) == 7
    assert t.rows[0] == ["0", "1", "2", "…", "47", "48", "49"]
    assert t.rows[3] == ["⋮"] * 7
    assert t.rows[-1][-1] == "4999"


def test_what_it_carries():
    x = ad.ones(2, requires_grad=True)
    assert "requires_grad" in x._repr_html_()
    assert "grad_fn MulBackward0" in (x * 2)._repr_html_()
    assert "<b>Parameter</b>" in ad.nn.Parameter(ad.ones(1))._repr_html_()


@pytest.mark.parametrize(
    "t",
    [
        ad.tensor(1.0),
        ad.empty(0),
        ad.ones(2, 2, 2),
        ad.ones(2, device="meta"),
        ad.eye(2).to_sparse(),
        ad.tensor([float("nan")]),
        ad.tensor([1j]),
        ad.tensor([True]),
    ],
    ids=str,
)
def test_every_kind_is_shown(t):
    shown = Table(t._repr_html_())
    assert f"shape {tuple(t.shape)}" in shown.text


def test_a_batched_tensor_is_shown():
    shown = []
    ad.vmap(lambda x: shown.append(x._repr_html_()) or x)(ad.ones(2, 3))
    assert "BatchedTensor" in Table(shown[0]).text


def test_show_config(capsys):
    ad.show_config()
    said = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert said["adjoint"].strip() == ad.__version__
    assert int(said["threads"]) == ad.get_num_threads()
    assert said["BLAS"].strip()


def test_bug_report(capsys, monkeypatch):
    monkeypatch.setenv("ADJOINT_SOMETHING", "7")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    ad.bug_report()
    said = capsys.readouterr().out
    assert "ADJOINT_SOMETHING" in said
    assert "hidden" not in said
    assert "Python" in said
