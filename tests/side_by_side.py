"""What the fuzzers' `--threads` does: programs in several threads at once, whose backward passes run in several threads as well.

That is for ThreadSanitizer (`.ci/sanitize_python FOLDER PROGRAMS thread`): the interpreter's lock is let go in passes, so that they meet there.
"""

import collections
import queue
import threading

import adjoint as ad

_drawing = threading.local()


def thread_of(target):
    """A thread that a program starts: it draws from what the program draws from, which is one thread's alone here."""
    own = getattr(_drawing, "generator", None)

    def run():
        if own is not None:
            ad._C._use_generator(own)
        target()

    return threading.Thread(target=run)


def side_by_side(work, seeds, threads):
    """(seed, work(seed)) of each seed, as they end; an error of `work` is raised here. One thread is this one."""
    if threads < 2:
        for seed in seeds:
            yield seed, work(seed)
        return
    waiting, done = iter(seeds), queue.SimpleQueue()

    def run():
        own = _drawing.generator = (
            ad.Generator()
        )  # what a program draws is its own; the core keeps no reference
        ad._C._use_generator(own)
        with ad.autograd.set_parallel_backward(True):
            for seed in waiting:
                try:
                    done.put((seed, work(seed), None))
                except BaseException as error:  # noqa: BLE001
                    done.put((seed, None, error))

    before = ad.get_num_threads()
    ad.set_num_threads(threads)
    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for _ in seeds:
            seed, result, error = done.get()
            if error is not None:
                raise error
            yield seed, result
    finally:
        collections.deque(waiting, maxlen=0)  # whoever stops early starts no more
        for worker in workers:
            worker.join()
        ad.set_num_threads(before)
