// Memory that containers took from the system themselves, counted in the statistics as memory in use.
#pragma once

#include <cstddef>

namespace adjoint::runtime {

/// So many bytes count as in use while it lives.
class Counted {
 public:
  Counted() = default;
  explicit Counted(size_t bytes) { set(bytes); }
  Counted(const Counted& o) { set(o.bytes_); }
  Counted& operator=(const Counted& o) {
    set(o.bytes_);
    return *this;
  }
  ~Counted() { set(0); }
  void set(size_t bytes);

 private:
  size_t bytes_ = 0;
};

}  // namespace adjoint::runtime
