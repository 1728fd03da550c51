"""What programs look for in ``torch.nn.parallel`` and `adjoint.nn.parallel` does not have."""
