// The bytes under tensors: shared by a tensor and its views, with the version counter that in-place writes
// bump.
//
// A storage is embedded when it lies in the same block as the tensor it was made with (small tensors: one
// allocation for everything), owned when its bytes come from the allocator, external when somebody else's
// deleter gives them back (NumPy, DLPack).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/device.h"
#include "runtime/intrusive.h"

namespace adjoint {

using runtime::Ref;

struct Storage {
  enum class Kind : uint8_t { Embedded, Owned, External };
  /// Sparse: there are no elements in order, but SparseParts (tensor/sparse.h).
  enum class Layout : uint8_t { Strided, Sparse };

  /// Owners: tensors over these bytes, and for an embedded storage nobody else.
  std::atomic<uint32_t> refcount{1};
  /// How often the bytes were written in place.
  std::atomic<uint32_t> version{0};
  char* data = nullptr;
  size_t nbytes = 0;
  Kind kind : 4 = Kind::Owned;
  Layout layout : 4 = Layout::Strided;
  Device device = Device::CPU;
  uint8_t readonly : 1 = false;
  /// For external bytes: whether their contents are compared when what was saved of them is used.
  uint8_t checked : 1 = true;
  /// For what `forget_in_place` leaves of a tensor to those that saved it: at a version that nobody has.
  uint8_t detached : 1 = false;
  /// How many arrays, buffers and capsules of others show the bytes, which do not move meanwhile; at
  /// kMostLoans, it stays that.
  uint8_t loans : 5 = 0;
  static constexpr uint8_t kMostLoans = 31;
  /// Whether a tensor over these bytes was ever the base of a view, whether a node ever kept one itself, and
  /// whether a recording met one (replay/trace.h).
  enum Mark : uint8_t { kViewed = 1, kSaved = 2, kMet = 4 };
  std::atomic<uint8_t> marks{0};
  /// The innermost vmap() that ran when these bytes came to be, by the last digits of its number; 0: none
  /// did.
  uint32_t made_in = 0;
  union {
    /// For external bytes: who gives them back.
    void (*deleter)(void* context) = nullptr;
    /// For all others: the operator that wrote last.
    const char* writer;
  };
  union {
    /// For external bytes: what `deleter` is called with.
    void* context = nullptr;
    /// For all others: the bytes that were allocated, of which `nbytes` are in use.
    size_t capacity;
  };

  /// Whether they came to be inside of the vmap() of that number.
  bool made_inside(uint64_t level) const {
    return made_in && static_cast<int32_t>(made_in - static_cast<uint32_t>(level)) >= 0;
  }
  /// Whether the host's kernels can take the elements as they lie.
  bool is_here() const { return device == Device::CPU && layout == Layout::Strided; }
  bool viewed() const { return marks.load(std::memory_order_relaxed) & kViewed; }
  bool saved() const { return marks.load(std::memory_order_relaxed) & kSaved; }
  void mark(Mark m) {
    if (!(marks.load(std::memory_order_relaxed) & m)) marks.fetch_or(m, std::memory_order_relaxed);
  }
  void bump() { version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Use fewer of the bytes, or again more of them, where they lie; false when there are not so many. The
  /// bytes stay readable: tensors may point to any of them.
  bool resize(size_t bytes);
  static void destroy(Storage* storage) noexcept;
};

/// Bytes not initialised, on the device where this thread makes tensors.
Ref<Storage> allocate_storage(size_t nbytes);
/// Bytes that belong to somebody else.
Ref<Storage> external_storage(void* data, size_t nbytes, void (*deleter)(void*), void* context);

/// The bytes of `bytes` with a count of writes of their own, from `version` on. With a `counter`, what stands
/// on either counts the writes to both.
Ref<Storage> recounted_storage(Ref<Storage> bytes, uint32_t version, Ref<Storage> counter);
/// The storage that owns the bytes of one made by `recounted_storage`; itself for others.
Storage* owner_of_bytes(Storage* storage);
/// Whether two have bytes in common: they are one, or count their writes apart, or somebody else's bytes
/// overlap.
inline bool overlap(const Storage& a, const Storage& b) {
  return &a == &b || (a.data < b.data + b.nbytes && b.data < a.data + a.nbytes);
}
/// Whose writes such a storage counts too; null for others.
Storage* counter_of(const Storage& storage);

struct TensorImpl;
/// A tensor is about to get the data of another, with a storage made by `recounted_storage`, and what it was
/// is remembered there: graphs may have saved it, and it may have views.
void remember_before_data(Storage& recounted, const TensorImpl& t);
/// A number that tells the tensor's shape and type from those that it had before its data were replaced; 0
/// where they are the same.
uint32_t change_by_data(const TensorImpl& t);
/// The shape and type that it had then, for errors; empty where its data were never replaced.
std::string before_data(const TensorImpl& t);
/// Where the first element lay in the bytes of `storage`, before the tensor got data of the same shape
/// elsewhere; null else.
const char* first_before_data(const TensorImpl& t, Storage* storage);

}  // namespace adjoint
