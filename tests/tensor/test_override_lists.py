"""The module `overrides`: its questions, names and lists of functions; types that are like tensors; the protocol switched off.

What objects are asked is in test_overrides.py.
"""

import inspect

import pytest
from protocol import Asked, Declines, Log, Whole, first, public
from samples import OPERATORS, function_of

import adjoint as ad
from adjoint import overrides

F = ad.nn.functional


def test_questions():
    x, s, p = ad.ones(1), ad.ones(1).as_subclass(Whole), ad.nn.Parameter(ad.ones(1))
    assert overrides.has_torch_function((x, s)) and overrides.has_torch_function([Asked()])
    assert not overrides.has_torch_function((x, p, 1, None, "text", object(), Asked))
    assert overrides.has_torch_function_unary(s) and not overrides.has_torch_function_unary(x)
    assert (
        overrides.has_torch_function_variadic(x, 1, Asked()) and not overrides.has_torch_function_variadic()
    )
    assert [overrides.is_tensor_like(o) for o in (x, s, Asked(), Asked, 1, [x])] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    is_method = overrides.is_tensor_method_or_property
    assert (
        is_method(ad.Tensor.add) and is_method(ad.Tensor.shape.__get__) and is_method(ad.Tensor.__getitem__)
    )
    assert not is_method(ad.hstack) and not is_method(3) and not is_method([])


def test_names():
    for function, name in (
        (ad.add, "adjoint.add"),
        (ad.Tensor.view, "adjoint.Tensor.view"),
        (ad.Tensor.add_, "adjoint.Tensor.add_"),
        (ad.Tensor.__rsub__, "adjoint.Tensor.__rsub__"),
        (ad.Tensor.grad.__get__, "adjoint.Tensor.grad.__get__"),
        (ad.Tensor.T.__get__, "adjoint.Tensor.T.__get__"),
        (F.linear, "adjoint.nn.functional.linear"),
        (ad.linalg.norm, "adjoint.linalg.norm"),
        (ad.autograd.grad, "adjoint.autograd.grad"),
    ):
        assert overrides.resolve_name(function) == name
    assert (
        overrides.resolve_name(3)
        is overrides.resolve_name([])
        is overrides.resolve_name(len)
        is overrides.resolve_name(ad)
        is None
    )


def test_lists_of_functions():
    found = overrides.get_overridable_functions()
    assert (
        ad.add in found[ad]
        and ad.hstack in found[ad]
        and F.linear in found[F]
        and ad.Tensor.view in found[ad.Tensor]
    )
    assert found[ad.Tensor.T] == [ad.Tensor.T.__get__] and found[ad.Tensor.shape] == [ad.Tensor.shape.__get__]
    everything = {f for functions in found.values() for f in functions}
    assert not everything & overrides.get_ignored_functions()
    # Each public operator is there.
    assert not {row["name"] for row in OPERATORS if public(row) and function_of(row) not in everything}
    for function in everything:
        assert overrides.resolve_name(function), function


