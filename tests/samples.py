"""The calls that tests make of every operator, read from what its struct states: start at `cases`.

An element-wise operator states the interval of its inputs. A structured one states calls, argument lists as
Python would write them, in which a tensor is given as

    (3, 4)                  its shape: elements between -2 and 2, of which no two are equal and none is 0
    [[1.0, nan], [0.0, 2]]  its values; whole numbers make an index, with a point they are of the case's type
    positive(3, 4)          elements between 0.5 and 2.5
    unit(3, 4)              elements between 0 and 1
    index(2, 4, below=3)    integers from 0 to 2
    mask(3, 4)              bool
    hermitian(3, 3)         a matrix that stays Hermitian when it is varied; definite(3, 3): a positive definite one
    dominant(3, 3)          a matrix whose diagonal outweighs the rest
    int32([2, 3])           values of that type

and everything else as itself: numbers, texts, `dim=[0, 1]`, `dtype=float64`. A tensor of values or of a shape
has the type that a case is drawn in. Draws are the same in every run.
"""

import ast
import functools
import zlib

import numpy as np
from helpers import COMPLEX_DTYPES, INTEGER_DTYPES, array, dtype_of, tensor
from reference import MASKS, NUMBERS, OPTIONS
from structured_reference import INVARIANTS, MISSING

import adjoint as ad
import adjoint.fft  # noqa: F401 - its operators are declared when it is imported

#: The rows that make sparse tensors, or take them, have no samples, since no case could hold them: tests/sparse tests each.
# Rows with "::" are declared by programs and by modules that are imported when asked for.
OPERATORS = [row for row in ad._C.operators() if not row["sparse"] and "::" not in row["name"]]
ROWS = {row["name"]: row for row in OPERATORS}
NAMES = {
    "inf": np.inf,
    "nan": np.nan,
    **{str(d).rpartition(".")[2]: d for d in vars(ad).values() if isinstance(d, ad.dtype)},
}


def cases(row, dtype="float64"):
    """The calls of one operator on tensors of one type; those are left out that the type has no values for."""
    return _cases(row["name"], dtype)


def samples(dtype="float64"):
    """Yield (row, args, kwargs) for every operator of the table that takes tensors of this type."""
    for row in OPERATORS:
        if dtype in row["types"]:
            for case in cases(row, dtype):
                yield (row, *case.arguments())


def function_of(row):
    """The callable of a row, whatever overloads its public name has."""
    return getattr(ad._C, row["name"]) if row["function"] else vars(ad.Tensor)[row["name"]]


class Input:
    """One tensor of a case: its values, already rounded to its type, and whether the type is the case's."""

    def __init__(self, values, dtype, free=False, hermitian=False):
        self.tensor = tensor(values, dtype_of(dtype))
        self.values, self.dtype, self.free, self.hermitian = array(self.tensor), dtype, free, hermitian

    @property
    def differentiable(self):
        return self.values.dtype.kind in "fc"


class Case:
    """One call. `inputs` are its tensors in order; `args` and `kwargs` have a `Slot` in the place of each."""

    def __init__(self, row, dtype, text):
        self.row, self.dtype, self.text = row, dtype, text
        self.inputs = []

    def __repr__(self):
        return f"{self.row['name']}({self.text}) in {self.dtype}"

    def tensors(self):
        """The tensors anew."""
        return [i.tensor.clone() for i in self.inputs]

    def arguments(self, tensors=None):
        """Positional and keyword arguments with these tensors, or with new ones."""
        tensors = self.tensors() if tensors is None else tensors
        fill = functools.partial(_fill, tensors=tensors)
        return [fill(a) for a in self.args], {name: fill(a) for name, a in self.kwargs.items()}

    def writes(self, k):
        """Whether the call writes tensor number k."""
        return self.names()[k] in self.row["written"]

    def names(self):
        """The name of the argument that each tensor is, or belongs to."""
        owner = {}
        for name, value in [*zip(self.row["arguments"], self.args), *self.kwargs.items()]:
            for slot in value if isinstance(value, list) else [value]:
                if isinstance(slot, Slot):
                    owner[slot.number] = name
        return [owner[k] for k in range(len(self.inputs))]

    def bound(self, tensors=None):
        """The argument for each name of the signature, defaults included."""
        args, kwargs = self.arguments(tensors)
        given = dict(zip(self.row["arguments"], args)) | kwargs
        return {name: given.get(name, default) for name, default in _defaults(self.row["name"]).items()}

    def call(self, tensors=None, **more):
        """The result on these tensors. An operator that writes gets a copy of what it writes to."""
        tensors = self.tensors() if tensors is None else tensors
        tensors = [t.clone() if self.writes(k) else t for k, t in enumerate(tensors)]
        return self.call_as_given(tensors, **more)

    def call_as_given(self, tensors, **more):
        """The result on these tensors, of which the first is written if the operator writes."""
        args, kwargs = self.arguments(tensors)
        if "Generator" in self.row["meanings"]:
            ad.manual_seed(0)
        return function_of(self.row)(*args, **kwargs, **more)

    def varied(self):
        """The numbers of the tensors that can have a derivative."""
        name = self.row["name"]
        return [
            k
            for k, (i, argument) in enumerate(zip(self.inputs, self.names(), strict=True))
            if i.differentiable and (name, argument) not in MISSING
        ]

    def differentiable(self):
        """The call as a function of its tensors that can have a derivative, and the values of these.

        Hermitian matrices are varied as such, and of results that are fixed up to a phase only the rest counts.
        """
        varied, name = self.varied(), self.row["name"]

        def f(*xs):
            tensors = self.tensors()
            for k, x in zip(varied, xs):
                tensors[k] = (x + x.mH) / 2 if self.inputs[k].hermitian else x
            # What is not varied has the type of the case, in which these may not be.
            for k, i in enumerate(self.inputs):
                if k not in varied and i.free and i.differentiable and xs:
                    tensors[k] = tensors[k].to(xs[0].dtype)
            result = self.call(tensors)
            return INVARIANTS[name](*result) if name in INVARIANTS else result

        return f, [self.inputs[k].values for k in varied]


