// Views by strides, layers and losses on batches.
//
// A layer takes the batch as more images, rows or classes where only its input is batched; a convolution with
// a weight for each sample takes it as more groups. Where the rule is other operators, these are called as
// the program would call them, and batched in their turn. Start reading at `Convolved`.
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/comparison.h"
#include "ops/convolution.h"
#include "ops/indexing.h"
#include "ops/loss.h"
#include "ops/normalization.h"
#include "ops/part.h"
#include "ops/pooling.h"
#include "ops/rearranging.h"
#include "ops/recurrence.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "transforms/batching_call.h"

namespace adjoint {

Tensor of_each_sample(const Tensor& t, const Node& node) {
  const BatchLevel* level = thread_state.batch_level;
  if (node.sequence == Node::kFirst) {
    const TensorImpl* leaf = static_cast<const LeafNode&>(node).leaf;
    level = leaf->is(TensorImpl::kBatched)
                ? open_batch_level(leaf->meta.load(std::memory_order_acquire)->batch_level)
                : nullptr;
  }
  while (level && node.sequence < level->first_node) level = level->outer;
  if (!level || level->size < 0 || (is_batched(t) && batch_level_of(t) >= level->number)) return t;
  return batched(unbatched(t, *level), level->number);
}

}  // namespace adjoint

namespace adjoint::batching {

namespace {

Dims behind(int64_t first, IntList rest) {
  Dims all(rest);
  all.insert(all.begin(), first);
  return all;
}
Tensor moved(const Tensor& t, int64_t from, int64_t to) {
  return call<MoveDim>(t, IntList(&from, 1), IntList(&to, 1));
}

}  // namespace

// --- Views ----------------------------------------------------------------------------------------

void transposed_matrix(BatchedCall& c) {
  if (c.rank(0) > 2) fail("t() expects a tensor with <= 2 dimensions, but self is ", c.rank(0), "D");
  c.give(call<Transpose>(c.samples(0), c.rank(0) == 2 ? 1 : 0, c.rank(0) == 2 ? 2 : 0));
}

void take_strided(BatchedCall& c) {
  c.give(call<TakeStrided>(c.samples(0), behind(c.size, c.ints(1)).span(),
                           behind(c.tensor(0).numel(), c.ints(2)).span(), c.integer(3)));
}
void put_strided(BatchedCall& c) {
  const int64_t elements = adjoint::product(c.ints(1));
  c.give(call<PutStrided>(c.samples(0), behind(c.size, c.ints(1)).span(), behind(c.size, c.ints(2)).span(),
                          behind(elements, c.ints(3)).span(), c.integer(4)));
}
void pairs_as_complex(BatchedCall& c) {
  if (c.rank(0) == 0) fail("view_as_complex(): Input tensor must have one or more dimensions");
  leading(c);
}
void as_strided(BatchedCall& c) {
  const Tensor& samples = samples_of(c.tensor(0));
  const int64_t offset = c.given[3].present ? c.integer(3) : samples.offset();
  const IntList size = c.ints(1), stride = c.ints(2), own_size = c.tensor(0).sizes(),
                own_stride = c.tensor(0).strides();
  if (size.size() != stride.size())
    fail("vmap: as_strided(): size and stride must have the same length, but they are ", to_string(size),
         " and ", to_string(stride));
  // Each sample is to see itself alone: what the first may see says it for all, which lie alike.
  const auto last = [](IntList sizes, IntList strides, int64_t at) {
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0)
        return int64_t{-1};
      else
        at += (sizes[i] - 1) * strides[i];
    return at;
  };
  const int64_t wanted = last(size, stride, offset);
  if (wanted >= 0 && c.size > 0 &&
      (offset < samples.offset() || wanted > last(own_size, own_stride, samples.offset())))
    fail("vmap: as_strided() with sizes ", to_string(size), ", strides ", to_string(stride),
         " and storage offset ", offset, " sees more than the elements of one sample, whose sizes are ",
         to_string(own_size), ", strides ", to_string(own_stride), " and storage offset ", samples.offset(),
         ". This is not supported inside of vmap");
  c.give(call<AsStrided>(samples, behind(c.size, size).span(), behind(samples.stride(0), stride).span(),
                         offset));
}

// --- Copies ---------------------------------------------------------------------------------------

void attach(BatchedCall& c) {
  // For each sample, though all have one value: the history is theirs.
  c.give(call<Attach>(c.in_front(c.tensor(0)), c.samples(1)));
}

void roll(BatchedCall& c) {
  if (!c.ints(2).empty() || c.ints(1).size() != 1) return by_types(c);
  // As if each sample were flat.
  const int64_t flat[] = {c.size, c.tensor(0).numel()}, dim[] = {1};
  c.give(call<Reshape>(call<Roll>(call<Reshape>(c.samples(0), IntList(flat)), c.ints(1), IntList(dim)),
                       c.samples(0).sizes()));
}

