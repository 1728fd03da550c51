// Running a loop of kernels/loops.h, which knows only contiguous elements, over tensors.
//
// `StraightCall` takes operands that lie element by element as the loop wants them, or are one number
// throughout; `run_loop` takes any, and brings blocks of each into the type computed in.
#pragma once

#include "kernels/loops.h"
#include "tensor/tensor.h"

namespace adjoint {

/// Operands that need no conversion. Out type and operand types are the loop's.
struct StraightCall {
  static constexpr int kOperands = 5;
  Loop loop;
  const double* parameters;
  int64_t out_item;
  const void* data[kOperands] = {};
  int64_t item[kOperands] = {};
  /// Which operands are one number throughout.
  unsigned constant = 0;

  /// Whether operand k, for n elements of result, can be used where it lies.
  bool add(int k, const Tensor& t, int64_t n) {
    data[k] = t.bytes();
    item[k] = t.itemsize();
    if (t.numel() == n && t.is_contiguous()) return true;
    constant |= 1u << k;
    return t.numel() == 1 || (t.numel() == n && repeats_one(t));
  }
  void run(void* out, int64_t n) const {
    if (n == 1 || (!constant && n <= kSerial))
      loop(out, data, n, parameters);
    else
      run_long(out, n);
  }

  void run(const Tensor& out) const { run(out.bytes(), out.numel()); }

  /// Elements below which a second thread costs more than it brings.
  static constexpr int64_t kSerial = 16384;

 private:
  static bool repeats_one(const Tensor& t) {
    for (int64_t s : t.strides())
      if (s != 0) return false;
    return true;
  }
  void run_long(void* out, int64_t n) const;
};

/// Into `out`, which is of n elements and row-major, from operands of which each lies so too or is one
/// number.
template <int A>
[[gnu::always_inline]] inline void run_straight(Loop loop, const double* parameters, const Tensor& out,
                                                int64_t out_item, const Tensor* in, int64_t n) {
  bool alike = n <= StraightCall::kSerial;
  const void* data[A];
  for (int i = 0; i < A; ++i) {
    if (i) alike &= in[i].numel() == in[0].numel();
    data[i] = in[i].bytes();
  }
  if (alike) return loop(out.bytes(), data, n, parameters);
  StraightCall call{loop, parameters, out_item};
  for (int i = 0; i < A; ++i) call.add(i, in[i], n);
  call.run(out.bytes(), n);
}

/// n times the same value, of `item` bytes. Written is up to the next multiple of 16 bytes.
void repeat_value(char* to, const void* value, int64_t item, int64_t n);

/// One loop over broadcast, strided operands of any types.
struct LoopCall {
  Loop loop;
  const double* parameters;
  int numbers = 0;   // of parameters
  int operands = 0;  // inputs, in loop order; null where the loop takes none
  const Tensor* inputs[5] = {};
  DType types[5] = {};              // the type the loop wants of each input
  DType out_type = DType::Float32;  // the type the loop writes
};

void run_loop(const LoopCall& call, const Tensor& out);

}  // namespace adjoint
