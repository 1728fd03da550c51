"""What programs look for in ``torch.testing`` and `adjoint.testing` does not have."""
