// What copies of elements run over, by instruction set: see kernels/copy.h, which is what all others call.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint {

struct CopyTable {
  /// to[i] = convert(from[i]) for n elements side by side.
  using Convert = void (*)(void* to, const void* from, int64_t n);
  /// [to][from]; null for pairs that few programs convert between.
  Convert convert[kDTypes][kDTypes];
  /// to[i] = first + (start + i) * step, the product exact where both have at most 24 bits.
  void (*ramp)(double* to, double first, double step, int64_t start, int64_t n);
  /// The same modulo 2^64.
  void (*whole_ramp)(int64_t* to, int64_t first, int64_t step, int64_t start, int64_t n);
};

/// Elements of two dimensions: to[r * to_row + i * to_step] = from[r * from_row + i * from_step] for r <
/// rows, i < n, in bytes.
struct Plane {
  char* to;
  const char* from;
  int64_t to_row, to_step, from_row, from_step, rows, n;
};

/// Turned squares, of whole lines of the cache: the plane's first `rows` and `columns` are moved, where
/// elements lie side by side along its columns, and those that they come from along its rows.
struct SquareTable {
  struct Moved {
    int64_t rows, columns;
  };
  Moved (*of_four_bytes)(const Plane& p);
  Moved (*of_eight_bytes)(const Plane& p);
};

/// What only moves bytes. The widest registers have none of their own: what waits for memory gains nothing.
struct PlaneTable {
  /// Elements of `item` bytes: to[r * to_row + i * to_step] = from[r * from_row + i * from_step], in bytes.
  void (*plane)(char* to, int64_t to_row, int64_t to_step, const char* from, int64_t from_row,
                int64_t from_step, int64_t rows, int64_t n, int64_t item);
  /// n copies of a value of `item` bytes.
  void (*repeat)(char* to, const void* value, int64_t item, int64_t n);
};

}  // namespace adjoint
