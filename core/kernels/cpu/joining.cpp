// Start reading at `join`: blocks of bytes where everything is row-major and of one type, else copies into
// parts of the result. Many tiny tensors are the common case of `stack`.
#include "kernels/joining.h"

#include "kernels/copy.h"
#include "kernels/launch.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {

static void join_all(const Tensor& out, TensorList tensors, int d, IntList lengths) {
  const int64_t item = out.itemsize(), total = out.size(d);
  bool plain = true;
  for (size_t i = 0; i < tensors.size(); ++i)
    plain &= lengths[i] == 0 || (tensors[i].dtype() == out.dtype() && tensors[i].is_contiguous());
  if (!plain) {
    // A stacked tensor lacks the dimension of size 1 that its place has.
    Dims sizes(out.sizes()), strides(out.strides()), slice_sizes(sizes), slice_strides(strides);
    slice_sizes.erase(slice_sizes.begin() + d);
    slice_strides.erase(slice_strides.begin() + d);
    int64_t offset = out.offset();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (lengths[i] == 0) continue;
      sizes[d] = lengths[i];
      const bool whole = tensors[i].dim() == out.dim();
      copy_into(whole ? alias(out, sizes.span(), strides.span(), offset)
                      : alias(out, slice_sizes.span(), slice_strides.span(), offset),
                tensors[i]);
      offset += lengths[i] * strides[d];
    }
    return;
  }
  // Each tensor is [outer, length, inner], and the result [outer, sum of lengths, inner].
  const int64_t inner = out.stride(d) * item;
  const int64_t outer = product(out.sizes().first(static_cast<size_t>(d)));
  char* const to = out.bytes();
  runtime::parallel_for(0, outer, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, total * inner)),
                        [&](int64_t b, int64_t e) {
                          for (int64_t o = b; o < e; ++o) {
                            char* at = to + o * total * inner;
                            for (size_t i = 0; i < tensors.size(); ++i) {
                              const int64_t bytes = lengths[i] * inner;
                              const char* from = tensors[i].bytes() + o * bytes;
                              if (bytes == 4)
                                std::memcpy(at, from, 4);
                              else if (bytes == 8)
                                std::memcpy(at, from, 8);
                              else if (bytes)
                                std::memcpy(at, from, static_cast<size_t>(bytes));
                              at += bytes;
                            }
                          }
                        });
}

void join(const Tensor& out, TensorList tensors, int d, const Dims& lengths) {
  if (out.numel() != 0) on<&join_all>(Out(out), tensors, d, lengths.span());
}

}  // namespace adjoint::kernels
