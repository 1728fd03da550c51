"""`__torch_function__`: what objects and modes are asked, about every operator, composition, method and attribute, and in which
order; `adjoint.overrides`.

That subclasses of Tensor keep their class is in test_subclasses.py. Start reading at `test_operators_ask`.
"""

import copy
import gc
import inspect
import operator
import threading
import weakref

import pytest
from samples import OPERATORS, cases, function_of

import adjoint as ad
from adjoint import overrides
from adjoint.overrides import TorchFunctionMode

F = ad.nn.functional


class Asked:
    """No tensor: gives what it was asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs


class Declines:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Log(TorchFunctionMode):
    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def first(result):
    return result[0]


def public(row):
    return row["name"][0] != "_" and not row["overloads"]


@pytest.mark.parametrize("row", [r for r in OPERATORS if public(r)], ids=lambda row: row["name"])
def test_operators_ask(row):
    function = function_of(row)
    dtype = next(d for d in ("float64", "complex128", *row["types"]) if d in row["types"])
    for case in cases(row, dtype):
        for which in range(len(case.inputs)):
            tensors, t = case.tensors(), Asked()
            tensors[which] = t
            args, kwargs = case.arguments(tensors)
            func, types, given, named = function(*args, **kwargs)
            assert func is function and types == (Asked,) and named == kwargs, case
            assert len(given) == len(args) and all(a is b for a, b in zip(given, args, strict=True)), case
            assert func.__name__ == row["name"] and {func: 1}[function] == 1


@pytest.mark.parametrize(
    "function", overrides.get_testing_overrides(), ids=lambda f: overrides.resolve_name(f)
)
def test_every_function_asks(function):
    t = Asked()
    if (
        getattr(function, "__name__", "") in ("__get__", "__set__")
        or type(function).__name__ == "method_descriptor"
    ):
        return  # of a tensor's own type alone: see test_attributes and test_methods
    if type(function).__name__ == "wrapper_descriptor":
        return  # Python's own: see test_python_s_operators
    assert function(t) == (function, (Asked,), (t,), {})
    assert function(1, [None, t], key=t)[1:] == ((Asked,), (1, [None, t]), {"key": t})


def attributes():
    return [
        n
        for n, v in vars(ad.Tensor).items()
        if n != "__dict__" and (isinstance(v, property) or inspect.isgetsetdescriptor(v))
    ]


class Whole(ad.Tensor):
    """A tensor that says what it is asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Asked.__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("name", attributes())
def test_attributes(name):
    x = ad.ones(2, 2).as_subclass(Whole)
    func, types, args, kwargs = getattr(x, name)
    descriptor = inspect.getattr_static(ad.Tensor, name)
    assert (
        func == descriptor.__get__ and hash(func) == hash(descriptor.__get__) and func.__name__ == "__get__"
    )
    assert types == (Whole,) and args[0] is x and len(args) == 1 and kwargs == {}
    assert overrides.resolve_name(func) == f"adjoint.Tensor.{name}.__get__"


