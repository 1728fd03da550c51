"""Who looks on sees all that happens to elements: what a recorder of programs stands on.

`Closure` remembers the memory of each tensor that it meets, with the version and the bytes that a seen call left there.
Each tensor that enters a seen call, or becomes a gradient, is an argument, something that was given, or the result of a
seen call, as the seen calls left it: so nothing was made or written unseen. Held over the table, first and
second derivatives and under vmap, passes in several threads, and the programs of `fuzz.py`; at both places from which one
can look on.
See core/transforms/interpreter.h. Start reading at `Closure`.
"""

import ctypes
import os

import fuzz
import pytest
from fuzz_generate import generate
from samples import OPERATORS, ROWS, cases

import adjoint as ad

_C = ad._C
PLACES = "above", "below"
PROGRAMS = int(os.environ.get("ADJOINT_FUZZ_PROGRAMS", "500")) // 5


class Closure:
    """A context that looks on from above (`Interpreter`) or from below (`Observer`)."""

    def __init__(self, place, *arguments):
        self.place = place
        self.alive = []  # so that no address is another's
        self.left = {}  # version and bytes, by memory
        self.moved = {}  # tensors that were given other memory, which is theirs from then on
        self.unknown = []
        self.calls = 0
        self.meet(arguments)

    def __enter__(self):
        if self.place == "above":
            self.token = _C._push_interpreter(self.call, done=self.done, told=self.told)
        else:
            self.token = _C._push_observer(None, None, None, self.done, self.told)
        return self

    def __exit__(self, *exception):
        _C._pop_interpreter(self.token)

    def meet(self, values):
        """What these are now is known."""
        for t in tensors_of(values):
            self.alive.append(t)
            self.left[_C._storage_id(t)] = t._version, contents(t)

    def check(self, name, values, written=()):
        """Whether these are known; `written` by the call that has been done."""
        for t in tensors_of(values):
            memory = _C._storage_id(t)
            if id(t) in self.moved:
                self.meet([t])
            if memory not in self.left:
                self.unknown.append(f"{name} takes {describe(t)}, which nobody made")
            elif self.left[memory] != (t._version, contents(t)) and memory not in written:
                seen, versions = "unseen", f"version {t._version}, seen {self.left[memory][0]}"
                self.unknown.append(f"{name} takes {describe(t)}, which was written {seen}: {versions}")

    def call(self, op, args, kwargs):
        self.calls += 1
        self.check(op.__name__, [args, kwargs])
        result = op(*args, **kwargs)
        self.meet([result, args, kwargs])
        return result

    def done(self, name, args, results, out):
        self.calls += 1
        row = ROWS.get(name)
        steps = [a for a, n in zip(args, row["arguments"]) if n in row["written"]] if row else []
        self.check(name, args, memories([results, out, steps]))
        self.meet([args, results, out])

    def told(self, kind, tensor, by, given):
        if kind == "gradient" and given is not None:
            self.check(f"the gradient by {by}", [given])
        elif kind == "replaced":
            self.alive.append(tensor)
            self.moved[id(tensor)] = by
        elif kind == "given":
            self.meet([tensor])
        elif kind == "read":
            self.check(f"the read by {by}", [tensor])


def tensors_of(value):
    if isinstance(value, ad.Tensor):
        return [value] if value.layout is ad.strided else []
    if isinstance(value, dict):
        value = value.values()
    return (
        [t for v in value for t in tensors_of(v)]
        if isinstance(value, (list, tuple, type({}.values())))
        else []
    )


def memories(values):
    return {_C._storage_id(t) for t in tensors_of(values)}


def contents(t):
    address, size = t._storage()[:2]
    return ctypes.string_at(address, size) if size and not t.is_meta else b""


def describe(t):
    return f"a {str(t.dtype)[8:]} of shape {tuple(t.shape)}"


def derivatives(case):
    """A call, its first derivatives and the second, and what `backward()` leaves in `.grad`."""
    f, values = case.differentiable()
    leaves = [ad.tensor(v.tolist(), dtype=case.inputs[k].tensor.dtype) for k, v in zip(case.varied(), values)]
    leaves = [x.reshape(v.shape).requires_grad_() for x, v in zip(leaves, values)]
    leaves = [x.detach().requires_grad_() for x in leaves]

    def results():
        made = f(*leaves)
        made = [made] if isinstance(made, ad.Tensor) else made
        return [y for y in made if y is not None and y.requires_grad]

    ys = results()
    if not ys:
        return
    seeds = [ad.full_like(y, 0.5) for y in ys]
    try:
        ad.autograd.backward(ys, seeds, retain_graph=True)
        ad.autograd.backward(ys, seeds)
        ys = results()
        first = ad.autograd.grad(ys, leaves, seeds, create_graph=True, allow_unused=True)
        first = [g for g in first if g is not None and g.requires_grad]
        if first:
            ad.autograd.grad(first, leaves, [ad.full_like(g, 0.25) for g in first], allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:
        if not isinstance(error, NotImplementedError) and "the derivative needs" not in str(error):
            raise


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_each_row(op, place):
    dtype = next(d for d in ("float64", "complex128", *op["types"]) if d in op["types"])
    for case in cases(op, dtype):
        given = [i.tensor for i in case.inputs]
        with Closure(place, given) as seen:
            derivatives(case) if op["differentiable"] and case.varied() else case.call()
        assert seen.calls and not seen.unknown, f"{case}:\n" + "\n".join(seen.unknown)


@pytest.mark.parametrize("op", OPERATORS, ids=[o["name"] for o in OPERATORS])
def test_each_row_under_vmap(op):
    """From below, where there are no batches."""
    dtype = next(d for d in ("float64", "complex128", *op["types"]) if d in op["types"])
    for case in cases(op, dtype):
        batches = [ad.stack([t, t]) for t in case.tensors() if t.layout is ad.strided]
        if not batches or len(batches) < len(case.inputs):
            continue
        with Closure("below", batches) as seen:
            try:
                ad.vmap(lambda *samples, case=case: case.call(list(samples)))(*batches)
            except (RuntimeError, TypeError, ValueError, IndexError):  # some cannot be batched, and say so
                continue
        assert seen.calls and not seen.unknown, f"{case}:\n" + "\n".join(seen.unknown)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("piece", range(5))
def test_random_programs(piece, place):
    for seed in range(piece, PROGRAMS, 5):
        program = generate(seed)
        with Closure(place) as seen:
            fuzz.check(program)
        assert seen.calls and not seen.unknown, "\n".join([*seen.unknown, program.source()])


@pytest.mark.parametrize("place", PLACES)
def test_passes_in_several_threads(place):
    threads = ad.get_num_threads()
    ad.set_num_threads(4)
    x, w = (ad.randn(8, 8, requires_grad=True) for _ in range(2))
    try:
        with Closure(place, [x, w]) as seen, ad.autograd.set_parallel_backward(True):
            for _ in range(5):
                sum((((x * k) @ w).tanh() @ w + x.sin()).sum() for k in range(8)).backward()
            calls = seen.calls
    finally:
        ad.set_num_threads(threads)
    assert calls > 5 * 8 * 15 and not seen.unknown, "\n".join(seen.unknown)


def test_an_unseen_write_is_found():
    x = ad.ones(3)
    with Closure("below", [x]) as seen:
        x.sin()
        assert not seen.unknown
        ctypes.memset(x.data_ptr(), 1, 4)
        x.sin()
        y = ad.zeros(2)
        del seen.left[_C._storage_id(y)]
        y.exp()
    assert len(seen.unknown) == 2 and "unseen" in seen.unknown[0] and "nobody made" in seen.unknown[1]
