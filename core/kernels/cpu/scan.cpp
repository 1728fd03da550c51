// Scans: `sweep` walks along the dimension with one accumulator per slice, a block of slices side by side, so
// that memory is read in order whichever dimension it is.
#include "kernels/scan.h"

#include <cmath>

#include "kernels/cpu/math/math.h"
#include "kernels/cpu/reduction.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"

namespace adjoint::kernels {

namespace {

constexpr int64_t kAbreast = 64;

/// step(accumulator, offset, k) for k = 0 … n-1 of every slice, or backwards.
template <class Acc, class Step>
void sweep(const Slices& s, bool reverse, const Acc& start, const Step& step) {
  if (s.n == 0) return;
  if (s.inner == 1) {
    // Several rows at a time: a step waits for the one before it in its own row only.
    constexpr int64_t kTogether = sizeof(Acc) > 8 ? 4 : 8;
    runtime::parallel_for(
        0, (s.outer - 1) / kTogether + 1, std::max<int64_t>(1, 16384 / (s.n * kTogether)),
        [&](int64_t b, int64_t e) {
          for (int64_t row = b * kTogether; row < std::min(s.outer, e * kTogether); row += kTogether) {
            const auto run = [&]<int64_t width>(std::integral_constant<int64_t, width>, int64_t first)
                                 __attribute__((always_inline)) {
                                   Acc acc[width];
#pragma GCC unroll 8
                                   for (int64_t j = 0; j < width; ++j) acc[j] = start;
                                   for (int64_t i = 0; i < s.n; ++i) {
                                     const int64_t k = reverse ? s.n - 1 - i : i;
#pragma GCC unroll 8
                                     for (int64_t j = 0; j < width; ++j)
                                       step(acc[j], (first + j) * s.n + k, k);
                                   }
                                 };
            if (row + kTogether <= s.outer)
              run(std::integral_constant<int64_t, kTogether>(), row);
            else
              for (int64_t rest = row; rest < s.outer; ++rest)
                run(std::integral_constant<int64_t, 1>(), rest);
          }
        });
    return;
  }
  const int64_t blocks = (s.inner - 1) / kAbreast + 1;
  runtime::parallel_for(
      0, s.inner == 0 ? 0 : s.outer * blocks,
      std::max<int64_t>(1, 16384 / (s.n * std::min(s.inner, kAbreast) + 1)), [&](int64_t b, int64_t e) {
        for (int64_t t = b; t < e; ++t) {
          const int64_t first = t % blocks * kAbreast, width = std::min(kAbreast, s.inner - first);
          const int64_t base = t / blocks * s.n * s.inner + first;
          Acc acc[kAbreast];
          for (int64_t j = 0; j < width; ++j) acc[j] = start;
          for (int64_t i = 0; i < s.n; ++i) {
            const int64_t k = reverse ? s.n - 1 - i : i;
            for (int64_t j = 0; j < width; ++j) step(acc[j], base + k * s.inner + j, k);
          }
        }
      });
}

/// The type that a scan computes in, and an input of it.
DType scan_type(DType d) { return is_integral(d) ? DType::Int64 : compute_dtype(d); }

// Integers wrap around, which only unsigned ones may.
template <class T>
using accumulator_t = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, wide_t<T>>;

template <class Combine>
void accumulate_slices(const Tensor& out, const Tensor& x, int64_t d, bool reverse, int start) {
  with_number(x.dtype(), [&]<class T>(TypeTag<T>) {
    using A = accumulator_t<T>;
    const T* p = x.data<T>();
    T* o = out.data<T>();
    sweep(Slices(x.sizes(), d), reverse, A(start), [&](A& a, int64_t i, int64_t) {
      a = Combine()(a, A(p[i]));
      o[i] = T(a);
    });
  });
}

template <class Combine>
Tensor accumulate(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, bool reverse,
                  int start, const char* op, const Combine&) {
  const DType type = dtype ? *dtype : is_integral(self.dtype()) ? DType::Int64 : self.dtype();
  const int d = wrap_dim(dim, self.dim(), op);
  // First to the type asked for, then to the one computed in: what the former cannot hold is lost, as with
  // .to().
  const Tensor x = dense_as(dtype ? as_dtype(self, type) : self, scan_type(type));
  Tensor out = into.empty_for(type, x.sizes(), x.dtype());
  on<&accumulate_slices<Combine>>(Out(out), x, d, reverse, start);
  return as_dtype(into, out, type);
}

}  // namespace

Tensor cumsum(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, bool reverse,
              const char* op) {
  return accumulate(into, self, dim, dtype, reverse, 0, op, [](auto a, auto x) { return a + x; });
}

Tensor cumprod(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, const char* op) {
  return accumulate(into, self, dim, dtype, false, 1, op, [](auto a, auto x) { return a * x; });
}

static void add_exponentials(const Tensor& out, const Tensor& x, int64_t d) {
  auto run = [&]<class T>(TypeTag<T>) {
    struct Sum {
      double max, sum;
    };
    const T* p = x.data<T>();
    T* o = out.data<T>();
    sweep(Slices(x.sizes(), d), false, Sum{-HUGE_VAL, 0}, [&](Sum& a, int64_t i, int64_t) {
      const double v = static_cast<double>(p[i]);
      if (v > a.max || v != v) {
        a.sum = a.sum == 0 ? 1 : v == HUGE_VAL ? 1 : a.sum * std::exp(a.max - v) + 1;
        a.max = v;
      } else if (v > -HUGE_VAL && a.max < HUGE_VAL) {
        a.sum += std::exp(v - a.max);
      }
      o[i] = static_cast<T>(a.max + std::log(a.sum == 0 ? 1 : a.sum));
    });
  };
  // Of complex numbers the largest real part is taken out.
  auto run_complex = [&]<class T>(TypeTag<T>) {
    using C = Complex<double>;
    struct Sum {
      double max;
      C sum;
    };
    const T* p = x.data<T>();
    T* o = out.data<T>();
    sweep(Slices(x.sizes(), d), false, Sum{-HUGE_VAL, C(0)}, [&](Sum& a, int64_t i, int64_t) {
      const C z(p[i]);
      if (z.re > a.max || z.re != z.re) {
        a.sum = a.max == -HUGE_VAL || z.re == HUGE_VAL ? C(0) : a.sum * std::exp(a.max - z.re);
        a.max = z.re;
      }
      if (z.re > -HUGE_VAL) a.sum += math::exp(C(z.re == a.max ? 0 : z.re - a.max, z.im));
      o[i] = T(a.max == -HUGE_VAL ? C(a.max) : C(a.max) + math::log(a.sum));
    });
  };
  switch (x.dtype()) {
    case DType::Float64:
      run(TypeTag<double>{});
      break;
    case DType::Complex64:
      run_complex(TypeTag<Complex<float>>{});
      break;
    case DType::Complex128:
      run_complex(TypeTag<Complex<double>>{});
      break;
    default:
      run(TypeTag<float>{});
  }
}

Tensor logcumsumexp(Into into, const Tensor& self, int64_t dim, const char* op) {
  if (!self.is_complex()) need_floating(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const Tensor x = dense_as(self, compute_dtype(self.dtype()));
  Tensor out = into.empty_for(self.dtype(), x.sizes(), x.dtype());
  on<&add_exponentials>(Out(out), x, d);
  return as_dtype(into, out, self.dtype());
}

namespace {

/// Of rows: what is more extreme than all before it becomes rare soon, so that a branch costs less than to
/// choose.
template <bool max, class T>
void extreme_so_far(const Slices& s, const T* x, T* values, int64_t* where) {
  runtime::parallel_for(0, s.n ? s.outer : 0, std::max<int64_t>(1, 16384 / (s.n + 1)),
                        [&](int64_t b, int64_t e) {
                          for (int64_t row = b; row < e; ++row) {
                            const T* p = x + row * s.n;
                            T best = p[0];
                            int64_t at = 0;
                            for (int64_t k = 0; k < s.n; ++k) {
                              const T v = p[k];
                              // The last of equals; a NaN stays until the next one.
                              if (!(max ? v < best : v > best)) [[unlikely]]
                                if (best == best || v != v) best = v, at = k;
                              values[row * s.n + k] = best;
                              where[row * s.n + k] = at;
                            }
                          }
                        });
}

}  // namespace

static void find_extremes(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t d, bool max) {
  with_number(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      const T* p = x.data<T>();
      T* o = values.data<T>();
      int64_t* where = indices.data<int64_t>();
      const Slices s(x.sizes(), d);
      if (s.inner == 1)
        return max ? extreme_so_far<true>(s, p, o, where) : extreme_so_far<false>(s, p, o, where);
      sweep(Slices(x.sizes(), d), false, Located<T>{T(0), -1}, [&](Located<T>& a, int64_t i, int64_t k) {
        const T v = p[i];
        const bool beats = v != v || (a.value == a.value && (max ? v >= a.value : v <= a.value));
        if (a.index < 0 || beats) a = {v, k};
        o[i] = a.value;
        where[i] = a.index;
      });
    }
  });
}

