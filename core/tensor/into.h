// Where a call makes its results: where there is room, or in the tensors given as out=.
//
// It comes first in the `forward` of a row that can do either, which makes by it what it will return, and by
// `empty` all else: all of it before the first is written, since a tensor of another type is refused here,
// and what is refused leaves the given tensors as they were. These are row-major, and no input lies in their
// memory: see dispatch/forms.cpp. Where the result then lies elsewhere, it is copied.
#pragma once

#include "tensor/tensor.h"

namespace adjoint {

class Into {
 public:
  /// Tensors, and those in which a result was made, whose memory may have been written: as bits.
  struct Given {
    std::span<const Tensor> tensors;
    const char* op;  // who is called, and whether it converts its results to their types
    bool converts;
    uint32_t taken = 0;
    bool has_taken(size_t i) const { return taken >> i & 1; }
  };

  Into() = default;
  explicit Into(Given& given) : given_(&given) {}

  /// A row-major tensor for result number i, not initialised: in the memory of the given one, if that is of
  /// this shape and type and on the device where tensors are made. A given one that may not get elements of
  /// this type is refused.
  Tensor empty(IntList sizes, DType dtype, size_t i = 0) const {
    return given_ ? there(sizes, dtype, dtype, i) : adjoint::empty(sizes, dtype);
  }
  /// The same where the result is computed in `dtype` and then converted to `type`.
  Tensor empty_for(DType type, IntList sizes, DType dtype) const {
    return given_ ? there(sizes, dtype, type, 0) : adjoint::empty(sizes, dtype);
  }

 private:
  Tensor there(IntList sizes, DType dtype, DType type, size_t i) const;
  Given* given_ = nullptr;
};

/// Refuses a tensor given as out= whose type is not that of the result.
void need_out_type(DType type, DType out, const char* name, bool converts);

}  // namespace adjoint
