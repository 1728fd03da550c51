// Normalisation, recurrence and attention on batches.
//
// A layer takes the batch as more images or rows where only its input is batched. Where the rule is other
// operators, these are called as the program would call them, and batched in their turn.
#include "dispatch/batched_call.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/normalization.h"
#include "ops/recurrence.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "transforms/batching.h"

namespace adjoint::batching {

// --- Normalisation --------------------------------------------------------------------------------

void layer_norm(BatchedCall& c) {
  if (c.batched(2) || c.batched(3)) return composed(c);
  const auto parameter = [&](int i) { return c.has(i) ? OptionalTensor(c.tensor(i)) : OptionalTensor(); };
  c.give(call<LayerNorm>(c.samples(0), c.ints(1), parameter(2), parameter(3), c.number(4)));
}

void layer_norm_backward(BatchedCall& c) {
  if (c.batched(2) || c.integer(5) != 1) return loop(c);
  c.results.kind = Results::Kind::Tuple;
  c.results.many = call_all<LayerNormBackward>(c.in_front(0), c.in_front(1),
                                               c.has(2) ? OptionalTensor(c.tensor(2)) : OptionalTensor(),
                                               c.integer(3), c.number(4), int64_t{1});
}

namespace {

/// Channels of all samples side by side, which without groups have statistics of their own; or more images.
struct Channels {
  BatchedCall& c;
  bool side_by_side;

