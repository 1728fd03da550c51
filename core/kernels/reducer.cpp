#include "kernels/reducer.h"
#include "tensor/access.h"

namespace adjoint {

Dims reduced_shape(IntList sizes, uint64_t mask, bool keepdim) {
  Dims out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(mask >> i & 1)) out.push_back(sizes[i]);
    else if (keepdim) out.push_back(1);
  }
  return out;
}

/// Orders the axes by stride, innermost last, and merges neighbours that lie without a gap, in memory and in the result.
void Reducer::arrange(Axes& axes) {
  for (size_t i = 1; i < axes.size(); ++i)  // insertion: there are few, and equal ones keep their order
    for (size_t k = i; k > 0 && axes[k - 1].stride < axes[k].stride; --k) std::swap(axes[k - 1], axes[k]);
  Axes merged;
  for (const Axis& a : axes) {
    if (a.size == 1) continue;
    if (!merged.empty() && merged.back().stride == a.stride * a.size && merged.back().out == a.out * a.size) {
      merged.back() = {merged.back().size * a.size, a.stride, a.out};
    } else {
      merged.push_back(a);
    }
  }
  if (merged.empty()) merged.push_back({1, 0, 0});
  axes = merged;
}

int64_t Reducer::offset_of(const Axes& axes, int64_t count, int64_t index, int64_t* out) {
  int64_t offset = 0, place = 0;
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t at = i == 0 ? index : index % axes[i].size;
    if (i) index /= axes[i].size;
    offset += at * axes[i].stride;
    place += at * axes[i].out;
  }
  if (out) *out = place;
  return offset;
}

Reducer::Reducer(const Tensor& self, uint64_t mask) : access_(self), base_(self.bytes()), have_(self.dtype()) {
  const int64_t item = self.itemsize();
  const auto sizes = self.sizes(), strides = self.strides();
  const int n = static_cast<int>(sizes.size());
  const uint64_t all = n ? (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) : 0;
  if (mask == all && self.is_contiguous()) {  // the whole tensor: one run
    length_ = self.numel();
    reduced_.push_back({length_, item, 0});
    kept_.push_back({1, 0, 0});
    return;
  }
  for (int i = n - 1; i >= 0; --i) {
    const bool reduce = mask >> i & 1;
    const Axis axis{sizes[i], strides[i] * item, reduce ? 0 : outputs_};
    (reduce ? length_ : outputs_) *= sizes[i];
    (reduce ? reduced_ : kept_).push_back(axis);
  }
  std::reverse(kept_.begin(), kept_.end());
  std::reverse(reduced_.begin(), reduced_.end());
  arrange(kept_);
  arrange(reduced_);
  // Which axis is innermost in memory? One along which nothing moves (an expanded one) cannot be walked faster.
  const int64_t r = reduced_.back().stride, k = kept_.back().stride;
  columns_ = kept_.back().size > 1 && k != 0 && (r == 0 || k < r || reduced_.back().size == 1);
}

}  // namespace adjoint