void repeat_each(BatchedCall& c) {
  if (c.batched(1) || c.rank(0) == 0) return dynamic(c);
  c.give(call<RepeatInterleaveEach>(c.samples(0), c.tensor(1),
                                    wrap_dim(c.integer(2), c.rank(0), "repeat_interleave") + 1));
}

void extreme_of_all(BatchedCall& c) {
  const int64_t flat[] = {-1}, last[] = {0};
  if (c.tensor(0).numel() == 0) return loop(c);
  const Tensor self = call<Reshape>(c.bare(0), IntList(flat));
  c.give_finished(std::string_view(c.op.name) == MaxAll::name ? call<Amax>(self, IntList(last), false)
                                                              : call<Amin>(self, IntList(last), false));
}

// --- Convolution ----------------------------------------------------------------------------------

namespace {

/// A convolution, or one of its transposes, whose parameters from `at` on are stride, padding, dilation,
/// groups.
struct Convolved {
  BatchedCall& c;
  int at;
  IntList stride = c.ints(at), padding = c.ints(at + 1), dilation = c.ints(at + 2);
  int64_t groups = c.integer(at + 3);

  /// (N, C, …) with the batch among the images, or among the channels.
  Tensor as_images(int i) const { return joined(c.in_front(i), 0); }
  Tensor as_channels(int i) const { return joined(moved(c.in_front(i), 0, 1), 1); }
  Tensor from_images(const Tensor& t) const { return parted(c, t, 0); }
  Tensor from_channels(const Tensor& t) const { return moved(parted(c, t, 1), 1, 0); }
};

}  // namespace

void convolution(BatchedCall& c) {
  const Convolved v{c, 2};
  const OptionalTensor none;
  Tensor y;
  if (!c.batched(1)) {
    const bool plain = !c.batched(6);
    if (!c.batched(0))
      y = call<Convolution>(c.tensor(0), c.tensor(1), v.stride, v.padding, v.dilation, v.groups, none);
    else
      y = v.from_images(call<Convolution>(v.as_images(0), c.tensor(1), v.stride, v.padding, v.dilation,
                                          v.groups, plain && c.has(6) ? OptionalTensor(c.tensor(6)) : none));
    if (plain) return c.give(y);
  } else if (!c.batched(0) && v.groups == 1) {
    y = v.from_channels(call<Convolution>(c.tensor(0), joined(c.samples(1), 0), v.stride, v.padding,
                                          v.dilation, int64_t{1}, none));
  } else {
    y = v.from_channels(call<Convolution>(v.as_channels(0), joined(c.samples(1), 0), v.stride, v.padding,
                                          v.dilation, v.groups * c.size, none));
  }
  if (c.has(6)) {
    Dims sizes(static_cast<size_t>(c.rank(0)) + (c.batched(6) ? 1 : 0), 1);
    if (c.batched(6)) sizes[0] = c.size;
    sizes[c.batched(6) ? 2 : 1] = c.tensor(6).numel();
    y = call<Add>(y, call<Reshape>(c.samples(6), sizes.span()));
  }
  c.give(y);
}

void convolution_input(BatchedCall& c) {
  const Convolved v{c, 3};
  Dims sizes(c.ints(2));
  if (!c.batched(1)) {
    sizes[0] *= c.size;
    return c.give(v.from_images(call<ConvolutionInput>(v.as_images(0), c.tensor(1), sizes.span(), v.stride,
                                                       v.padding, v.dilation, v.groups)));
  }
  sizes[1] *= c.size;
  c.give(v.from_channels(call<ConvolutionInput>(v.as_channels(0), joined(c.samples(1), 0), sizes.span(),
                                                v.stride, v.padding, v.dilation, v.groups * c.size)));
}

void convolution_weight(BatchedCall& c) {
  const Convolved v{c, 3};
  Dims sizes(c.ints(2));
  sizes[0] *= c.size;
  c.give(parted(c,
                call<ConvolutionWeight>(v.as_channels(0), v.as_channels(1), sizes.span(), v.stride, v.padding,
                                        v.dilation, v.groups * c.size),
                0));
}

void pool(BatchedCall& c) {
  if (c.rank(0) != static_cast<int64_t>(c.ints(1).size()) + 2) return loop(c);
  Tensors r =
      call_all<MaxPool>(joined(c.samples(0), 0), c.ints(1), c.ints(2), c.ints(3), c.ints(4), c.ints(5));
  c.results.kind = Results::Kind::Tuple;
  for (Tensor& t : r) c.results.many.push_back(parted(c, t, 0));
}

void pool_values(BatchedCall& c) {
  if (c.rank(0) != static_cast<int64_t>(c.ints(1).size()) + 2) return loop(c);
  c.give(parted(
      c, call<MaxPoolValues>(joined(c.samples(0), 0), c.ints(1), c.ints(2), c.ints(3), c.ints(4), c.ints(5)),
      0));
}

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

// --- Random draws ---------------------------------------------------------------------------------

/// Draws by seed and position: the same for each sample, unless each sample is to have its own.
void draws(BatchedCall& c) {
  if (c.level.randomness == Randomness::Different)
    by_types(c);
  else
    loop(c);
}

}  // namespace adjoint::batching