std::tuple<Tensor, Tensor> cumulative_extreme(Into into, const Tensor& self, int64_t dim, bool max,
                                              const char* op) {
  need_order(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const Tensor x = dense_as(self, scan_type(self.dtype()));
  Tensor values = into.empty_for(self.dtype(), x.sizes(), x.dtype()),
         indices = into.empty(x.sizes(), DType::Int64, 1);
  on<&find_extremes>(Out(values), Out(indices), x, d, max);
  return {as_dtype(into, values, self.dtype()), indices};
}

static void scan_linearly(const Tensor& out, const Tensor& x, const Tensor& y, int64_t d, bool reverse) {
  with_number(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, int64_t>) {
      using A = wide_t<T>;
      const Slices s(y.sizes(), d);
      const T *p = x.data<T>(), *q = y.data<T>();
      T* o = out.data<T>();
      sweep(s, reverse, A(0), [&](A& v, int64_t i, int64_t k) {
        if (reverse)
          v = k == s.n - 1 ? A(q[i]) : A(q[i]) + A(p[i + s.inner]) * v;
        else
          v = k == 0 ? A(q[i]) : A(q[i]) + A(p[i]) * v;
        o[i] = T(v);
      });
    }
  });
}

Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t dim, bool reverse) {
  const int d = wrap_dim(dim, b.dim(), "_linear_scan");
  const DType type = promote(a.dtype(), b.dtype()), c = compute_dtype(type);
  if (!same(a.sizes(), b.sizes()) || !is_differentiable(type))
    fail("_linear_scan(): expected two floating-point or complex tensors of one shape, found ", a.sizes(),
         " and ", b.sizes());
  const Tensor x = dense_as(a, c), y = dense_as(b, c);
  Tensor out = empty(y.sizes(), c);
  on<&scan_linearly>(Out(out), x, y, d, reverse);
  return as_dtype(out, type);
}