  /// Of (N, C, …), or of (C).
  Tensor images(int i) const {
    return side_by_side ? joined(moved(c.in_front(i), 0, 1), 1) : joined(c.in_front(i), 0);
  }
  OptionalTensor vector(int i) const {
    if (!c.has(i)) return OptionalTensor();
    return side_by_side ? OptionalTensor(joined(c.in_front(i), 0)) : OptionalTensor(c.tensor(i));
  }
  Tensor from_images(const Tensor& t) const {
    return side_by_side ? moved(parted(c, t, 1), 1, 0) : parted(c, t, 0);
  }
  void give(const Tensors& results) const {
    c.results.kind = Results::Kind::Tuple;
    for (size_t i = 0; i < results.size(); ++i)
      c.results.many.push_back(!results[i].defined() ? Tensor()
                               : i == 0              ? from_images(results[0])
                                                     : parted(c, results[i], 0));
  }
};

}  // namespace

void channel_norm(BatchedCall& c) {
  const int64_t groups = c.integer(5);
  const double eps = c.number(6);
  // The statistics are the same for all samples where only what follows differs: so they are given back.
  const bool same = !c.batched(0) && !c.batched(3) && !c.batched(4);
  if (groups == 0 ? !same : (!c.batched(1) && !c.batched(2))) {
    const Channels of{c, groups == 0};
    return of.give(call_all<ChannelNorm>(of.images(0), of.vector(1), of.vector(2), of.vector(3), of.vector(4),
                                         groups, eps));
  }
  composed(c);
}

void channel_norm_backward(BatchedCall& c) {
  const int64_t groups = c.integer(5), needs = c.integer(8);
  const double eps = c.number(6);
  if (groups == 0 || (!c.batched(2) && !(needs & 6))) {
    const Channels of{c, groups == 0};
    return of.give(call_all<ChannelNormBackward>(of.images(0), of.images(1), of.vector(2),
                                                 joined(c.in_front(3), 0), joined(c.in_front(4), 0), groups,
                                                 eps, c.boolean(7), needs));
  }
  loop(c);
}

// --- Recurrence -----------------------------------------------------------------------------------

namespace {

/// The batch among the sequences: of (steps, sequences, …), or of (sequences, …).
Tensor as_sequences(const BatchedCall& c, int i) {
  if (!c.has(i)) return {};
  const Tensor t = c.in_front(i);
  return t.dim() == 4 ? joined(moved(t, 0, 1), 1) : joined(t, 0);
}
void give_sequences(BatchedCall& c, Tensors results) {
  c.results.kind = Results::Kind::Tuple;
  for (Tensor& t : results)
    c.results.many.push_back(!t.defined()   ? t
                             : t.dim() == 3 ? moved(parted(c, t, 1), 1, 0)
                                            : parted(c, t, 0));
}

}  // namespace

void recurrence(BatchedCall& c) {
  if (c.batched(3) || c.batched(4) || !c.ints(6).empty()) return loop(c);
  give_sequences(
      c, call_all<Recurrence>(as_sequences(c, 0), as_sequences(c, 1), OptionalTensor(as_sequences(c, 2)),
                              c.tensor(3), c.has(4) ? OptionalTensor(c.tensor(4)) : OptionalTensor(),
                              c.given[5].text(), c.ints(6), c.boolean(7)));
}

void recurrence_backward(BatchedCall& c) {
  const int64_t needs = c.integer(11);
  if (!c.batched(7) && c.ints(9).empty() && !(needs & 24))
    return give_sequences(
        c, call_all<RecurrenceBackward>(
               OptionalTensor(as_sequences(c, 0)), OptionalTensor(as_sequences(c, 1)), as_sequences(c, 2),
               OptionalTensor(as_sequences(c, 3)), OptionalTensor(as_sequences(c, 4)), as_sequences(c, 5),
               OptionalTensor(as_sequences(c, 6)), c.tensor(7), c.given[8].text(), c.ints(9), c.boolean(10),
               needs));
  // A gradient of the weight for each sample: in operators, which are batched in their turn.
  auto bare = [&](int i) { return c.has(i) ? c.bare(i) : Tensor(); };
  c.results.kind = Results::Kind::Tuple;
  c.results.many = recurrence::recorded_rule(bare(0), bare(1), Tensor(),
                                             {bare(5), bare(6), bare(7), bare(2), bare(3), bare(4),
                                              std::string(c.given[8].text()), Dims(c.ints(9)), c.boolean(10)},
                                             Needs{static_cast<uint32_t>(needs)});
  c.finished = true;
}

// --- Attention ------------------------------------------------------------------------------------

namespace {

/// These tensors with the batch in front, and behind it as many dimensions as the longest has; one less where
/// they have a number per query.
struct Aligned {
  Tensors all;
  Aligned(const BatchedCall& c, std::initializer_list<int> parameters, std::initializer_list<int> per_query) {
    int64_t rank = 0;
    for (int i : parameters)
      if (c.has(i)) rank = std::max(rank, c.rank(i));
    all.resize(c.given.size());
    const auto align = [&](int i, int64_t to) {
      if (c.has(i)) all[static_cast<size_t>(i)] = with_ones(c.in_front(i), to - c.rank(i));
    };
    for (int i : parameters) align(i, rank);
    for (int i : per_query) align(i, rank - 1);
  }
  const Tensor& operator[](int i) const { return all[static_cast<size_t>(i)]; }
  OptionalTensor optional(int i) const { return OptionalTensor(all[static_cast<size_t>(i)]); }
};

}  // namespace

void attention(BatchedCall& c) {
  if (c.number(6) > 0 && c.level.randomness != Randomness::Different) return loop(c);
  const Aligned t(c, {0, 1, 2, 3}, {});
  c.results.kind = Results::Kind::Tuple;
  c.results.many = call_all<Attention>(t[0], t[1], t[2], t.optional(3), c.boolean(4), c.number(5),
                                       c.number(6), c.integer(7), c.integer(8));
}

void attention_backward(BatchedCall& c) {
  if (c.number(10) > 0 && c.level.randomness != Randomness::Different) return loop(c);
  const Aligned t(c, {0, 2, 3, 4, 5, 6}, {1, 7});
  c.results.kind = Results::Kind::Tuple;
  c.results.many = call_all<AttentionBackward>(t[0], t.optional(1), t[2], t[3], t[4], t.optional(5),
                                               t.optional(6), t[7], c.boolean(8), c.number(9), c.number(10),
                                               c.integer(11), c.integer(12), c.integer(13));
}

}  // namespace adjoint::batching
