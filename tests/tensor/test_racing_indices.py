"""Indices, targets and masks that another thread writes through NumPy while they are used: a value or an error, never a crash.

The program runs in a process of its own, which tells a crash from an error. Start reading at `PROGRAM`.
"""

import pytest
from helpers import run_python

PROGRAM = """
import sys, threading, time
import numpy as np
import adjoint as ad

ad.set_num_threads(1)
n, rows = 20000, 1000
array = np.zeros(n, dtype=np.int64)
index = ad.from_numpy(array)
mask_array = np.zeros(n, dtype=bool)
mask = ad.from_numpy(mask_array)
x, wide, long = ad.ones(rows), ad.ones(rows, 16), ad.ones(n)
logits = ad.zeros(n, 7).requires_grad_()
def pairs(of):
    return ad.stack([of, of])
def class_loss():
    return ad.nn.functional.cross_entropy(logits, index).backward()
calls = {
    "index": lambda: x[index],
    "index two": lambda: wide[index, index % 16],
    "rows": lambda: wide[index],
    "index_select": lambda: wide.index_select(0, index),
    "gather": lambda: x.gather(0, index),
    "gather along": lambda: wide.gather(0, index.view(-1, 1).expand(-1, 16)),
    "scatter_": lambda: ad.zeros(rows).scatter_(0, index, long),
    "scatter_add_": lambda: ad.zeros(rows).scatter_add_(0, index, long),
    "scatter_reduce": lambda: ad.zeros(rows).scatter_reduce(0, index, long, "amax"),
    "index_add": lambda: ad.zeros(rows, 16).index_add_(0, index, ad.ones(n, 16)),
    "index_copy": lambda: ad.zeros(rows).index_copy_(0, index, long),
    "index_fill": lambda: ad.zeros(rows).index_fill_(0, index, 2.0),
    "index_put": lambda: ad.zeros(rows, 16).index_put_((index,), ad.ones(n, 16), accumulate=True),
    "take": lambda: x.take(index),
    "put": lambda: ad.zeros(rows).put_(index, long),
    "embedding": lambda: ad.nn.functional.embedding(index, wide),
    "embedding_bag": lambda: ad.nn.functional.embedding_bag(index.view(-1, 4), wide),
    "take_along_dim": lambda: x.take_along_dim(index),
    "cross_entropy": class_loss,
    "nll_loss": lambda: ad.nn.functional.nll_loss(logits, index, weight=ad.ones(7)),
    "repeat_interleave": lambda: long.repeat_interleave(index.clamp(0, 3)),
    "repeats": lambda: ad.repeat_interleave(index),
    "bincount": lambda: index.clamp(0, 9).bincount(),
    "one_hot": lambda: ad.nn.functional.one_hot(index[:500], rows),
    "masked_select": lambda: long[mask],
    "nonzero": lambda: mask.nonzero(),
    "masked_scatter": lambda: ad.zeros(n).masked_scatter(mask, long),
    "mask index": lambda: ad.ones(n, 2)[mask],
    "sparse": lambda: ad.sparse_coo_tensor(pairs(index), long, (rows, rows)).coalesce(),
}
done = False
def write():
    good = np.random.default_rng(0).integers(0, 7, n)
    bad = np.where(np.arange(n) % 3, good, 1 << 40)
    while not done:
        array[:] = good
        mask_array[:] = False
        array[:] = bad
        mask_array[:] = True
        array[:] = good
        time.sleep(1e-5)
writer = threading.Thread(target=write)
writer.start()
try:
    for name, call in calls.items():
        end = time.perf_counter() + 0.06
        while time.perf_counter() < end:
            try:
                call()
            except (IndexError, RuntimeError, MemoryError, ValueError):
                pass
finally:
    done = True
    writer.join()
print("came through")
"""


@pytest.mark.parametrize("attempt", range(2))
def test_indices_that_another_thread_writes(attempt):
    done = run_python("-c", PROGRAM)
    assert done.returncode == 0 and done.stdout.strip() == "came through", (
        done.returncode,
        done.stderr[-2000:],
    )
