"""A program run twice, as it stands and with its functions under `ad.jit`: all that can be seen of it must be the same.

A program is a function of (jit, see): it wraps what it likes in `jit`, and shows `see` what comes. Start at `same`.
"""

import contextlib
import gc
import random
import threading
import warnings

import pytest
from side_by_side import side_by_side

import adjoint as ad
from adjoint._replay._check import checking


def bits(t):
    """The elements of a tensor, as bytes."""
    t = t.detach().resolve_conj().resolve_neg() if t.is_complex() else t.detach()
    return bytes(t.contiguous().reshape(-1).view(ad.uint8).tolist())


def picture(value, depth=0):
    """What can be seen of a value, to be compared by ==."""
    if isinstance(value, ad.Tensor):
        seen = [
            type(value).__name__,
            str(value.dtype),
            tuple(value.shape),
            value.requires_grad,
            value.is_leaf,
        ]
        seen += [value.is_inference(), value._is_view(), value.is_sparse]
        seen.append(None if value.is_inference() else value._version)
        if value.is_sparse or value.device.type != "cpu":
            return (*seen, repr(value))
        seen += [value.stride(), value.storage_offset(), value.is_conj(), bits(value)]
        grad = value.grad if value.is_leaf else None
        return (*seen, depth < 3 and grad is not None and picture(grad, depth + 1))
    if isinstance(value, dict):
        return (type(value), [(picture(k), picture(v, depth)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [picture(v, depth) for v in value])
    if isinstance(value, BaseException):
        return (type(value), str(value))
    return (type(value), repr(value))


def where(a, b, path=""):
    """The first place in which two pictures differ, in words; empty where they do not."""
    if type(a) is type(b) and isinstance(a, (list, tuple)) and len(a) == len(b):
        return next((w for k, (x, y) in enumerate(zip(a, b)) if (w := where(x, y, f"{path}[{k}]"))), "")
    return "" if a == b else f"{path}: {b!r}, expected {a!r}"


def each_seed(difference, first, last, threads=1):
    """Print the programs that differ, and how many: `difference` gives (words, how many calls were replayed) of a seed."""
    first, last = int(first), int(last)
    wrong = replayed = 0
    for _, (words, again) in side_by_side(difference, range(first, last), int(threads)):
        replayed += again
        if words:
            wrong += 1
            print(words, flush=True)
    print(f"{wrong} of {last - first} differ, {replayed} calls were replayed")
    return wrong


def hold(seeds, difference):
    """No program of these seeds differs, and on average a call of each is replayed."""
    replayed = 0
    for seed in seeds:
        words, again = difference(seed)
        assert not words, words
        replayed += again
    assert replayed >= len(seeds), "hardly any call was replayed"


class Eye:
    """What a program showed, in order."""

    def __init__(self):
        self.seen = []

    def __call__(self, *values):
        self.seen.extend(picture(v) for v in values)
        return values[0] if values else None

    @contextlib.contextmanager
    def error(self):
        """A block that may fail: how is seen."""
        try:
            yield
        except Exception as error:
            self(error)
        else:
            self("no error")


def run(program, wrap):
    """What is seen of a program, with the generators where they begin."""
    ad.manual_seed(0)
    random.seed(0)
    eye = Eye()
    program(wrap, eye)
    eye(ad.get_rng_state())
    return eye.seen


def same(program, replays=True):
    """Run a program both ways, and once more with each replay checked. `replays`: whether some call must be replayed.

    Returns the statistics of its functions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(program, lambda f, **options: f)
        for check in (False, True):
            made = []

            def wrap(f, **options):
                made.append(ad.jit(f, **options))
                return made[-1]

            with checking() if check else contextlib.nullcontext():
                found = run(program, wrap)
            for k, (a, b) in enumerate(zip(found, expected)):
                assert a == b, (
                    f"what is seen {k}th{' while checked' if check else ''}: {a}\nexpected {b}\n{about(made)}"
                )
            assert len(found) == len(expected)
            stats = [f.stats() for f in made]
            if replays is not None:
                assert any(s["replayed"] for s in stats) == replays, about(made)
    return stats


def about(made):
    return "\n".join(f"{f!r} {f.stats()}" for f in made)


@contextlib.contextmanager
def no_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def in_threads(work, each):
    """Run work(one) in a thread for each, at the same time; the first of their errors is raised."""
    errors = []

    def run(one):
        try:
            work(one)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in each]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def table():
    """A list of programs, and the decorator that adds to it: `replays` says whether some call must be replayed, None
    where that may be either way.
    """
    programs = []

    def trap(replays=True):
        def add(program):
            programs.append(pytest.param(program, replays, id=program.__name__))
            return program

        return add

    return programs, trap


def numbers(*shape, seed=0, **more):
    """Numbers that do not come from the default generator."""
    g = ad.Generator()
    g.manual_seed(seed)
    return ad.randn(*shape, generator=g, **more)


def rounded(g):
    """A gradient in float64 to which several nodes brought terms, which are added in another order."""
    assert g.dtype == ad.float64
    return [round(v, 9) + 0.0 for v in g.flatten().tolist()]


def doubles(*shape, seed=0):
    return numbers(*shape, seed=seed, dtype=ad.float64)


class Names(ad.overrides.TorchFunctionMode):
    """A mode that notes the names of the functions that it sees."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.log.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))
