"""out=: what it takes, of which shape and type."""

import warnings

import far_device  # noqa: F401
import numpy as np
import pytest
from helpers import array
from samples import OPERATORS, cases
from structured_reference import WITHOUT_VALUES

import adjoint as ad

X = ad.tensor([1.5, 1.5, 1.5])

#: Calls with a result of three elements, of float32.
CALLS = {
    "add": lambda out: ad.add(X, X, out=out),
    "sin": lambda out: ad.sin(X, out=out),
    "clamp": lambda out: ad.clamp(X, min=0.5, out=out),
    "cumsum": lambda out: ad.cumsum(X, 0, out=out),
    "mv": lambda out: ad.mv(ad.eye(3), X, out=out),
    "matmul": lambda out: ad.matmul(ad.eye(3), X, out=out),
    "kron": lambda out: ad.kron(X, ad.ones(1), out=out),
    "cat": lambda out: ad.cat((X,), out=out),
    "add with alpha": lambda out: ad.add(X, X, alpha=2, out=out),
    "index_select": lambda out: ad.index_select(X, 0, ad.tensor([0, 1, 2]), out=out),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 3), (4,)])
def test_another_shape_is_resized_with_a_warning(name, shape):
    wanted = CALLS[name](ad.empty(0))
    out = ad.zeros(shape)
    with pytest.warns(
        UserWarning, match="An output with one or more elements was resized since it had shape"
    ):
        assert CALLS[name](out) is out
    assert out.tolist() == wanted.tolist()
    strided = ad.zeros(4, 4)[:2, ::2]
    with pytest.warns(UserWarning, match="was resized"):
        CALLS[name](strided)
    assert strided.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_the_right_shape_and_no_elements_are_no_matter(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for out in (ad.zeros(3), ad.zeros(3, 2)[:, 0], ad.empty(0), ad.empty(0, 5)):
            assert CALLS[name](out).shape == (3,)


def test_a_warning_that_is_an_error_leaves_out_as_it_was():
    out = ad.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            ad.add(X, X, out=out)
    assert out.tolist() == [0, 0]


def test_a_dtype_that_is_left_out_is_that_of_out():
    assert ad.sum(X, 0, out=ad.tensor(0)).item() == 3  # whole numbers are added
    assert ad.cumsum(X, 0, out=ad.tensor([0, 0, 0])).tolist() == [1, 2, 3]
    assert ad.cumprod(X, 0, out=ad.tensor([0, 0, 0])).tolist() == [1, 1, 1]
    assert ad.prod(X, 0, out=ad.tensor(0)).item() == 1
    assert ad.mean(X, 0, out=ad.empty(0, dtype=ad.float64)).item() == 1.5
    with pytest.raises(RuntimeError):
        ad.mean(X, 0, out=ad.tensor(0))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        ad.add(X, X, out=ad.tensor([0, 0, 0]))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        ad.linalg.vector_norm(X.double(), out=ad.empty(()))


# --- results are made where they are told ---------------------------------------------------------------------------------------

#: Rows that make their result there in most calls, and in some copy it: scaled sums, and elements of a number.
SOMETIMES = {"addmm", "baddbmm", "index_select"}

#: Functions whose result may be as large as what they read: their rows say that they make it in `out`.
MADE_THERE = set(
    "cat stack mm bmm mv matmul linear sum mean prod amax _max_dim logsumexp cumsum cumprod cummax softmax "
    "log_softmax sort argsort topk index_select gather take tril triu _scatter scatter_add index_add index_copy "
    "index_fill _zeros _full _arange _rand _randn _randperm".split()
)


def test_rows_of_large_results_make_them_in_out():
    assert {row["name"] for row in OPERATORS if row.get("makes_in_out")} >= MADE_THERE


def plain(row):
    return not (row["view"] or row["written"] or row["kind"] != "structured" or not row["function"])


@pytest.mark.parametrize("row", [r for r in OPERATORS if plain(r)], ids=lambda row: row["name"])
def test_structured_results_are_made_in_out(row):
    dtype = next(d for d in ("float64", "complex128", "float32", *row["types"]) if d in row["types"])
    copied = not row["makes_in_out"] or row["name"] in SOMETIMES
    for case in cases(row, dtype):
        wanted = case.call()
        several = isinstance(wanted, tuple)
        results = wanted if several else (wanted,)
        if None in results or case.bound().get("requires_grad") or (several and not row["returns"]):
            continue
        out = tuple(ad.empty_like(r, memory_format=ad.contiguous_format) for r in results)
        if any(r.ndim == 0 for r in results):
            continue  # a number
        before, where = ad._C._results_copied(), [t.data_ptr() for t in out]
        versions = [t._version for t in out]
        case.call(out=out if several else out[0])
        copies = ad._C._results_copied() - before
        assert copies <= len(results) if copied else copies == 0, case
        assert [t.data_ptr() for t in out] == where, case
        for t, r, version in zip(out, results, versions, strict=True):
            assert t._version == version + 1, case
            if row["name"] not in WITHOUT_VALUES:
                np.testing.assert_array_equal(array(t), array(r), err_msg=str(case))


@pytest.mark.parametrize(
    "row", [r for r in OPERATORS if r["function"] and not r["view"]], ids=lambda row: row["name"]
)
def test_a_refused_out_keeps_its_elements(row):
    for dtype in {"float64", "complex128", "float16", "int64"} & set(row["types"]):
        for case in cases(row, dtype):
            wanted = case.call()
            several = isinstance(wanted, tuple)
            results = wanted if several else (wanted,)
            if not all(isinstance(r, ad.Tensor) for r in results) or case.bound().get("requires_grad"):
                continue
            for other in (ad.float32, ad.float64, ad.complex64, ad.int64, ad.bool):
                out = tuple(ad.ones(r.shape, dtype=other) for r in results)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        case.call(out=out if several else out[0])
                        continue
                    except (RuntimeError, TypeError):
                        pass
                assert all((t == 1).all() and t.dtype == other for t in out), (case, other)


A = ad.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], dtype=ad.float64)
#: Compositions with several results.
SEVERAL = {
    f.__name__: (f, args)
    for f, *args in (
        (ad.linalg.eigh, A),
        (ad.linalg.eig, A),
        (ad.linalg.svd, A),
        (ad.linalg.qr, A),
        (ad.linalg.lu, A),
        (ad.linalg.slogdet, A),
        (ad.linalg.inv_ex, A),
        (ad.linalg.cholesky_ex, A),
        (ad.linalg.solve_ex, A, A),
        (ad.linalg.ldl_factor, A),
        (ad.linalg.lu_factor, A),
        (ad.triangular_solve, A, A),
        (ad.geqrf, A),
        (ad.frexp, A),
        (ad.aminmax, A),
        (ad.histogram, A, 4),
        (ad.mode, A, 0),
        (ad.nanmedian, A, 0),
        (ad.unbind_copy, A),
        (ad.split_copy, A, 1),
    )
}


