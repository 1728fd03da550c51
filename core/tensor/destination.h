// Where the results of a call are to lie: given tensors, for the form with out=.
//
// Kernels make their results by `empty` (or what is built on it) before they touch memory. In the scope of a
// `Destination`, the first tensor made of the shape and type of a given one lies in its memory. That is, as a
// rule, the result; where it is something else, which is written and read before the call ends, the result is
// elsewhere and is copied over as without this. So nothing needs to say which of the tensors that it makes is
// the result, and nothing is wrong where this guesses badly. The given tensors must be row-major, and no
// input may lie in their memory: see dispatch/forms.cpp.
#pragma once

#include "tensor/tensor.h"

namespace adjoint {

class Destination {
 public:
  static constexpr size_t kMost = 4;

  /// For the scope of this, of these tensors; none: nothing happens.
  explicit Destination(std::span<const Tensor> given);
  ~Destination();
  Destination(const Destination&) = delete;

  /// The given tensor of this shape and type, on the device where tensors are made; null where there is none,
  /// or no longer.
  const Tensor* take(IntList sizes, DType dtype);
  /// Whether number i was taken: its memory may have been written.
  bool taken(size_t i) const { return taken_ >> i & 1; }

 private:
  std::span<const Tensor> given_;
  unsigned taken_ = 0;
  Destination* const outer_;
  const uint32_t flags_before_;
};

}  // namespace adjoint
