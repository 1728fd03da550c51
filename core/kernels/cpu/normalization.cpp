// Layer normalisation: checks, layouts, threads. Gradients of weight and bias are summed per block of slices,
// blocks that depend on the shape alone, and then over blocks in order: the same for any number of threads.
#include "kernels/cpu/normalization.h"

#include "for_size.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/normalization.h"
#include "kernels/slices.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace {

template <class T>
const T* values(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace

static void normalize_rows(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, int64_t n,
                           int64_t slices, double eps, bool centred) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    runtime::parallel_for(0, slices, std::max<int64_t>(1, 16384 / n), [&](int64_t first, int64_t end) {
      best_variant<NormalizationTable<T>>().rows(x.data<T>() + first * n, values<T>(w), values<T>(b),
                                                 y.data<T>() + first * n, end - first, n, eps, centred);
    });
  });
}

Tensor layer_norm(const Tensor& self, IntList normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps, const char* op, bool centred) {
  const size_t dims = normalized_shape.size(), rank = self.sizes().size();
  if (dims == 0)
    fail(op,
         "(): Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
         "but got []");
  if (rank < dims || !same(self.sizes().subspan(rank - dims), normalized_shape))
    fail(op, "(): Given normalized_shape=", to_string(normalized_shape), ", expected input with shape [*, ",
         to_string(normalized_shape).substr(1), ", but got input of size ", self.sizes());
  need_floating(self.dtype(), op);
  for (const Tensor* t : {&weight, &bias})
    if (t->defined() && !same(t->sizes(), normalized_shape))
      fail(op, "(): Expected ", t == &weight ? "weight" : "bias",
           " to be of same shape as normalized_shape, but got ", t->sizes(),
           " and normalized_shape = ", to_string(normalized_shape));
  const DType c = compute_dtype(self.dtype());
  // As in torch, results lie row by row.
  const Tensor x = dense_as(self, c);
  const Tensor w = weight.defined() ? dense_as(weight, c) : Tensor(),
               b = bias.defined() ? dense_as(bias, c) : Tensor();
  Tensor y = empty_as(x, c);
  const int64_t n = product(normalized_shape), slices = product(self.sizes().first(rank - dims));
  if (n) on<&normalize_rows>(Out(y), x, w, b, n, slices, eps, centred);
  return as_dtype(y, self.dtype());
}

static void normalize_rows_backward(const Tensor& gx, const Tensor& gw, const Tensor& gb, const Tensor& gy,
                                    const Tensor& x, const Tensor& w, int64_t n, double eps, bool centred) {
  const bool want_x = gx.defined(), want_w = gw.defined(), want_b = gb.defined();
  const int64_t slices = n ? x.numel() / n : 0;
  // Slices per block; each block sums gradients of weight and bias on its own.
  const bool sums = want_w || want_b;
  const int64_t each = std::max<int64_t>(32, (1 << 17) / std::max<int64_t>(n, 1)),
                blocks = (slices + each - 1) / each;
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<NormalizationTable<T>>();
    const auto partial = sums && blocks > 1 ? runtime::Scratch<T>(blocks * 2 * n) : runtime::Scratch<T>();
    if (partial) std::fill_n(partial.get(), blocks * 2 * n, T(0));
    runtime::parallel_for(0, blocks, 1, [&](int64_t b, int64_t e) {
      for (int64_t block = b; block < e; ++block) {
        T* pw = !want_w ? nullptr : partial ? &partial[block * 2 * n] : gw.data<T>();
        T* pb = !want_b ? nullptr : partial ? &partial[(block * 2 + 1) * n] : gb.data<T>();
        const int64_t first = block * each, at = first * n;
        table.rows_backward(gy.data<T>() + at, x.data<T>() + at, values<T>(w),
                            want_x ? gx.data<T>() + at : nullptr, pw, pb, std::min(each, slices - first), n,
                            eps, centred);
      }
    });
    if (!partial) return;
    for (int which = 0; which < 2; ++which) {
      const Tensor& to = which ? gb : gw;
      if (!to.defined()) continue;
      T* o = to.data<T>();
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t block = 0; block < blocks; ++block)
          sum += static_cast<double>(partial[(block * 2 + which) * n + i]);
        o[i] = static_cast<T>(sum);
      }
    }
  });
}

