"""torch's table of modules, which is not here: Adjoint's modules have their own tests."""

module_db: list = []
