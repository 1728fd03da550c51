"""Importing this calls `as_torch`: what a server of processes is told to import."""

from adjoint.as_torch import as_torch

as_torch()