class Slot:
    def __init__(self, number):
        self.number = number


def _fill(template, tensors):
    if isinstance(template, Slot):
        return tensors[template.number]
    return [_fill(t, tensors) for t in template] if isinstance(template, list) else template


@functools.cache
def _defaults(name):
    """Argument name → default; None also where there is none."""
    tree = ast.parse(f"def {ROWS[name]['signature']}: pass").body[0].args
    names = [a.arg for a in tree.args]
    values = dict.fromkeys(names) | dict(zip(names[len(names) - len(tree.defaults) :], tree.defaults))
    values |= dict(zip([a.arg for a in tree.kwonlyargs], tree.kw_defaults))
    return {name: _plain(node) if node else None for name, node in values.items()}


@functools.cache
def _cases(name, dtype):
    row = ROWS[name]
    if row["kind"] == "elementwise":
        return [_elementwise_case(row, dtype, shapes) for shapes in ELEMENTWISE_SHAPES]
    drawn = []
    for text in row["samples"]:
        try:
            drawn.append(_Reader(row, dtype, text).case)
        except NoSuchValue:
            pass
    return drawn


# --- texts -------------------------------------------------------------------------------------------------------


class NoSuchValue(Exception):
    """The type of the case cannot hold a value that the text names."""


def _plain(node):
    return eval(compile(ast.Expression(node), "sample", "eval"), NAMES)


