"""Forms of functions that store something: whatever the place, each call leaves there what it leaves without `ad.jit`.

A form makes a function of one tensor, and what looks at the state; `same` asserts that this is so after each of eight calls.
"""

import collections

import twice

import adjoint as ad


class Box:
    def __init__(self, **k):
        self.__dict__.update(k)


Pair = collections.namedtuple("Pair", "a b")


def box(body, **start):
    """A form whose function is `body(o, x)`, where `o` is a `Box`, which is looked at."""
    o = Box(**start)
    return (lambda x: body(o, x)), lambda: vars(o)


def put(o, name, value):
    setattr(o, name, value)
    return value


def forms():
    """A dict of forms, and the decorator that adds to it."""
    all_of = {}

    def form(make):
        assert make.__name__ not in all_of
        all_of[make.__name__] = make
        return make

    return all_of, form


def same(form):
    def program(jit, see):
        function, look = form()
        jitted = jit(function)
        for k in range(8):
            with see.error():
                see(jitted(ad.tensor([1.0, 2.0]) + k % 3))
            see(look())

    return twice.same(program, replays=None)
