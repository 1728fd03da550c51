"""The version, and the name on the package index, where another project owns the name `adjoint`: messages and the build read them here."""

__version__ = "0.1.0"
distribution = "adjoint-ad"
