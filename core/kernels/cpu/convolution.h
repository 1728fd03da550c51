// The innermost loops of convolution: see convolution.isa.cpp.
#pragma once

#include <cstdint>

namespace adjoint {

template <class T>
struct ConvolutionTable {
  /// Results that `block` makes at once, and the numbers past a line's end that may be read and written.
  int outputs, slack;
  /// `outputs` lines of results, `length` long and `to_step` apart: line o is start[o] plus the sum over
  /// channels and taps of weights[channel][tap][o] · x[channel · plane + offsets[tap] + p].
  void (*block)(int64_t length, int64_t channels, int64_t plane, const T* x, int64_t taps,
                const int64_t* offsets, const T* weights, const T* start, T* to, int64_t to_step);
  /// The same for one line.
  void (*line)(int64_t length, int64_t channels, int64_t plane, const T* x, int64_t taps,
               const int64_t* offsets, const T* weights, const T* start, T* to, int64_t to_step);
  /// Numbers that `sums` takes of g at once.
  int width;
  /// to[r][width] += Σ x[n · image + offsets[r] + h · pitch + w] · g[(n · rows + h) · columns + w][width] over images,
  /// rows and columns.
  void (*sums)(int64_t images, int64_t image, int64_t rows, int64_t columns, int64_t pitch, const T* x, int64_t count,
               const int64_t* offsets, const T* g, T* to);
  /// to[k] = Σ x[offsets[k] + p] · g[p] over p < length; both may be read `slack` further.
  void (*dots)(int64_t length, const T* x, int64_t taps, const int64_t* offsets, const T* g, T* to);
};

}  // namespace adjoint
