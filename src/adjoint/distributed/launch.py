"""``python -m torch.distributed.launch``, the older name of `run`: the same, and programs are told ``--local_rank`` no more."""

from __future__ import annotations

from adjoint.distributed.run import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
