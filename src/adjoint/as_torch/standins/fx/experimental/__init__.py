"""``torch.fx.experimental``: questions of a tracer, of which there is none."""
