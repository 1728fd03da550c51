"""``torch.fx`` is `adjoint.fx`; here are modules that only stand in for torch's."""
