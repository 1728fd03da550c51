#include "kernels/values.h"

#include <algorithm>
#include <cstring>

#include "for_size.h"

namespace adjoint::kernels {

int64_t first_zero(const Tensor& t) {
  return visit(t.dtype(), [&]<class T>(TypeTag<T>) -> int64_t {
    if constexpr (is_integer_v<T>) {
      const T *p = t.data<T>(), *end = p + t.numel(), *found = std::find(p, end, T(0));
      if (found != end) return found - p + 1;
    }
    return 0;
  });
}

bool any_nan(const Tensor& t) {
  return visit(t.dtype(), [&]<class T>(TypeTag<T>) {
    using R = real_t<T>;
    const R* p = t.data<R>();
    const auto unlike_itself = [](R x) {
      return static_cast<compute_t<R>>(x) != static_cast<compute_t<R>>(x);
    };
    return std::any_of(p, p + t.numel() * (is_complex_v<T> ? 2 : 1), unlike_itself);
  });
}

bool all_within(const Tensor& t, int64_t first, int64_t end) {
  return std::all_of(t.data<int64_t>(), t.data<int64_t>() + t.numel(),
                     [=](int64_t i) { return i >= first && i < end; });
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.numel() * a.itemsize())) == 0;
}

uint64_t stamp_of(const Tensor& t, uint64_t start) {
  const char* p = t.bytes();
  const size_t n = static_cast<size_t>(t.numel() * t.itemsize());
  // Four sums of products by odd numbers: every change of one word changes a sum.
  uint64_t sum[4] = {1, 2, 3, 4};
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    uint64_t word[4];
    std::memcpy(word, p + i, 32);
    for (int k = 0; k < 4; ++k) sum[k] = (sum[k] ^ word[k]) * 0x9e3779b97f4a7c15ull;
  }
  for (; i < n; ++i) sum[i & 3] = (sum[i & 3] ^ static_cast<unsigned char>(p[i])) * 0x9e3779b97f4a7c15ull;
  for (uint64_t s : sum) start = (start ^ s ^ (s >> 29)) * 0xbf58476d1ce4e5b9ull;
  return start;
}

}  // namespace adjoint::kernels
