"""Layouts of calls, and the programs that tests lay out. `case` and `check`: each guard has a case that changes something."""

import dataclasses
import enum
import gc
import types

import adjoint as ad
from adjoint._replay._paths import collect
from adjoint._replay._watch import Watching


def laid_out(function, *args, **kwargs):
    """The layout of a call that ran once before."""
    with Watching(function) as watch:
        function(*args, **kwargs)
    return collect(function, args, kwargs, watch.codes)


def matches(layout, function, *args, **kwargs):
    return layout.match(function, args, kwargs) is not None


def names_of(layout):
    assert not layout.unknown, layout.unknown
    return layout.names


class Net(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = ad.nn.Linear(2, 3)
        self.layers = ad.nn.ModuleList([ad.nn.Linear(3, 3) for _ in range(2)])
        self.register_buffer("mean", ad.zeros(2))
        self.scale = 2.0

    def forward(self, x):
        x = self.first(x - self.mean) * self.scale
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Box:
    shared = 1
    __hash__ = object.__hash__

    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)


class Slots:
    __slots__ = ("value",)


@dataclasses.dataclass
class Options:
    rate: float = 0.5
    steps: int = 2


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def module_of(source, **names):
    """A module that is no file."""
    module = types.ModuleType("made_by_a_test")
    vars(module).update(names, ad=ad)
    exec(source, vars(module))
    return module


def case(cases, why):
    """Add a case to a table: what makes (function, arguments, change), and what `why` says after the change."""

    def add(make):
        cases[make.__name__] = (make, why)
        return make

    return add


def check(cases, name):
    """The layout matches before the change, with and without what was found, and does not match after it."""
    make, why = cases[name]
    function, args, change = make()
    why = cases[name][1]
    layout = laid_out(function, *args)
    assert not layout.unknown, layout.unknown
    assert matches(layout, function, *args), layout.why
    layout.release_tensors()
    gc.collect()
    assert matches(layout, function, *args), layout.why
    change()
    try:
        assert not matches(layout, function, *args)
        assert why in layout.why, layout.why
        assert layout.why
    finally:
        getattr(change, "undo", lambda: None)()
