// The order in which images lie in memory: channels innermost, or last of all but images, as usual.
//
// What an operator is given with channels innermost, it gives back so. Kernels that know the usual order
// alone have their result copied once more.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// Whether the channels of (N, C, H, W) or (N, C, D, H, W) are innermost and all else is in order; not where
/// both orders are one.
bool channels_last(const Tensor& t);
/// Whether steps in memory grow from channels to columns, rows and images, with gaps or without: so results
/// are laid, too.
bool channels_innermost(const Tensor& t);
/// A new image whose channels are innermost.
Tensor empty_channels_last(IntList sizes, DType dtype);
/// A copy with channels innermost. No history.
Tensor with_channels_last(const Tensor& t);
/// The result in the order of an image it was made of.
inline Tensor laid_like(const Tensor& image, const Tensor& result) {
  return channels_innermost(image) ? with_channels_last(result) : result;
}

}  // namespace adjoint::kernels
