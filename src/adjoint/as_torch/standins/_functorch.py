"""``torch._functorch``: a package of modules, apart from `adjoint.func`, where `vmap` is a function."""
