"""What programs look for in ``torch.utils`` and `adjoint.utils` does not have."""
