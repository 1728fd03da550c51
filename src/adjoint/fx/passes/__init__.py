"""Passes over graphs: what libraries and programs run, after `symbolic_trace`, to note or change something."""
