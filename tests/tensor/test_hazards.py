"""What no input may do: crash, read foreign memory, leak, or make a tensor that is not what it says."""

import ctypes
import io
import pickle

import numpy as np
import pytest
from helpers import allocated, run_python

import adjoint as ad
from adjoint import _C
from adjoint._tensor.copying import rebuild

HUGE = 2**62


# --- foreign memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scalar", [np.datetime64("2020-01-01"), np.timedelta64(3, "D")])
@pytest.mark.parametrize(
    "read", [ad.tensor, ad.as_tensor, ad.asarray, lambda x: ad.tensor([x]), lambda x: ad.tensor([1.0, [x]])]
)
def test_dates_are_refused(scalar, read):
    with pytest.raises((TypeError, ValueError), match=r"can't convert np\.|sequence"):
        read(scalar)
    with pytest.raises(
        TypeError, match=f"of type numpy.{type(scalar).__name__}. The only supported types are: float64"
    ):
        ad.tensor(scalar)
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type numpy\."):
        ad.tensor(np.array([scalar]))


def test_buffers_without_strides_lie_in_row_major_order():
    assert ad.tensor((ctypes.c_float * 4)(1, 2, 3, 4)).tolist() == [1, 2, 3, 4]
    matrix = ((ctypes.c_int32 * 3) * 2)((1, 2, 3), (4, 5, 6))
    assert ad.tensor(matrix).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert ad.tensor(ctypes.c_double(2.5)).tolist() == 2.5
    with pytest.raises(TypeError, match="can't convert a buffer of format"):
        ad.tensor((ctypes.c_uint64 * 2)(1, 2))


def test_the_storage_of_a_strided_array_is_what_it_reaches():
    array = np.arange(100.0)[::10]
    x = ad.from_numpy(array)
    assert x.untyped_storage().nbytes() == 91 * 8
    assert x.as_strided((10,), (10,)).tolist() == array.tolist()
    import copy

    assert copy.deepcopy(x).tolist() == array.tolist()
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.as_strided((11,), (10,))
    # Where elements share memory, the bytes are fewer than the elements.
    broadcast = np.broadcast_to(np.ones(3), (1000, 3))
    assert ad.tensor(broadcast).sum() == 3000


# --- sizes that overflow ------------------------------------------------------------------------------------------------


def wide():
    return ad.ones(1).expand(HUGE)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.cat([wide()] * 4),
        lambda: ad.cat([wide()] * 4 + [ad.ones(5)]),
        lambda: ad.hstack([wide()] * 4),
        lambda: ad.concat([wide()] * 2),
        lambda: ad.stack([wide()] * 4),
        lambda: wide().repeat(4),
        lambda: wide().tile((4,)),
        lambda: ad.ones(3).repeat(2**63 - 1),
        lambda: wide().repeat_interleave(4),
        lambda: ad.ones(2).repeat_interleave(ad.tensor([HUGE, HUGE])),
        lambda: ad.kron(wide(), wide()),
        lambda: wide().expand(4, HUGE),
        lambda: ad.empty(HUGE, 4),
        lambda: ad.empty(0, HUGE, 4),
        lambda: ad.ones(2).resize_(HUGE, 4),
        lambda: ad.empty(0).view(0, HUGE, 4),
        lambda: (
            ad.ones(2)
            .unfold(0, 1, 2**63 - 1)
            .unfold(0, 1, 4)
            .unsqueeze(0)
            .contiguous()
            .expand(HUGE, HUGE, 1, 1)
        ),
        lambda: ad.nn.functional.pad(ad.ones(2), (2**63 - 1, 2**63 - 1)),
        lambda: ad.nn.functional.pad(ad.ones(2), (2**63 - 1, 5)),
        lambda: ad.diag_embed(ad.ones(2), offset=2**63 - 1),
        lambda: ad.diag_embed(ad.ones(2), offset=-(2**63)),
        lambda: ad.ones(3).as_strided((3,), (HUGE,)),
        lambda: ad.ones(3).as_strided((4,), (6148914691236517206,)),
        lambda: ad.ones(3).as_strided((2,), (1,), 2**63 - 1),
        lambda: ad.ones(3).split([2**63 - 1, 2**63 - 1, 5]),
        lambda: ad.ones(4).unflatten(0, (HUGE, 8)),
        lambda: ad.linspace(0, 1, 2**63 - 1),
        lambda: ad.arange(-(2**63), 2**63 - 1),
        lambda: ad.eye(2**32, 2**32),
    ],
)
def test_sizes_that_overflow_are_refused(call):
    with pytest.raises((RuntimeError, MemoryError, IndexError)):
        call()


