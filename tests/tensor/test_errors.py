"""Bad input: each row must raise the named type with the named phrase, and leave every tensor as it was.

Rows that belong to one family (indexing, shapes, products, creation) stand in that family's file; here is
what crosses families: broadcasting, dimensions, dtypes, gradients, arguments of the wrong kind.
"""

import copy

import pytest

import adjoint as ad


def fresh():
    """The tensors that every row gets: two matrices that do not match, integers, a leaf, a result."""
    leaf = ad.tensor([1.0, 2.0], requires_grad=True)
    return {
        "a": ad.arange(6, dtype=ad.float32).reshape(2, 3),
        "b": ad.arange(8, dtype=ad.float32).reshape(2, 4),
        "i": ad.tensor([1, 2, 3]),
        "leaf": leaf,
        "y": leaf * 2,
    }


LEAF_WRITE = "a leaf Variable that requires grad is being used in an in-place operation"
BROADCAST = r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1"

ROWS = [
    # broadcasting
    ("add", lambda t: t["a"] + t["b"], RuntimeError, BROADCAST),
    ("mul in place", lambda t: t["a"].mul_(t["b"]), RuntimeError, BROADCAST),
    ("pow", lambda t: ad.pow(t["a"], t["b"]), RuntimeError, BROADCAST),
    ("where", lambda t: ad.where(t["a"] > 0, t["a"], t["b"]), RuntimeError, BROADCAST),
    ("eq", lambda t: t["a"] == t["b"], RuntimeError, BROADCAST),
    ("atan2", lambda t: ad.atan2(t["a"], t["b"]), RuntimeError, BROADCAST),
    (
        "in place cannot grow",
        lambda t: t["i"].add_(ad.ones(2, 3, dtype=ad.int64)),
        RuntimeError,
        r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]",
    ),
    # dimensions
    ("sum dim", lambda t: t["a"].sum(5), IndexError, "Dimension out of range"),
    ("softmax dim", lambda t: ad.softmax(t["a"], -3), IndexError, "Dimension out of range"),
    ("cumsum dim", lambda t: t["a"].cumsum(2), IndexError, "Dimension out of range"),
    ("sort dim", lambda t: t["a"].sort(2), IndexError, "Dimension out of range"),
    ("size dim", lambda t: t["a"].size(2), IndexError, "Dimension out of range"),
    ("cat dim", lambda t: ad.cat([t["a"], t["a"]], 2), IndexError, "Dimension out of range"),
    ("stack dim", lambda t: ad.stack([t["a"]], 4), IndexError, "Dimension out of range"),
    # dtypes
    ("mean of integers", lambda t: t["i"].mean(), RuntimeError, "(?i)floating"),
    (
        "logit in place on integers",
        lambda t: t["i"].logit_(),
        RuntimeError,
        "can't be cast to the desired output type",
    ),
    (
        "exp in place on integers",
        lambda t: t["i"].exp_(),
        RuntimeError,
        "can't be cast to the desired output type Long",
    ),
    (
        "softmax of integers",
        lambda t: ad.softmax(t["i"], 0),
        (RuntimeError, NotImplementedError),
        "(?i)not implemented|Long|float",
    ),
    (
        "bitwise of floats",
        lambda t: t["a"] & t["a"],
        (RuntimeError, NotImplementedError),
        "(?i)float|not implemented",
    ),
    ("negative integer power", lambda t: t["i"] ** -2, RuntimeError, "Integers to negative integer powers"),
    (
        "integers cannot require gradients",
        lambda t: t["i"].requires_grad_(),
        RuntimeError,
        "floating point",
    ),
    # arguments of the wrong kind
    ("add a string", lambda t: t["a"] + "x", TypeError, ""),
    ("add None", lambda t: t["a"] + None, TypeError, ""),
    ("sin of a number", lambda t: ad.sin(1.0), TypeError, r"sin\(\)"),
    ("sin of nothing", lambda t: ad.sin(), TypeError, r"sin\(\)"),
    ("add of one", lambda t: ad.add(t["a"]), TypeError, r"add\(\)"),
    ("unknown keyword", lambda t: ad.sum(t["a"], axes=0), TypeError, "(?i)sum|unexpected|invalid"),
    ("reshape to a string", lambda t: t["a"].reshape("x"), TypeError, ""),
    ("reshape to floats", lambda t: t["a"].reshape(2.0, 3.0), TypeError, ""),
    ("cat of a tensor", lambda t: ad.cat(t["a"]), TypeError, r"cat\(\)"),
    ("cat of numbers", lambda t: ad.cat([1, 2]), TypeError, ""),
    ("matmul with a number", lambda t: t["a"] @ 2, TypeError, ""),
    ("dim of the wrong type", lambda t: t["a"].sum(1.5), TypeError, ""),
    # gradients
    ("write into a leaf", lambda t: t["leaf"].add_(1), RuntimeError, LEAF_WRITE),
    ("fill a leaf", lambda t: t["leaf"].zero_(), RuntimeError, LEAF_WRITE),
    (
        "write through a view of a leaf",
        lambda t: t["leaf"][0].mul_(2),
        RuntimeError,
        "a view of a leaf Variable that requires grad",
    ),
    (
        "set an item of a leaf",
        lambda t: t["leaf"].__setitem__(0, 1.0),
        RuntimeError,
        "a view of a leaf Variable|" + LEAF_WRITE,
    ),
    (
        "backward of a vector",
        lambda t: t["y"].backward(),
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
    ),
    (
        "backward without a graph",
        lambda t: t["a"].sum().backward(),
        RuntimeError,
        "element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    (
        "grad of the wrong shape",
        lambda t: t["y"].backward(ad.ones(3)),
        RuntimeError,
        r"Mismatch in shape: grad_output\[0\] has a shape of .*\[3\].* and output\[0\] has a shape of",
    ),
    (
        "requires_grad of a result",
        lambda t: setattr(t["y"], "requires_grad", False),
        RuntimeError,
        "you can only change requires_grad flags of leaf variables",
    ),
    (
        "out= with a gradient",
        lambda t: ad.mul(t["leaf"], 2, out=ad.zeros(2)),
        RuntimeError,
        "don't support automatic differentiation, but one of the arguments requires grad",
    ),
    (
        "grad of an unused input",
        lambda t: ad.autograd.grad(t["y"].sum(), t["a"].requires_grad_()),
        RuntimeError,
        "appears to not have been used in the graph",
    ),
    (
        "assign a gradient of the wrong shape",
        lambda t: setattr(t["leaf"], "grad", ad.zeros(3)),
        RuntimeError,
        "(?i)size|shape",
    ),
    (
        "assign a gradient of the wrong type",
        lambda t: setattr(t["leaf"], "grad", 3),
        TypeError,
        "(?i)grad|tensor",
    ),
    # overlapping memory
    (
        "write into an expanded tensor",
        lambda t: ad.zeros(1).expand(3).add_(1),
        RuntimeError,
        "more than one element of the written-to tensor refers to a single memory location",
    ),
    (
        "sizes overflow",
        lambda t: t["a"].expand(2**40, 2**40, 2, 3).clone(),
        (RuntimeError, MemoryError, OverflowError),
        "",
    ),
]


