// An element-wise function and its tangent in one walk over memory, in blocks, whose loops follow one another
// while a block is near.
#pragma once

#include <span>

#include "kernels/loops.h"
#include "tensor/tensor.h"

namespace adjoint {

class DualWalk {
 public:
  static constexpr int kMost = 6;

  /// What one tangent adds.
  struct Term {
    /// Which operand it is.
    int tangent = -1;
    /// Of a derivative, which makes the term of it; null: the tangent itself is the term.
    Loop loop = nullptr;
    /// What that takes besides: inputs 0 to 2 by the lower bits, and by the next the value.
    int takes = 0;
  };

  /// Take an operand of n elements, or of one number, in; false where it lies otherwise.
  bool add(const Tensor& t, int64_t n);
  int count = 0;

  /// value = function(the first `arity` operands), and tangent = the sum of the terms: row-major, of n
  /// elements.
  void run(Loop function, Loop add, const double* parameters, int arity, std::span<const Term> terms,
           const Tensor& value, const Tensor& tangent) const;

 private:
  const char* data_[kMost];
  int64_t item_[kMost];
  unsigned constant_ = 0;
};

}  // namespace adjoint
