"""Attributes in which a function stores something: each call leaves there what it leaves without `ad.jit` (stores.py)."""

import pytest
from stores import Box, box, forms, put, same

import adjoint as ad

FORMS, form = forms()


@form
def attribute():
    return box(lambda o, x: put(o, "y", x + 1), y=None)


@form
def attribute_new_each_call():
    return box(lambda o, x: put(o, f"y{len(vars(o))}", x + 1))


@form
def attribute_taken_away_and_put_back():
    def f(o, x):
        y = o.y
        del o.y
        o.y = y + x
        return o.y

    return box(f, y=ad.zeros(2), z=1)


@form
def attribute_taken_away():
    def f(o, x):
        o.__dict__.pop("y", None)
        return x + 1

    return box(f, y=ad.zeros(2))


@form
def attribute_toggles():
    def f(o, x):
        o.on = not o.on
        return x if o.on else -x

    return box(f, on=False)


@form
def attribute_of_an_argument():
    def f(o, x):
        o.last = x
        return x * 2

    return box(f, last=None)


@form
def attributes_swapped():
    def f(o, x):
        o.a, o.b = o.b, o.a
        return o.a + x

    return box(f, a=ad.zeros(2), b=ad.ones(2))


@form
def attributes_rotated():
    def f(o, x):
        o.a, o.b, o.c = o.b, o.c, x + 1
        return o.a * 2

    return box(f, a=ad.zeros(2), b=ad.ones(2), c=ad.ones(2))


@form
def attributes_of_one_tensor():
    def f(o, x):
        o.a = o.b = x + 1
        return o.a

    o = Box(a=None, b=None)
    return (lambda x: f(o, x)), lambda: (o.a, o.b, o.a is o.b)


@form
def attributes_of_a_view_and_its_base():
    def f(o, x):
        o.a = x + 1
        o.b = o.a[:1]
        return x

    o = Box(a=None, b=None)
    return (lambda x: f(o, x)), lambda: (o.a, o.b, o.b._base is o.a)


@form
def attribute_and_result_are_one():
    o = Box(y=None, z=None)

    def f(x):
        o.y = x * 2
        return o.y

    def g(x):
        o.z = f(x)
        return o.z

    return g, lambda: (o.y, o.z is o.y)


@form
def attribute_float_counts():
    return box(lambda o, x: x * put(o, "t", o.t + 0.125), t=0.0)


@form
def attribute_int_counts():
    return box(lambda o, x: x * put(o, "n", o.n + 1), n=0)


@form
def attribute_int_is_large():
    return box(lambda o, x: (put(o, "n", o.n * 8 + 1), x + 1)[1], n=2**40)


@form
def attribute_float_becomes_an_int():
    return box(lambda o, x: (put(o, "n", 1 if type(o.n) is float else 1.0), x + 1)[1], n=1)


@form
def attribute_signed_zero():
    return box(lambda o, x: x * 1 + put(o, "z", -o.z), z=0.0)


@form
def attribute_nan():
    return box(lambda o, x: (put(o, "z", float("nan") if o.z == o.z else 1.0), x + 1)[1], z=1.0)


@form
def attribute_overflows():
    return box(lambda o, x: (put(o, "z", o.z * 1e100), x + 1)[1], z=1.0)


@form
def attribute_text_grows():
    return box(lambda o, x: (put(o, "s", o.s + "a"), x + 1)[1], s="")


@form
def attribute_bytes_grow():
    return box(lambda o, x: (put(o, "s", o.s + b"a"), x + 1)[1], s=b"")


@form
def attribute_complex():
    return box(lambda o, x: (put(o, "z", o.z * 1j), x + 1)[1], z=1 + 0j)


@form
def attribute_of_shape_and_dtype():
    def f(o, x):
        o.seen = (x.shape, x.dtype, x.device.type)
        return x + 1

    return box(f, seen=None)


@form
def attribute_item():
    return box(lambda o, x: (put(o, "v", (x * 2).sum().item()), x + 1)[1], v=0.0)


@form
def attribute_list_that_was_held_elsewhere():
    o = Box(items=[ad.zeros(2)])
    old = []

    def f(x):
        items = o.items
        items[0] = x + 1
        o.items = [x * 2]
        return x - 1

    def look():
        old.append(o.items)
        return [list(i) for i in old]

    return f, look


@form
def attribute_dict_that_was_held_elsewhere():
    o = Box(d={"a": ad.zeros(2)})
    old = [o.d]

    def f(x):
        d = o.d
        d["a"] = x + 1
        o.d = {"a": x * 2}
        return x - 1

    def look():
        old.append(o.d)
        return [dict(d) for d in old]

    return f, look


@form
def attribute_whose_old_value_tells_that_it_goes():
    log = []

    class Loud(list):
        def __del__(self):
            log.append(1)

    o = Box(y=None, z=None)

    def f(x):
        o.y = Loud()
        return x + 1

    return f, lambda: len(log)


@form
def attribute_with_a_list_is_taken_away():
    o = Box(items=[ad.zeros(2)], n=0)
    old = [o.items]

    def f(x):
        o.items[0] = x + 1
        del o.items
        return x * 2

    def look():
        o.items = [ad.ones(2)]
        old.append(o.items)
        return [list(i) for i in old]

    return f, look


@form
def attributes_with_lists_swapped():
    o = Box(a=[ad.zeros(2)], b=[ad.ones(2)])
    a, b = o.a, o.b

    def f(x):
        o.a[0] = x + 1
        o.a, o.b = [x * 2], [x * 3]
        return x - 1

    return f, lambda: (list(a), list(b), o.a, o.b)


@pytest.mark.parametrize("name", FORMS)
def test_a_call_leaves_what_it_leaves_without_jit(name):
    same(FORMS[name])