def test_ranges_of_all_integers():
    assert ad.arange(-(2**63), 2**63 - 1, HUGE).tolist() == [-(2**63), -HUGE, 0, HUGE]
    assert ad.arange(2**63 - 1, -(2**63), -HUGE).tolist() == [2**63 - 1, HUGE - 1, -1, -HUGE - 1]
    assert ad.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert ad.arange(0, 5, 2).tolist() == [0, 2, 4]


@pytest.mark.parametrize("rank", [65, 255, 256, 257, 300])
def test_the_rank_is_limited_where_it_is_made(rank):
    ones = [1] * rank
    calls = [
        lambda: ad.zeros(1).view(ones),
        lambda: ad.zeros(1).reshape(ones),
        lambda: ad.zeros(1).expand(ones),
        lambda: ad.zeros(ones),
        lambda: ad.zeros(1).unflatten(0, ones),
        lambda: ad.zeros(1).repeat(ones),
        lambda: ad.zeros(1).as_strided(ones, ones),
        lambda: ad.empty_strided(ones, ones),
        lambda: ad.zeros(1).resize_(ones),
    ]
    for call in calls:
        with pytest.raises(
            (ValueError, RuntimeError), match=f"at most 64 dimensions, but ({rank}|{2 * rank}) were asked for"
        ):
            call()


def test_a_dimension_more_than_64():
    x = ad.zeros([1] * 64)
    for call in [
        lambda: x[None],
        lambda: x.unsqueeze(3),
        lambda: ad.stack([x, x]),
        lambda: x.unfold(0, 1, 1),
        lambda: x.diag_embed(),
    ]:
        with pytest.raises(ValueError, match="at most 64 dimensions, but 65"):
            call()
    assert x.sum().item() == 0 and x.squeeze().shape == () and x.permute(list(range(63, -1, -1))).ndim == 64


# --- files ----------------------------------------------------------------------------------------------------------------


class Rebuilt:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return rebuild, self.arguments


def loaded(*arguments):
    return ad.load(io.BytesIO(pickle.dumps(Rebuilt(*arguments), 4)))


@pytest.mark.parametrize(
    ("size", "stride"),
    [
        ((4,), (6148914691236517206,)),
        ((3,), (HUGE,)),
        ((2,), (2**63 - 1,)),
        ((HUGE, 4), (0, 0)),
        ((2, 2), (1,)),
        ((-1,), (1,)),
    ],
)
def test_files_that_choose_strides(size, stride):
    with pytest.raises((RuntimeError, ValueError)):
        loaded(ad.Tensor, b"\0" * 16, ad.float32, size, stride, False, {})


@pytest.mark.parametrize("name", ["sum", "shape", "__class__", "grad", "_storage", 3])
def test_files_that_choose_attributes(name):
    for cls in (ad.Tensor, ad.nn.Parameter):
        with pytest.raises(ValueError, match="asks to set the attribute"):
            loaded(cls, b"\0" * 16, ad.float32, (4,), (1,), False, {name: None})


def test_attributes_of_tensors_come_back():
    x = ad.ones(2)
    x.note = "kept"
    p = ad.nn.Parameter(ad.ones(2))
    p.note = "kept"
    file = io.BytesIO()
    ad.save([x, p, ad.nn.Buffer(ad.ones(1), persistent=False)], file)
    file.seek(0)
    x, p, buffer = ad.load(file)
    assert x.note == p.note == "kept" and buffer.persistent is False


