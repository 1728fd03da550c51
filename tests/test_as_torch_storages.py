"""Names that only programs for torch ask for: storages and types of old, determinism, checks, and how results print."""

from helpers import run_python, torch_program


def _holds(program):
    assert torch_program("import torch\n" + program + "\nprint('held')") == "held\n"


def test_storages_of_old():
    _holds("""
import pickle
s = torch.FloatStorage([1, 2.5])
assert isinstance(s, torch.FloatStorage) and isinstance(s, torch.TypedStorage) and not isinstance(s, torch.LongStorage)
assert torch.FloatStorage.dtype is torch.float32 and s.type() == "torch.FloatStorage"
assert torch.BoolStorage.from_buffer(bytearray([0, 3]), "big").tolist() == [False, True]
assert torch.ShortStorage.from_buffer(bytearray([1, 2]), "big").tolist() == [258]
assert torch.FloatTensor(s).data_ptr() == s.data_ptr()
assert torch.ones(1, dtype=torch.int8).storage_type() is torch.CharStorage
names = torch.storage._dtype_to_storage_type_map()
assert names[torch.bfloat16] == "BFloat16Storage" and torch.storage._storage_type_to_dtype_map()["IntStorage"] is torch.int32
for kind in torch._storage_classes:
    if kind not in (torch.UntypedStorage, torch.TypedStorage) and not kind.is_cuda:
        assert kind(3).fill_(1).tolist() == [1, 1, 1] and kind.__name__ == names[kind.dtype]
def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
fails(RuntimeError, "Only child classes", torch.storage._LegacyStorage)
fails(RuntimeError, "'device' cannot be specified", lambda: torch.IntStorage(device="cpu"))
fails(RuntimeError, "'dtype' cannot be specified", lambda: torch.IntStorage(dtype=torch.int8))
fails(TypeError, "unexpected keyword", lambda: torch.IntStorage(other=1))
fails(RuntimeError, "Too many positional arguments", lambda: torch.IntStorage(0, 0))
fails(TypeError, "must be UntypedStorage", lambda: torch.IntStorage(wrap_storage=s))
fails(RuntimeError, "Not available for CUDA storage", lambda: torch.cuda.FloatStorage.from_buffer())
fails(TypeError, "is not an acceptable base type", lambda: type(torch.FloatTensor)("Mine", (torch.FloatTensor,), {}))
""")


def test_typed_storages_say_once_that_they_go():
    _holds("""
import warnings
torch.storage
def told(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(w.message)[:26] for w in found], [w.filename for w in found]
said = "TypedStorage is deprecated"
assert told(lambda: (torch.FloatStorage(), torch.ones(2).storage())) == ([said], ["<string>"])
assert told(torch.FloatStorage) == ([], [])
torch.storage._set_always_warn_typed_storage_removal(True)
s = torch.ones(2)._typed_storage()
for call in (torch.FloatStorage, lambda: torch.FloatStorage.dtype, lambda: s.fill_(0), lambda: s.is_cuda, s.untyped, lambda: len(s), lambda: s[0], s.clone, s.tolist):
    assert told(call)[0] == [said]
for call in (lambda: torch.FloatStorage(_internal=True), lambda: torch.FloatStorage._dtype, lambda: s._resize_(3), s._size, lambda: s._untyped_storage, s._nbytes, s._data_ptr, lambda: s._deepcopy({}), lambda: s._setitem(0, 1)):
    assert told(call)[0] == []
""")


def test_determinism():
    _holds("""
import math
from torch.utils import deterministic
assert torch.get_deterministic_debug_mode() == 0 and not torch.are_deterministic_algorithms_enabled()
for mode, number in (("warn", 1), ("error", 2), (0, 0), (2, 2)):
    torch.set_deterministic_debug_mode(mode)
    assert torch.get_deterministic_debug_mode() == number
    assert torch.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
made = lambda dtype: (torch.empty(3, dtype=dtype), torch.empty_like(torch.ones(3, dtype=dtype)), torch.ones(1, dtype=dtype).new_empty(3), torch.empty_strided((3,), (2,), dtype=dtype), torch.ones(1, dtype=dtype).resize_(4)[1:], torch.empty(3, out=torch.ones(1, dtype=dtype)))
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
    assert all(x.isnan().all() for x in made(dtype)), dtype
for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
    assert all((x == torch.iinfo(dtype).max).all() for x in made(dtype)), dtype
assert all(x.all() for x in made(torch.bool))
deterministic.fill_uninitialized_memory = False
torch.empty(3)
assert torch.ones(1).resize_(3).tolist() == [1, 0, 0]
for wrong, text in (((1,), "argument 'mode' (position 1) must be bool, not int"), ):
    try:
        torch.use_deterministic_algorithms(*wrong)
    except TypeError as error:
        assert text in str(error)
    else:
        raise AssertionError(text)
""")