def test_attributes_that_are_set():
    asked = []

    class Listens(ad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append((func, args[1:]))
            return super().__torch_function__(func, types, args, kwargs)

    x = ad.ones(1).as_subclass(Listens)
    x.requires_grad = True
    x.grad = ad.ones(1)
    x.data = ad.zeros(1)
    x.own = 3
    assert [f for f, _ in asked] == [
        ad.Tensor.requires_grad.__set__,
        ad.Tensor.grad.__set__,
        ad.Tensor.data.__set__,
    ]
    assert asked[0][1] == (True,) and x.own == 3 and x.tolist() == [0] and x.grad.tolist() == [1]
    x.grad = None
    assert x.grad is None
    plain = ad.ones(1)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor"):
        plain.grad = 3


def methods():
    return [
        n
        for n, v in vars(ad.Tensor).items()
        if type(v).__name__ == "method_descriptor" and n not in ("_storage", "_is_view", "_bump_version")
    ]


@pytest.mark.parametrize("name", methods())
def test_methods(name):
    x = ad.ones(1).as_subclass(Whole)
    func, types, args, kwargs = getattr(x, name)()
    assert (
        func is getattr(ad.Tensor, name)
        and func.__name__ == name
        and (types, kwargs) == ((Whole,), {})
        and args[0] is x
    )
    if name in ("size", "stride"):
        func, types, args, kwargs = getattr(ad.ones(2), name)(Asked())
        assert func is getattr(ad.Tensor, name) and types == (Asked,)
        assert getattr(x, name)(dim=1)[3] == {"dim": 1}


#: What torch asks for each of Python's operators: for `x + t`, for `t + x`, and for `x += t`.
PYTHONS = {
    "add": ("add", "add", "add_"),
    "sub": ("sub", "__rsub__", "sub_"),
    "mul": ("mul", "mul", "mul_"),
    "truediv": ("div", "__rtruediv__", "div_"),
    "floordiv": ("__floordiv__", "__rfloordiv__", "floor_divide_"),
    "mod": ("remainder", "__rmod__", "remainder_"),
    "pow": ("pow", "__rpow__", "pow_"),
    "matmul": ("matmul", "__rmatmul__", "__imatmul__"),
    "and_": ("__and__", "bitwise_and", "__iand__"),
    "or_": ("__or__", "bitwise_or", "__ior__"),
    "xor": ("__xor__", "bitwise_xor", "__ixor__"),
    "lshift": ("__lshift__", "__rlshift__", "__ilshift__"),
    "rshift": ("__rshift__", "__rrshift__", "__irshift__"),
}


@pytest.mark.parametrize("name", PYTHONS)
def test_python_s_operators(name):
    x, t = ad.ones(2, 2), Asked()
    plain, reflected, inplace = (getattr(ad.Tensor, n) for n in PYTHONS[name])
    for f, a, b, expected in (
        (getattr(operator, name), x, t, plain),
        (getattr(operator, name), t, x, reflected),
        (getattr(operator, "i" + name.rstrip("_")), x, t, inplace),
    ):
        func, types, args, kwargs = f(a, b)
        # The tensor stands first, as in the method that Python calls.
        assert func is expected and types == (Asked,) and args[0] is x and args[1] is t and kwargs == {}


def test_comparisons_and_unary_operators():
    x, t = ad.ones(2), Asked()
    for name, mirrored in (
        ("lt", "gt"),
        ("le", "ge"),
        ("eq", "eq"),
        ("ne", "ne"),
        ("gt", "lt"),
        ("ge", "le"),
    ):
        assert first(getattr(operator, name)(x, t)) is getattr(ad.Tensor, name)
        assert first(getattr(operator, name)(t, x)) is getattr(ad.Tensor, mirrored)
    w = ad.ones(2).as_subclass(Whole)
    assert first(w == 2) is ad.Tensor.__eq__ and first(w == None) is ad.Tensor.__eq__  # noqa: E711
    for name, method in (("neg", "neg"), ("pos", "positive"), ("abs", "abs"), ("invert", "__invert__")):
        assert first(getattr(operator, name)(w)) is getattr(ad.Tensor, method)
    assert w.__hash__() == hash(w)


def test_python_s_protocols():
    asked = []

    class Listens(ad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x, one = ad.ones(2).as_subclass(Listens), ad.ones(1, dtype=ad.int64).as_subclass(Listens)
    for call, name in (
        (lambda: len(x), "__len__"),
        (lambda: bool(one), "__bool__"),
        (lambda: int(one), "__int__"),
        (lambda: float(one), "__float__"),
        (lambda: complex(one), "__complex__"),
        (lambda: operator.index(one), "__index__"),
        (lambda: 1 in x, "__contains__"),
        (lambda: repr(x), "__repr__"),
        (lambda: f"{x}", "__format__"),
        (lambda: reversed(x), "__reversed__"),
        (lambda: x[0], "__getitem__"),
        (lambda: x.__setitem__(0, 3), "__setitem__"),
        (lambda: x.__reduce_ex__(4), "__reduce_ex__"),
        (lambda: copy.deepcopy(x), "__deepcopy__"),
    ):
        asked.clear()
        call()
        assert asked == [getattr(ad.Tensor, name)], name
    asked.clear()
    for _ in x:
        assert asked == [ad.Tensor.ndim.__get__, ad.unbind]
    assert first(ad.ones(2)[Asked()]) is first(ad.ones(2)[0, Asked()]) is ad.Tensor.__getitem__
    for key, value in ((Asked(), 1), (0, Asked())):
        seen = []

        class Sets(Asked):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen):
                seen.append(func)

        ad.ones(2)[Sets() if key != 0 else 0] = Sets() if key == 0 else value
        assert seen == [ad.Tensor.__setitem__]


def test_what_takes_data_as_it_is():
    for function in (ad.tensor, ad.as_tensor):
        with pytest.raises((TypeError, RuntimeError), match="Asked"):
            function(Asked())
    assert ad.is_tensor(Asked()) is False
    assert ad.tensor in overrides.get_ignored_functions() and ad.zeros in overrides.get_ignored_functions()


def test_what_is_put_together_outside_of_the_functions_of_tensors():
    """Helpers of training are seen as the calls that they make, as in torch."""
    x = ad.ones(2)
    with Log() as log:
        ad.nn.utils.rnn.pad_sequence([x, x])
    assert log.calls and ad.nn.utils.rnn.pad_sequence not in log.calls
    assert overrides.resolve_name(ad.nn.utils.rnn.pad_sequence) is None


# --- the order ---------------------------------------------------------------------------------------------------------


def recording(name, base=object, answer=NotImplemented):
    def ask(cls, func, types, args=(), kwargs=None):
        ORDER.append(cls.__name__)
        return answer

    return type(name, (base,) if base is not object else (), {"__torch_function__": classmethod(ask)})


ORDER: list = []


def test_order():
    base = recording("Base")
    sub, other, tensor = recording("Sub", base), recording("Other"), recording("Mine", ad.Tensor)
    x = ad.ones(2).as_subclass(tensor)
    for arguments, expected in (
        ([base(), sub()], ["Sub", "Base"]),
        ([sub(), base()], ["Sub", "Base"]),
        ([other(), base(), sub()], ["Other", "Sub", "Base"]),
        ([base(), other(), sub(), base()], ["Sub", "Base", "Other"]),
        ([x, other()], ["Mine", "Other"]),
        ([ad.ones(2), other(), x], ["Other", "Mine"]),
    ):
        ORDER.clear()
        with pytest.raises(
            TypeError,
            match="no implementation found for 'adjoint.cat' on types that implement __torch_function__",
        ):
            ad.cat(arguments)
        assert expected == ORDER
        assert [type(a).__name__ for a in overrides._get_overloaded_args(arguments)] == expected


def test_the_first_answer_counts():
    answers = recording("Answers", answer=42)
    assert ad.add(Declines(), answers()) == ad.add(answers(), Declines()) == 42
    assert ad.ones(2) + answers() == answers() - ad.ones(2) == 42
    x = ad.ones(2)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor' and 'Declines'"):
        x + Declines()

    class Reflects(Declines):
        def __radd__(self, other):
            return "reflected"

    assert x + Reflects() == "reflected"
    for call, name in (
        (lambda: ad.sin(Declines()), "adjoint.sin"),
        (lambda: F.linear(x, Declines()), "adjoint.nn.functional.linear"),
        (lambda: x.add_(Declines()), "adjoint.Tensor.add_"),
        (lambda: x[Declines()], "adjoint.Tensor.__getitem__"),
        (lambda: ad.autograd.grad(Declines(), x), "adjoint.autograd.grad"),
    ):
        with pytest.raises(TypeError, match=f"no implementation found for '{name}' on types .*Declines"):
            call()


def test_errors_of_a_handler_arrive():
    class Fails:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    x = ad.ones(2)
    for call in (
        lambda: ad.sin(Fails()),
        lambda: x + Fails(),
        lambda: F.mse_loss(x, Fails()),
        lambda: x[Fails()],
        lambda: x.size(Fails()),
    ):
        with pytest.raises(KeyError, match="mine"):
            call()


def test_a_plain_method_is_still_called():
    class Old:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self

    old = Old()
    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        assert ad.sin(old) is old


def test_who_takes_no_part():
    class Quiet(ad.Tensor):
        __torch_function__ = ad._C._disabled_torch_function_impl

    x = ad.ones(2).as_subclass(Quiet)
    assert type(x + 1) is type(x[0]) is type(x.T) is ad.Tensor and not overrides.has_torch_function((x,))
    assert Quiet.__torch_function__(ad.add, (Quiet,), (1, ad.ones(1)), {}).tolist() == [2]
    # Given up, and taken up again, while the class is in use.
    Quiet.__torch_function__ = ad.Tensor.__dict__["__torch_function__"].__get__(None, Quiet)
    assert overrides.has_torch_function((x,))


# --- the module --------------------------------------------------------------------------------------------------------


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
    assert list(inspect.signature(stand_ins[F.linear]).parameters) == ["input", "weight", "bias"]
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


# --- modes -------------------------------------------------------------------------------------------------------------


def test_a_mode_sees_every_call():
    x, p = ad.ones(2, 2), ad.nn.Parameter(ad.ones(2, 2))
    with Log() as log:
        (
            x + x,
            x @ p,
            ad.zeros(2),
            ad.tensor([1.0]),
            x.shape,
            x[0],
            x.T,
            x.dim(),
            F.linear(x, p),
            ad.hstack([x, x]),
            -x,
            len(x),
            x < 1,
        )
        x.view(4), ad.is_tensor(x), ad.rand(1), x.add_(1), ad.linalg.norm(x)
        x[0] = 3
    names = [overrides.resolve_name(f).removeprefix("adjoint.") for f in log.calls]
    assert (
        names
        == (
            "add matmul zeros tensor Tensor.shape.__get__ Tensor.__getitem__ Tensor.T.__get__ Tensor.dim nn.functional.linear hstack neg "
            "Tensor.__len__ lt Tensor.view is_tensor rand Tensor.add_ linalg.norm Tensor.__setitem__"
        ).split()
    )
    x + x
    assert len(log.calls) == len(names)


def test_modes_nest():
    order = []

    class Named(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    outer, inner = Named("outer"), Named("inner")
    with outer, inner:
        assert overrides._get_current_function_mode() is inner
        assert (
            overrides._get_current_function_mode_stack() == [outer, inner]
            and overrides._len_torch_function_stack() == 2
        )
        ad.ones(1)
        assert order == ["inner", "outer"]
        with overrides._pop_mode_temporarily() as popped:
            assert popped is inner
            ad.ones(1)
        assert order == ["inner", "outer", "outer"]
        with inner:
            order.clear()
            ad.ones(1)
            assert order == ["inner", "inner", "outer"]
    assert (
        overrides._get_current_function_mode() is None and overrides._get_current_function_mode_stack() == []
    )
    with pytest.raises(RuntimeError, match="not open in this thread"):
        outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="no mode"):
        overrides._pop_mode()


def test_modes_are_asked_before_types():
    order = []

    class First(TorchFunctionMode):
        answer = NotImplemented

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(types)
            return self.answer

    with First() as mode:
        assert first(ad.sin(Asked())) is ad.sin and order == [(Asked,)]
        with pytest.raises(
            TypeError, match="no implementation found for 'adjoint.sin' .* nor in mode <.*First"
        ):
            ad.sin(Declines())
        with pytest.raises(TypeError, match="unsupported operand"):
            ad.ones.__wrapped__(2) + 1
        mode.answer = "mine"
        assert ad.sin(Asked()) == "mine" == ad.ones(2) == ad.nn.init.zeros_(3)


def test_a_mode_that_calls_itself():
    depth = []

    class Deep(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            depth.append(func)
            with self:
                return overrides.redispatch_function(func, types, args, kwargs or {})

    x = ad.ones(2, 2)
    with Deep():
        ad.hstack([x, x])
    assert depth[0] is ad.hstack and ad.cat in depth


def test_errors_leave_modes_as_they_were():
    class Fails(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    with pytest.raises(KeyError), Log() as log, Fails():
        try:
            ad.ones(1)
        finally:
            assert overrides._len_torch_function_stack() == 2
    assert overrides._len_torch_function_stack() == 0 and log.calls == [] and ad.ones(1) == 1
    with pytest.raises(NotImplementedError, match="must define __torch_function__"), TorchFunctionMode():
        ad.ones(1)


def test_modes_in_generators():
    def steps():
        with Log() as log:
            yield log
            ad.ones(1)
            yield log

    one, two = steps(), steps()
    first_log, second_log = next(one), next(two)
    next(one)
    one.close()  # the outer one is left first
    assert overrides._get_current_function_mode() is second_log
    ad.zeros(1)
    two.close()
    assert (
        overrides._len_torch_function_stack() == 0
        and second_log.calls == [ad.ones, ad.zeros]
        and first_log.calls == [ad.ones]
    )


def test_modes_belong_to_a_thread():
    seen = []
    with Log() as log:
        thread = threading.Thread(
            target=lambda: seen.append((ad.ones(1) + 1, overrides._len_torch_function_stack()))
        )
        thread.start()
        thread.join()
    assert log.calls == [] and seen[0][1] == 0


def test_other_kinds_of_modes():
    with overrides.BaseTorchFunctionMode(), overrides.enable_reentrant_dispatch():
        assert (ad.ones(1) + 1).tolist() == [2]
    with pytest.warns(UserWarning, match="no longer necessary"):
        mode = Log.push()
    with mode:
        ad.ones(1)
    assert mode.calls == [ad.ones]


def test_modes_and_gradients():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with Log() as log:
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4] and log.calls == [ad.mul, ad.sum, ad.Tensor.backward]


def test_nothing_is_kept():
    class Kept(Log):
        pass

    mode = Kept()
    gone = weakref.ref(mode)
    with mode:
        ad.ones(1)
    del mode
    gc.collect()
    assert gone() is None
