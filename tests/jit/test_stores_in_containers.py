"""Lists and dicts in which a function stores something: each call leaves there what it leaves without `ad.jit` (stores.py)."""

import collections
import heapq
import types

import pytest
from stores import Box, Pair, box, forms, put, same

import adjoint as ad

FORMS, form = forms()


# ---- lists


@form
def list_item():
    return box(lambda o, x: o.l.__setitem__(0, o.l[0] + x) or o.l[0] * 1, l=[ad.zeros(2), 1])


@form
def list_item_number():
    return box(lambda o, x: o.l.__setitem__(0, o.l[0] + 0.5) or x * o.l[0], l=[0.0])


@form
def list_grows():
    return box(lambda o, x: o.l.append(x + 1) or o.l[-1] * 2, l=[])


@form
def list_grows_by_numbers():
    return box(lambda o, x: o.l.append(x.sum().item()) or x + 1, l=[])


@form
def list_grows_inside_a_list():
    return box(lambda o, x: o.l[0][0].append(x + 1) or x * 2, l=[[[]]])


@form
def list_grows_by_two_kinds():
    return box(lambda o, x: o.l.extend([x + 1, 1, None, "a"]) or x * 2, l=[])


@form
def list_grows_by_a_list():
    return box(lambda o, x: o.l.append([x + 1]) or x * 2, l=[])


@form
def list_that_is_read_before_it_grows():
    def f(o, x):
        y = x + sum(o.l)
        o.l.append(1.0)
        return y

    return box(f, l=[])


@form
def list_of_a_fixed_length():
    def f(o, x):
        o.l.append(x + 1)
        del o.l[0]
        return o.l[0] * 2

    return box(f, l=[ad.zeros(2), ad.ones(2), ad.ones(2)])


@form
def list_insert_at_the_front():
    return box(lambda o, x: o.l.insert(0, x + 1) or o.l[-1] * 2, l=[ad.zeros(2)])


@form
def list_pop():
    return box(lambda o, x: x + len(o.l) + bool(o.l and o.l.pop()), l=list(range(5)))


@form
def list_reversed():
    return box(lambda o, x: o.l.reverse() or x * o.l[0], l=[1.0, 2.0])


@form
def list_sorted():
    return box(lambda o, x: o.l.append(-len(o.l)) or o.l.sort() or x * o.l[0], l=[1, 2])


@form
def list_cleared_and_filled():
    def f(o, x):
        o.l.clear()
        o.l += [x + 1, x + 2]
        return o.l[1]

    return box(f, l=[])


@form
def list_slice():
    def f(o, x):
        o.l[:] = [o.l[1], x + 1]
        return o.l[0] * 2

    return box(f, l=[ad.zeros(2), ad.ones(2)])


@form
def list_replaced_by_a_longer_one():
    def f(o, x):
        o.l = [*o.l[-2:], x + 1]
        return o.l[0] * 2

    return box(f, l=[])


@form
def list_in_two_places():
    l = [ad.zeros(2)]
    a, b = Box(l=l), Box(l=l)

    def f(x):
        a.l[0] = b.l[0] + x
        return b.l[0]

    return f, lambda: (a.l, b.l, a.l is b.l)


@form
def list_in_itself():
    l = [0]
    l.append(l)

    def f(x):
        l[1][0] += 1
        return x * l[0]

    return f, lambda: l[0]


@form
def list_subclass():
    class L(list):
        def __setitem__(self, k, v):
            self.sets = getattr(self, "sets", 0) + 1
            super().__setitem__(k, v)

    l = L([ad.zeros(2)])

    def f(x):
        l[0] = x + 1
        return l[0]

    return f, lambda: (list(l), l.sets)


@form
def list_sorted_by_heap():
    h = [3, 5, 9]

    def f(x):
        heapq.heappush(h, -len(h))
        return x * heapq.heappop(h)

    return f, lambda: h


@form
def tuple_replaced():
    return box(lambda o, x: put(o, "t", (o.t[1], x + 1))[0] * 1, t=(ad.zeros(2), ad.ones(2)))


@form
def tuple_with_a_list():
    return box(lambda o, x: o.t[0].__setitem__(0, x + 1) or x * 2, t=([None], 1))


@form
def tuple_with_names():
    return box(
        lambda o, x: put(o, "t", o.t._replace(a=o.t.b, b=x + 1)).a * 1, t=Pair(ad.zeros(2), ad.ones(2))
    )


# ---- dicts


@form
def dict_entry():
    return box(lambda o, x: o.d.__setitem__("y", o.d["y"] + x) or o.d["y"] * 1, d={"y": ad.zeros(2)})


@form
def dict_grows():
    return box(lambda o, x: o.d.__setitem__(len(o.d), x + 1) or x * 2, d={})


