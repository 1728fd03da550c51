// Convolution by plain loops, for every type: what convolution.cpp does not do on padded planes.
#pragma once

#include <algorithm>

#include "kernels/convolution.h"
#include "runtime/parallel.h"

namespace adjoint::kernels::convolution {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Rounded down, for any a.
inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// f(k0, k1, k2) for each place of a box, the last one fastest.
template <class F>
void each(const int64_t* size, const F& f) {
  for (int64_t a = 0; a < size[0]; ++a)
    for (int64_t b = 0; b < size[1]; ++b)
      for (int64_t c = 0; c < size[2]; ++c) f(a, b, c);
}

/// The results along dimension d for which tap k reads the image.
struct Met {
  int64_t low, high;
  Met(const Geometry& s, int d, int64_t k) {
    const int64_t shift = k * s.dilation[d] - s.padding[d], step = s.stride[d];
    low = std::min(s.result[d], shift >= 0 ? 0 : ceil_div(-shift, step));
    high = std::max(low, std::min(s.result[d], floor_div(s.image[d] - 1 - shift, step) + 1));
  }
};

/// f(first result, first pixel, rows, count) for each plane of results that tap (a, b, c) reaches, rows by
/// count of them.
template <class F>
void each_block(const Geometry& s, int64_t a, int64_t b, int64_t c, const F& f) {
  const int64_t tap[] = {a, b, c};
  const Met met[] = {{s, 0, a}, {s, 1, b}, {s, 2, c}};
  if (met[1].low == met[1].high || met[2].low == met[2].high) return;
  const auto pixel = [&](int d, int64_t i) {
    return i * s.stride[d] + tap[d] * s.dilation[d] - s.padding[d];
  };
  for (int64_t d = met[0].low; d < met[0].high; ++d)
    f((d * s.result[1] + met[1].low) * s.result[2] + met[2].low,
      (pixel(0, d) * s.image[1] + pixel(1, met[1].low)) * s.image[2] + pixel(2, met[2].low),
      met[1].high - met[1].low, met[2].high - met[2].low);
}

/// f(row of results, row of the image, count, step) for each row of results that tap (a, b, c) reaches.
template <class F>
void each_row(const Geometry& s, int64_t a, int64_t b, int64_t c, const F& f) {
  each_block(s, a, b, c, [&](int64_t p, int64_t q, int64_t rows, int64_t count) {
    for (int64_t h = 0; h < rows; ++h, p += s.result[2], q += s.stride[1] * s.image[2])
      f(p, q, count, s.stride[2]);
  });
}

/// f(output, channel) pairs in parallel over `count` planes.
template <class F>
void share(int64_t count, int64_t work, const F& f) {
  runtime::parallel_for(0, count, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, work)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) f(i);
                        });
}

template <class T>
void forward_plainly(const Geometry& s, const T* x, const T* w, const T* bias, T* y) {
  const int64_t taps = Geometry::volume(s.kernel), image = Geometry::volume(s.image),
                result = Geometry::volume(s.result);
  const int64_t all = s.groups * s.out;
  share(s.images * all, s.in * taps * result, [&](int64_t i) {
    T* to = y + i * result;
    const T* weight = w + i % all * s.in * taps;
    const T* from = x + (i / all * s.groups + i % all / s.out) * s.in * image;
    std::fill_n(to, result, bias ? bias[i % all] : T(0));
    for (int64_t c = 0; c < s.in; ++c, from += image)
      each(s.kernel, [&](int64_t a, int64_t b, int64_t k) {
        const T v = *weight++;
        each_row(s, a, b, k, [&](int64_t p, int64_t q, int64_t n, int64_t step) {
          for (int64_t j = 0; j < n; ++j) to[p + j] = static_cast<T>(to[p + j] + v * from[q + j * step]);
        });
      });
  });
}

template <class T>
void input_plainly(const Geometry& s, const T* g, const T* w, T* x) {
  const int64_t taps = Geometry::volume(s.kernel), image = Geometry::volume(s.image),
                result = Geometry::volume(s.result);
  const int64_t all = s.groups * s.in;
  share(s.images * all, s.out * taps * result, [&](int64_t i) {
    T* to = x + i * image;
    const int64_t group = i % all / s.in;
    std::fill_n(to, image, T(0));
    for (int64_t o = 0; o < s.out; ++o) {
      const T* weight = w + ((group * s.out + o) * s.in + i % s.in) * taps;
      const T* from = g + ((i / all * s.groups + group) * s.out + o) * result;
      each(s.kernel, [&](int64_t a, int64_t b, int64_t k) {
        const T v = *weight++;
        each_row(s, a, b, k, [&](int64_t p, int64_t q, int64_t n, int64_t step) {
          for (int64_t j = 0; j < n; ++j)
            to[q + j * step] = static_cast<T>(to[q + j * step] + v * from[p + j]);
        });
      });
    }
  });
}

template <class T>
void weight_plainly(const Geometry& s, const T* x, const T* g, T* w) {
  const int64_t taps = Geometry::volume(s.kernel), image = Geometry::volume(s.image),
                result = Geometry::volume(s.result);
  share(s.groups * s.out * s.in, s.images * taps * result, [&](int64_t i) {
    const int64_t output = i / s.in, channel = output / s.out * s.in + i % s.in;
    T* to = w + i * taps;
    each(s.kernel, [&](int64_t a, int64_t b, int64_t k) {
      T sum(0);
      for (int64_t n = 0; n < s.images; ++n) {
        const T* from = x + (n * s.groups * s.in + channel) * image;
        const T* result_of = g + (n * s.groups * s.out + output) * result;
        each_row(s, a, b, k, [&](int64_t p, int64_t q, int64_t count, int64_t step) {
          T part[8] = {};
          int64_t j = 0;
          for (; j + 8 <= count; j += 8)
            for (int l = 0; l < 8; ++l)
              part[l] = static_cast<T>(part[l] + result_of[p + j + l] * from[q + (j + l) * step]);
          for (; j < count; ++j) part[0] = static_cast<T>(part[0] + result_of[p + j] * from[q + j * step]);
          for (int l = 0; l < 8; ++l) sum = static_cast<T>(sum + part[l]);
        });
      }
      *to++ = sum;
    });
  });
}

}  // namespace adjoint::kernels::convolution
