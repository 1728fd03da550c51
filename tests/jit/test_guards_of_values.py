"""Plain values, containers and objects that a function reads: a change of each is seen at the next call."""

import collections
import enum
import operator
import weakref

import pytest
from laid_out import Box, Color, Options, Slots, case, check

import adjoint as ad

x = ad.tensor([1.0, 2.0])


CASES = {}


@case(CASES, "k is 'b', was 'a'")
def a_cell():
    k = "a"

    def f(x):
        return x if k == "a" else -x

    def change():
        nonlocal k
        k = "b"

    return f, (x,), change


@case(CASES, "o.k is 3, was 2")
def an_attribute():
    o = Box(k=2)
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "k", 3)


@case(CASES, "shared is 3, was 1")
def an_attribute_of_a_base():
    class Base:
        shared = 1

    class Own(Base):
        pass

    o = Own()
    return (lambda x: x * o.shared), (x,), lambda: setattr(Base, "shared", 3)


@case(CASES, "value is 3, was 2")
def a_slot():
    o = Slots()
    o.value = 2
    return (lambda x: x * o.value), (x,), lambda: setattr(o, "value", 3)


@case(CASES, "is missing, was 2")
def a_slot_that_is_deleted():
    o = Slots()
    o.value = 2
    return (lambda x: x * o.value), (x,), lambda: delattr(o, "value")


@case(CASES, "rate is 0.25, was 0.5")
def a_field():
    o = Options()
    return (lambda x: x * o.rate), (x,), lambda: setattr(o, "rate", 0.25)


@case(CASES, "was 0.0")
def a_zero_of_the_other_sign():
    o = Options(rate=0.0)
    return (lambda x: x * o.rate), (x,), lambda: setattr(o, "rate", -0.0)


@case(CASES, "True, was 1")
def an_int_that_becomes_a_bool():
    o = Box(k=1)
    return (lambda x: x * o.k), (x,), lambda: setattr(o, "k", True)


@case(CASES, "k is 18446744073709551617")
def a_large_int():
    o = Box(k=2**64)
    return (lambda x: x * float(o.k)), (x,), lambda: setattr(o, "k", 2**64 + 1)


@case(CASES, "was 1j")
def a_complex():
    o = Box(k=1j)
    return (lambda x: x * abs(o.k)), (x,), lambda: setattr(o, "k", 2j)


@case(CASES, "b'b'")
def bytes_that_differ():
    o = Box(k=b"a")
    return (lambda x: x * o.k[0]), (x,), lambda: setattr(o, "k", b"b")


@case(CASES, "range(0, 3)")
def a_range():
    o = Box(k=range(2))
    return (lambda x: sum((x * i for i in o.k), x)), (x,), lambda: setattr(o, "k", range(3))


@case(CASES, "stop is 2, was 1")
def a_slice():
    o = Box(k=slice(0, 1))
    return (lambda x: x[o.k]), (x,), lambda: setattr(o, "k", slice(0, 2))


@case(CASES, "k is")
def a_member_of_an_enum():
    o = Box(k=Color.RED)
    return (lambda x: x if o.k is Color.RED else -x), (x,), lambda: setattr(o, "k", Color.BLUE)


@case(CASES, "dtype")
def a_dtype():
    o = Box(dtype=ad.float32)
    return (lambda x: x.to(o.dtype)), (x,), lambda: setattr(o, "dtype", ad.float64)


@case(CASES, "type is 'meta', was 'cpu'")
def a_device():
    o = Box(place=ad.device("cpu"))
    return (lambda x: ad.ones(2, device=o.place)), (x,), lambda: setattr(o, "place", ad.device("meta"))


@case(CASES, "items[1] is 3, was 2")
def an_item_of_a_list():
    items = [1, 2]
    return (lambda x: x * items[1]), (x,), lambda: items.__setitem__(1, 3)


@case(CASES, "3 items, had 2")
def the_length_of_a_list():
    items = [1, 2]
    return (lambda x: x * len(items)), (x,), lambda: items.append(3)


@case(CASES, "table['a'] is 2, was 1")
def an_item_of_a_dict():
    table = {"a": 1, "b": 2}
    return (lambda x: x * table["a"]), (x,), lambda: table.__setitem__("a", 2)


@case(CASES, "3 entries, had 2")
def the_length_of_a_dict():
    table = {"a": 1, "b": 2}
    return (lambda x: x * len(table)), (x,), lambda: table.__setitem__("c", 2)


@case(CASES, "is 'b', was 'a'")
def the_order_of_a_dict():
    table = {"a": 1, "b": 1}

    def change():
        del table["a"]
        table["a"] = 1

    return (lambda x: x if next(iter(table)) == "a" else -x), (x,), change


@case(CASES, "order")
def the_order_of_an_ordered_dict():
    table = collections.OrderedDict(a=1, b=1)
    return (lambda x: x if next(iter(table)) == "a" else -x), (x,), lambda: table.move_to_end("a")


@case(CASES, "element")
def an_element_of_a_set():
    chosen = {1, 2}

    def change():
        chosen.remove(1)
        chosen.add(5)

    return (lambda x: x * (1 in chosen)), (x,), change


@case(CASES, "k is 3, was 2")
def an_attribute_of_a_list():
    class Items(list):
        pass

    items = Items([1])
    items.k = 2
    return (lambda x: x * items.k), (x,), lambda: setattr(items, "k", 3)


@case(CASES, "k is 3, was 2")
def what_a_weak_reference_leads_to():
    o = Box(k=2)
    ref = weakref.ref(o)
    return (lambda x: x * ref().k), (x,), lambda: setattr(o, "k", 3)


@case(CASES, "the same object, were two")
def two_lists_that_become_one():
    o = Box(a=[1], b=[1])
    return (lambda x: x * o.a[0] * o.b[0]), (x,), lambda: setattr(o, "b", o.a)


@case(CASES, "another object than")
def one_list_that_becomes_two():
    items = [1]
    o = Box(a=items, b=items)
    return (lambda x: x * o.a[0] * o.b[0]), (x,), lambda: setattr(o, "b", [1])


@case(CASES, "an element of items is 3, was 2")
def an_item_of_a_deque():
    items = collections.deque([2])
    return (lambda x: x * items[0]), (x,), lambda: items.__setitem__(0, 3)


@case(CASES, "k is 3, was 2")
def an_attribute_of_a_member_of_an_enum():
    class Own(enum.Enum):
        A = 1

    Own.A.k = 2
    return (lambda x: x * Own.A.k), (x,), lambda: setattr(Own.A, "k", 3)


@case(CASES, "'b', was 'a'")
def an_attribute_whose_name_is_no_text():
    o = Box()
    o.__dict__[3] = "a"
    return (lambda x: x * len(vars(o))), (x,), lambda: o.__dict__.__setitem__(3, "b")


@case(CASES, "ref is missing")
def what_a_weak_reference_led_to():
    box = [Box(k=2)]
    ref = weakref.ref(box[0])
    return (lambda x: x if ref() is None else x * ref().k), (x,), lambda: box.clear()


@case(CASES, "was another object")
def a_thing_that_is_known_by_identity():
    class Odd(property):
        pass

    class Own:
        a, b = 2, 3
        k = Odd(operator.attrgetter("a"))

    o = Own()
    return (lambda x: x * o.k), (x,), lambda: setattr(Own, "k", Odd(operator.attrgetter("b")))


@pytest.mark.parametrize("name", CASES)
def test_a_change_outside_is_seen(name):
    check(CASES, name)
