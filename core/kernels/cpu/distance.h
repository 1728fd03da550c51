// The loops of distances, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

enum class Metric : uint8_t { Sum, Root, Largest };

template <class T>
struct DistanceTable {
  /// Rows of y that one call of `panel` takes at most, and what the width of `pull` is a multiple of.
  int64_t panel_rows, lanes;
  /// out[i * stride + j] for the n rows x and `count` rows y of d numbers; `packed` has room for panel_rows *
  /// d.
  void (*panel)(Metric metric, const T* x, int64_t n, const T* y, int64_t count, int64_t d, T* packed, T* out,
                int64_t stride);
  /// to[i] = the sum over m rows j of share[i * row + j * column] times the difference x[i] - y[j], or its
  /// sign (Metric::Sum). Rows have `width` numbers.
  void (*pull)(Metric metric, const T* x, int64_t n, const T* y, int64_t m, int64_t width, const T* share,
               int64_t row, int64_t column, T* to);
  /// g / distance, and 0 where that is 0.
  void (*shares)(const T* g, const T* distance, int64_t n, T* to);
};

}  // namespace adjoint
