"""The distribution `torch` as ``importlib.metadata`` describes it while Adjoint stands for it.

Libraries ask ``importlib.metadata.version("torch")`` whether torch is there and how new it is, most of them before they
import it. The answer is that of ``torch.__version__``, with no files and nothing that it requires.
"""

from __future__ import annotations

from importlib.metadata import Distribution

from adjoint.as_torch.standins.torch_version import VERSION

__all__ = ["Torch"]

METADATA = f"""\
Metadata-Version: 2.1
Name: torch
Version: {VERSION}
Summary: The interface of torch, on Adjoint
"""


class Torch(Distribution):
    """Text in place of files."""

    def read_text(self, filename):
        return {"METADATA": METADATA, "top_level.txt": "torch\n", "INSTALLER": "adjoint\n"}.get(filename)

    def locate_file(self, path):
        import adjoint

        return adjoint.__path__[0] + f"/{path}"