@pytest.mark.parametrize("name", SEVERAL)
def test_one_refused_out_of_several_keeps_the_others(name):
    f, args = SEVERAL[name]
    results = f(*args)
    for k in range(len(results)):
        out = [ad.full(r.shape, 7, dtype=ad.bool if i == k else r.dtype) for i, r in enumerate(results)]
        kept = [t.tolist() for t in out]
        with pytest.raises(RuntimeError):
            f(*args, out=tuple(out))
        assert [t.tolist() for t in out] == kept
    out = [ad.empty_like(r) for r in results]
    f(*args, out=tuple(out))
    assert [t.tolist() for t in out] == [r.tolist() for r in results]


def test_a_warning_names_the_line_that_gives_several_outs():
    out = tuple(ad.ones(2, dtype=r.dtype) for r in ad.linalg.lu_factor(A))
    with pytest.warns(UserWarning, match="was resized") as seen:
        ad.linalg.lu_factor(A, out=out)
    assert [w.filename for w in seen] == [__file__] * 2


def test_products_of_several_matrices_take_out():
    out = ad.empty(0, dtype=ad.float64)
    assert ad.chain_matmul(A, A, A, out=out) is out and out.tolist() == (A @ (A @ A)).tolist()
    assert ad.chain_matmul(A, out=out) is out and out.tolist() == A.tolist()