@form
def dict_entry_moves_to_the_end():
    def f(o, x):
        o.d["a"] = o.d.pop("a") + x
        return o.d["a"]

    return box(f, d={"a": ad.zeros(2), "b": ad.ones(2)})


@form
def dict_takes_turns():
    def f(o, x):
        k, v = next(iter(o.d.items()))
        del o.d[k]
        o.d[k] = v + x
        return v

    return box(f, d={"a": ad.zeros(2), "b": ad.ones(2)})


@form
def dict_setdefault():
    return box(lambda o, x: o.d.setdefault("y", []).append(x + 1) or x * 2, d={})


@form
def dict_update():
    return box(lambda o, x: o.d.update(a=x + 1, b=2) or o.d["a"], d={"a": None, "c": 1})


@form
def dict_popitem():
    return box(lambda o, x: x + (o.d.popitem()[1] if o.d else 0), d={k: k for k in range(4)})


@form
def dict_cleared():
    return box(lambda o, x: (o.d.clear(), o.d.__setitem__("y", x + 1), o.d["y"])[2], d={"z": 1, "y": 2})


@form
def dict_or():
    def f(o, x):
        o.d |= {"y": x + 1}
        return o.d["y"]

    return box(f, d={"y": None})


@form
def dict_by_a_tensor():
    t = ad.ones(2)
    d = {t: ad.zeros(2)}

    def f(x):
        d[t] = d[t] + x
        return d[t] * 1

    return f, lambda: list(d.values())


@form
def dict_by_objects_that_are_equal():
    class K:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.k == other.k

    a, b = K(1), K(2)
    d = {a: ad.zeros(2), b: ad.ones(2)}

    def f(x):
        d[K(2)] = d[b] + x
        return d[b] * 1

    return f, lambda: list(d.values())


@form
def dict_by_floats_and_ints():
    d = {1: ad.zeros(2)}

    def f(x):
        d[1.0] = d[True] + x
        return d[1] * 1

    return f, lambda: d


@form
def dict_default():
    d = collections.defaultdict(list)

    def f(x):
        d["a"].append(x + 1)
        return x * 2

    return f, lambda: dict(d)


@form
def dict_default_that_makes_entries():
    d = collections.defaultdict(lambda: ad.zeros(2))

    def f(x):
        d["a"] = d["a"] + x
        return d["b"] + x

    return f, lambda: dict(d)


@form
def dict_ordered():
    d = collections.OrderedDict(a=ad.zeros(2), b=ad.ones(2))

    def f(x):
        d["b"] = x + 1
        return d["a"] + x

    return f, lambda: list(d.items())


@form
def dict_ordered_moved():
    d = collections.OrderedDict(a=1.0, b=2.0, c=3.0)

    def f(x):
        d.move_to_end(next(iter(d)))
        return x * next(iter(d.values()))

    return f, lambda: list(d.items())


@form
def dict_counter():
    c = collections.Counter()

    def f(x):
        c["a"] += 1
        return x * c["a"]

    return f, lambda: dict(c)


@form
def dict_chain():
    c = collections.ChainMap({}, {"y": ad.zeros(2)})

    def f(x):
        c["y"] = c["y"] + x
        return c["y"] * 1

    return f, lambda: c.maps


@form
def dict_of_the_user():
    d = collections.UserDict(y=ad.zeros(2))

    def f(x):
        d["y"] = d["y"] + x
        return d["y"] * 1

    return f, lambda: d.data


@form
def dict_subclass():
    class D(dict):
        def __setitem__(self, k, v):
            super().__setitem__(k, v)
            super().__setitem__("last", k)

        def __missing__(self, k):
            self[k] = ad.zeros(2)
            return self[k]

    d = D()

    def f(x):
        d["a"] = d["a"] + x
        return d["a"] * 1

    return f, lambda: dict(d)


@form
def dict_seen_through_a_proxy():
    d = {"y": 1.0}
    p = types.MappingProxyType(d)

    def f(x):
        d["y"] = p["y"] + 1
        return x * p["y"]

    return f, lambda: dict(p)


@form
def dict_ordered_that_gets_a_key():
    d = collections.OrderedDict(a=ad.zeros(2))

    def f(x):
        d["b"] = x + 1
        return d["a"] + x

    def look():
        seen = list(d.items()), len(d), list(reversed(d))
        d.pop("b", None)
        d["c"] = 1
        del d["c"]
        return seen

    return f, look


@form
def dict_ordered_that_loses_a_key():
    d = collections.OrderedDict(a=ad.zeros(2), b=ad.ones(2))

    def f(x):
        y = d.popitem()[1] + x
        d["b"] = y
        return y

    return f, lambda: (list(d.items()), list(reversed(d)))


@pytest.mark.parametrize("name", FORMS)
def test_a_call_leaves_what_it_leaves_without_jit(name):
    same(FORMS[name])
