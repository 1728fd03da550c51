#include "kernels/dual_walk.h"

#include <algorithm>

#include "for_size.h"
#include "kernels/run_loop.h"
#include "runtime/parallel.h"

namespace adjoint {

namespace {
constexpr int64_t kBlock = 512;
}

bool DualWalk::add(const Tensor& t, int64_t n) {
  const bool one = t.numel() == 1;
  if (t->flags & TensorImpl::kNotAsTheyLie || !t.is_contiguous() || (t.numel() != n && !one)) return false;
  constant_ |= unsigned{one} << count;
  data_[count] = t.bytes();
  item_[count++] = t.itemsize();
  return true;
}

void DualWalk::run(Loop function, Loop add, const double* parameters, int arity, std::span<const Term> terms,
                   const Tensor& value, const Tensor& tangent) const {
  const int64_t item = value.itemsize();
  runtime::parallel_for(0, value.numel(), StraightCall::kSerial, [&](int64_t begin, int64_t end) {
    alignas(64) char repeated[kMost][kBlock * sizeof(double)], other[kBlock * sizeof(double)];
    const char* p[kMost];
    for (int k = 0; k < count; ++k)
      if (constant_ >> k & 1) repeat_value(repeated[k], data_[k], item_[k], kBlock);
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t m = std::min(kBlock, end - at);
      for (int k = 0; k < count; ++k) p[k] = constant_ >> k & 1 ? repeated[k] : data_[k] + at * item_[k];
      char *const y = value.bytes() + at * item, *const t = tangent.bytes() + at * item;
      const void* operands[StraightCall::kOperands] = {};
      std::copy_n(p, arity, operands);
      function(y, operands, m, parameters);
      const char* sum = nullptr;
      for (const Term& of : terms) {
        const char* term = p[of.tangent];
        if (of.loop) {
          char* const to = sum == t ? other : t;
          const void* taken[StraightCall::kOperands] = {term};
          for (int k = 0; k < 4; ++k)
            if (of.takes >> k & 1) taken[k + 1] = k == 3 ? y : p[k];
          of.loop(to, taken, m, parameters);
          term = to;
        }
        const void* both[StraightCall::kOperands] = {sum, term};
        if (sum) add(t, both, m, nullptr);
        sum = sum ? t : term;
      }
    }
  });
}

}  // namespace adjoint