def test_no_memory_is_taken_for_a_result():
    x, out = ad.rand(1000, 500), ad.empty(1000, 500)
    ad.set_num_threads(1)

    def more(f):
        f()
        ad.reset_peak_memory_statistics()
        before = ad.memory_statistics()["allocated_bytes"]
        f()
        return ad.memory_statistics()["peak_allocated_bytes"] - before

    assert more(lambda: ad.cumsum(x, 0)) >= x.nbytes > more(lambda: ad.cumsum(x, 0, out=out))
    assert more(lambda: ad.sum(x[None].expand(2, 1000, 500), 0, out=out)) < x.nbytes
    # A tensor without elements gets the memory of the result.
    assert more(lambda: ad.cumsum(x, 0, out=ad.empty(0))) < 1.5 * x.nbytes


def test_what_is_made_on_the_way_is_no_result():
    """Halves are added up in float32, and rounded: both to a tensor of halves and to one of float32."""
    x = ad.rand(64).half()
    for f in (ad.cumsum, ad.cumprod, ad.logcumsumexp, ad.softmax):
        out, before = ad.empty_like(x), ad._C._results_copied()
        assert f(x, 0, out=out) is out and ad.equal(out, f(x, 0))
        assert ad._C._results_copied() == before
    assert ad.equal(ad.cumsum(x, 0, out=ad.empty(64)), ad.cumsum(x, 0, dtype=ad.float32))
    m = ad.rand(4, 5).half()
    assert ad.equal(ad.mm(m, m.t(), out=ad.empty(4, 4).half()), m @ m.t())
    # One of two results fits.
    x = ad.rand(4, 5)
    values, indices = ad.empty(4), ad.empty(0, dtype=ad.int64)
    where = values.data_ptr()
    ad.max(x, 1, out=(values, indices))
    assert values.data_ptr() == where
    assert ad.equal(values, x.amax(1)) and ad.equal(indices, x.argmax(1))


def test_an_input_in_the_memory_of_out_is_read_first():
    for view in (lambda x: x, lambda x: x.flip(0), lambda x: x.t()):
        x = ad.arange(16.0).reshape(4, 4)
        wanted = ad.cumsum(view(x), 0).tolist()
        assert ad.cumsum(view(x), 0, out=x).tolist() == wanted
    memory = ad.arange(20.0)
    x, out = memory[4:].view(4, 4), memory[:16].view(4, 4)
    wanted = ad.cumsum(x, 0).tolist()
    assert ad.cumsum(x, 0, out=out).tolist() == wanted
    # The same bytes by way of NumPy.
    a = np.arange(20.0)
    x, out = ad.from_numpy(a[4:].reshape(4, 4)), ad.from_numpy(a[:16].reshape(4, 4))
    wanted = ad.cumsum(x, 0).tolist()
    assert ad.cumsum(x, 0, out=out).tolist() == wanted


def test_two_results_in_one_tensor_and_in_turned_places():
    x = ad.tensor([[3.0, 1.0], [2.0, 4.0]])
    out = ad.empty(2), ad.empty(2, dtype=ad.int64)
    ad.max(x, 1, out=out)
    assert out[0].tolist() == [3, 4] and out[1].tolist() == [0, 1]
    low, high = ad.empty(2), ad.empty(2)
    ad.aminmax(x, dim=1, out=(low, high))
    assert low.tolist() == [1, 2] and high.tolist() == [3, 4]
    same = ad.empty(2)
    ad.aminmax(x, dim=1, out=(same, same))
    assert same.tolist() == [3, 4]  # what is written last


