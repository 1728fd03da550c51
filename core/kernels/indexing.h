// Advanced indexing as loops: where the elements are that index tensors name.
//
// An `IndexPlan` says for one tensor and one list of index tensors: the result's shape, and the elements as
// before × positions × after: dimensions in front of the indexed ones, one byte offset for each position that the
// broadcast index tensors name, and the dimensions behind. Start reading at `IndexPlan`.
#pragma once

#include "tensor/tensor.h"

namespace adjoint {

struct IndexPlan {
  /// Checks every index against the size of its dimension; `wrap` lets negative ones count from the end. No entry
  /// is a mask: see `without_masks`.
  IndexPlan(const Tensor& self, TensorList indices, bool wrap, const char* op);

  /// Of the result.
  Dims shape;
  /// Sizes, and strides in bytes.
  Dims before, before_strides, after, after_strides;
  /// In bytes, int64.
  Tensor offsets;

  int64_t rows() const { return product(before.span()) * offsets.numel(); }
  int64_t row_length() const { return product(after.span()); }

  /// f(at, element, n, stride) for rows [begin, end): n elements from `at`, `stride` bytes apart, which are those from
  /// number `element` on in the result's row-major order.
  template <class F> void each_run(char* base, int64_t begin, int64_t end, F&& f) const {
    const int64_t positions = offsets.numel(), length = row_length();
    if (positions == 0 || length == 0) return;
    const int64_t* offset = offsets.data<int64_t>();
    const int outer = static_cast<int>(after.size()) - 1;
    const int64_t n = outer < 0 ? 1 : after[outer], stride = outer < 0 ? 0 : after_strides[outer];
    for (int64_t row = begin; row < end; ++row) {
      char* at = base + offset[row % positions];
      int64_t rest = row / positions;
      for (int i = static_cast<int>(before.size()) - 1; rest && i >= 0; --i) {
        at += rest % before[i] * before_strides[i];
        rest /= before[i];
      }
      int64_t element = row * length;
      if (outer <= 0) {
        f(at, element, n, stride);
        continue;
      }
      for (int64_t run = 0, runs = length / n; run < runs; ++run, element += n) {
        char* p = at;
        int64_t left = run;
        for (int i = outer - 1; left; --i) {
          p += left % after[i] * after_strides[i];
          left /= after[i];
        }
        f(p, element, n, stride);
      }
    }
  }
};

/// The list with masks replaced by the positions where they hold; checked against the shape of self.
Tensors without_masks(const Tensor& self, TensorList indices);
/// For a vector of integers along one dimension.
IndexPlan along_dimension(const Tensor& self, int d, const Tensor& index, const char* op);

Tensor read_at(const Tensor& self, const IndexPlan& plan);
/// Write values, which broadcast to the plan's shape and are converted, or add them.
void write_at(const Tensor& self, const IndexPlan& plan, const Tensor& values, bool accumulate);
/// Refuses values that do not broadcast to the shape; leading dimensions of size 1 may be too many.
Tensor fitted(const Tensor& values, IntList shape, const char* op);

/// Call f(TypeTag<U>{}) with an unsigned type of the given size, or a pair of them.
template <class F> void visit_size(int64_t item, F&& f) {
  switch (item) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: return f(TypeTag<Complex<double>>{});
  }
}

}  // namespace adjoint
