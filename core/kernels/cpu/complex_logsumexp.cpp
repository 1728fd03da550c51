// The logarithm of sums of exponentials of complex numbers, of which the largest real part is taken out.
#include <cmath>
#include <vector>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/cpu/math/math.h"
#include "kernels/reduction.h"

namespace adjoint::kernels {

void add_exponentials_of_complex(const Tensor& out, const Tensor& self, uint64_t mask) {
  const auto run = [&]<class R>(TypeTag<R>) {
    using C = Complex<double>;
    struct Sum {
      double max;
      C sum;
    };
    const auto finite = [](double x) { return std::isfinite(x) ? x : 0.0; };
    const auto add = [finite](Sum& a, const Sum& b) {
      const double max = a.max > b.max || a.max != a.max ? a.max : b.max, shift = finite(max);
      C sum(0);
      for (const Sum* x : {static_cast<const Sum*>(&a), &b})
        if (!(x->sum == C(0))) sum += x->sum * std::exp(finite(x->max) - shift);
      a = {max, sum};
    };
    const Tensor x = dense(self);
    const Complex<R>* p = x.data<Complex<R>>();
    Complex<R>* o = out.data<Complex<R>>();
    std::vector<Sum> sums(static_cast<size_t>(out.numel()), Sum{-HUGE_VAL, C(0)});
    // Where the element at `from` goes: each kept dimension's stride in the row-major result.
    Dims strides(self.sizes()), at(self.sizes().size(), 0);
    for (int64_t i = self.dim() - 1, stride = 1; i >= 0; --i) {
      const bool reduced = mask >> i & 1;
      strides[i] = reduced ? 0 : stride;
      if (!reduced) stride *= self.size(i);
    }
    int64_t to = 0;
    for (int64_t from = 0; from < self.numel(); ++from) {
      const C z(p[from]);
      add(sums[static_cast<size_t>(to)],
          {z.re, z.re == -HUGE_VAL ? C(0) : math::exp(C(z.re - finite(z.re), z.im))});
      for (int64_t i = self.dim() - 1; i >= 0; --i) {
        to += strides[i];
        if (++at[i] < self.size(i)) break;
        to -= strides[i] * at[i];
        at[i] = 0;
      }
    }
    for (size_t i = 0; i < sums.size(); ++i)
      o[i] = Complex<R>(C(finite(sums[i].max)) + math::log(sums[i].sum));
  };
  if (self.dtype() == DType::Complex64)
    run(TypeTag<float>{});
  else
    run(TypeTag<double>{});
}

}  // namespace adjoint::kernels