def test_a_call_that_fails_half_way_counts_as_a_write():
    """What it left in `out` is not what was saved of it."""
    out = ad.zeros(3)
    index = ad.tensor([0, 7])
    version = out._version
    with pytest.raises((IndexError, RuntimeError)):
        ad.index_select(ad.ones(3), 0, index, out=out[:2])
    assert out.tolist() == [0, 0, 0] or out._version > version


@pytest.mark.parametrize("device", ["far:1", "meta"])
def test_out_on_other_devices(device):
    x = ad.rand(3, 4)
    out = ad.empty(3, 4, device=device)
    assert ad.cumsum(x.to(device), 0, out=out) is out and str(out.device) == device
    if device == "far:1":
        assert ad.equal(out.cpu(), ad.cumsum(x, 0))


def test_an_expanded_or_read_only_out_is_refused_as_ever():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        ad.cumsum(ad.ones(3), 0, out=ad.zeros(1).expand(3))
    a = np.zeros(3, np.float32)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ad.cumsum(ad.ones(3), 0, out=ad.from_numpy(a))
    assert a.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "row", [r for r in OPERATORS if r["function"] and not r["written"]], ids=lambda row: row["name"]
)
def test_results_that_are_made_have_not_been_written(row):
    for dtype in {"float64", "float16", "int64"} & set(row["types"]):
        for case in cases(row, dtype):
            tensors = case.tensors()
            given = {t.untyped_storage().data_ptr() for t in tensors}
            result = case.call(tensors)
            for r in result if isinstance(result, (tuple, list)) else [result]:
                if isinstance(r, ad.Tensor) and r.untyped_storage().data_ptr() not in given:
                    assert r._version == 0, case


def test_a_product_with_a_vector_of_weights_and_a_bias_has_not_been_written():
    x, w, b = ad.ones(2, 3), ad.ones(3), ad.ones(())
    y = ad.nn.functional.linear(x, w, b)
    assert y.tolist() == [4, 4] and y._version == 0 and b.item() == 1


#: Calls with several results, and the names of these; each with a tuple of tensors to write to.
NAMED = {
    "sort": (lambda out: ad.sort(SQUARE, out=out), "values indices"),
    "topk": (lambda out: ad.topk(SQUARE, 3, out=out), "values indices"),
    "max": (lambda out: ad.max(SQUARE, 1, out=out), "values indices"),
    "median": (lambda out: ad.median(SQUARE, 1, out=out), "values indices"),
    "mode": (lambda out: ad.mode(SQUARE, 1, out=out), "values indices"),
    "kthvalue": (lambda out: ad.kthvalue(SQUARE, 2, out=out), "values indices"),
    "cummax": (lambda out: ad.cummax(SQUARE, 1, out=out), "values indices"),
    "aminmax": (lambda out: ad.aminmax(SQUARE, dim=1, out=out), "min max"),
    "frexp": (lambda out: ad.frexp(SQUARE, out=out), "mantissa exponent"),
    "eigh": (lambda out: ad.linalg.eigh(SQUARE, out=out), "eigenvalues eigenvectors"),
    "slogdet": (lambda out: ad.linalg.slogdet(SQUARE, out=out), "sign logabsdet"),
}
SQUARE = ad.tensor([[4.0, 1.0, 0.0], [1.0, 5.0, 2.0], [0.0, 2.0, 6.0]])


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("kind", [tuple, list])
def test_several_results_have_their_names_and_are_what_was_given(name, kind):
    f, names = NAMED[name]
    expected = f(None)
    out = kind(ad.empty(0, dtype=r.dtype) for r in expected)
    got = f(out)
    for n, to, result in zip(names.split(), out, expected):
        assert getattr(got, n) is to and to.tolist() == result.tolist()


def test_complex_numbers_are_not_converted():
    for f in ad.complex, ad.polar:
        with pytest.raises(RuntimeError, match="(?i)expected"):
            f(X.double(), X.double(), out=ad.empty(3, dtype=ad.complex64))
        assert f(X, X, out=ad.empty(0, dtype=ad.complex64)).tolist() == f(X, X).tolist()
