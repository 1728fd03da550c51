// A tensor: storage, element type, sizes, strides; and where it stands in the graph.
//
// `TensorImpl` is the object, `Tensor` an owning pointer to it (null means "undefined": no gradient, no
// argument). A small tensor lies in one block with its storage and bytes. `TensorImpl::wrapper` is the object
// by which another language knows this tensor; the core carries the pointer and never looks inside. Start
// reading at the fields.
#pragma once

#include <memory>
#include <utility>

#include "runtime/lock.h"
#include "tensor/dtype.h"
#include "tensor/scalar.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace adjoint {

class Node;
struct AutogradMeta;
class Tensor;

struct TensorImpl {
  static constexpr int kInlineDims = 4;
  enum Flag : uint32_t {
    kRequiresGrad = 1,  // a leaf that asked for it, or the result of a recorded operation
    kWrapped = 2,       // made from a bare number: weak in promotion
    kContiguous = 4,    // row-major without gaps
    kView = 8,          // made by a view operation over another tensor, its base
    kInference = 16,    // made in inference mode
    kEmbedded = 32,     // the block holds the storage too
    kOwnsWrapper = 64,  // the wrapper outlived its last reference in the other language: this tensor keeps it
    kMultiView = 128,   // one of several views made by one call
    kRetainsGrad = 256,
    kNoGradView = 512,      // a view made while recording was off
    kInferenceView = 1024,  // a view of a normal tensor, made in inference mode
    kFunctionView = 2048,  // a view whose history its base cannot rewrite: of a Function, or without its base
    kElsewhere = 4096,     // not in the memory of the CPU: the storage says where
    kDual = 8192,          // carries tangents: see transforms/tangents.h
    kBatched = 16384,      // stands for a batch of tensors: see transforms/batching.h
  };
  /// What a call with such an input goes to transforms for: see transforms/transformed.h.
  static constexpr uint32_t kTransformed = kDual | kBatched | kElsewhere;
  /// Of these, what a transform gave the tensor, so that there is more to it than its elements.
  static constexpr uint32_t kCarries = kDual | kBatched;
  /// Of these, why the host cannot take the elements as they lie: there are none here, or those of all
  /// samples.
  static constexpr uint32_t kNotAsTheyLie = kBatched | kElsewhere;
  /// Why a view may not be written while recording; empty for ordinary views.
  static constexpr uint32_t kSpecialView = kMultiView | kNoGradView | kInferenceView | kFunctionView;

  std::atomic<uint32_t> refcount{1};
  DType dtype = DType::Float32;
  uint8_t ndim = 0;
  /// Which result of grad_fn this is.
  uint16_t output_nr = 0;
  /// Owned.
  Storage* storage = nullptr;
  /// The first element: storage bytes plus offset.
  char* data = nullptr;
  int64_t numel = 0;
  /// Owned; null for leaves.
  Node* grad_fn = nullptr;
  uint32_t flags = 0;
  /// Version of the storage up to which this view's history is right.
  std::atomic<uint32_t> view_version{0};
  /// Owned; made when a gradient, a hook or an accumulator needs a place.
  std::atomic<AutogradMeta*> meta{nullptr};
  void* wrapper = nullptr;

  IntList sizes() const { return {dims(), ndim}; }
  IntList strides() const { return {dims() + capacity(), ndim}; }
  const int64_t* dims() const { return ndim <= kInlineDims ? inline_ : heap_; }
  int64_t* dims() { return ndim <= kInlineDims ? inline_ : heap_; }
  int capacity() const { return ndim <= kInlineDims ? kInlineDims : ndim; }

  /// Set sizes and strides; null strides mean row-major. Keeps numel and the contiguity flag right. The one
  /// place where a rank is made: refuses one that masks of dimensions cannot hold, and sizes whose product
  /// overflows.
  void set_geometry(IntList sizes, const int64_t* strides);

  /// Stand on other memory, of which `data` is the first element. The one place where a tensor's storage is
  /// replaced.
  void replace_storage(Ref<Storage> other, char* data, DType dtype, IntList sizes, const int64_t* strides);

  bool is(Flag f) const { return flags & f; }
  /// What another thread may ask of this tensor meanwhile: whether a view's base requires a gradient.
  bool is_now(Flag f) const { return __atomic_load_n(&flags, __ATOMIC_RELAXED) & f; }
  void set(Flag f, bool on) { __atomic_store_n(&flags, on ? flags | f : flags & ~f, __ATOMIC_RELAXED); }
  uint32_t version() const { return storage->version.load(std::memory_order_relaxed); }

  static void destroy(TensorImpl* impl) noexcept;
  TensorImpl() {}
  ~TensorImpl();

 private:
  union {
    int64_t inline_[2 * kInlineDims];
    int64_t* heap_;
  };
};

/// A tensor that lies in no block with its storage, and what it is a view of, the first of a chain. See
/// autograd/views.h.
struct ViewImpl : TensorImpl {
  runtime::SmallLock lock;  // guards `base`
  bool can_be_view = false;
  /// Owned; null when there is none.
  TensorImpl* base = nullptr;
};

/// Whether gradients are wanted for the base of a view. Slow.
bool base_requires_grad(const TensorImpl* view);

/// Let go of what differentiation keeps with a tensor that dies. Defined in autograd/, which alone knows what
/// that is.
void release_meta(TensorImpl* t) noexcept;
void release_node(Node* node) noexcept;