class _Reader:
    def __init__(self, row, dtype, text):
        self.case, self.dtype = Case(row, dtype, text), dtype
        call = ast.parse(f"f({text})", mode="eval").body
        meanings = dict(zip(row["arguments"], row["meanings"]))
        self.case.args = [self.argument(node, m) for node, m in zip(call.args, row["meanings"], strict=False)]
        self.case.kwargs = {k.arg: self.argument(k.value, meanings[k.arg]) for k in call.keywords}
        assert len(call.args) <= len(row["meanings"])

    def argument(self, node, meaning):
        if meaning == "Tensor":
            return self.tensor(node)
        if meaning == "Tensors":
            return [self.tensor(element) for element in node.elts]
        return _plain(node)

    def tensor(self, node):
        seed = zlib.crc32(f"{self.case.text} {len(self.case.inputs)}".encode())
        self.rng = np.random.default_rng(seed)
        if isinstance(node, ast.Tuple):
            return self.add(self.draw(_plain(node)), free=True)
        if isinstance(node, ast.List):
            return self.literal(_plain(node))
        if isinstance(node, ast.Call):
            if node.func.id in NAMES:
                return self.add(np.array(_plain(node.args[0])), node.func.id)
            shape = tuple(_plain(a) for a in node.args)
            return getattr(self, node.func.id)(shape, **{k.arg: _plain(k.value) for k in node.keywords})
        return _plain(node)

    def add(self, values, dtype=None, **what):
        self.case.inputs.append(Input(values, dtype or self.dtype, **what))
        return Slot(len(self.case.inputs) - 1)

    def draw(self, shape):
        n = int(np.prod(shape))
        if self.dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if self.dtype in INTEGER_DTYPES:
            some = [k for k in range(-6, 7) if k] if self.dtype != "uint8" else range(1, 13)
            return np.resize(self.rng.permutation(some), n).reshape(shape)
        x = self.spread(n).reshape(shape)
        return x + 1j * self.spread(n).reshape(shape) if self.dtype in COMPLEX_DTYPES else x

    def spread(self, n):
        """Numbers between -2 and 2, a distance apart from each other and from 0."""
        return (self.rng.permutation(n) + self.rng.uniform(0.55, 0.8, n)) / max(n, 1) * 4 - 2

    def literal(self, values):
        values = np.array(values)
        if values.dtype.kind in "iub" or not values.size:
            return self.add(values, "bool" if values.dtype.kind == "b" else "int64")
        if self.dtype == "bool" or self.dtype in INTEGER_DTYPES:
            if not (np.isfinite(values) & (values == np.floor(values))).all():
                raise NoSuchValue
            values = values.astype(self.dtype)
        return self.add(values, free=True)

    def positive(self, shape):
        return self.add(self.between(0.5, 2.5, shape), free=True)

    def unit(self, shape):
        return self.add(self.between(0.1, 0.9, shape), free=True)

    def between(self, low, high, shape):
        if self.dtype == "bool" or self.dtype in INTEGER_DTYPES:
            return self.rng.integers(1, 2 if high < 1 else 5, shape).astype(self.dtype)
        n = int(np.prod(shape))
        return (low + (self.spread(n) + 2) / 4 * (high - low)).reshape(shape)

    def index(self, shape, below):
        return self.add(self.rng.integers(0, below, shape), "int64")

    def mask(self, shape):
        return self.add(self.rng.permutation(np.arange(int(np.prod(shape))) % 3 != 0).reshape(shape), "bool")

    def hermitian(self, shape):
        x = self.draw(shape)
        return self.add(x + np.conj(np.swapaxes(x, -1, -2)), free=True, hermitian=True)

    def definite(self, shape):
        x = self.draw(shape)
        x = x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1], dtype=x.dtype)
        return self.add(x, free=True, hermitian=True)

    def dominant(self, shape):
        return self.add(self.draw(shape) + 4 * np.eye(shape[-1], dtype=int), free=True)


# --- intervals ---------------------------------------------------------------------------------------------------

ELEMENTWISE_SHAPES = (((3, 4),), ((3, 1), (4,)), ((),), ((0, 3),))


def domain(op, k):
    """(lo, hi) of input k: the operator declares one domain for all inputs, or one for each."""
    samples = op["samples"]
    if samples is None:
        return -3.0, 3.0
    if isinstance(samples[0], (tuple, list)):
        samples = samples[k]
    return tuple(samples)


def operands(op, dtype, *shapes):
    """An array for each input, inside the domain and representable in `dtype`."""
    rng = np.random.default_rng(sum(map(ord, op["name"])))
    drawn = []
    for k in range(op["arity"]):
        shape = () if k == NUMBERS.get(op["name"]) else shapes[min(k, len(shapes) - 1)]
        lo, hi = domain(op, k)
        # Stay off the ends, where a finite difference would step outside.
        margin = 0.02 * (hi - lo)
        if dtype == "bool" or k == MASKS.get(op["name"]):
            a = rng.integers(0, 2, shape).astype(bool)
        elif dtype in INTEGER_DTYPES:
            low, high = int(np.ceil(lo)), int(np.floor(hi))
            low = max(low, 0) if dtype == "uint8" else low
            a = rng.integers(low, max(high, low) + 1, shape).astype(dtype)
            # Division by zero and negative exponents have their own tests.
            a = np.where((a == 0) & (k > 0), 1, np.abs(a) if k > 0 else a).astype(dtype)
        else:
            a = rng.uniform(lo + margin, hi - margin, shape)
            if dtype in COMPLEX_DTYPES:
                a = a + 1j * rng.uniform(-1, 1, shape)
            a = array(ad.tensor(a.tolist(), dtype=dtype_of(dtype)).reshape(shape))
        drawn.append(a)
    return drawn


def _elementwise_case(row, dtype, shapes):
    case = Case(row, dtype, ", ".join(map(str, shapes)))
    for k, a in enumerate(operands(row, dtype, *shapes)):
        mask = k == MASKS.get(row["name"])
        case.inputs.append(Input(a, "bool" if mask else dtype, free=not mask))
    case.args = [Slot(k) for k in range(len(case.inputs))]
    case.kwargs = dict(OPTIONS.get(row["name"], {}))
    return case
