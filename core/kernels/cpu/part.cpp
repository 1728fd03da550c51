#include "kernels/part.h"

#include <algorithm>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/walk.h"

namespace adjoint::kernels {

bool may_overlap(IntList sizes, IntList strides) {
  runtime::SmallVector<int64_t, 6> order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return false;
    if (sizes[i] > 1) order.push_back(static_cast<int64_t>(i));
  }
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return std::abs(strides[a]) < std::abs(strides[b]); });
  int64_t reached = 0;
  for (int64_t i : order) {
    if (std::abs(strides[i]) <= reached) return true;
    reached += (sizes[i] - 1) * std::abs(strides[i]);
  }
  return false;
}

namespace {

template <class T>
void add_to(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T* o = reinterpret_cast<T*>(to + i * to_step);
    const T v = *reinterpret_cast<const T*>(from + i * from_step);
    if constexpr (std::is_same_v<T, bool>)
      *o = *o || v;
    else
      *o = static_cast<T>(static_cast<compute_t<T>>(*o) + static_cast<compute_t<T>>(v));
  }
}

}  // namespace

static void put_all(const Tensor& out, IntList size, IntList stride, int64_t offset, const Tensor& from) {
  if (may_overlap(size, stride) && rounded_once(out, [&](const Tensor& wide) {
        put_all(wide, size, stride, offset, copy_of(from, wide.dtype()));
      }))
    return;
  const int64_t item = out.itemsize();
  char* to = out.bytes() + offset * item;
  if (size.empty()) {
    std::memcpy(to, from.bytes(), static_cast<size_t>(item));
    return;
  }
  const DType dtype = out.dtype();
  if (size.size() == 1 && from.dim() == 1 && size[0] <= 32768 && stride[0] != 0) {
    convert_strided(to, dtype, stride[0] * item, from.bytes(), dtype, from.stride(0) * item, size[0]);
    return;
  }
  Walk walk(size);
  walk.add(to, size, stride, item);
  walk.add(from);
  walk.plan();
  if (!may_overlap(size, stride)) {
    walk.run(32768, [&](char* const* p, const int64_t* steps, int64_t n) {
      convert_strided(p[0], dtype, steps[0], p[1], dtype, steps[1], n);
    });
    return;
  }
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // One thread: two elements may meet in one place.
    walk.run(INT64_MAX, [](char* const* p, const int64_t* steps, int64_t n) {
      add_to<T>(p[0], steps[0], p[1], steps[1], n);
    });
  });
}

void put_strided(const Tensor& out, IntList size, IntList stride, int64_t offset, const Tensor& from) {
  on<&put_all>(Out(out), size, stride, offset, from);
}

void take_number(const Tensor& out, const Tensor& from, int64_t at) {
  const int64_t item = from.itemsize();
  std::memcpy(out.bytes(), from.bytes() + at * item, static_cast<size_t>(item));
}
void clear_number(const Tensor& t, int64_t at) {
  const int64_t item = t.itemsize();
  std::memset(t.bytes() + at * item, 0, static_cast<size_t>(item));
}

}  // namespace adjoint::kernels
