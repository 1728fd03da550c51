"""``torch.ao``: quantisation, which is not here; see `quantization`."""
