"""How a loader does its work: putting samples together (`collate`), worker processes (`worker`), shared memory (`shared`)."""

from adjoint.utils.data._utils import collate, worker

__all__ = ["collate", "worker"]

MP_STATUS_CHECK_INTERVAL = worker.MP_STATUS_CHECK_INTERVAL
