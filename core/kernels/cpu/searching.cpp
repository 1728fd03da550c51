// Searching in rising sequences, and among even ones, where arithmetic tells the place.
#include "kernels/cpu/searching.h"

#include <algorithm>

#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "kernels/sorting.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {

static void search_rows(const Tensor& out, const Tensor& rows, const Tensor& x, int64_t each, bool right) {
  const int64_t n = rows.size(-1);
  with_number(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>)
      runtime::parallel_for(0, x.numel(), 4096, [&](int64_t b, int64_t e) {
        for (int64_t i = b, end; i < e; i = end) {
          end = std::min(e, (i / each + 1) * each);
          best_variant<SearchTable<T>>().search(rows.data<T>() + i / each * n, n, x.data<T>() + i,
                                                out.data<int64_t>() + i, end - i, right);
        }
      });
  });
}

Tensor search_sorted(Into into, const Tensor& sequence, const Tensor& values, bool right, const char* op) {
  need_order(sequence.dtype(), op);
  const size_t lead = static_cast<size_t>(sequence.dim()) - 1;
  if (sequence.dim() == 0 || values.sizes().size() < lead ||
      !same(sequence.sizes().first(lead), values.sizes().first(lead)) || sequence.dtype() != values.dtype())
    fail(op, "(): expected sequences for the first dimensions of the values, and of their type, but got ",
         sequence.sizes(), " ", name_of(sequence.dtype()), " and ", values.sizes(), " ",
         name_of(values.dtype()));
  const DType type = is_integral(values.dtype()) ? DType::Int64 : compute_dtype(values.dtype());
  const Tensor rows = dense_as(sequence, type), x = dense_as(values, type);
  const Tensor out = into.empty(x.sizes(), DType::Int64);
  const int64_t each = product(x.sizes().subspan(lead));
  if (out.numel() == 0) return out;
  if (sequence.size(-1) == 0) return zeroed(out);
  on<&search_rows>(Out(out), rows, x, each, right);
  return out;
}

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
         " and edges of shape ", edges.sizes(), " and ", name_of(edges.dtype()));
  const DType type = compute_dtype(promote(self.dtype(), edges.dtype()));
  const Tensor x = dense_as(self, type), at = dense_as(edges, type), out = empty(self.sizes(), DType::Int64);
  on<&find_intervals>(Out(out), x, at);
  return out;
}

}  // namespace adjoint::kernels
