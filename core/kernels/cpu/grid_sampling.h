// The loops of reading images at places, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

enum class GridMode : uint8_t { Linear, Nearest, Cubic };
enum class GridPadding : uint8_t { Zeros, Border, Reflection };

/// An image of `dims` dimensions, 2 or 3, and how it is read.
struct GridImage {
  int dims;
  int64_t sizes[3];
  GridMode mode;
  GridPadding padding;
  bool align;
  /// How often the weights are differentiated along each dimension.
  int orders[3];
};

template <class T>
struct GridTable {
  /// What is read at `count` places: rows of y, `step` apart, one for each plane of x.
  void (*sample)(const GridImage& s, const T* x, int64_t planes, const T* grid, int64_t count, T* y,
                 int64_t step);
  /// The transpose: added to x.
  void (*transposed)(const GridImage& s, const T* g, int64_t step, int64_t planes, const T* grid,
                     int64_t count, T* x);
  /// The gradient by the places.
  void (*slopes)(const GridImage& s, const T* g, int64_t step, const T* x, int64_t planes, const T* grid,
                 int64_t count, T* to);
};

}  // namespace adjoint
