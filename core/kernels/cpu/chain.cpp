#include "kernels/chain.h"

#include "runtime/parallel.h"

namespace adjoint {

[[gnu::hot]] void Chain::run(int64_t begin, int64_t end) const {
  const int64_t block = count_ == 1 && !used_ ? end - begin : kBlock;
  for (int64_t first = begin; first < end; first += block) {
    const int64_t n = std::min(block, end - first);
    const auto at = [&](const Place& p) { return p.at + first * p.stride; };
    for (const Link *l = links_, *last = l + count_; l < last; ++l) {
      const void* const in[] = {at(l->in[0]), at(l->in[1]), at(l->in[2]), at(l->in[3]), at(l->in[4])};
      l->loop(at(l->out), in, n, l->parameters);
    }
  }
}

void fold_in_blocks(const Tensor& a, TensorList many, Loop loop) {
  const int64_t n = a.numel();
  while (!many.empty()) {
    Chain chain;
    const Chain::Place sum = chain.elements(a, n);
    const size_t count = std::min<size_t>(many.size(), Chain::kMost);
    for (const Tensor& b : many.first(count)) {
      Chain::Link& link = chain.then(loop, nullptr, sum);
      link.in[0] = sum, link.in[1] = chain.elements(b, n);
    }
    runtime::parallel_for(0, n, StraightCall::kSerial,
                          [&](int64_t begin, int64_t end) { chain.run(begin, end); });
    many = many.subspan(count);
  }
}

}  // namespace adjoint
