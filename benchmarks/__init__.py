"""Adjoint beside torch, measured in one run: see README.md, or start reading in `harness.py`."""
