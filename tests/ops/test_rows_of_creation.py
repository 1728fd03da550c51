"""Creation and random numbers as rows of the table: what transforms see of them, and what is recorded."""

import pytest

import adjoint as ad

_C = ad._C
ROWS = {o["name"]: o for o in _C.operators() if o["family"] in ("Creation", "RandomNumbers")}


@pytest.fixture
def seen():
    """The names of the rows that are computed meanwhile."""
    names = []
    token = _C._push_observer(None, lambda op, results: names.append(op.__name__), None)
    yield names
    _C._pop_interpreter(token)


CALLS = {
    "_empty": lambda: ad.empty(2),
    "_zeros": lambda: ad.zeros(2),
    "_ones": lambda: ad.ones(2),
    "_full": lambda: ad.full((2,), 3),
    "_empty_like": lambda: ad.empty_like(X),
    "_zeros_like": lambda: ad.zeros_like(X),
    "_ones_like": lambda: ad.ones_like(X),
    "_full_like": lambda: ad.full_like(X, 3),
    "_arange": lambda: ad.arange(3),
    "_linspace": lambda: ad.linspace(0, 1, 3),
    "_logspace": lambda: ad.logspace(0, 1, 3),
    "_eye": lambda: ad.eye(3),
    "_triangle_indices": lambda: ad.tril_indices(3, 3),
    "_rand": lambda: ad.rand(2),
    "_rand_like": lambda: ad.rand_like(X),
    "_randn": lambda: ad.randn(2),
    "_randn_about": lambda: ad.normal(0.0, 1.0, (2,)),
    "_randn_like": lambda: ad.randn_like(X),
    "_randint": lambda: ad.randint(3, (2,)),
    "_randint_like": lambda: ad.randint_like(X, 3),
    "_bernoulli_each": lambda: ad.bernoulli(X),
    "_bernoulli_like": lambda: ad.bernoulli(X, 0.5),
    "_randperm": lambda: ad.randperm(3),
    "_multinomial": lambda: ad.multinomial(X, 1),
}
X = ad.ones(2)


def test_every_row_has_a_call():
    assert set(CALLS) == {name for name, row in ROWS.items() if not row["writes"]}


@pytest.mark.parametrize("name", CALLS)
def test_what_makes_a_tensor_is_seen(name, seen):
    CALLS[name]()
    assert name in seen


@pytest.mark.parametrize("name", [n for n in CALLS if "size" in ROWS[n]["arguments"]])
def test_a_shape_is_said_to_be_one(name):
    row = ROWS[name]
    assert row["meanings"][row["arguments"].index("size")] == "Sizes"


@pytest.mark.parametrize("name", [n for n in ROWS if "generator" in ROWS[n]["arguments"]])
def test_a_generator_is_said_to_be_one(name):
    row = ROWS[name]
    assert row["meanings"][row["arguments"].index("generator")] == "Generator"


