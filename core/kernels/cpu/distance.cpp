// Distances: checks, layouts, threads. The loops are in distance.isa.cpp.
#include "kernels/distance.h"

#include <cmath>
#include <memory>

#include "for_size.h"
#include "kernels/cpu/distance.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace {

/// The sizes of a call: `batch` pairs of matrices, (n, d) and (m, d).
struct Pairs {
  int64_t batch = 1, n, m, d;
  Dims result;

  template <class F>
  void each_tensor(const F&) {}  // it holds none
  Pairs(const Tensor& x, const Tensor& y, const char* op) {
    const IntList a = x.sizes(), b = y.sizes();
    const size_t lead = a.size() - 2;
    if (a.size() < 2 || a.size() != b.size() || a.back() != b.back() || !same(a.first(lead), b.first(lead)) ||
        x.dtype() != y.dtype() || !x.is_floating())
      fail(
          op,
          "(): expected matrices of one floating-point type with as many columns and equal batches, but got ",
          name_of(x.dtype()), " ", to_string(a), " and ", name_of(y.dtype()), " ", to_string(b));
    for (size_t i = 0; i < lead; ++i) batch *= a[i];
    n = a[lead], m = b[lead], d = a.back();
    result = Dims(a);
    result.back() = m;
  }
};

Metric metric_of(double p, const char* op) {
  if (p == 2) return Metric::Root;
  if (p == 1) return Metric::Sum;
  if (p != std::numeric_limits<double>::infinity())
    fail<ValueError>(op, "(): p is 1, 2 or infinity, but got ", p);
  return Metric::Largest;
}

/// The rows of a tensor with zeros behind them, so that whole vectors cover them.
template <class T>
Tensor widened(const Tensor& t, int64_t d, int64_t width) {
  if (d == width) return t;
  const int64_t rows = d ? t.numel() / d : 0, sizes[] = {rows, width};
  const Tensor to = zeros(IntList(sizes), t.dtype());
  for (int64_t i = 0; i < rows; ++i) std::copy_n(t.data<T>() + i * d, d, to.data<T>() + i * width);
  return to;
}

constexpr int64_t kChunk = 256;  // rows of x beside which a panel is packed

}  // namespace

static void measure(const Tensor& to, const Pairs& s, Metric metric, const Tensor& x, const Tensor& y) {
  with_floating(to.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<DistanceTable<T>>();
    const int64_t L = table.panel_rows, panels = (s.m + L - 1) / L, chunks = (s.n + kChunk - 1) / kChunk;
    const int64_t cost = std::min(kChunk, s.n) * L * std::max<int64_t>(1, s.d);
    runtime::parallel_for(
        0, s.batch * chunks * panels, std::max<int64_t>(1, 400000 / cost), [&](int64_t begin, int64_t end) {
          const runtime::Scratch<T> packed(std::max<int64_t>(1, L * s.d));
          for (int64_t t = begin; t < end; ++t) {
            const int64_t b = t / (chunks * panels), i = t / panels % chunks * kChunk, j = t % panels * L;
            table.panel(metric, x.data<T>() + (b * s.n + i) * s.d, std::min(kChunk, s.n - i),
                        y.data<T>() + (b * s.m + j) * s.d, std::min(L, s.m - j), s.d, packed.get(),
                        to.data<T>() + (b * s.n + i) * s.m + j, s.m);
          }
        });
  });
}

Tensor distances(const Tensor& self, const Tensor& other, double p, const char* op) {
  const Pairs s(self, other, op);
  const Metric metric = metric_of(p, op);
  const DType c = compute_dtype(self.dtype());
  const Tensor x = dense_as(self, c), y = dense_as(other, c), to = empty(s.result.span(), c);
  if (to.numel()) on<&measure>(Out(to), s, metric, x, y);
  return as_dtype(to, self.dtype());
}

static void pull_apart(const Tensor& gx, const Tensor& gy, const Pairs& s, Metric metric, const Tensor& given,
                       const Tensor& x, const Tensor& y, const Tensor& distance) {
  const DType c = x.dtype();
  Tensor share = given;
  with_floating(c, [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<DistanceTable<T>>();
    if (metric == Metric::Root) {
      const Tensor ratio = empty(s.result.span(), c);
      runtime::parallel_for(0, ratio.numel(), 1 << 15, [&](int64_t b, int64_t e) {
        table.shares(share.data<T>() + b, distance.data<T>() + b, e - b, ratio.data<T>() + b);
      });
      share = ratio;
    }
    const int64_t width = (s.d + table.lanes - 1) / table.lanes * table.lanes;
    const Tensor wide_x = widened<T>(x, s.d, width), wide_y = widened<T>(y, s.d, width);
    // Each row of the one side is pulled by all rows of the other.
    const auto side = [&](const Tensor& to, const Tensor& from, const Tensor& by, int64_t n, int64_t m,
                          int64_t row, int64_t column) {
      if (!to.defined() || !to.numel()) return;
      constexpr int64_t kTile = 16;
      const int64_t parts = (n + kTile - 1) / kTile;
      const Tensor wide = s.d == width ? to : empty(from.sizes(), c);
      runtime::parallel_for(
          0, s.batch * parts, std::max<int64_t>(1, 200000 / (kTile * std::max<int64_t>(1, m) * width)),
          [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
              const int64_t b = t / parts, i = t % parts * kTile, at = (b * n + i) * width;
              table.pull(metric, from.data<T>() + at, std::min(kTile, n - i), by.data<T>() + b * m * width, m,
                         width, share.data<T>() + b * s.n * s.m + i * row, row, column, wide.data<T>() + at);
            }
          });
      if (s.d != width)
        for (int64_t i = 0; i < s.batch * n; ++i)
          std::copy_n(wide.data<T>() + i * width, s.d, to.data<T>() + i * s.d);
    };
    side(gx, wide_x, wide_y, s.n, s.m, s.m, 1);
    side(gy, wide_y, wide_x, s.m, s.n, 1, s.m);
  });
}

std::tuple<Tensor, Tensor> distances_backward(const Tensor& g, const Tensor& self, const Tensor& other,
                                              const Tensor& result, double p, bool of_x, bool of_y,
                                              const char* op) {
  const Pairs s(self, other, op);
  const Metric metric = metric_of(p, op);
  if (metric == Metric::Largest || !same(g.sizes(), s.result.span()) ||
      !same(result.sizes(), s.result.span()))
    fail(op, "(): expected p to be 1 or 2, and a gradient and a result of shape ", to_string(s.result.span()),
         ", but got p = ", p, ", ", g.sizes(), " and ", result.sizes());
  const DType c = compute_dtype(self.dtype());
  const Tensor x = dense_as(self, c), y = dense_as(other, c), distance = dense_as(result, c);
  const Tensor given = dense_as(g, c);
  Tensor gx, gy;
  if (of_x) gx = empty_as(x, c);
  if (of_y) gy = empty_as(y, c);
  on<&pull_apart>(Out(gx), Out(gy), s, metric, given, x, y, distance);
  const auto back = [&](const Tensor& t) { return t.defined() ? as_dtype(t, self.dtype()) : t; };
  return {back(gx), back(gy)};
}

}  // namespace adjoint::kernels