def test_checks():
    _holds("""
kinds = {"": RuntimeError, "_value": ValueError, "_type": TypeError, "_index": IndexError, "_not_implemented": NotImplementedError}
for suffix, kind in kinds.items():
    check, check_all = getattr(torch, "_check" + suffix), getattr(torch, "_check_tensor_all" + suffix)
    check(True), check_all(torch.ones(2, dtype=torch.bool))
    for call, expected, text in ((lambda: check(False), kind, "Expected cond to be True"), (lambda: check(False, lambda: torch.arange(2)), kind, "tensor([0, 1])"), (lambda: check(1), TypeError, "cond must be a bool"), (lambda: check_all(torch.zeros(2, dtype=torch.bool)), kind, "Expected cond"), (lambda: check_all(True), TypeError, "cond must be a tensor"), (lambda: check_all(torch.ones(2)), TypeError, "must have dtype torch.bool")):
        try:
            call()
        except expected as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
""")


def test_named_results_print_as_torch_s():
    assert torch_program("import torch; print(torch.tensor([[1, 3]]).max(1))") == (
        "torch.return_types.max(\nvalues=tensor([3]),\nindices=tensor([1]))\n"
    )
    assert torch_program("import torch; print(torch.mode(torch.tensor([3, 3])))") == (
        "torch.return_types.mode(\nvalues=tensor(3),\nindices=tensor(1))\n"
    )


def test_what_torch_says_of_memory():
    _holds("""
overlap = torch._debug_has_internal_overlap
assert [overlap(x) for x in (torch.ones(3, 3), torch.ones(3, 3).t(), torch.ones(1, 3).expand(4, 3), torch.ones(10).as_strided([2, 1, 5], [1, 0, 2]), torch.ones(20).as_strided((2, 1, 5), (10, 0, 2)))] == [0, 0, 1, 0, 2]
x, y = torch.ones(2), torch.zeros(2)
torch.utils.swap_tensors(x, y)
assert x.tolist() == [0, 0] and torch._utils._element_size(torch.float64) == 8
flat = torch._utils._flatten_dense_tensors([x, torch.ones(1, 2)])
assert [t.shape for t in torch._utils._unflatten_dense_tensors(flat, [x, torch.ones(1, 2)])] == [(2,), (1, 2)]
image, grid = torch.arange(4.0).view(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
assert torch.grid_sampler(image, grid, 0, 0, False).item() == torch.grid_sampler_2d(image, grid, 0, 0, True).item() == 1.5
""")


def test_memory_that_is_read_where_it_is_written():
    _holds("""
def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert "unsupported operation" in str(error) and "single memory location" in str(error), error
    else:
        raise AssertionError(call)
x, index, mask = torch.rand(8), torch.tensor([2, 1, 0]), torch.tensor([True, False, True, True])
for call in (lambda: x[1:].add_(x[:-1]), lambda: torch.exp(x[1:], out=x[:-1]), lambda: torch.add(x[1:], 1, out=x[:-1]), lambda: torch.lerp(x[1:], x[1:], x[1:], out=x[:-1]), lambda: index.index_add_(0, index, index.clone()), lambda: index.index_fill_(0, index, 0), lambda: index.index_copy_(0, index.clone(), index), lambda: mask[1:].masked_fill_(mask[:-1], False), lambda: torch.cat([x, x[:2]], out=x)):
    refused(call)
# The same elements, strides that leave others between, and other memory are no reason.
torch.exp(x, out=x), x.add_(x), x.copy_(x), x[::2].add_(x[1::2]), torch.add(x[:4], x[4:], out=x[:4]), x[:4].copy_(x[4:]), x.index_add_(0, index, torch.rand(3))
""")
    # Without torch's refusal the result is right.
    program = "import adjoint as ad; x = ad.arange(4.0); x[1:].add_(x[:-1]); print(x[1:].tolist())"
    assert run_python("-c", program).stdout == "[1.0, 3.0, 5.0]\n"


def test_generators_are_copied():
    _holds("""
import copy, pickle
g = torch.Generator().manual_seed(2)
torch.randn(3, generator=g)
copies = g.clone_state(), copy.deepcopy(g), pickle.loads(pickle.dumps(g))
expected = torch.randn(5, generator=g)
assert all(torch.randn(5, generator=c).equal(expected) and c.initial_seed() == 2 for c in copies)
""")


def test_masks_of_bytes_warn_wherever_they_are_written():
    _holds("""
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for accumulate in (False, True):
        torch.ones(2).index_put_((torch.tensor([1, 0], dtype=torch.uint8),), torch.tensor(2.0), accumulate)
assert len(found) == 2 and "torch.uint8 is now deprecated" in str(found[0].message)
""")


def test_warnings_that_come_once_come_each_time_where_that_is_asked_for():
    _holds("""
import warnings
def told():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.addcmul(torch.ones(1), 2, torch.ones(1), torch.ones(1))
    return ["This overload of addcmul is deprecated" in str(w.message) for w in found]
assert told() == [True] and told() == []
torch.set_warn_always(True)
assert told() == told() == [True]
torch.set_warn_always(False)
try:
    torch.quint8.is_signed
except RuntimeError as error:
    assert "not supported for quantized" in str(error)
else:
    raise AssertionError
""")
