"""`Closure` remembers the memory of each tensor that it meets, with the version and the bytes that a seen call left there.

Each tensor that enters a seen call, or becomes a gradient, is to be an argument, something that was given, or the result of a
seen call, as the seen calls left it: so nothing was made or written unseen. Of a sparse tensor that is said of its indices and
values. See core/transforms/interpreter.h; used by autograd/test_closure.py and sparse/test_sparse_closure.py.
"""

import ctypes

from samples import ROWS

import adjoint as ad

_C = ad._C
PLACES = "above", "below"


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
        del self.token  # which has this, and which no collector looks into

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
    """The tensors with elements of their own: a sparse one's parts."""
    if isinstance(value, ad.Tensor):
        return [value] if value.layout is ad.strided else tensors_of(_C._sparse_parts(value))
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
