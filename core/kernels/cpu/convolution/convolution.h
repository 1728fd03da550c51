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
  /// Numbers that `sums` takes of g at once, and outputs that `points` makes.
  int width;
  /// Results of `longest` neighbouring pixels at most, in as many runs as have room in `pixels`, six at most.
  /// Run q begins at x + from[q], and its results for output o at y + to[q] + o · output_step, `step` apart;
  /// there are `outputs` of them. Weights are [channel][tap][width]. Null where there is no such loop.
  int pixels, longest;
  void (*points)(int64_t length, int64_t channels, int64_t plane, const T* x, int64_t taps,
                 const int64_t* offsets, const T* weights, const T* start, const int64_t* from, T* y,
                 const int64_t* to, int64_t step, int64_t outputs, int64_t output_step);
  /// to[r][width] += Σ x[n · image + offsets[r] + h · pitch + w] · g[(n · rows + h) · columns + w][width]
  /// over images, rows and columns.
  void (*sums)(int64_t images, int64_t image, int64_t rows, int64_t columns, int64_t pitch, const T* x,
               int64_t count, const int64_t* offsets, const T* g, T* to);
  /// to[r · width + o] = from[o · apart + places[r]] for o < outputs and r < n, and zeros for o up to width.
  void (*pack)(const T* from, int64_t outputs, int64_t apart, int64_t n, const int64_t* places, int64_t width,
               T* to);
  /// to[o · apart + r] = from[r · width + o] likewise.
  void (*unpack)(const T* from, int64_t width, int64_t n, int64_t outputs, int64_t apart, T* to);
  /// `rows` rows of `columns`, of which those of [low, high) hold in their columns [left, right) every
  /// step-th number of the image's rows, which begin at `image` for row and column 0 and lie so far apart;
  /// the rest are zeros.
  void (*fill)(const T* image, int64_t apart, int64_t step, int64_t low, int64_t high, int64_t rows,
               int64_t left, int64_t right, int64_t columns, T* to);
  /// to[h · to_row + w · to_column] = from[h · pitch + w].
  void (*spread)(const T* from, int64_t pitch, int64_t rows, int64_t columns, T* to, int64_t to_row,
                 int64_t to_column);
  /// to[h · to_row + w · to_column] += from[h · pitch + w].
  void (*add)(const T* from, int64_t pitch, int64_t rows, int64_t columns, T* to, int64_t to_row,
              int64_t to_column);
  /// To the `slack` lanes of tap k, the sum of which is meant, Σ x[offsets[k] + p] · g[p] over p < length is
  /// added; both are read `slack` further.
  void (*dots)(int64_t length, const T* x, int64_t taps, const int64_t* offsets, const T* g, T* lanes);
  /// to[k] += the sum of the lanes of tap k.
  void (*totals)(int64_t taps, const T* lanes, double* to);
};

}  // namespace adjoint
