// Memory that one call works in: uninitialised elements from the allocator, given back at the end of the
// scope.
//
// Its size often follows from a program's shapes, so it counts against the limit of memory and is refused in
// its words, where new[] would say bad_alloc.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/allocator.h"

namespace adjoint::runtime {

template <class T>
class Scratch {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Scratch() = default;
  explicit Scratch(int64_t n) : bytes_(bytes_of(n)), data_(static_cast<T*>(allocate(bytes_))) {}
  Scratch(Scratch&& o) noexcept : bytes_(o.bytes_), data_(std::exchange(o.data_, nullptr)) {}
  Scratch& operator=(Scratch&& o) noexcept {
    std::swap(bytes_, o.bytes_);
    std::swap(data_, o.data_);
    return *this;
  }
  ~Scratch() {
    if (data_) deallocate(data_, bytes_);
  }
  explicit operator bool() const { return data_; }
  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  static size_t bytes_of(int64_t n) {
    const auto count = static_cast<size_t>(n);
    return count > std::numeric_limits<size_t>::max() / sizeof(T) ? std::numeric_limits<size_t>::max() >> 1
                                                                  : count * sizeof(T);
  }
  size_t bytes_ = 0;
  T* data_ = nullptr;
};

}  // namespace adjoint::runtime
