// A vector of plain values that needs no memory of its own while it is short: sizes, strides, dimensions.
//
// Up to N values lie inside the object; longer ones move to the allocator. T is trivially copyable, so that
// moving and copying are memcpy. New values made by `resize` are zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "runtime/allocator.h"

namespace adjoint::runtime {

template <class T, size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16 && N > 0);

 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  SmallVector() noexcept {}
  explicit SmallVector(size_t count, T value = T()) { resize(count, value); }
  SmallVector(std::initializer_list<T> values) { assign(values.begin(), values.size()); }
  SmallVector(std::span<const T> values) { assign(values.data(), values.size()); }
  template <std::input_iterator I>
  SmallVector(I first, I last) {
    for (; first != last; ++first) push_back(*first);
  }
  SmallVector(const SmallVector& other) { assign(other.data(), other.size_); }
  SmallVector(SmallVector&& other) noexcept { adopt(other); }
  ~SmallVector() { free_heap(); }

  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.data(), other.size_);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      free_heap();
      adopt(other);
    }
    return *this;
  }
  SmallVector& operator=(std::initializer_list<T> values) {
    assign(values.begin(), values.size());
    return *this;
  }

  /// Replaces the content; `values` may point into this vector.
  void assign(const T* values, size_t count) {
    if (count > capacity_) {
      SmallVector fresh;
      fresh.reserve(count);
      if (count) std::memcpy(fresh.data(), values, count * sizeof(T));
      fresh.size_ = static_cast<uint32_t>(count);
      *this = std::move(fresh);
      return;
    }
    if (count) std::memmove(data(), values, count * sizeof(T));
    size_ = static_cast<uint32_t>(count);
  }
  void assign(size_t count, T value) {
    clear();
    resize(count, value);
  }

  T* data() noexcept { return capacity_ > N ? heap_ : inline_; }
  const T* data() const noexcept { return capacity_ > N ? heap_ : inline_; }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }

  T& operator[](size_t i) noexcept { return data()[i]; }
  const T& operator[](size_t i) const noexcept { return data()[i]; }
  T& front() noexcept { return data()[0]; }
  const T& front() const noexcept { return data()[0]; }
  T& back() noexcept { return data()[size_ - 1]; }
  const T& back() const noexcept { return data()[size_ - 1]; }

  iterator begin() noexcept { return data(); }
  iterator end() noexcept { return data() + size_; }
  const_iterator begin() const noexcept { return data(); }
  const_iterator end() const noexcept { return data() + size_; }
  const_iterator cbegin() const noexcept { return begin(); }
  const_iterator cend() const noexcept { return end(); }
  reverse_iterator rbegin() noexcept { return reverse_iterator(end()); }
  reverse_iterator rend() noexcept { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin()); }

  /// std::span converts from this by itself, as from any contiguous range.
  std::span<const T> span() const noexcept { return {data(), size_}; }

  void clear() noexcept { size_ = 0; }
  void reserve(size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  void resize(size_t count, T value = T()) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = static_cast<uint32_t>(count);
  }
  void push_back(T value) {
    if (size_ == capacity_) grow(size_t{capacity_} * 2);
    data()[size_++] = value;
  }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    push_back(T{std::forward<Arguments>(arguments)...});
    return back();
  }
  void pop_back() noexcept { --size_; }

  iterator insert(const_iterator position, T value) {
    const size_t at = static_cast<size_t>(position - begin());
    if (size_ == capacity_) grow(size_t{capacity_} * 2);
    T* where = data() + at;
    std::memmove(where + 1, where, (size_ - at) * sizeof(T));
    *where = value;
    ++size_;
    return where;
  }
  /// The values must not lie in this vector.
  iterator insert(const_iterator position, const T* first, const T* last) {
    const size_t at = static_cast<size_t>(position - begin());
    const size_t count = static_cast<size_t>(last - first);
    reserve(size_ + count);
    T* where = data() + at;
    if (count) {
      std::memmove(where + count, where, (size_ - at) * sizeof(T));
      std::memcpy(where, first, count * sizeof(T));
      size_ += static_cast<uint32_t>(count);
    }
    return where;
  }
  iterator erase(const_iterator position) { return erase(position, position + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    T* where = data() + (first - begin());
    std::memmove(where, last, static_cast<size_t>(end() - last) * sizeof(T));
    size_ -= static_cast<uint32_t>(last - first);
    return where;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator==(const SmallVector& a, std::span<const T> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void grow(size_t capacity) {
    capacity = std::max(capacity, size_t{capacity_} * 2);
    if (capacity > std::numeric_limits<uint32_t>::max()) throw OutOfMemory(capacity * sizeof(T), 0, 0, 0);
    T* fresh = static_cast<T*>(allocate(capacity * sizeof(T)));
    if (size_) std::memcpy(fresh, data(), size_ * sizeof(T));
    free_heap();
    heap_ = fresh;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void free_heap() noexcept {
    if (capacity_ > N) deallocate(heap_, capacity_ * sizeof(T));
  }
  void adopt(SmallVector& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (capacity_ > N) {
      heap_ = other.heap_;
    } else {
      // A fixed number of bytes copies faster than the exact one, where all are few.
      std::memcpy(static_cast<void*>(inline_), other.inline_, sizeof(T) * (N <= 8 ? N : size_));
    }
    other.size_ = 0;
    other.capacity_ = N;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  union {
    T inline_[N];
    T* heap_;
  };
};

}  // namespace adjoint::runtime
