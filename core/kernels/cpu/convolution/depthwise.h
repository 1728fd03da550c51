// The innermost loops of convolution where each output sees one channel: see depthwise.isa.cpp.
#pragma once

#include <cstdint>

namespace adjoint {

/// Where a tap's pixel lies beside that of tap (0, 0), and where its weight.
struct DepthwiseTap {
  int64_t from, weight;
};

/// A rectangle of results that meet the same taps: `lines` lines of `length` pixels.
struct DepthwisePart {
  int64_t lines, length;
  /// Of the first result; from one pixel to the next, and from line to line.
  int64_t from, from_pixel, from_line, to, to_pixel, to_line;
  const DepthwiseTap* taps;
  int64_t count;
};

template <class T>
struct DepthwiseTable {
  /// Channels in a vector.
  int width;
  /// Each result of a part is start plus the sum over its taps of weight · x, for each of so many channels,
  /// at least `width`.
  void (*convolve)(const DepthwisePart* parts, int64_t count, int64_t channels, const T* x, const T* w,
                   const T* start, T* y);
  /// The sums over pixels of g · x are added to those of each tap.
  void (*dots)(const DepthwisePart* parts, int64_t count, int64_t channels, const T* x, T* sums, const T* g);
  /// to[r · width + l] = from[l · apart + r] for r < n; the last plane stands for those from `planes` on.
  void (*gather)(const T* from, int64_t apart, int64_t planes, int64_t n, T* to);
  /// to[l · apart + r] = from[r · width + l] for the first planes.
  void (*scatter)(const T* from, int64_t n, int64_t planes, int64_t apart, T* to);
};

}  // namespace adjoint
