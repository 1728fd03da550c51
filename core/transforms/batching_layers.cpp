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
  const IntList shape = c.ints(1);
  const double eps = c.number(4);
  if (!c.batched(2) && !c.batched(3))
    return c.give(call<LayerNorm>(c.samples(0), shape,
                                  c.has(2) ? OptionalTensor(c.tensor(2)) : OptionalTensor(),
                                  c.has(3) ? OptionalTensor(c.tensor(3)) : OptionalTensor(), eps));
  Tensor y = call<LayerNorm>(c.bare(0), shape, OptionalTensor(), OptionalTensor(), eps);
  if (c.has(2)) y = call<Mul>(y, c.bare(2));
  if (c.has(3)) y = call<Add>(y, c.bare(3));
  c.give_finished(y);
}

void layer_norm_backward(BatchedCall& c) {
  Tensor g = c.bare(0);
  const Tensor input = c.bare(1);
  const int64_t dims = c.integer(3), needs = c.integer(5);
  const double eps = c.number(4);
  const IntList shape = input.sizes().subspan(input.sizes().size() - static_cast<size_t>(dims));
  c.results.kind = Results::Kind::Tuple;
  Tensors& out = c.results.many;
  out.resize(3);
  if (needs & 2)
    out[1] = sum_to_shape(
        call<Mul>(g, call<LayerNorm>(input, shape, OptionalTensor(), OptionalTensor(), eps)), shape);
  if (needs & 4) out[2] = sum_to_shape(g, shape);
  if (needs & 1) {
    if (c.has(2)) g = call<Mul>(g, c.bare(2));
    out[0] = batched(call_all<LayerNormBackward>(c.in_front(g), c.in_front(input), OptionalTensor(), dims,
                                                 eps, int64_t{1})[0],
                     c.level.number);
  }
  c.finished = true;
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
  c.results.kind = Results::Kind::Tuple;
  c.results.many = call_all<ChannelNorm>(c.bare(0), OptionalTensor(), OptionalTensor(), c.bare_optional(3),
                                         c.bare_optional(4), groups, eps);
  Dims sizes(static_cast<size_t>(c.rank(0)), 1);
  sizes[1] = c.tensor(0).size(1);
  Tensor& y = c.results.many[0];
  if (c.has(1)) y = call<Mul>(y, call<Reshape>(c.bare(1), sizes.span()));
  if (c.has(2)) y = call<Add>(y, call<Reshape>(c.bare(2), sizes.span()));
  c.finished = true;
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
  // A weight, or a gradient of it, for each sample.
  Tensor g = c.bare(0);
  const Tensor x = c.bare(1);
  c.results.kind = Results::Kind::Tuple;
  Tensors& out = c.results.many;
  out.resize(3);
  Dims over;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != 1) over.push_back(d);
  auto summed = [&](const Tensor& t) {
    return call<Sum>(t, OptionalDims(over.span()), false, OptionalType());
  };
  if (needs & 2) {
    const int64_t sets[] = {x.size(0), groups,
                            groups * x.size(0) != 0 ? x.numel() / (groups * x.size(0)) : 0},
                  one[] = {x.size(0), groups, 1};
    const Recorded mean(call<Reshape>(c.bare(3), IntList(one))),
        variance(call<Reshape>(c.bare(4), IntList(one)));
    const Recorded normal =
        (Recorded(call<Reshape>(x, IntList(sets))) - mean) * apply<Rsqrt>(variance + number(eps, x));
    out[1] = summed(call<Mul>(g, call<Reshape>(normal.tensor, x.sizes())));
  }
  if (needs & 4) out[2] = summed(g);
  if (needs & 1) {
    if (c.has(2)) {
      Dims sizes(static_cast<size_t>(x.dim()), 1);
      sizes[1] = x.size(1);
      g = call<Mul>(g, call<Reshape>(c.bare(2), sizes.span()));
    }
    const Tensor all = call_all<ChannelNormBackward>(
        joined(c.in_front(g), 0), joined(c.in_front(x), 0), OptionalTensor(), joined(c.in_front(3), 0),
        joined(c.in_front(4), 0), groups, eps, false, int64_t{1})[0];
    out[0] = batched(parted(c, all, 0), c.level.number);
  }
  c.finished = true;
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
