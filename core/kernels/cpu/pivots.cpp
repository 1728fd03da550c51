// What LAPACK's pivots say.
#include <algorithm>
#include <limits>
#include <numeric>

#include "for_size.h"
#include "kernels/linalg.h"

namespace adjoint::kernels::linalg {

void permutation_of(const Tensor& permutation, const Tensor& pivots) {
  const int64_t k = pivots.size(-1), n = permutation.size(-1);
  const int64_t count = n ? permutation.numel() / n : 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t* p = permutation.data<int64_t>() + i * n;
    const int* where = pivots.data<int>() + i * k;
    std::iota(p, p + n, int64_t{0});
    for (int64_t j = 0; j < k; ++j) {
      if (where[j] < 1 || where[j] > n)
        fail<ValueError>("linalg: pivots must be between 1 and ", n,
                         " (as lu_factor returns them), but one is ", where[j]);
      std::swap(p[j], p[where[j] - 1]);
    }
  }
}

std::optional<int> pivot_astray(const Tensor& pivots, int64_t n, bool of_ldl) {
  const int *at = pivots.data<int>(), *const end = at + pivots.numel();
  const auto size = static_cast<uint32_t>(std::min<int64_t>(n, std::numeric_limits<int>::max()));
  const auto astray = [=](int v) {
    const auto row = static_cast<uint32_t>(v);
    return (of_ldl && v < 0 ? 0 - row : row) - 1 >= size;
  };
  bool any = false;  // nearly always false: a loop without exit is a fifth of one that stops
  for (const int* p = at; p != end; ++p) any |= astray(*p);
  return any ? std::optional<int>(*std::find_if(at, end, astray)) : std::nullopt;
}

// As LAPACK's sytrf says of its lower triangle: a positive pivot is a row exchanged with this one, two
// negative ones a block of D, whose second row was exchanged.
void ldl_order(const Tensor& permutation, const Tensor& rows, const Tensor& blocks, const Tensor& p,
               const char* op) {
  const int64_t n = p.size(-1), count = n ? p.numel() / n : 0;
  std::fill_n(blocks.data<bool>(), blocks.numel(), false);
  for (int64_t i = 0; i < count; ++i) {
    const int* pivots = p.data<int>() + i * n;
    int64_t *order = permutation.data<int64_t>() + i * n, *row = rows.data<int64_t>() + i * n * n;
    bool* block = blocks.data<bool>() + i * n * n;
    for (int64_t k = 0; k < n; ++k) order[k] = k;
    for (int64_t k = 0; k < n * n; ++k) row[k] = k / n;
    for (int64_t k = 0; k < n;) {
      const bool two = pivots[k] < 0;
      const int64_t last = two ? k + 1 : k, other = std::abs(int64_t{pivots[k]}) - 1;
      if (other < last || other >= n || last >= n)
        fail<ValueError>(op, "(): pivots must be as ldl_factor returns them, but one is ", pivots[k]);
      std::swap(order[last], order[other]);
      for (int64_t column = 0; column < k; ++column)
        std::swap(row[last * n + column], row[other * n + column]);
      block[k * n + k] = block[last * n + k] = block[last * n + last] = true;
      k = last + 1;
    }
  }
}

}  // namespace adjoint::kernels::linalg
