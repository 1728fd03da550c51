#include "kernels/creation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/cpu/copying.h"
#include "kernels/cpu/variants.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {

namespace {

/// Elements i < n, made by make(numbers, i, count) in blocks of T.
template <class T, class F>
void generate(const Tensor& t, F&& make) {
  runtime::parallel_for(0, t.numel(), 16384, [&](int64_t b, int64_t e) {
    constexpr int64_t kBlock = 512;
    T numbers[kBlock];
    const bool direct = t.dtype() == dtype_of<T>;
    for (int64_t i = b; i < e; i += kBlock) {
      const int64_t n = std::min(kBlock, e - i);
      char* const to = t.bytes() + i * t.itemsize();
      make(direct ? reinterpret_cast<T*>(to) : numbers, i, n);
      if (!direct)
        convert_strided(to, t.dtype(), t.itemsize(), reinterpret_cast<char*>(numbers), dtype_of<T>, sizeof(T),
                        n);
    }
  });
}

}  // namespace

void whole_ramp(const Tensor& t, int64_t start, int64_t step) {
  generate<int64_t>(t, [&](int64_t* to, int64_t i, int64_t n) {
    best_variant<CopyTable>().whole_ramp(to, start, step, i, n);
  });
}

void ramp(const Tensor& t, double start, double step) {
  generate<double>(
      t, [&](double* to, int64_t i, int64_t n) { best_variant<CopyTable>().ramp(to, start, step, i, n); });
}

void spaced(const Tensor& t, double start, double end) {
  const int64_t n = t.numel();
  visit(t.dtype(), [&]<class T>(TypeTag<T>) {
    // From both ends, so that the last element is the end exactly. As torch rounds: floats in their own
    // type with fused steps, 16-bit types after each operation, integers from ends that are integers.
    using Step = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const auto rounded = [](double x) {
      return static_cast<Step>(is_half_v<T> || is_integer_v<T> ? convert<double>(convert<T>(x)) : x);
    };
    const Step first = rounded(start), last = rounded(end),
               steps = rounded(static_cast<double>(std::max<int64_t>(n - 1, 1)));
    const Step step = is_half_v<T> ? rounded(rounded(last - first) / steps)
                                   : (last - first) / static_cast<Step>(std::max<int64_t>(n - 1, 1));
    const int64_t middle = n == 1 ? 1 : n / 2;
    if constexpr (is_half_v<T>) {
      T* p = t.data<T>();
      for (int64_t i = 0; i < n; ++i)
        p[i] = convert<T>(i < middle ? first + rounded(step * rounded(double(i)))
                                     : last - rounded(step * rounded(double(n - 1 - i))));
    } else {
      generate<double>(t, [&](double* to, int64_t i, int64_t m) {
        const int64_t near = std::clamp<int64_t>(middle - i, 0, m);
        best_variant<CopyTable>().ramp(to, double(first), double(step), i, near);
        best_variant<CopyTable>().ramp(to + near, double(last), double(step), i + near - (n - 1), m - near);
      });
    }
  });
}

void powers(const Tensor& t, double start, double step, double base) {
  generate<double>(t, [&](double* to, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = std::pow(base, start + step * static_cast<double>(first + i));
  });
}

void identity(const Tensor& t) {
  runtime::parallel_for(0, t.numel() * t.itemsize(), int64_t{1} << 20, [&](int64_t b, int64_t e) {
    std::memset(t.bytes() + b, 0, static_cast<size_t>(e - b));
  });
  const int64_t n = std::min(t.size(0), t.size(1)), step = t.size(1) + 1;
  visit(t.dtype(), [&]<class T>(TypeTag<T>) {
    T* const p = t.data<T>();
    const T one = convert<T>(1.0);
    for (int64_t i = 0; i < n; ++i) p[i * step] = one;
  });
}

void write_numbers(const Tensor& t, std::span<const double> numbers) {
  std::copy(numbers.begin(), numbers.end(), t.data<double>());
}

[[gnu::noinline, gnu::optimize("O3")]] static void write_row(int64_t* rows, int64_t* columns, int64_t n,
                                                             int64_t row, int64_t first) {
  for (int64_t k = 0; k < n; ++k) {
    rows[k] = row;
    columns[k] = first + k;
  }
}

void triangle(const Tensor& t, int64_t first, int64_t columns, int64_t diagonal, bool upper) {
  int64_t* row = t.data<int64_t>();
  int64_t* const end = row + t.size(1);
  for (int64_t i = first; row < end; ++i) {
    const int64_t begin = upper ? std::max<int64_t>(i + diagonal, 0) : 0,
                  n = (upper ? columns : std::min(i + diagonal + 1, columns)) - begin;
    write_row(row, row + t.size(1), n, i, begin);
    row += n;
  }
}

}  // namespace adjoint::kernels