def state(tensors):
    return {k: (v.tolist(), v.shape, v._version if v.grad_fn is None else None) for k, v in tensors.items()}


@pytest.mark.parametrize("label, call, kind, phrase", ROWS, ids=[r[0] for r in ROWS])
def test_bad_input(label, call, kind, phrase):
    tensors = fresh()
    before = copy.deepcopy(state(tensors))
    with pytest.raises(kind, match=phrase or None):
        call(tensors)
    assert state(tensors) == before


@pytest.mark.parametrize("label, call, kind, phrase", ROWS, ids=[r[0] for r in ROWS])
def test_message_says_something(label, call, kind, phrase):
    """No error is empty, and none shows a C++ type name."""
    with pytest.raises(kind) as caught:
        call(fresh())
    text = str(caught.value)
    assert text.strip()
    for leak in ("std::", "nanobind::", "nb::", "St6vector", "__cxx11"):
        assert leak not in text


def test_volatile_is_refused_by_name():
    """What old programs wrote as `volatile` must not pass in silence: the message names its successor."""
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="no_grad"):
        ad.tensor([1.0], volatile=True)
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="no_grad"):
        ad.ones(1).volatile = True


def test_error_inside_a_list_of_operations_leaves_the_graph_usable():
    x = ad.ones(3, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError):
        y + ad.ones(4)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
