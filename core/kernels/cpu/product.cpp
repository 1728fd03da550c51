#include "kernels/cpu/product.h"

#include <algorithm>

#include "kernels/cpu/variants.h"
#include "runtime/allocator.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {

namespace {

/// Multiplications in a part that is worth a thread: some twenty microseconds.
constexpr int64_t kPart = int64_t{1} << 20;
/// Of the result's rows and columns, so that parts are whole tiles and panels on every processor.
constexpr int64_t kPartRows = 84, kPartColumns = 32;

/// Rows that lie a large power of two apart share few places in the cache.
template <class T>
bool evict_each_other(const Matrix<T>& a) {
  return std::max(a.down, a.across) * static_cast<int64_t>(sizeof(T)) % 2048 == 0;
}

struct Scratch {
  void* data = nullptr;
  size_t bytes;
  Scratch(bool wanted, size_t size) : bytes(size) {
    if (wanted) data = runtime::allocate(bytes);
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { runtime::deallocate(data, bytes); }
};

}  // namespace

template <class T>
bool has_product_loops(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kLeast = 16;
  return best_variant<ProductTable<T>>().multiply && m >= 4 && n >= kLeast && m * k >= 64;
}

template <class T>
void multiply_by_loops(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const T* start,
                       int64_t start_down, T* c, bool shared) {
  const auto multiply = best_variant<ProductTable<T>>().multiply;
  const bool copies = m > 16 && n > 64 && k > 1 && evict_each_other(a);
  auto part = [&](int64_t i, int64_t rows, int64_t j, int64_t columns) {
    const Scratch scratch(copies, kProductScratch * sizeof(T));
    multiply(rows, columns, k, {a.data + i * a.down, a.down, a.across},
             {b.data + j * b.across, b.down, b.across}, start ? start + i * start_down + j : nullptr,
             start_down, c + i * n + j, n, static_cast<T*>(scratch.data));
  };
  // In floating point, as three dimensions may overflow the integers.
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int threads = shared ? runtime::get_num_threads() : 1;
  if (threads == 1 || work < 2.0 * kPart) return part(0, m, 0, n);
  const int64_t parts = static_cast<int64_t>(std::min(work / kPart, 4.0 * threads));
  // By columns, where there are enough of them: then no panel is packed twice.
  const bool by_columns = n / kPartColumns >= parts || n >= m;
  const int64_t length = by_columns ? n : m, unit = by_columns ? kPartColumns : kPartRows;
  const int64_t each = std::max<int64_t>(1, length / parts / unit) * unit, count = (length - 1) / each + 1;
  runtime::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * each, last = std::min(end * each, length);
    if (by_columns)
      part(0, m, first, last - first);
    else
      part(first, last - first, 0, n);
  });
}

template bool has_product_loops<float>(int64_t, int64_t, int64_t);
template bool has_product_loops<double>(int64_t, int64_t, int64_t);
template void multiply_by_loops(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, const float*,
                                int64_t, float*, bool);
template void multiply_by_loops(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, const double*,
                                int64_t, double*, bool);

}  // namespace adjoint::kernels
