// Making and freeing tensors and storages.
#include "tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <new>

#include "runtime/allocator.h"
#include "runtime/pages.h"
#include "state.h"
#include "tensor/device.h"
#include "tensor/memory_in_use.h"
#include "tensor/sparse.h"

namespace adjoint {

void (*release_wrapper)(void*) noexcept = nullptr;

namespace {

std::atomic<DType> default_dtype_{DType::Float32};

// Tensor, storage and bytes in one block. The tensor and the storage each hold the block: the storage's count
// says when the bytes may go, and since the tensor owns its storage for as long as it lives, the storage goes
// last.
struct Block {
  TensorImpl tensor;
  Storage storage;
  alignas(16) char bytes[1];
};
// Compilers that people use lay such a struct out like any other.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
constexpr size_t kHeader = offsetof(Block, bytes);
constexpr size_t kLargestEmbedded = 272;

[[gnu::always_inline]] inline TensorImpl* new_embedded(size_t nbytes) {
  char* memory = static_cast<char*>(runtime::allocate_small(kHeader + nbytes));
  Block* block = reinterpret_cast<Block*>(memory);
  new (&block->tensor) TensorImpl;
  new (&block->storage) Storage;
  block->storage.kind = Storage::Kind::Embedded;
  block->storage.data = block->bytes;
  block->storage.nbytes = block->storage.capacity = nbytes;
  if (thread_state.made_in) [[unlikely]]
    block->storage.made_in = thread_state.made_in;
  block->tensor.storage = &block->storage;
  block->tensor.data = block->bytes;
  block->tensor.flags = TensorImpl::kEmbedded | thread_state.flags_of_new;
  return &block->tensor;
}

[[gnu::hot]] ViewImpl* new_impl() { return new (runtime::allocate_small(sizeof(ViewImpl))) ViewImpl; }

/// Whether new memory is that of another device.
bool is_elsewhere() { return thread_state.flags_of_new & TensorImpl::kElsewhere; }

TensorImpl* new_over(Ref<Storage> storage, char* data) {
  TensorImpl* impl = new_impl();
  impl->storage = storage.detach();
  impl->data = data;
  impl->flags = thread_state.flags_of_new;
  return impl;
}

/// A tensor without geometry.
TensorImpl* allocate_tensor(size_t nbytes) {
  if (nbytes <= kLargestEmbedded && !is_elsewhere()) return new_embedded(nbytes);
  Ref<Storage> storage = allocate_storage(nbytes);
  char* const data = storage->data;
  return new_over(std::move(storage), data);
}

Tensor over_with(TensorImpl* impl, Ref<Storage> storage, DType dtype, IntList sizes, IntList strides,
                 int64_t offset) {
  Tensor t = Tensor::steal(impl);
  impl->dtype = dtype;
  impl->data = storage->data + offset * itemsize(dtype);
  impl->flags = storage->is_here() ? 0u : uint32_t{TensorImpl::kElsewhere};
  impl->storage = storage.detach();
  impl->set_geometry(sizes, strides.data());
  return t;
}

}  // namespace

DType default_dtype() { return default_dtype_.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  if (!is_floating(dtype))
    fail<TypeError>("only floating-point types are supported as the default type, but found ", name_of(dtype),
                    "; pass float16, bfloat16, float32 or float64");
  default_dtype_.store(dtype, std::memory_order_relaxed);
}

namespace {
[[gnu::cold, gnu::noinline]] Ref<Storage> allocate_elsewhere(size_t nbytes) {
  Storage* storage = new (runtime::allocate_small(sizeof(Storage))) Storage;
  Ref<Storage> owner = Ref<Storage>::steal(storage);
  storage->nbytes = nbytes;
  storage->capacity = thread_state.device == Device::Meta ? SIZE_MAX : nbytes;
  if (thread_state.device != Device::Meta)
    storage->data = static_cast<char*>(runtime::allocate_on(thread_state.device, nbytes));
  storage->device = thread_state.device;
  storage->made_in = thread_state.made_in;
  if (thread_state.device != kRecorded) devices_in_use.store(true, std::memory_order_relaxed);
  return owner;
}
}  // namespace

[[gnu::hot]] Ref<Storage> allocate_storage(size_t nbytes) {
  if (is_elsewhere()) [[unlikely]]
    return allocate_elsewhere(nbytes);
  void* bytes = runtime::allocate(nbytes);
  Storage* storage = new (runtime::allocate_small(sizeof(Storage))) Storage;
  storage->data = static_cast<char*>(bytes);
  storage->nbytes = storage->capacity = nbytes;
  storage->made_in = thread_state.made_in;
  return Ref<Storage>::steal(storage);
}

Ref<Storage> external_storage(void* data, size_t nbytes, void (*deleter)(void*), void* context) {
  Storage* storage = new (runtime::allocate_small(sizeof(Storage))) Storage;
  storage->kind = Storage::Kind::External;
  storage->data = static_cast<char*>(data);
  storage->nbytes = nbytes;
  storage->deleter = deleter;
  storage->context = context;
  return Ref<Storage>::steal(storage);
}

namespace {
struct Recounted {
  Ref<Storage> bytes, counter;
  /// Of a tensor whose data were replaced: what it was first; and where, in the bytes under its views (those
  /// of `counter`).
  struct Former {
    Dims sizes, strides;
    DType dtype;
    const char* data = nullptr;
  };
  std::unique_ptr<const Former> former = nullptr;
};
void release_recounted(void* context) { delete static_cast<Recounted*>(context); }
const Recounted* recounted(const Storage& s) {
  return s.kind == Storage::Kind::External && s.deleter == release_recounted
             ? static_cast<const Recounted*>(s.context)
             : nullptr;
}
}  // namespace

Ref<Storage> recounted_storage(Ref<Storage> bytes, uint32_t version, Ref<Storage> counter) {
  // Never a chain of them.
  if (Storage* owner = owner_of_bytes(bytes.get()); owner != bytes.get()) bytes = Ref<Storage>::share(owner);
  if (Storage* first = counter ? counter_of(*counter) : nullptr) counter = Ref<Storage>::share(first);
  if (counter) version = std::max(version, counter->version.load(std::memory_order_relaxed));
  const Storage& memory = *bytes;
  auto* context = new Recounted{.bytes = std::move(bytes), .counter = std::move(counter)};
  Ref<Storage> s = external_storage(memory.data, memory.nbytes, release_recounted, context);
  s->readonly = memory.readonly;
  s->device = memory.device;
  s->layout = memory.layout;
  s->made_in = memory.made_in;
  s->checked = memory.kind == Storage::Kind::External && memory.checked;
  s->version.store(version, std::memory_order_relaxed);
  return s;
}
Storage* owner_of_bytes(Storage* storage) {
  const Recounted* r = recounted(*storage);
  return r ? r->bytes.get() : storage;
}
Storage* counter_of(const Storage& storage) {
  const Recounted* r = recounted(storage);
  return r ? r->counter.get() : nullptr;
}

void remember_before_data(Storage& storage, const TensorImpl& t) {
  auto& now = const_cast<Recounted&>(*recounted(storage));
  const Recounted* before = recounted(*t.storage);
  auto former = before && before->former
                    ? std::make_unique<Recounted::Former>(*before->former)
                    : std::make_unique<Recounted::Former>(Dims(t.sizes()), Dims(t.strides()), t.dtype);
  if (now.counter && !(before && before->counter)) {
    former->data = change_by_data(t) ? nullptr : t.data;
    former->strides = Dims(t.strides());
  }
  now.former = std::move(former);
}
uint32_t change_by_data(const TensorImpl& t) {
  const Recounted* r = recounted(*t.storage);
  if (!r || !r->former || (t.dtype == r->former->dtype && same(t.sizes(), r->former->sizes.span()))) return 0;
  uint64_t mixed = index_of(t.dtype) + 1;
  for (int64_t n : t.sizes())
    mixed = (mixed ^ static_cast<uint64_t>(n) ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ (mixed >> 31)) * 0x94d049bb133111ebull;
  return static_cast<uint32_t>(mixed >> 32) | 1;
}
std::string before_data(const TensorImpl& t) {
  const Recounted* r = recounted(*t.storage);
  return r && r->former ? text(name_of(r->former->dtype), " of shape ", to_string(r->former->sizes.span()))
                        : std::string();
}
const char* first_before_data(const TensorImpl& t, Storage* storage) {
  const Recounted* r = recounted(*t.storage);
  return r && r->former && r->counter && owner_of_bytes(r->counter.get()) == owner_of_bytes(storage) &&
                 !change_by_data(t) && same(t.strides(), r->former->strides.span())
             ? r->former->data
             : nullptr;
}

[[gnu::hot]] void Storage::destroy(Storage* storage) noexcept {
  if (storage->kind == Kind::Embedded) {
    Block* block = reinterpret_cast<Block*>(reinterpret_cast<char*>(storage) - offsetof(Block, storage));
    runtime::deallocate_small(block, kHeader + storage->capacity);
    return;
  }
  if (storage->device != Device::CPU && storage->kind == Kind::Owned) {
    if (storage->data) runtime::deallocate_on(storage->device, storage->data, storage->capacity);
  } else if (storage->kind == Kind::Owned)
    runtime::deallocate(storage->data, storage->capacity);
  else if (storage->deleter)
    storage->deleter(storage->context);
  runtime::deallocate_small(storage, sizeof(Storage));
}

bool Storage::resize(size_t bytes) {
  if (kind == Kind::External || bytes > capacity) return false;
  nbytes = bytes;
  if (bytes == 0 && kind == Kind::Owned && device == Device::CPU) runtime::pages::discard(data, capacity);
  return true;
}

[[gnu::hot]] void TensorImpl::set_geometry(IntList sizes, const int64_t* strides) {
  if (sizes.size() > kMaxDims) [[unlikely]]
    fail_rank(sizes.size());
  if (sizes.size() <= 1 && ndim <= kInlineDims) {
    ndim = static_cast<uint8_t>(sizes.size());
    numel = 1;
    if (ndim) {
      numel = inline_[0] = sizes[0];
      inline_[kInlineDims] = strides ? strides[0] : 1;
    }
    return set(kContiguous, numel <= 1 || inline_[kInlineDims] == 1);
  }
  int64_t* const old = ndim > kInlineDims ? heap_ : nullptr;
  const size_t old_bytes = 2 * ndim * sizeof(int64_t);
  int64_t* to = inline_;
  if (sizes.size() > kInlineDims) {
    to = static_cast<int64_t*>(runtime::allocate(2 * sizes.size() * sizeof(int64_t)));
  }
  const int n = static_cast<int>(sizes.size());
  const int cap = n <= kInlineDims ? kInlineDims : n;
  int64_t dense = 1;  // the product of the sizes, those that are 0 left out
  bool contiguous = true, overflow = false, none = false;
  for (int i = n - 1; i >= 0; --i) {
    const int64_t s = strides ? strides[i] : dense;
    contiguous &= sizes[i] == 1 || s == dense;
    to[i] = sizes[i];
    to[cap + i] = s;
    none |= sizes[i] == 0;
    overflow |= __builtin_mul_overflow(dense, sizes[i] ? sizes[i] : 1, &dense);
  }
  if (overflow && !(none && strides)) [[unlikely]] {
    if (to != inline_) runtime::deallocate(to, 2 * sizes.size() * sizeof(int64_t));
    if (old) runtime::deallocate(old, old_bytes);
    ndim = 0;  // a fresh tensor, which goes: those that live get shapes that others had
    numel = 0;
    fail("the size of shape ", to_string(sizes),
         " overflows a 64-bit integer (Storage size calculation overflowed)");
  }
  if (n > kInlineDims) heap_ = to;
  if (old) runtime::deallocate(old, old_bytes);
  ndim = static_cast<uint8_t>(n);
  numel = none ? 0 : dense;
  set(kContiguous, contiguous || none);
}

void TensorImpl::replace_storage(Ref<Storage> other, char* first, DType type, IntList sizes,
                                 const int64_t* strides) {
  const Dims new_sizes(sizes),
      new_strides(IntList(strides, strides ? sizes.size() : 0));  // they may be this tensor's own
  set_geometry(new_sizes.span(), strides ? new_strides.data() : nullptr);
  if (is(kBatched)) set(kContiguous, false);  // its elements are no run of memory, however its samples lie
  dtype = type;
  data = first;
  // The storage of its own block goes with the block, whichever one the tensor stands on.
  const Storage* own =
      is(kEmbedded)
          ? &reinterpret_cast<Block*>(reinterpret_cast<char*>(this) - offsetof(Block, tensor))->storage
          : nullptr;
  if (storage && storage->saved()) other->mark(Storage::kSaved);  // the tensor is as much a node's as before
  Storage* const old = std::exchange(storage, other.detach());
  if (old && old != own) give_up(old);
  if (storage == own) runtime::release_count(storage);
  set(kElsewhere, !storage->is_here());
}

bool base_requires_grad(const TensorImpl* view) {
  if (!is_differentiable(view->dtype)) return false;
  auto& v = *static_cast<ViewImpl*>(const_cast<TensorImpl*>(view));
  std::lock_guard lock(v.lock);
  return v.base && v.base->is_now(TensorImpl::kRequiresGrad);
}

[[gnu::hot]] TensorImpl::~TensorImpl() {
  if (meta.load(std::memory_order_acquire)) release_meta(this);
  if (grad_fn) release_node(grad_fn);
  if (ndim > kInlineDims) runtime::deallocate(heap_, 2 * ndim * sizeof(int64_t));
}

[[gnu::hot]] void TensorImpl::destroy(TensorImpl* impl) noexcept {
  if (impl->is(kOwnsWrapper)) {
    release_wrapper(impl->wrapper);
    if (!impl->is(kOwnsWrapper))
      return;  // somebody has the object by a weak reference: it owns the tensor from now on
  }
  const bool embedded = impl->is(kEmbedded);
  TensorImpl* base = embedded ? nullptr : static_cast<ViewImpl*>(impl)->base;
  Storage* storage = impl->storage;
  impl->~TensorImpl();
  if (embedded) {
    // The block lives until its own storage dies, which may be shared by views.
    Block* block = reinterpret_cast<Block*>(reinterpret_cast<char*>(impl) - offsetof(Block, tensor));
    if (storage != &block->storage && storage) runtime::release_count(storage);
    runtime::release_count(&block->storage);
    return;
  }
  if (storage) runtime::release_count(storage);
  if (base) runtime::release_count(base);
  runtime::deallocate_small(impl, sizeof(ViewImpl));
}

[[gnu::hot]] Tensor empty(IntList sizes, DType dtype) {
  const int64_t numel = count_of(sizes, "empty");
  TensorImpl* impl = allocate_tensor(runtime::checked_bytes(numel, static_cast<size_t>(itemsize(dtype))));
  Tensor t = Tensor::steal(impl);
  impl->dtype = dtype;
  impl->set_geometry(sizes, nullptr);
  return t;
}

[[gnu::hot]] Tensor empty_scalar(DType dtype) {
  if (is_elsewhere()) [[unlikely]]
    return empty({}, dtype);
  TensorImpl* impl = new_embedded(16);
  impl->dtype = dtype;
  impl->numel = 1;
  impl->flags |= TensorImpl::kContiguous;
  impl->storage->nbytes = static_cast<size_t>(itemsize(dtype));
  return Tensor::steal(impl);
}

[[gnu::hot]] Tensor over(Ref<Storage> storage, DType dtype, IntList sizes, IntList strides, int64_t offset) {
  ViewImpl* impl = new_impl();
  impl->can_be_view = true;
  return over_with(impl, std::move(storage), dtype, sizes, strides, offset);
}

void need_shape(const Tensor& t, IntList sizes, const char* what, const char* op) {
  if (!same(t.sizes(), sizes))
    fail(op, "(): expected ", what, " of shape ", to_string(sizes), ", but got shape ", t.sizes());
}

void need_own_memory(const Tensor& t, const char* what) {
  if (t->is(TensorImpl::kBatched)) [[unlikely]]
    refuse_memory_of_batch(t, what);
}

[[gnu::hot]] Tensor alias(const Tensor& base, IntList sizes, IntList strides, int64_t offset) {
  need_own_memory(base, "a view of memory");
  return over(Ref<Storage>::share(base->storage), base.dtype(), sizes, strides, offset);
}

[[gnu::hot]] Tensor alias(const Tensor& base) {
  if (base->is(TensorImpl::kBatched)) [[unlikely]]
    return alias_of_batch(base);
  return over_with(new_impl(), Ref<Storage>::share(base->storage), base.dtype(), base.sizes(), base.strides(),
                   base.offset());
}

Tensor alias_for_view(const Tensor& base) {
  Tensor t = alias(base);
  static_cast<ViewImpl*>(t.get())->can_be_view = true;
  return t;
}

Scalar read_element(const char* at, DType dtype) {
  return visit(dtype, [&](auto tag) -> Scalar {
    using T = typename decltype(tag)::type;
    T v;
    std::memcpy(&v, at, sizeof(T));
    if constexpr (std::is_same_v<T, bool>)
      return Scalar(v);
    else if constexpr (std::is_integral_v<T>)
      return Scalar(static_cast<int64_t>(v));
    else if constexpr (is_complex_v<T>)
      return Scalar(convert<Complex<double>>(v));
    else
      return Scalar(static_cast<double>(static_cast<compute_t<T>>(v)));
  });
}

void write_element(char* at, DType dtype, const Scalar& value) {
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T v = value.to<T>();
    std::memcpy(at, &v, sizeof(T));
  });
}

