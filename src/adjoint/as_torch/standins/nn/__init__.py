"""What programs look for in ``torch.nn`` and `adjoint.nn` has elsewhere."""
