// A short loop over operands that lie anyhow, planned once: what `run_loop` finds out at each call is a list
// of offsets here. See run_loop.cpp.
#pragma once

#include <vector>

#include "kernels/run_loop.h"

namespace adjoint {

struct GatheredCall {
  static constexpr int64_t kMost = 128;  // elements
  Loop loop;
  const double* parameters;
  /// Elements, and those that one call of the loop is given, as by `run_loop`.
  int64_t n, step;
  int64_t out_item, item[StraightCall::kOperands] = {};
  const void* data[StraightCall::kOperands] = {};
  void* out = nullptr;
  /// From `data` to each element, in bytes; none where they lie side by side.
  std::vector<int32_t> offsets[StraightCall::kOperands];
  void run() const;
};

/// Whether a call is such, of operands in the loop's own types. Where they lie, `data` and `out` do not say.
bool plan_gathered(const LoopCall& call, const Tensor& out, GatheredCall& gathered);

}  // namespace adjoint
