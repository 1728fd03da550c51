// The cross product, along any dimension.
#include "for_size.h"
#include "kernels/launch.h"
#include "kernels/product.h"
#include "kernels/walk.h"

namespace adjoint::kernels {

/// a d - b c, each operation rounded to the type.
template <class T>
static T minor_of(T a, T b, T c, T d) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(d) -
                          static_cast<uint64_t>(b) * static_cast<uint64_t>(c));
  } else {
    using C = compute_t<T>;
    const T left = static_cast<T>(C(a) * C(d)), right = static_cast<T>(C(b) * C(c));
    return static_cast<T>(C(left) - C(right));
  }
}

static void cross_all(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim) {
  Dims firsts(out.sizes());
  firsts[static_cast<size_t>(dim)] = 1;
  Walk walk(firsts.span());
  int64_t next[3];
  for (const Tensor* const t : {&out, &a, &b}) {
    next[walk.count()] = t->strides()[static_cast<size_t>(dim)] * t->itemsize();
    walk.add(t->bytes(), firsts.span(), t->strides(), t->itemsize());
  }
  walk.plan();
  // The type is asked for within: a walk for each would be a hundred kilobytes of code.
  walk.run(8192, [&](char* const* p, const int64_t* step, int64_t n) {
    visit(out.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_same_v<T, bool>) {
        char *to = p[0], *x = p[1], *y = p[2];
        const auto at = [](char* q) -> T& { return *reinterpret_cast<T*>(q); };
        for (int64_t i = 0; i < n; ++i, to += step[0], x += step[1], y += step[2]) {
          const T x0 = at(x), x1 = at(x + next[1]), x2 = at(x + 2 * next[1]);
          const T y0 = at(y), y1 = at(y + next[2]), y2 = at(y + 2 * next[2]);
          at(to) = minor_of(x1, x2, y1, y2);
          at(to + next[0]) = minor_of(x2, x0, y2, y0);
          at(to + 2 * next[0]) = minor_of(x0, x1, y0, y1);
        }
      }
    });
  });
}
void cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim) {
  on<&cross_all>(Out(out), a, b, dim);
}

}  // namespace adjoint::kernels
