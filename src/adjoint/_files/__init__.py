"""The file formats of `adjoint.serialization`: which names a file may use (`names`), the machine that runs its
pickle (`machine`), where its storages come from (`reading`, `locations`), and how files are written (`writing`)."""