/// Called when a tensor that owns its wrapper dies; set by the bindings.
extern void (*release_wrapper)(void* wrapper) noexcept;

class Tensor : public Ref<TensorImpl> {
 public:
  using Ref<TensorImpl>::Ref;
  Tensor(Ref<TensorImpl> r) noexcept : Ref<TensorImpl>(std::move(r)) {}
  static Tensor steal(TensorImpl* p) { return Tensor(Ref<TensorImpl>::steal(p)); }
  static Tensor share(TensorImpl* p) { return Tensor(Ref<TensorImpl>::share(p)); }

  bool defined() const { return get() != nullptr; }
  DType dtype() const { return get()->dtype; }
  int64_t dim() const { return get()->ndim; }
  int64_t numel() const { return get()->numel; }
  IntList sizes() const { return get()->sizes(); }
  IntList strides() const { return get()->strides(); }
  int64_t size(int64_t d) const { return get()->sizes()[d < 0 ? d + dim() : d]; }
  int64_t stride(int64_t d) const { return get()->strides()[d < 0 ? d + dim() : d]; }
  bool is_contiguous() const { return get()->is(TensorImpl::kContiguous); }
  bool is_wrapped() const { return get()->is(TensorImpl::kWrapped); }
  int64_t itemsize() const { return adjoint::itemsize(dtype()); }
  int64_t offset() const { return (get()->data - get()->storage->data) / itemsize(); }
  uint32_t version() const { return get()->version(); }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(get()->data);
  }
  char* bytes() const { return get()->data; }
  /// For a view also where its base has become differentiable since.
  bool requires_grad() const {
    const uint32_t flags = get()->flags;
    if (!(flags & (TensorImpl::kRequiresGrad | TensorImpl::kView))) return false;
    return flags & TensorImpl::kRequiresGrad || base_requires_grad(get());
  }
  bool is_complex() const { return adjoint::is_complex(dtype()); }
  bool is_floating() const { return adjoint::is_floating(dtype()); }
};

/// A few tensors borrowed for a call: no count is touched, so the owners must outlive it.
template <int N>
class Borrowed {
 public:
  TensorImpl*& operator[](int i) { return impls_[i]; }
  operator const Tensor*() const { return reinterpret_cast<const Tensor*>(impls_); }

 private:
  static_assert(sizeof(Tensor) == sizeof(TensorImpl*));
  TensorImpl* impls_[N] = {};
};

using TensorList = std::span<const Tensor>;
using Tensors = std::vector<Tensor>;

/// A new row-major tensor, not initialised.
Tensor empty(IntList sizes, DType dtype);
/// A new zero-dimensional tensor, not initialised; the cheapest there is.
Tensor empty_scalar(DType dtype);
/// A new row-major tensor of zeros, of one value.
Tensor zeros(IntList sizes, DType dtype);
Tensor full(IntList sizes, const Scalar& value, DType dtype);
/// A row-major tensor that is about to be used, filled with zeros, with one value.
Tensor zeroed(Tensor t);
Tensor filled(Tensor t, const Scalar& value);
/// A zero-dimensional tensor of a number in a given type.
Tensor scalar_tensor(const Scalar& value, DType dtype);
/// A bare number on its way into an operator: weak in promotion, shared and therefore never to be written.
/// `like` is the type it will meet: a number of its category that it holds is stored in that type at once.
Tensor wrap_number(const Scalar& value, DType like);
/// Another tensor over the same storage; offset in elements from the storage's start. No history. It can be a
/// view.
Tensor alias(const Tensor& base, IntList sizes, IntList strides, int64_t offset);
/// The same elements again, without history. It cannot be a view.
Tensor alias(const Tensor& base);
/// Likewise, and it can be one.
Tensor alias_for_view(const Tensor& base);
/// A tensor over given bytes. It can be a view.
Tensor over(Ref<Storage> storage, DType dtype, IntList sizes, IntList strides, int64_t offset);

/// Whether two tensors may have elements in the same bytes.
inline bool may_share_memory(const Tensor& a, const Tensor& b) { return overlap(*a->storage, *b->storage); }

/// Refuse a tensor of another shape than what is said to be of this one.
void need_shape(const Tensor& t, IntList sizes, const char* what, const char* op);

/// Refuse to take the memory of `t` for its elements, where it stands for a batch.
void need_own_memory(const Tensor& t, const char* what);
// Of a tensor that stands for a batch, defined in transforms/, which alone knows what that is: the refusal;
// its value, which is refused too; and the same samples as another such tensor, without history.
[[noreturn]] void refuse_memory_of_batch(const Tensor& t, const char* what);
[[noreturn]] void refuse_value_of_batch(const Tensor& t, const char* by);
Tensor alias_of_batch(const Tensor& t);

/// Read or write one element, converting; no bounds are checked.
Scalar read_element(const char* at, DType dtype);
void write_element(char* at, DType dtype, const Scalar& value);

/// The value of a tensor of one element; RuntimeError otherwise. Who looks on is told that it is read, `by`
/// whom.
Scalar item(const Tensor& t, const char* by = "item");

// What makes, writes or reads elements and is no call of an operator says so, where somebody looks on
// (transforms/interpreter.h). Within a call nobody does, so that its kernels may use all of these.
void announce_filled(const Tensor& made, const Scalar& value);
void announce_copied(const Tensor& to, const Tensor& from, bool made);
void announce_read(const Tensor& t, const char* by);

}  // namespace adjoint
