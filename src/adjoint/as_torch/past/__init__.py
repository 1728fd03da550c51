"""What torch has given up, deprecates or keeps for its own compiler, and programs still ask for.

The rest of the package imports nothing of this: `adjoint._moved.PAST` says which module has each name, and it is found when it is
asked for, under `as_torch` and without.
"""
