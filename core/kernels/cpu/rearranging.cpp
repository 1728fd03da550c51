#include "kernels/rearranging.h"

#include <algorithm>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/walk.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

static void flip_all(const Tensor& out, const Tensor& self, uint64_t mask) {
  const int64_t item = self.itemsize();
  char* from = self.bytes();
  Dims strides(self.strides());
  for (size_t i = 0; i < strides.size(); ++i) {
    if (!(mask >> i & 1)) continue;
    from += (self.sizes()[i] - 1) * strides[i] * item;
    strides[i] = -strides[i];
  }
  Walk walk(self.sizes());
  walk.add(out);
  walk.add(from, self.sizes(), strides.span(), item);
  walk.plan();
  move_planes(walk, item);
}

void flip(const Tensor& out, const Tensor& self, uint64_t mask) {
  if (out.numel() == 0) return;
  on<&flip_all>(Out(out), self, mask);
}

namespace {

/// row + diagonal + more, within the row; without leaving 64 bits on the way.
int64_t column_from(int64_t row, int64_t diagonal, int64_t more, int64_t columns) {
  return std::clamp<int64_t>(row + std::clamp(diagonal, -row - 1, columns - row) + more, 0, columns);
}

/// What is kept of the rows of matrices.
struct Kept {
  int64_t rows, columns, item;
  bool lower;
  int64_t diagonal;

  int64_t first(int64_t row) const { return lower ? 0 : column_from(row, diagonal, 0, columns); }
  int64_t last(int64_t row) const { return lower ? column_from(row, diagonal, 1, columns) : columns; }

  /// Zero what is not, from row b of a batch to e, the first of which lies here.
  void clear(char* to, int64_t b, int64_t e) const {
    int64_t row = b % rows;
    for (int64_t r = b; r < e; ++r, to += columns * item, row = row + 1 == rows ? 0 : row + 1) {
      char* at = to + (lower ? last(row) * item : 0);
      char* const end = to + (lower ? columns : first(row)) * item;
      for (; end - at >= 8; at += 8) std::memset(at, 0, 8);
      for (; at < end; ++at) *at = 0;
    }
  }
  void copy(char* to, const char* from, int64_t b, int64_t e) const {
    int64_t row = b % rows;
    for (int64_t r = b; r < e;
         ++r, to += columns * item, from += columns * item, row = row + 1 == rows ? 0 : row + 1) {
      const int64_t begin = first(row) * item, end = last(row) * item;
      std::memset(to, 0, static_cast<size_t>(begin));
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
      std::memset(to + end, 0, static_cast<size_t>(columns * item - end));
    }
  }
};

/// The bits of n bytes that a mask has.
void keep_bits(char* to, const char* from, const char* mask, int64_t n) {
  typedef uint64_t Words __attribute__((vector_size(16), aligned(1), may_alias));
  constexpr int64_t kWide = sizeof(Words);
  const auto keep = [=](int64_t at) {
    *reinterpret_cast<Words*>(to + at) =
        *reinterpret_cast<const Words*>(from + at) & *reinterpret_cast<const Words*>(mask + at);
  };
  int64_t at = 0;
  for (; at + kWide <= n; at += kWide) keep(at);
  if (at < n && n >= kWide) return keep(n - kWide);
  for (; at < n; ++at) to[at] = static_cast<char>(from[at] & mask[at]);
}

}  // namespace

