"""Modules of torch that have no counterpart in Adjoint, as far as programs touch them on a CPU.

One file per module, under its name: `cuda` says that there is no device, `jit` lets functions run as they are, `version`
and `torch_version` say which interface this is. They answer questions and accept decorators; what would need the real
thing is missing, and the error says so. Start reading at `cuda`.
"""
