#include "kernels/cpu/softmax.h"

#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "kernels/softmax.h"

namespace adjoint::kernels {

static void softmax_slices(const Tensor& y, const Tensor& x, const Slices& s, bool log) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<SoftmaxTable<T>>();
    s.each_block(
        kSoftmaxColumns,
        [&](int64_t first, int64_t n) {
          table.rows(x.data<T>() + first * s.n, y.data<T>() + first * s.n, n, s.n, nullptr, log);
        },
        [&](int64_t, int64_t at, int64_t width) {
          table.columns(x.data<T>() + at, y.data<T>() + at, s.n, s.inner, width, nullptr, log);
        });
  });
}

Tensor softmax(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, bool log,
               const char* op) {
  const DType type = dtype.value_or(self.dtype());
  if (!is_floating(type)) refuse_dtype(type, op, "; pass dtype= a floating-point type, or convert the input");
  const int d = wrap_dim(dim, self.dim(), op);
  const DType c = compute_dtype(type);
  // As in torch, results lie row by row.
  const Tensor x = dense_as(dtype && type != c ? as_dtype(self, type) : self, c);
  Tensor y = into.empty_for(type, x.sizes(), c);
  const Slices s(x, d);
  on<&softmax_slices>(Out(y), x, s, log);
  return as_dtype(into, y, type);
}

static void softmax_slices_backward(const Tensor& gx, const Tensor& gy, const Tensor& y, const Slices& s,
                                    bool log) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    const auto& table = best_variant<SoftmaxTable<T>>();
    s.each_block(
        kSoftmaxColumns,
        [&](int64_t first, int64_t n) {
          const int64_t at = first * s.n;
          table.rows_backward(gy.data<T>() + at, y.data<T>() + at, gx.data<T>() + at, n, s.n, log);
        },
        [&](int64_t, int64_t at, int64_t width) {
          table.columns_backward(gy.data<T>() + at, y.data<T>() + at, gx.data<T>() + at, s.n, s.inner, width,
                                 log);
        });
  });
}

Tensor softmax_backward(const Tensor& g, const Tensor& result, int64_t dim, bool log) {
  const char* op = log ? "_log_softmax_backward" : "_softmax_backward";
  const int d = wrap_dim(dim, result.dim(), op);
  need_floating(result.dtype(), op);
  if (!same(g.sizes(), result.sizes()))
    fail(op, "(): expected a gradient like the result, found ", g.sizes(), " and ", result.sizes());
  const DType c = compute_dtype(result.dtype());
  const Tensor y = dense_as(result, c), gy = dense_as(g, c);
  Tensor gx = empty_as(y, c);
  const Slices s(y, d);
  on<&softmax_slices_backward>(Out(gx), gy, y, s, log);
  return as_dtype(gx, result.dtype());
}

}  // namespace adjoint::kernels
