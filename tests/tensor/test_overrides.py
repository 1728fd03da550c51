"""`__torch_function__`: what objects and modes are asked, about every operator, composition, method and attribute, and in which
order; `adjoint.overrides`.

That subclasses of Tensor keep their class is in test_subclasses.py. Start reading at `test_operators_ask`.
"""

import copy
import inspect
import operator

import pytest
from protocol import Asked, Declines, Log, Whole, first, public
from samples import OPERATORS, cases, function_of

import adjoint as ad
from adjoint import overrides

F = ad.nn.functional


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
