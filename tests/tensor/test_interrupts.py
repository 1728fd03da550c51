"""Ctrl-C ends what takes long within a second or so, whatever the work is; what was being written counts as written."""

import signal
import subprocess
import sys
import threading
import time

import pytest

import adjoint as ad

# Work on 2^40 elements that lie at one address: hours.
LONG = {
    "sum": "x.sum()",
    "max": "x.max()",
    "kthvalue of small rows": "ad.ones(1, 1).expand(2**40, 2).amax()",
    "sums of small rows": "ad.ones(1, 1).expand(2, 2**40).mean()",
    "std": "x.std()",
    "norm": "x.norm()",
    "prod": "x.prod()",
    "logsumexp": "x.logsumexp(0)",
    "any": "(ad.zeros(1, dtype=ad.bool).expand(2**40)).any()",
    "count_nonzero": "ad.count_nonzero(x)",
    "nonzero": "ad.zeros(1).expand(2**40).nonzero()",
    "equal": "ad.equal(x, ad.ones(1).expand(2**40))",
    "reduced rows": "ad.ones(1, 1).expand(3, 2**40).sum(0 + 1)",
    "index_add": "ad.zeros(2).index_add_(0, ad.zeros(1, dtype=ad.int64).expand(2**40), x)",
    "scatter_add": "ad.zeros(2).scatter_add_(0, ad.zeros(1, dtype=ad.int64).expand(2**40), x)",
    "bincount": "ad.zeros(1, dtype=ad.int64).expand(2**40).bincount()",
    "histc": "x.histc(4)",
    "tolist": "ad.empty(2**40, 0).tolist()",
    "tolist of an expanded tensor": "ad.ones(1).expand(2**28).tolist()",
    "threads": "(ad.set_num_threads(2), x.sum())",
    "backward": "[ad.ones(1, requires_grad=True).expand(2**40).sum().backward()]",
}


@pytest.mark.parametrize("name", LONG)
def test_an_interrupt_ends_long_work(name):
    program = f"""
import resource, signal, sys
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (6 << 30 if hard < 0 else min(6 << 30, hard), hard))
signal.signal(signal.SIGINT, signal.default_int_handler)
import adjoint as ad
ad.set_num_threads(1)
x = ad.ones(1).expand(2**40)
print("ready", flush=True)
try:
    {LONG[name]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
except MemoryError:
    print("no memory", flush=True)
assert ad.ones(3).sum() == 3  # everything goes on
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        killer = threading.Timer(60, process.kill)
        killer.start()
        output, errors = process.stdout.read(), process.stderr.read()
        process.wait()
        killer.cancel()
        took = time.monotonic() - sent
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert output in ("interrupted\n", "no memory\n")
    assert took < 10, took  # a second, on a machine that does nothing else


def test_a_write_that_is_interrupted_is_a_write():
    """Half of it may be there: what was saved before cannot be used."""

    class Stop(KeyboardInterrupt):
        pass

    def stop(*_):
        raise Stop

    threads = ad.get_num_threads()
    ad.set_num_threads(1)
    # Large enough to take seconds, whatever the machine: as many digammas as elements, of one each.
    x = ad.full((60_000_000,), -0.5)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stop):
            while x._version == 0:
                x.digamma_()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ad.set_num_threads(threads)
    assert x[0] != -0.5 and x[-1] == -0.5, "the machine is too fast for this test, or nothing was interrupted"
    assert x._version == 1
    # A result that is made beside its tensor leaves the tensor as it was.
    y = ad.zeros(2)
    signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stop):
            y.scatter_add_(0, ad.zeros(1, dtype=ad.int64).expand(2**40), ad.ones(1).expand(2**40))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert y.tolist() == [0, 0] and y._version == 0