# --- memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "replace",
    [
        lambda x: setattr(x, "data", ad.ones(3)),
        lambda x: setattr(x, "data", ad.ones(3000)),
        lambda x: setattr(x, "data", x),
        lambda x: (
            setattr(x, "data", ad.ones(3)),
            setattr(x, "data", ad.ones(5)),
            setattr(x, "data", ad.ones(1)),
        ),
        lambda x: x.resize_(5),
        lambda x: x.resize_(5000).resize_(2),
        lambda x: x.set_(ad.ones(4)),
        lambda x: x.set_(),
        lambda x: x.untyped_storage().resize_(1000),
        lambda x: ad.sum(ad.ones(2, 3), 0, out=ad.empty(0)),
    ],
)
@pytest.mark.parametrize("size", [2, 2000])
def test_tensors_that_change_their_memory_leak_nothing(replace, size):
    def once():
        x = ad.ones(size)
        alias = x.detach()
        replace(ad.ones(size))
        if "untyped_storage" not in replace.__code__.co_names:  # which cannot move what is shared
            replace(x)
        del alias

    for _ in range(3):
        once()
    before = allocated()
    for _ in range(50):
        once()
    assert allocated() == before


def test_a_tensor_comes_back_to_the_memory_that_it_was_made_with():
    x = ad.ones(3)
    own = x.detach()
    x.data = ad.zeros(4)
    x.data = own
    own.fill_(7)
    assert x.tolist() == [7, 7, 7]
    del own
    assert x.tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    "op", [op for op in _C.operators() if hasattr(ad.Tensor, op["name"] + "_")], ids=lambda op: op["name"]
)
def test_what_writes_in_place_wants_a_tensor(op):
    write = getattr(ad.Tensor, op["name"] + "_")
    for arguments in [(), (3,), (3, 4), (3, 4, 5), (None, ad.ones(2)), ([1.0], 1)]:
        with pytest.raises((TypeError, AttributeError, IndexError)):
            write(*arguments)


# --- counts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [2**31 - 1, 2**31, 2**62, -(2**62), 400])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16])
def test_rounding_to_a_giant_number_of_decimals_ends(decimals, dtype):
    x = ad.tensor([0.0, 1.25, -3.0], dtype=dtype)
    assert ad.round(x, decimals=decimals).isnan().all()  # inf / inf and 0 · inf, as torch's formula gives


@pytest.mark.parametrize("chunks", [2**62, 2**63 - 1, 2**63 - 2])
def test_giant_numbers_of_chunks(chunks):
    assert [c.tolist() for c in ad.chunk(ad.ones(3), chunks)] == [[1], [1], [1]]
    for call in [
        lambda: ad.chunk(ad.ones(0), chunks),
        lambda: ad.tensor_split(ad.ones(3), chunks),
        lambda: ad.hsplit(ad.ones(2, 0, 3), chunks),
        lambda: ad.ones(1).expand(HUGE).split(1),
        lambda: ad.ones(1).expand(HUGE).unbind(),
    ]:
        with pytest.raises(RuntimeError, match="parts were asked for"):
            call()


def test_mvlgamma_of_giant_order():
    with pytest.raises(RuntimeError, match="more than 16777216 terms"):
        ad.mvlgamma(ad.ones(3), 2**40)
    import scipy.special

    x = np.array([4.0, 5.5, 30.0])
    for p in (1, 2, 7):
        expected = [scipy.special.multigammaln(v, p) for v in x]
        np.testing.assert_allclose(ad.mvlgamma(ad.tensor(x), p), expected, rtol=1e-12)


def test_giant_offsets():
    x = ad.ones(3, 3)
    for k in (2**63 - 1, HUGE, -HUGE, -(2**63)):
        assert ad.triu(x, k).sum() in (0, 9) and ad.tril(x, k).sum() in (0, 9)
        assert ad.triu(x, k).sum() + ad.tril(x, k).sum() == 9
        assert ad.diagonal(x, k).shape == (0,)
        assert ad.roll(ad.arange(3), k).tolist() == np.roll(np.arange(3), k % 3).tolist()
    assert (
        ad.roll(ad.arange(3), (2**63 - 1, 2**63 - 1), (0, 0)).tolist()
        == np.roll(np.arange(3), 2 * (2**63 - 1) % 3).tolist()
    )