WRITES = {
    "uniform_": lambda x, g: x.uniform_(generator=g),
    "normal_": lambda x, g: x.normal_(generator=g),
    "exponential_": lambda x, g: x.exponential_(generator=g),
    "random_": lambda x, g: x.random_(5, generator=g),
    "bernoulli_": lambda x, g: x.bernoulli_(generator=g),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_drawn_has_no_part_of_what_was_there(name):
    leaf = ad.ones(3, requires_grad=True)
    x = leaf * 2
    before = x._version
    g = ad.Generator().manual_seed(1)
    assert WRITES[name](x, g) is x
    assert x._version == before + 1 and x.requires_grad
    assert ad.autograd.grad(x.sum(), leaf)[0].tolist() == [0.0, 0.0, 0.0]
    again = WRITES[name](ad.empty(3), ad.Generator().manual_seed(1))
    assert x.tolist() == again.tolist()


@pytest.mark.parametrize("name", WRITES)
def test_a_write_of_part_of_a_tensor(name):
    leaf = ad.ones(4, requires_grad=True)
    x = leaf * 2
    WRITES[name](x[1:3], None)
    assert ad.autograd.grad(x.sum(), leaf)[0].tolist() == [2.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize("name", WRITES)
def test_a_leaf_is_not_written(name):
    with pytest.raises(RuntimeError, match=f"a leaf Variable that requires grad.*{name}"):
        WRITES[name](ad.ones(3, requires_grad=True), None)
    with pytest.raises(RuntimeError, match="single memory location"):
        WRITES[name](ad.ones(1).expand(3), None)


def test_what_is_drawn_was_not_written():
    for name, call in CALLS.items():
        assert call()._version == 0, name


def test_the_order_in_memory_is_kept():
    x = ad.ones(2, 3, 4).permute(2, 0, 1)
    for f in (ad.rand_like, ad.randn_like, lambda t: ad.randint_like(t, 9), lambda t: ad.bernoulli(t, 0.5)):
        assert f(x).stride() == x.stride()
    ad.manual_seed(0)
    drawn = ad.rand_like(x)
    ad.manual_seed(0)
    assert drawn.tolist() == ad.rand(4, 2, 3).tolist()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ad.zeros("ab"), TypeError, r"^zeros\(\).*'size'.* must be tuple of ints, not str"),
        (lambda: ad.zeros((2, 2.5)), TypeError, r"^zeros\(\).*found element of type float at pos 1"),
        (lambda: ad.zeros(2, -1), RuntimeError, r"negative dimension -1: \[2, -1\] in zeros\(\)"),
        (lambda: ad.rand(-1), RuntimeError, r"negative dimension -1: \[-1\] in rand\(\)"),
        (lambda: ad.zeros(2, dtype=3), TypeError, r"^zeros\(\).*'dtype'.* must be dtype, not int"),
        (lambda: ad.full((2,), "a"), TypeError, r"^full\(\).*'fill_value'.* must be Number, not str"),
        (lambda: ad.full((2,), 300, dtype=ad.uint8), RuntimeError, "without overflow"),
        (lambda: ad.rand(2, generator=3), TypeError, r"^rand\(\).*'generator'.* must be Generator, not int"),
        (lambda: ad.arange(0, 1, 0), RuntimeError, "step must be nonzero"),
    ],
)
def test_errors_name_the_function_that_was_called(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_sizes_may_be_given_in_every_way():
    for size in [(2, 3), ((2, 3),), ([2, 3],), (ad.Size((2, 3)),), (range(2, 4),)]:
        assert ad.zeros(*size).shape == ad.rand(*size).shape == (2, 3)
    assert ad.zeros(ad.tensor(3)).shape == ad.zeros(ad.tensor([3])).shape == ad.zeros(size=3).shape == (3,)


class Whole(int):
    pass


@pytest.mark.parametrize("call", [ad.empty, ad.zeros, ad.ones, ad.rand, ad.randn, _C._zeros, _C._rand])
def test_sizes_are_spelt_out_or_one_sequence(call):
    for sizes in [(2, 3), ((2, 3),), ([2, 3],), (ad.Size((2, 3)),), (Whole(2), 3), ((Whole(2), 3),)]:
        made = call(*sizes, dtype=ad.float64)
        assert made.shape == (2, 3) and made.dtype is ad.float64, sizes
    assert call(size=(2, 3)).shape == (2, 3) and call(()).shape == ()
    assert call(*[1] * 20).ndim == call([1] * 20).ndim == 20  # more than a call has room for
    for wrong in [(2, 3.0), ((2, 3.0),), ("2",), (2, "3"), (2**70,), (2, 2**70)]:
        with pytest.raises((TypeError, OverflowError), match="size"):
            call(*wrong)
    with pytest.raises(TypeError, match="multiple values|no keyword"):
        call(2, 3, size=(2, 3))
    with pytest.raises(TypeError, match="unexpected keyword"):
        call(2, sizes=3)


@pytest.mark.parametrize(
    "dtype, given, wanted",
    [
        (ad.int32, (0.5, 4, 1.5), [0, 1, 2]),
        (ad.int64, (0.5, 4, 1.5), [0, 1, 2, 3]),
        (ad.int32, (0, 1, 0.3), [0, 0, 0, 0]),
        (ad.int16, (2.7,), [0, 1, 2]),
        (ad.int64, (2.7,), [0, 1]),
        (ad.uint8, (5.5, 1, -2), [5, 3, 1]),
    ],
)
def test_a_range_of_integers_loses_fractions(dtype, given, wanted):
    made = ad.arange(*given, dtype=dtype)
    assert made.tolist() == wanted and made.dtype is dtype


@pytest.mark.parametrize("dtype", [ad.int16, ad.int32, ad.int64])
@pytest.mark.parametrize(
    "given", [(5.0, 1.0, 1.0), (0, float("inf"), 0.5), (0.5, 1, 0.0), (0, float("nan"), 1)]
)
def test_a_range_of_integers_needs_ends_that_a_step_joins(dtype, given):
    with pytest.raises(
        RuntimeError, match=r"upper bound and lower bound inconsistent|unsupported range|must be nonzero"
    ):
        ad.arange(*given, dtype=dtype)


def test_requires_grad():
    assert ad.zeros(2, requires_grad=True).requires_grad
    assert ad.tensor([1.0], requires_grad=True).is_leaf
    # torch writes the factories' refusal with a capital, and that of the flag without.
    refusal = "nly Tensors of floating point and complex dtype can require gradients"
    for make in (
        lambda: ad.tensor([1, 2], requires_grad=True),
        lambda: ad.zeros(2, dtype=ad.int64, requires_grad=True),
        lambda: ad.arange(3, requires_grad=True),
        lambda: ad.randint(3, (2,), requires_grad=True),
        lambda: ad.eye(2, dtype=ad.bool, requires_grad=True),
        lambda: ad.asarray([1], requires_grad=True),
        lambda: ad.zeros_like(ad.tensor([1]), requires_grad=True),
    ):
        with pytest.raises(RuntimeError, match="O" + refusal):
            make()
    with pytest.raises(RuntimeError, match="^o" + refusal):
        ad.tensor([1]).requires_grad = True
    with pytest.raises(RuntimeError, match="(?i)floating point"):
        ad.zeros(2, dtype=ad.bool).requires_grad_()
