// An owning pointer to objects that carry their own count of owners.
//
// The object provides a member `std::atomic<uint32_t> refcount` and `static void destroy(T*) noexcept`; there
// is no base class and nothing virtual. An object is born with a count of 1, which `Ref::steal` adopts.
//
// Moving never touches the count. Dropping the last owner costs a load instead of an atomic
// read-modify-write: a thread that sees a count of 1 is the only owner, and nobody else can raise it, since
// raising takes an owner. (This is why there are no weak pointers here.) `destroy` is therefore entered with
// a count of 1 or 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace adjoint::runtime {

template <class T>
void share_count(T* object) noexcept {
  object->refcount.fetch_add(1, std::memory_order_relaxed);
}

/// Gives up one ownership of a non-null object.
template <class T>
void release_count(T* object) noexcept {
  if (object->refcount.load(std::memory_order_acquire) == 1) {
    T::destroy(object);
  } else if (object->refcount.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    T::destroy(object);
  }
}

template <class T>
class Ref {
 public:
  constexpr Ref() noexcept = default;
  constexpr Ref(std::nullptr_t) noexcept {}
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_) share_count(object_);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U> other) noexcept : object_(other.detach()) {}
  ~Ref() {
    if (object_) release_count(object_);
  }

  Ref& operator=(const Ref& other) noexcept {
    Ref copy(other);
    swap(copy);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref old(std::move(other));
    swap(old);
    return *this;
  }

  /// Takes over an ownership that the caller holds: the count stays.
  [[nodiscard]] static Ref steal(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Adds an ownership.
  [[nodiscard]] static Ref share(T* object) noexcept {
    if (object) share_count(object);
    return steal(object);
  }
  /// Hands the ownership to the caller: the count stays and this becomes null.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

  /// Drops the ownership now.
  void reset() noexcept {
    if (T* old = detach()) release_count(old);
  }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  /// 0 for null.
  uint32_t use_count() const noexcept {
    return object_ ? object_->refcount.load(std::memory_order_acquire) : 0;
  }
  /// True when this is the only owner, so that the object may be changed in place.
  bool unique() const noexcept { return use_count() == 1; }

  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }
  friend bool operator==(const Ref& a, const T* b) noexcept { return a.object_ == b; }
  friend bool operator==(const Ref& a, std::nullptr_t) noexcept { return a.object_ == nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace adjoint::runtime

template <class T>
struct std::hash<adjoint::runtime::Ref<T>> {
  size_t operator()(const adjoint::runtime::Ref<T>& ref) const noexcept { return std::hash<T*>()(ref.get()); }
};
