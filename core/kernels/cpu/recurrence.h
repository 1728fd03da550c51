// The loops of recurrent layers, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

template <class T>
struct RecurrenceTable {
  /// Columns of a panel: a matrix of k rows, `panel` columns of it at a time, row after row; the last is
  /// filled up by zeros.
  int64_t panel;
  /// c = start + a b for `rows` rows of a and n columns of b, which lies in panels; rows lie so many elements
  /// apart, and a null start is zero. Each element is summed in one order, whatever rows are computed with
  /// it.
  void (*product)(int64_t rows, int64_t n, int64_t k, const T* a, int64_t a_down, const T* panels,
                  const T* start, int64_t start_down, T* c, int64_t c_down);
  // One row each of n units. What `gates` hold before is i, f, g, o without their functions; afterwards, with
  // them.
  void (*lstm)(int64_t n, T* gates, const T* c_before, T* c, T* h);
  /// `hidden` is the product with the state; kept becomes r, z, n and its third part.
  void (*gru)(int64_t n, const T* x, const T* hidden, const T* h_before, T* kept, T* h);
  /// h = tanh(x) or relu(x), in place.
  void (*elman)(int64_t n, bool relu, T* h);
  // The ways back. dh is the cotangent of the step's h without g, dc that of c without g_c, and becomes that
  // of the cell before; g and g_c may be null. The cotangents of the gates, without their functions, go to
  // dx.
  void (*lstm_back)(int64_t n, const T* gates, const T* c_before, const T* c, const T* g, const T* g_c,
                    const T* dh, T* dc, T* dx);
  /// dh becomes its part that does not go through the product, whose result has the cotangent dp.
  void (*gru_back)(int64_t n, const T* kept, const T* h_before, const T* g, T* dh, T* dx, T* dp);
  void (*elman_back)(int64_t n, bool relu, const T* y, const T* g, const T* dh, T* dx);
};

}  // namespace adjoint
