"""What programs import from ``torch.distributed.elastic``: `multiprocessing.errors.record`."""
