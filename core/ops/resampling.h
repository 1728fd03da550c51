// Images of other sizes: `interpolate` and adaptive averages (adjoint/nn). Each is linear, and the other's
// transpose.
#pragma once

#include "kernels/resampling.h"
#include "ops/contract/op.h"

namespace adjoint {

/// Numbers that nodes keep.
struct Ratios : FloatList {
  using FloatList::FloatList;
  Ratios(FloatList list) : FloatList(list) {}
};
template <>
struct ArgumentType<Ratios> : ArgumentType<FloatList> {
  static Owned own(const Ratios& p) { return Owned(p.begin(), p.end()); }
  static Ratios lend(const Owned& o) { return FloatList(o); }
  static Ratios unbox(const Value& v) { return v.floats(); }
};

namespace resampling {
/// The last sizes of an image, as many as were given.
inline IntList last(IntList sizes, IntList given) { return sizes.subspan(sizes.size() - given.size()); }
}  // namespace resampling

struct Resample : Structured {
  static constexpr auto name = "_resample";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The last dimensions in other sizes. mode: nearest, nearest-exact, area, linear, cubic, or, widened "
      "where the result is smaller, linear-wide, cubic-wide, lanczos-wide; scales: the ratios of sizes, 0 "
      "for those of the sizes themselves; align: whether corners lie on each other.";
  static constexpr auto signature = "self, sizes, mode, scales, align";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(2, 3), [5], 'linear', [0.0], False",
                                        "(2, 3, 4), [6, 7], 'cubic', [2.0, 0.0], False",
                                        "(3, 4, 2), [2, 3, 3], 'linear', [0.0, 0.0, 0.0], True",
                                        "(2, 7, 5), [3, 2], 'linear-wide', [0.0, 0.0], False",
                                        "(0, 4), [2], 'nearest', [0.5], False",
                                        "(2, 40), [37], 'lanczos-wide', [0.0], False",
                                        "(5, 70), [3, 20], 'area', [0.0, 0.0], False"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, IntList sizes, Text mode, Ratios scales, bool align) {
    return kernels::resample(self, sizes, {.mode = mode, .scales = scales, .align = align}, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static Tensor rule(const Tensor& g, IntList shape, IntList sizes, Text mode, Ratios scales, bool align);
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<IntList, "sizes"> sizes, Argument<Text, "mode"> mode,
               Argument<Ratios, "scales"> scales,
               Argument<bool, "align"> align) { return rule(g, s, sizes, mode, scales, align); }};
};

struct ResampleTransposed : Structured {
  static constexpr auto name = "_resample_transposed";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The transpose of _resample, with the sizes that the last dimensions had: its gradient.";
  static constexpr auto signature = "g, sizes, mode, scales, align";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(2, 5), [3], 'linear', [0.0], False", "(2, 6, 7), [3, 4], 'cubic', [2.0, 0.0], False",
            "(2, 3, 5), [4, 5], 'area', [0.0, 0.0], False", "(0, 2), [4], 'nearest-exact', [0.5], True"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& g, IntList sizes, Text mode, Ratios scales, bool align) {
    return kernels::resample_transposed(g, sizes, {.mode = mode, .scales = scales, .align = align}, name);
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"g"> s, Argument<IntList, "sizes"> sizes, Argument<Text, "mode"> mode,
               Argument<Ratios, "scales"> scales, Argument<bool, "align"> align) {
        return call<Resample>(g, resampling::last(s, sizes.value), mode.value, scales.value, align.value);
      }};
};

inline Tensor Resample::rule(const Tensor& g, IntList shape, IntList sizes, Text mode, Ratios scales,
                             bool align) {
  return call<ResampleTransposed>(g, resampling::last(shape, sizes), mode, scales, align);
}

using Resampled = Family<Resample, ResampleTransposed>;

}  // namespace adjoint