static void multiply_others(const Tensor& out, const Tensor& x, int64_t d) {
  with_number(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, int64_t>) {
      using A = wide_t<T>;
      const Slices s(x.sizes(), d);
      const T* p = x.data<T>();
      T* o = out.data<T>();
      sweep(s, false, A(1), [&](A& before, int64_t i, int64_t) {
        o[i] = T(before);
        before = before * A(p[i]);
      });
      sweep(s, true, A(1), [&](A& after, int64_t i, int64_t) {
        o[i] = p[i] == p[i] ? o[i] * T(after) : p[i];
        after = after * A(p[i]);
      });
    }
  });
}

Tensor product_of_others(const Tensor& self, int64_t dim) {
  const int d = wrap_dim(dim, self.dim(), "_product_of_others");
  if (!is_differentiable(self.dtype()))
    fail("_product_of_others(): expected floating-point or complex numbers, found ", name_of(self.dtype()));
  const Tensor x = dense_as(self, compute_dtype(self.dtype()));
  Tensor out = empty(x.sizes(), x.dtype());
  if (out.numel()) on<&multiply_others>(Out(out), x, d);
  return as_dtype(out, self.dtype());
}

static void shift_all(const Tensor& out, const Tensor& x, const Slices& s, int64_t by, double fill) {
  const int64_t item = x.itemsize(), row = s.inner * item;
  alignas(16) char number[16];
  write_element(number, x.dtype(), Scalar(fill));
  for (int64_t o = 0; o < s.outer; ++o) {
    const char* from = x.bytes() + o * s.n * row;
    char* to = out.bytes() + o * s.n * row;
    char* free = by > 0 ? to : to + (s.n - 1) * row;
    std::memcpy(by > 0 ? to + row : to, by > 0 ? from : from + row, static_cast<size_t>((s.n - 1) * row));
    for (int64_t j = 0; j < s.inner; ++j) std::memcpy(free + j * item, number, static_cast<size_t>(item));
  }
}

Tensor shift(const Tensor& self, int64_t dim, int64_t by, double fill) {
  const Slices s(self.sizes(), wrap_dim(dim, self.dim(), "_shift"));
  if (by != 1 && by != -1) fail("_shift(): by must be 1 or -1, got ", by);
  const Tensor x = dense(self);
  Tensor out = empty(x.sizes(), x.dtype());
  if (out.numel() == 0) return out;
  on<&shift_all>(Out(out), x, s, by, fill);
  return out;
}

}  // namespace adjoint::kernels