static void keep_triangle(const Tensor& out, const Tensor& in, Triangle triangle, int64_t diagonal) {
  const Kept kept{in.size(-2), in.size(-1), in.itemsize(), triangle == Triangle::Lower, diagonal};
  const int64_t wide = kept.columns * kept.item, matrix = kept.rows * wide, all = out.numel() * kept.item;
  // Of many small matrices the same bits are kept, which a mask of one, or some, says.
  const int64_t period = std::max<int64_t>(1, 2048 / matrix) * matrix;
  if (matrix <= 16384 && period <= all / 4) {
    const runtime::Scratch<char> mask(period);
    std::memset(mask.get(), 0xff, static_cast<size_t>(period));
    kept.clear(mask.get(), 0, period / wide);
    return runtime::parallel_for(
        0, (all - 1) / period + 1, std::max<int64_t>(1, 262144 / period), [&](int64_t b, int64_t e) {
          for (int64_t at = b * period; at < std::min(all, e * period); at += period)
            keep_bits(out.bytes() + at, in.bytes() + at, mask.get(), std::min(period, all - at));
        });
  }
  runtime::parallel_for(0, out.numel() / kept.columns, std::max<int64_t>(1, 32768 / kept.columns),
                        [&](int64_t b, int64_t e) {
                          char* const to = out.bytes() + b * wide;
                          if (wide > 512) return kept.copy(to, in.bytes() + b * wide, b, e);
                          // Short rows are copied as a whole, before some of their numbers are zeroed.
                          std::memcpy(to, in.bytes() + b * wide, static_cast<size_t>((e - b) * wide));
                          kept.clear(to, b, e);
                        });
}

Tensor triangle(Into into, const Tensor& self, Triangle kept, int64_t diagonal) {
  const Tensor in = dense(self), out = into.empty(self.sizes(), self.dtype());
  if (out.numel() == 0) return out;
  on<&keep_triangle>(Out(out), in, kept, diagonal);
  return out;
}

template <class Word>
static void shuffle_words(char* out, const char* in, int64_t planes, int64_t h, int64_t w, int64_t r,
                          bool to_pixels) {
  Word* to = reinterpret_cast<Word*>(out);
  const Word* from = reinterpret_cast<const Word*>(in);
  // Row a of the r rows of pixels that row i of r channels becomes.
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = 0; i < h; ++i)
      for (int64_t a = 0; a < r; ++a)
        for (int64_t b = 0; b < r; ++b) {
          const int64_t pixel = ((p * h + i) * r + a) * w * r + b,
                        channel = (((p * r + a) * r + b) * h + i) * w;
          if (to_pixels)
            for (int64_t j = 0; j < w; ++j) to[pixel + j * r] = from[channel + j];
          else
            for (int64_t j = 0; j < w; ++j) to[channel + j] = from[pixel + j * r];
        }
}

static void shuffle_all(const Tensor& out, const Tensor& self, int64_t planes, int64_t h, int64_t w,
                        int64_t r, bool to_pixels) {
  visit_size(self.itemsize(), [&]<class Word>(TypeTag<Word>) {
    shuffle_words<Word>(out.bytes(), self.bytes(), planes, h, w, r, to_pixels);
  });
}

void shuffle_pixels(const Tensor& out, const Tensor& self, IntList sizes, int64_t r, bool to_pixels) {
  const size_t lead = sizes.size() - 3;
  on<&shuffle_all>(Out(out), self, product(sizes.first(lead + 1)), sizes[lead + 1] / r, sizes[lead + 2] / r,
                   r, to_pixels);
}

static int64_t total_of(const Tensor& counts, int64_t size, const char* op) {
  const int64_t* r = counts.data<int64_t>();
  const int64_t step = counts.numel() == 1 ? 0 : 1;
  int64_t total = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (r[i * step] < 0) fail(op, "(): repeats can not be negative, but got ", r[i * step]);
    total = checked_add(total, r[i * step], op);
  }
  return total;
}

static void repeat_numbers(const Tensor& out, const Tensor& counts, int64_t size) {
  const int64_t *r = counts.data<int64_t>(), step = counts.numel() == 1 ? 0 : 1;
  int64_t* to = out.data<int64_t>();
  for (int64_t i = 0; i < size; ++i) to = std::fill_n(to, r[i * step], i);
}

Tensor repeated_numbers(const Tensor& given, int64_t size, const char* op) {
  const Tensor counts = copy_of(given);  // its own: they are read twice
  const int64_t shape[] = {ask<&total_of>(op, counts, size, op)};
  const Tensor out = empty(shape, DType::Int64);
  on<&repeat_numbers>(Out(out), counts, size);
  return out;
}

}  // namespace adjoint::kernels
