// Searching where arithmetic tells the place.
#include <algorithm>

#include "kernels/launch.h"
#include "kernels/slices.h"
#include "kernels/sorting.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {

static void find_intervals(const Tensor& out, const Tensor& x, const Tensor& edges) {
  const auto run = [&]<class T>(TypeTag<T>) {
    const T *p = x.data<T>(), *edge = edges.data<T>();
    const int64_t count = edges.numel() - 1;
    const T low = edge[0], last = static_cast<T>(count - 1),
            scale = static_cast<T>(static_cast<double>(count) /
                                   (static_cast<double>(edge[count]) - static_cast<double>(low)));
    int64_t* to = out.data<int64_t>();
    runtime::parallel_for(0, x.numel(), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T place = (p[i] - low) * scale;
        place = place > T(0) ? place : T(0);  // of NaN, too
        int64_t at = static_cast<int64_t>(place < last ? place : last);
        // Rounding is off by one at most.
        at -= p[i] < edge[at];
        at += p[i] >= edge[at < 0 ? 0 : at + 1];
        to[i] = std::clamp<int64_t>(at, 0, count - 1);
      }
    });
  };
  x.dtype() == DType::Float64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

Tensor even_interval(const Tensor& self, const Tensor& edges, const char* op) {
  if (!self.is_floating() || !edges.is_floating() || edges.dim() != 1 || edges.numel() < 2)
    fail(op, "(): expected floating-point numbers, and two edges or more, but got ", name_of(self.dtype()),
         " and edges of shape ", to_string(edges.sizes()), " and ", name_of(edges.dtype()));
  const DType type = compute_dtype(promote(self.dtype(), edges.dtype()));
  const Tensor x = dense_as(self, type), at = dense_as(edges, type), out = empty(self.sizes(), DType::Int64);
  on<&find_intervals>(Out(out), x, at);
  return out;
}

}  // namespace adjoint::kernels