# --- interpreters -----------------------------------------------------------------------------------------------------------


def test_interpreters_are_taken_out_by_their_token():
    seen, x = [], ad.ones(2)
    outer = _C._push_observer(None, lambda op, results: seen.append("outer"), None)
    inner = _C._push_observer(None, lambda op, results: seen.append("inner"), None)
    x.sin()
    _C._pop_interpreter(outer)  # not the innermost
    x.sin()
    with pytest.raises(RuntimeError, match="not open in this thread"):
        _C._pop_interpreter(outer)
    _C._pop_interpreter(inner)
    x.sin()
    assert seen == ["inner", "outer", "inner"]
    with pytest.raises(TypeError, match="expected what _push_interpreter"):
        _C._pop_interpreter(None)


def test_contexts_left_in_another_order():
    def open_in_a_generator():
        with ad.autograd.graph.allow_mutation_on_saved_tensors():
            yield

    x = ad.ones(2, requires_grad=True)
    generator = open_in_a_generator()
    next(generator)
    seen = []
    token = _C._push_observer(None, lambda op, results: seen.append(op.__name__), None)
    generator.close()
    y = x.exp()
    assert seen == ["exp"]
    _C._pop_interpreter(token)
    y.sum().backward()
    assert x.grad is not None


def test_observers_that_go_while_they_are_asked():
    """They are out when the call is done, and do not die before."""
    tokens, asked = [], []

    def supply(op, args):
        asked.append(op.__name__)
        while tokens:
            _C._pop_interpreter(tokens.pop())

    tokens += [_C._push_observer(supply, None, None), _C._push_observer(supply, None, None)]
    both = list(tokens)
    x = ad.ones(2)
    count = len(asked)
    assert count and not tokens
    x.cos()
    assert len(asked) == count
    for token in both:
        with pytest.raises(RuntimeError, match="not open in this thread"):
            _C._pop_interpreter(token)


def test_interpreters_that_go_while_one_of_them_is_asked():
    """Each stands in the list of those inside of it, also while a call goes past it."""
    tokens, asked = [], []

    def interpreter(which, goes):
        def call(op, args, kwargs):
            asked.append(which)
            if goes and tokens:
                for number in goes:
                    _C._pop_interpreter(tokens[number])
                tokens.clear()
            return op(*args, **kwargs)

        return _C._push_interpreter(call)

    x = ad.ones(2)
    for goes, left in [
        ((0,), [2, 1]),
        ((1,), [2, 0]),
        ((2,), [1, 0]),
        ((0, 1), [2]),
        ((2, 1, 0), []),
        ((0, 1, 2), []),
    ]:
        tokens += [interpreter(0, ()), interpreter(1, ()), interpreter(2, goes)]
        all_three = list(tokens)
        x.cos()
        asked.clear()
        x.cos()
        assert asked == left
        for number in left:
            _C._pop_interpreter(all_three[number])
        asked.clear()
        x.cos()
        assert asked == []


@pytest.mark.parametrize("results", [[], [1], [ad.ones(1)], [ad.ones(1)] * 3, 5, "ab"])
def test_results_that_an_interpreter_supplies_are_counted(results):
    token = _C._push_observer(lambda op, args: results if op.__name__ == "sort" else None, None, None)
    try:
        with pytest.raises((ValueError, TypeError), match="an interpreter must supply"):
            ad.sort(ad.ones(3))
    finally:
        _C._pop_interpreter(token)


# --- threads ----------------------------------------------------------------------------------------------------------------


def test_memory_that_is_replaced_while_another_thread_computes_with_it():
    done = run_python(
        "-c",
        """
import threading, adjoint as ad
ad.set_num_threads(1)
x = ad.ones(200_000)
stop = False
def replace():
    while not stop:
        x.data = ad.ones(200_000)
        x.data = ad.ones(200_000) * 1
thread = threading.Thread(target=replace)
thread.start()
for _ in range(300):
    ad.sin(x); ad.add(x, x); ad.cumsum(x, 0); x.sum()
stop = True
thread.join()
print("done")
""",
    )
    assert done.stdout == "done\n", (done.returncode, done.stderr)
