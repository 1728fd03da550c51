"""Pictures in Graphviz's language, shown and saved with or without Graphviz."""

from __future__ import annotations

from adjoint._types import Any

__all__ = ["HEAD", "Drawing", "quoted"]

#: How each picture begins.
HEAD = (
    "digraph {",
    '  graph [rankdir=BT bgcolor=transparent ordering=in]; node [shape=box style="rounded,filled" '
    'fillcolor="#eef2f7" color="#5b6b7f" fontname="Helvetica" fontsize=11 height=0.3];',
    '  edge [color="#5b6b7f" fontname="Helvetica" fontsize=9 fontcolor="#5b6b7f"];',
)


def quoted(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


class Drawing:
    """The picture that `draw` returns; notebooks show it.

    Attributes
    ----------
    source : str
        The graph in Graphviz's language.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    def _pipe(self, format):
        import subprocess

        try:
            done = subprocess.run(["dot", "-T" + format], input=self.source.encode(), capture_output=True)
        except FileNotFoundError as error:
            raise RuntimeError(
                "drawing a graph needs the program `dot` of Graphviz, which was not found: install Graphviz (apt install "
                "graphviz, brew install graphviz, https://graphviz.org). `.save('graph.svg')` and `.source` work without it"
            ) from error
        if done.returncode:
            raise RuntimeError(
                f"dot could not draw the graph: {done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout

    def save(self, path: Any) -> None:
        """Write the picture; the suffix (``.svg``, ``.png``, ``.pdf``, ``.dot``) selects the format."""
        import os

        path = os.fspath(path)
        format = os.path.splitext(path)[1][1:]
        if format not in ("svg", "png", "pdf", "dot", "gv"):
            raise ValueError(f"the name should end in .svg, .png, .pdf or .dot, but it is {path!r}")
        if format == "svg":
            content = self._repr_svg_().encode()
        else:
            content = self.source.encode() if format in ("dot", "gv") else self._pipe(format)
        with open(path, "wb") as file:
            file.write(content)

    def _repr_svg_(self):
        import shutil

        from adjoint.autograd._layout import svg_of

        return self._pipe("svg").decode() if shutil.which("dot") else svg_of(self.source)

    def _repr_html_(self):
        return f'<div style="overflow: auto">{self._repr_svg_()}</div>'

    def _repr_mimebundle_(self, include=None, exclude=None):
        """What a notebook shows: the picture."""
        return {"text/plain": repr(self), "image/svg+xml": self._repr_svg_()}

    def __repr__(self) -> str:
        return f"<Drawing of {self.source.count('[label=')} nodes and edges; .save('graph.svg') writes it>"