/// Whether there are so many last dimensions, and the weight, if there is one, is of them.
static bool has_last(const Tensor& self, int64_t dims, const Tensor& weight) {
  return dims >= 1 && dims <= self.dim() &&
         (!weight.defined() ||
          same(weight.sizes(), self.sizes().subspan(static_cast<size_t>(self.dim() - dims))));
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& g, const Tensor& self,
                                                       const Tensor& weight, int64_t dims, double eps,
                                                       WantedOfNorm wanted, bool centred) {
  const char* const op = centred ? "_layer_norm_backward" : "_rms_norm_backward";
  need_floating(self.dtype(), op);
  if (!has_last(self, dims, weight) || !same(g.sizes(), self.sizes()))
    fail(op, "(): expected a gradient like the input and a weight of its last ", dims,
         " dimensions, but the input has shape ", self.sizes(), " and the gradient ", g.sizes());
  const DType c = compute_dtype(self.dtype());
  const Tensor x = dense_as(self, c), gy = dense_as(g, c);
  const Tensor w = weight.defined() ? dense_as(weight, c) : Tensor();
  const IntList shape = self.sizes().subspan(static_cast<size_t>(self.dim() - dims));
  Tensor gx = wanted.input ? empty_as(x, c) : Tensor();
  const int64_t n = product(shape);
  Tensor gw = wanted.weight ? zeros(shape, c) : Tensor(), gb = wanted.bias ? zeros(shape, c) : Tensor();
  on<&normalize_rows_backward>(Out(gx), Out(gw), Out(gb), gy, x, w, n, eps, centred);
  auto back = [](const Tensor& t, DType d) { return t.defined() ? as_dtype(t, d) : t; };
  const DType wd = weight.defined() ? weight.dtype() : self.dtype();
  return {back(gx, self.dtype()), back(gw, wd), back(gb, wd)};
}

static void normalize_rows_twice(const Tensor& out, const Tensor& v, const Tensor& g, const Tensor& x,
                                 const Tensor& w, int64_t n, double eps, bool centred) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    runtime::parallel_for(0, x.numel() / n, std::max<int64_t>(1, 8192 / n), [&](int64_t first, int64_t end) {
      const int64_t at = first * n;
      best_variant<NormalizationTable<T>>().rows_twice(v.data<T>() + at, g.data<T>() + at, x.data<T>() + at,
                                                       values<T>(w), out.data<T>() + at, end - first, n, eps,
                                                       centred);
    });
  });
}

Tensor layer_norm_twice(const Tensor& v, const Tensor& g, const Tensor& self, const Tensor& weight,
                        int64_t dims, double eps, bool centred, const char* op) {
  need_floating(self.dtype(), op);
  if (!has_last(self, dims, weight) || !same(v.sizes(), self.sizes()) || !same(g.sizes(), self.sizes()))
    fail(op, "(): expected gradients like the input and a weight of its last ", dims,
         " dimensions, but the input has shape ", self.sizes(), ", the gradients ", v.sizes(), " and ",
         g.sizes());
  const DType c = compute_dtype(self.dtype());
  const Tensor x = dense_as(self, c);
  Tensor out = empty_as(x, c);
  const int64_t n = product(self.sizes().subspan(static_cast<size_t>(self.dim() - dims)));
  if (out.numel())
    on<&normalize_rows_twice>(Out(out), dense_as(v, c), dense_as(g, c), x,
                              weight.defined() ? dense_as(weight, c) : Tensor(), n, eps, centred);
  return as_dtype(out, self.dtype());
}

}  // namespace adjoint::kernels
