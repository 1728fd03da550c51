// Loops one after another over the same elements, a block at a time, so that what one makes is near when the
// next takes it: a loop with numbers beside tensors, a function with its tangent, a sum of many gradients.
//
//     Chain chain;
//     Chain::Link& link = chain.then(loop, parameters, {out, 4});
//     link.in[0] = {x, 4}, link.in[1] = chain.number(two, 4, n);
//     chain.run(0, n);
#pragma once

#include <algorithm>

#include "kernels/run_loop.h"

namespace adjoint {

class Chain {
 public:
  /// Links and blocks that there may be.
  static constexpr int kMost = 10, kBlocks = 7;
  /// Elements of a block: operands and result of a loop stay in the first-level cache.
  static constexpr int64_t kBlock = 512;
  /// Elements `stride` bytes apart; by 0, a block of the chain's own, or where that is null, none.
  struct Place {
    char* at;
    int64_t stride;
  };
  struct Link {
    Loop loop;
    const double* parameters;
    Place out, in[StraightCall::kOperands];
  };

  /// What one link makes for others: such a chain is for one thread.
  Place block() { return {blocks_[used_++], 0}; }
  /// The same number of `item` bytes for n elements.
  Place number(const void* at, int64_t item, int64_t n) {
    const Place all = block();
    repeat_value(all.at, at, item, std::min(n, kBlock));
    return all;
  }
  /// n elements of a row-major tensor, or its only one.
  Place elements(const Tensor& t, int64_t n) {
    return t.numel() == n ? Place{t.bytes(), t.itemsize()} : number(t.bytes(), t.itemsize(), n);
  }
  /// out[i] = loop(in[0][i], in[1][i], …); the caller writes `in`, where nothing is yet, before `run`.
  Link& then(Loop loop, const double* parameters, Place out) {
    Link& l = links_[count_++];
    l.loop = loop, l.parameters = parameters, l.out = out;
    for (Place& p : l.in) p = {};
    return l;
  }
  /// All links over elements [begin, end), in blocks from the first.
  void run(int64_t begin, int64_t end) const;

 private:
  int count_ = 0, used_ = 0;
  Link links_[kMost];
  alignas(64) char blocks_[kBlocks][kBlock * sizeof(Complex<double>)];
};

/// a = loop(a, b) for one after another of `many`, all of its shape and type, and row-major.
void fold_in_blocks(const Tensor& a, TensorList many, Loop loop);

}  // namespace adjoint