def test_stand_ins_take_what_the_functions_take():
    stand_ins = overrides.get_testing_overrides()
    for function, stand_in in stand_ins.items():
        parameters = inspect.signature(stand_in).parameters
        needed = [
            n
            for n, p in parameters.items()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        named = {n: None for n, p in parameters.items() if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
        assert stand_in(*[None] * len(needed), **named) == -1, function
    assert list(inspect.signature(stand_ins[F.linear]).parameters) == ["input", "weight", "bias", "out"]
    with pytest.raises(TypeError):
        stand_ins[ad.sin]()
    for row in OPERATORS:
        # What Python gives more forms has the parameters of them all.
        if public(row) and isinstance(function_of(row), ad._C.Operator):
            names = [n for n in inspect.signature(stand_ins[function_of(row)]).parameters if n != "out"]
            assert ["input" if n == "self" else n for n in row["arguments"]] == [
                n.replace("self", "input") for n in names
            ], row["name"]


def test_functions_that_are_not_of_the_package():
    def twice(x, y=None):
        if overrides.has_torch_function((x, y)):
            return overrides.handle_torch_function(twice, (x, y), x, y=y)
        return x * 2

    assert twice(3) == 6 and twice(1, Asked())[0] is twice and twice(1, Asked())[3].keys() == {"y"}
    with pytest.raises(
        TypeError, match="no implementation found for '.*twice' on types that implement __torch_function__"
    ):
        twice(Declines())

    @overrides.wrap_torch_function(lambda x, y=None: (x, y))
    def wrapped(x, y=None):
        """Text."""
        return x

    assert wrapped(1) == 1 and wrapped.__doc__ == "Text."
    t = Asked()
    assert wrapped(1, y=t) == (wrapped, (Asked,), (1,), {"y": t})


HANDLED = {}


def implements(function):
    def decorate(f):
        HANDLED[function] = f
        return f

    return decorate


class Diagonal:
    """A matrix of one value on its diagonal: no tensor, and quicker than one."""

    def __init__(self, n, value):
        self.n, self.value = n, value

    def tensor(self):
        return self.value * ad.eye(self.n)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(t, (ad.Tensor, Diagonal)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


@implements(ad.mean)
def mean(input):
    return input.value / input.n


@implements(ad.Tensor.add)
@implements(ad.add)
def add(input, other):
    if isinstance(input, Diagonal) and isinstance(other, Diagonal):
        return Diagonal(input.n, input.value + other.value)
    return ad.add(*[x.tensor() if isinstance(x, Diagonal) else x for x in (input, other)])


@implements(F.linear)
def linear(input, weight, bias=None):
    return input * weight.value


def test_a_type_that_is_like_a_tensor():
    d = Diagonal(4, 2.0)
    assert ad.mean(d) == 0.5 and ad.add(d, d).value == 4.0
    assert ad.add(ad.ones(4, 4), d)[0].tolist() == [3, 1, 1, 1] == (ad.ones(4, 4) + d)[0].tolist()
    assert (d + ad.ones(4, 4))[1].tolist() == [1, 3, 1, 1] and F.linear(ad.ones(1, 4), d).tolist() == [
        [2, 2, 2, 2]
    ]
    with pytest.raises(TypeError, match="no implementation found for 'adjoint.mul'"):
        ad.mul(ad.ones(4, 4), d)


class Logging(ad.Tensor):
    lines: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.lines.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_tensor_that_logs():
    Logging.lines.clear()
    x = ad.ones(3).as_subclass(Logging)
    y = F.mse_loss(x.exp() + 1, ad.zeros(3))
    assert (
        Logging.lines == ["exp", "add", "mse_loss"] and type(y) is Logging
    )  # what mse_loss calls is not seen


def test_redispatch():
    class Deep(ad.Tensor):
        seen: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    x = ad.ones(2, 2).as_subclass(Deep)
    y = ad.hstack([x, x])
    assert Deep.seen[0] == "hstack" and "cat" in Deep.seen and type(y) is ad.Tensor
    Deep.seen.clear()
    assert type(x + x) is ad.Tensor and Deep.seen == ["add"]
    # One call alone was let past.
    Deep.seen.clear()
    overrides.redispatch_function(ad.sin, (), (ad.ones(1),), None)
    assert type(x.sin()) is ad.Tensor and Deep.seen == ["sin"]


def test_the_protocol_off():
    s = ad.ones(1).as_subclass(Whole)
    with overrides.DisableTorchFunctionSubclass():
        assert (
            type(s + 1) is ad.Tensor
            and not overrides.has_torch_function((s,))
            and not overrides._is_torch_function_enabled()
        )
        with overrides._enable_torch_function():
            assert first(s + 1) is ad.add
        with pytest.raises(TypeError):
            ad.sin(Asked())
    assert first(s + 1) is ad.add
    with Log() as log, overrides.DisableTorchFunctionSubclass():
        s + 1
    assert log.calls == [ad.add]
    with Log() as log, overrides.DisableTorchFunction():
        s + 1
        assert not overrides._is_torch_function_mode_enabled()
    assert log.calls == []
    with pytest.raises(ValueError, match="out"), overrides.DisableTorchFunction():
        raise ValueError("out")
    assert overrides._is_torch_function_enabled()
