"""One trace of a function: what a call did, as data, and how it is done again.

Start reading at `record`.
"""

from adjoint import _C
from adjoint.replay._paths import collect
from adjoint.replay._watch import Watching

_Tensor = _C.Tensor
_PLAIN = (type(None), bool, int, float, complex, str, bytes, _C.dtype, slice, type(Ellipsis))


class Unfit(Exception):
    """Why a call cannot be replayed, for people."""


class Structure:
    """What a function returned: containers, plain values, and tensors by number."""

    __slots__ = ("form",)

    def __init__(self, value, tensors):
        self.form = self._of(value, tensors, ())

    def _of(self, value, tensors, inside):
        kind = type(value)
        if isinstance(value, _Tensor):
            tensors.append(value)
            return ("tensor", len(tensors) - 1)
        if kind in _PLAIN:
            return ("plain", kind, repr(value) if kind in (float, complex) else value, value)
        if len(inside) > 50 or any(value is outer for outer in inside):
            raise Unfit("the result contains itself, or is nested too deeply")
        inside = (*inside, value)
        if kind in (tuple, list):
            return (kind, [self._of(v, tensors, inside) for v in value])
        if kind is dict:
            return (dict, [(k, self._of(v, tensors, inside)) for k, v in value.items()])
        if isinstance(value, tuple) and (hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields")):
            return ("named", kind, [self._of(v, tensors, inside) for v in value])
        raise Unfit(f"it returns an object of type {kind.__qualname__}")

    def build(self, tensors):
        """The result, with these tensors."""
        return _build(self.form, tensors)

    def __eq__(self, other):
        return self.form == other.form

    __hash__ = None


def _build(form, tensors):
    kind = form[0]
    if kind == "tensor":
        return tensors[form[1]]
    if kind == "plain":
        return form[3]
    if kind is dict:
        return {k: _build(v, tensors) for k, v in form[1]}
    if kind == "named":
        values = [_build(v, tensors) for v in form[2]]
        return form[1](*values) if hasattr(form[1], "_fields") else form[1](values)
    return kind(_build(v, tensors) for v in form[1])


class Recorded:
    """A call that was followed: its result, and what it takes to do it again, or why that cannot be."""

    __slots__ = ("changes", "codes", "layout", "recording", "result", "structure", "unfit")


def _patterns(roots):
    """The cotangents that backward passes begin with, as a rule: for all results, and for each alone; in memory of their
    own, and one number expanded, which is what comes from a sum.
    """
    some = [[True] * len(roots)]
    if len(roots) > 1:
        some += [[k == i for k in range(len(roots))] for i in range(min(len(roots), 4))]
    for pattern in some:
        yield [t.detach().new_ones(t.shape) if on else None for t, on in zip(roots, pattern, strict=True)]
        if sum(pattern) == 1:
            t = roots[pattern.index(True)]
            if t.ndim:
                one = t.detach().new_ones(()).expand(t.shape)
                yield [one if on else None for on in pattern]


def _passes(recorder, tensors, inputs):
    """Run backward passes through what was recorded, to be recorded with it: see Note: replay."""
    from adjoint.autograd import grad

    known = {id(t) for t in inputs}
    which = [i for i, t in enumerate(tensors) if t.requires_grad and id(t) not in known]
    by = [i for i, t in enumerate(inputs) if t is not None and t.requires_grad]
    if not which:
        return [], [], []
    roots = [tensors[i] for i in which]
    if reason := _C._reason_of_graph(roots, [inputs[i] for i in by]):
        raise Unfit(f"its result requires grad, and {reason}")
    passes = []
    for seeds in _patterns(roots):
        begin = recorder.open()
        try:
            given = [(t, g) for t, g in zip(roots, seeds, strict=True) if g is not None]
            gradients = grad(
                [t for t, _ in given],
                [inputs[i] for i in by],
                [g for _, g in given],
                retain_graph=True,
                allow_unused=True,
            )
        finally:
            end = recorder.close()
        passes.append([begin, end, seeds, list(gradients)])
    reached = [k for k in range(len(by)) if any(p[3][k] is not None for p in passes)]
    for p in passes:
        p[3] = [p[3][k] for k in reached]
    return passes, [by[k] for k in reached], which


def record(function, args, kwargs, codes):
    """Call a function and record it; `codes`: what ran in it the last time. Without, only that is found out."""
    made = Recorded()
    made.unfit = made.layout = made.structure = made.recording = None
    made.changes = []
    if codes is None:
        with Watching(function) as watch:
            made.result = function(*args, **kwargs)
        made.codes = watch.codes
        return made
    made.layout = collect(function, args, kwargs, codes)
    histories = [t is not None and t.grad_fn for t in made.layout.tensors]
    recorder = _C._record()
    try:
        with Watching(function) as watch:
            made.result = function(*args, **kwargs)
    finally:
        recorder.close()
    made.codes = watch.codes
    try:
        _finish(made, recorder, watch, histories)
    except Unfit as error:
        made.unfit = str(error)
    made.layout.release_tensors()
    return made


def _finish(made, recorder, watch, histories):
    if watch.impure:
        what, file, line = watch.impure[0]
        raise Unfit(f"it calls {what} in line {line} of {file}")
    if made.layout.unknown:
        raise Unfit("{} {}".format(*made.layout.unknown[0]))
    tensors = []
    made.structure = Structure(made.result, tensors)
    inputs = made.layout.tensors
    known = {id(t) for t in inputs}
    for t in tensors:
        if id(t) not in known and type(t) is not _Tensor:
            raise Unfit(f"it returns a tensor of the class {type(t).__qualname__}")
        if t.requires_grad and id(t) not in known and t._base is not None and id(t._base) in known:
            raise Unfit("it returns a view of a tensor that was there before, with its history")
    for t, before in zip(inputs, histories, strict=True):
        if t is not None and t.grad_fn is not before:
            raise Unfit("it records a write to a tensor that was there before")
    forward = recorder.steps
    passes, by, which = _passes(recorder, tensors, inputs)
    for change in made.layout.changes():
        made.changes.append(_change(change, tensors, known))
    made.recording = recorder.finish(inputs, tensors, forward, passes, by, which)
    if made.recording.refused:
        raise Unfit(made.recording.refused)


def _change(change, tensors, known):
    """(change, template): what it stores, with tensors by number, or Unfit."""
    if change.reason or (change.removed and change.kind != "grad"):
        raise Unfit(change.sentence())

    def of(value):
        if not isinstance(value, _Tensor):
            if type(value) not in _PLAIN:
                raise Unfit(change.sentence())
            return ("plain", type(value), repr(value) if type(value) in (float, complex) else value, value)
        if id(value) not in known and (type(value) is not _Tensor or value.requires_grad):
            raise Unfit(f"{change.where} gets a tensor that requires grad or is of a class of its own")
        tensors.append(value)
        return ("tensor", len(tensors) - 1)

    if change.kind == "append":
        return change, (list, [of(v) for v in change.value])
    return change, of(change.value)


class Trace:
    """A recording that runs again where what the function reads is as it was."""

    __slots__ = ("changes", "draws", "layout", "mode", "program", "structure", "undone")

    def __init__(self, made, mode):
        self.layout = made.layout
        self.program = _C._Replay(made.recording)
        self.structure = made.structure
        self.changes = made.changes
        self.mode = mode
        self.draws = made.recording.draws
        self.undone = 0

    @property
    def is_plain(self):
        """Whether it gives one tensor, changes nothing and records nothing."""
        return self.structure.form == ("tensor", 0) and not self.changes and not self.program.recorded

    def change(self, function, args, kwargs, tensors, made):
        """What the call does to Python's state."""
        for change, form in self.changes:
            value = _build(form, made)
            if change.kind == "grad":
                tensors[change.key].grad = value
            else:
                change.apply(function, args, kwargs, value)

    def again(self, function, args, kwargs):
        """What a node calls where a pass asks for what was not recorded: see core/replay/derivative.h."""
        state = _C.default_generator.get_state() if self.draws else None

        def gradients(inputs, seeds, create_graph):
            from adjoint.autograd import enable_grad, grad

            found = self.layout.match(function, args, kwargs)
            if found is None or any(a is not b for a, b in zip(found, inputs, strict=True)):
                raise RuntimeError(
                    "jit: this backward pass needs the function once more, and something that it reads is not as it was at "
                    "the call; differentiate before that changes, or call the function without jit"
                )
            if self.changes or self.program.writes:
                raise NotImplementedError(
                    "jit: this backward pass (create_graph=True, or cotangents that lie otherwise in memory) needs the "
                    "function once more, but it changes tensors or attributes; call it without jit"
                )
            now = _C.default_generator.get_state() if state is not None else None
            if state is not None:
                _C.default_generator.set_state(state)
            tensors = []
            with enable_grad():
                Structure(function(*args, **kwargs), tensors)
            if now is not None:
                _C.default_generator.set_state(now)
            roots = [tensors[i] for i in self.program.differentiated]
            given = [(t, g) for t, g in zip(roots, seeds, strict=True) if g is not None]
            return grad(
                [t for t, _ in given],
                [inputs[i] for i in self.program.by],
                [g for _, g in given],
                create_graph=create_graph,
                allow_unused=True,
            )

        return gradients


def agree(one, other):
    """None where two recordings of a function are the same, else where they part."""
    if one.structure != other.structure:
        return "it returns something else at each call"
    same = one.layout.same_structure(other.layout)
    if same is not True:
        return same
    if [(c.kind, c.where, form) for c, form in one.changes] != [(c.kind, c.where, form) for c, form in other.changes]:
        return "it changes something else at each call"
    return one.recording.difference(other.recording) or None