Scalar item(const Tensor& t, const char* by) {
  if (t->is(TensorImpl::kBatched)) [[unlikely]]
    refuse_value_of_batch(t, by);
  if (thread_state.watched && !t.is_wrapped()) [[unlikely]]
    announce_read(t, by);
  if (t.numel() != 1)
    fail("a Tensor with ", t.numel(), " elements cannot be converted to Scalar: its shape is ", t.sizes(),
         "; index one element, reduce it, or use tolist()");
  if (!t->is(TensorImpl::kElsewhere)) return read_element(t.bytes(), t.dtype());
  if (is_meta(t)) refuse_meta("item");
  if (is_sparse(t)) refuse_sparse(t, "item");
  alignas(16) char bytes[16];
  runtime::copy_out(device_of(t), bytes, t.bytes(), static_cast<size_t>(t.itemsize()));
  return read_element(bytes, t.dtype());
}

std::string to_string(const Scalar& value) {
  switch (value.kind()) {
    case Category::Bool:
      return value.as_int() ? "True" : "False";
    case Category::Integer:
      return text(value.as_int());
    case Category::Floating:
      return text(value.as_double());
    case Category::Complex:
      break;
  }
  const auto z = value.as_complex();
  return text(z.re, z.im < 0 ? "-" : "+", std::abs(z.im), "j");
}

}  // namespace adjoint
