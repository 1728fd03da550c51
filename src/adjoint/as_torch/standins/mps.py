"""``torch.mps`` where there is no such device."""

from adjoint.as_torch._absent import *
