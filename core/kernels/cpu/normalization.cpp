// Layer normalisation: checks, layouts, threads. Gradients of weight and bias are summed per block of slices, blocks that
// depend on the shape alone, and then over blocks in order: the same for any number of threads.
#include "kernels/cpu/normalization.h"

#include "kernels/cpu/variants.h"
#include "kernels/slices.h"
#include "kernels/normalization.h"
#include "tensor/access.h"

namespace adjoint::kernels {

namespace {

template <class F> void with_floating(DType dtype, F&& f) {
  if (dtype == DType::Float64) f(TypeTag<double>{});
  else f(TypeTag<float>{});
}

/// `t` of dtype c, its last `dims` dimensions in row-major order, without gaps.
Tensor prepared(const Tensor& t, int64_t dims, DType c) {
  if (t.dtype() != c || !without_gaps(t)) return copy_of(t, c);
  if (t.is_contiguous()) return t;
  int64_t next = 0;  // the stride that the next dimension must have
  for (int64_t d = t.dim() - 1; d >= t.dim() - dims; --d) {
    if (t.size(d) == 1) continue;
    if (next && t.stride(d) != next) return copy_of(t, c);
    next = t.stride(d) * t.size(d);
  }
  return t;
}

template <class T> const T* values(const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; }

}  // namespace

Tensor layer_norm(const Tensor& self, IntList normalized_shape, const Tensor& weight, const Tensor& bias, double eps, const char* op) {
  const size_t dims = normalized_shape.size(), rank = self.sizes().size();
  if (dims == 0) fail(op, "(): Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got []");
  if (rank < dims || !same(self.sizes().subspan(rank - dims), normalized_shape))
    fail(op, "(): Given normalized_shape=", to_string(normalized_shape), ", expected input with shape [*, ",
         to_string(normalized_shape).substr(1), ", but got input of size ", to_string(self.sizes()));
  if (!self.is_floating()) fail(op, "(): not implemented for '", name_of(self.dtype()), "'; convert the input to a floating-point type");
  for (const Tensor* t : {&weight, &bias})
    if (t->defined() && !same(t->sizes(), normalized_shape))
      fail(op, "(): Expected ", t == &weight ? "weight" : "bias", " to be of same shape as normalized_shape, but got ", to_string(t->sizes()),
           " and normalized_shape = ", to_string(normalized_shape));
  const DType c = compute_dtype(self.dtype());
  const int64_t k = static_cast<int64_t>(dims);
  const Tensor x = prepared(self, k, c);
  const Tensor w = weight.defined() ? dense_as(weight, c) : Tensor(), b = bias.defined() ? dense_as(bias, c) : Tensor();
  Tensor y = empty_as(x, c);
  const Slices s(x, x.dim() - k, k);
  const Access access(x);
  if (access) with_floating(c, [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<NormalizationTable<T>>();
    s.each_block(
        kNormalizationColumns,
        [&](int64_t first, int64_t n) {
          table.rows(x.data<T>() + first * s.n, values<T>(w), values<T>(b), y.data<T>() + first * s.n, n, s.n, eps);
        },
        [&](int64_t, int64_t at, int64_t width) {
          table.columns(x.data<T>() + at, values<T>(w), values<T>(b), y.data<T>() + at, s.n, s.inner, width, eps);
        });
  });
  return as_dtype(y, self.dtype());
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps, int64_t needs) {
  constexpr auto op = "_layer_norm_backward";
  if (!self.is_floating()) fail(op, "(): not implemented for '", name_of(self.dtype()), "'");
  if (dims < 1 || dims > self.dim() || !same(g.sizes(), self.sizes()) ||
      (weight.defined() && !same(weight.sizes(), self.sizes().subspan(static_cast<size_t>(self.dim() - dims)))))
    fail(op, "(): expected a gradient like the input and a weight of its last ", dims, " dimensions, but the input has shape ",
         to_string(self.sizes()), " and the gradient ", to_string(g.sizes()));
  const DType c = compute_dtype(self.dtype());
  const Tensor x = prepared(self, dims, c), gy = laid_as(g, x, c);
  const Tensor w = weight.defined() ? dense_as(weight, c) : Tensor();
  const IntList shape = self.sizes().subspan(static_cast<size_t>(self.dim() - dims));
  const bool want_x = needs & 1, want_w = needs & 2, want_b = needs & 4;
  Tensor gx = want_x ? empty_as(x, c) : Tensor();
  const Slices s(x, x.dim() - dims, dims);
  // Slices per block; each block sums gradients of weight and bias on its own.
  const bool sums = want_w || want_b;
  const int64_t each = s.inner == 1 ? std::max<int64_t>(32, (1 << 17) / std::max<int64_t>(s.n, 1)) : kNormalizationColumns;
  const int64_t group = s.inner == 1 ? 1 : std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(s.n * each, 1));  // tiles per block
  const int64_t tiles = s.inner == 1 ? (s.outer + each - 1) / each : s.outer * ((s.inner - 1) / each + 1);
  const int64_t blocks = s.count() == 0 || s.n == 0 ? 0 : (tiles - 1) / group + 1;
  Tensor gw = want_w ? zeros(shape, c) : Tensor(), gb = want_b ? zeros(shape, c) : Tensor();
  const Access access(x);
  if (access) with_floating(c, [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<NormalizationTable<T>>();
    const int64_t n = s.n;
    std::unique_ptr<T[]> partial(sums && blocks > 1 ? new T[static_cast<size_t>(blocks * 2 * n)]() : nullptr);
    runtime::parallel_for(0, blocks, std::max<int64_t>(1, 8192 / std::max<int64_t>(n * each * group, 1)), [&](int64_t b, int64_t e) {
      for (int64_t block = b; block < e; ++block) {
        T* pw = !want_w ? nullptr : partial ? &partial[static_cast<size_t>(block * 2 * n)] : gw.data<T>();
        T* pb = !want_b ? nullptr : partial ? &partial[static_cast<size_t>((block * 2 + 1) * n)] : gb.data<T>();
        for (int64_t tile = block * group; tile < std::min(tiles, (block + 1) * group); ++tile) {
          if (s.inner == 1) {
            const int64_t first = tile * each, at = first * n;
            table.rows_backward(gy.data<T>() + at, x.data<T>() + at, values<T>(w), want_x ? gx.data<T>() + at : nullptr, pw, pb,
                                std::min(each, s.outer - first), n, eps);
          } else {
            const int64_t across = (s.inner - 1) / each + 1, j = tile % across * each, at = tile / across * n * s.inner + j;
            table.columns_backward(gy.data<T>() + at, x.data<T>() + at, values<T>(w), want_x ? gx.data<T>() + at : nullptr, pw, pb, n,
                                   s.inner, std::min(each, s.inner - j), eps);
          }
        }
      }
    });
    if (!partial) return;
    for (int which = 0; which < 2; ++which) {
      const Tensor& to = which ? gb : gw;
      if (!to.defined()) continue;
      T* o = to.data<T>();
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t block = 0; block < blocks; ++block) sum += static_cast<double>(partial[static_cast<size_t>((block * 2 + which) * n + i)]);
        o[i] = static_cast<T>(sum);
      }
    }
  });
  auto back = [](const Tensor& t, DType d) { return t.defined() ? as_dtype(t, d) : t; };
  const DType wd = weight.defined() ? weight.dtype() : self.dtype();
  return {back(gx, self.dtype()), back(gw, wd), back(gb, wd)};
}

}  // namespace adjoint::kernels
