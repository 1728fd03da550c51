#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/walk.h"
#include "runtime/parallel.h"
#include "tensor/access.h"

namespace adjoint {

void convert_strided(char* to, DType to_type, int64_t to_stride, const char* from, DType from_type, int64_t from_stride,
                     int64_t n) {
  if (from_stride == 0 && to_stride == itemsize(to_type) && n > 1) {
    // One number everywhere: converted once, and copied from what is there already and near.
    convert_strided(to, to_type, to_stride, from, from_type, 0, 1);
    constexpr size_t kNear = 8192;
    const auto all = static_cast<size_t>(n * to_stride);
    for (auto done = static_cast<size_t>(to_stride); done < all;) {
      const size_t more = std::min({done, all - done, kNear});
      std::memcpy(to + done, to, more);
      done += more;
    }
    return;
  }
  if (to_type == from_type) {
    const int64_t size = itemsize(to_type);
    if (to_stride == size && from_stride == size) {
      std::memmove(to, from, static_cast<size_t>(n * size));
      return;
    }
    auto move = [&]<class U>(TypeTag<U>) {
      for (int64_t i = 0; i < n; ++i) {
        U v;
        std::memcpy(&v, from + i * from_stride, sizeof(U));
        std::memcpy(to + i * to_stride, &v, sizeof(U));
      }
    };
    switch (size) {
      case 1: return move(TypeTag<uint8_t>{});
      case 2: return move(TypeTag<uint16_t>{});
      case 4: return move(TypeTag<uint32_t>{});
      case 8: return move(TypeTag<uint64_t>{});
      default: return move(TypeTag<Complex<double>>{});
    }
  }
  visit(to_type, [&](auto to_tag) {
    visit(from_type, [&](auto from_tag) {
      using To = typename decltype(to_tag)::type;
      using From = typename decltype(from_tag)::type;
      if (to_stride == sizeof(To) && from_stride == sizeof(From)) {
        To* o = reinterpret_cast<To*>(to);
        const From* f = reinterpret_cast<const From*>(from);
        for (int64_t i = 0; i < n; ++i) o[i] = convert<To>(f[i]);
        return;
      }
      for (int64_t i = 0; i < n; ++i) {
        From v;
        std::memcpy(&v, from + i * from_stride, sizeof(From));
        const To w = convert<To>(v);
        std::memcpy(to + i * to_stride, &w, sizeof(To));
      }
    });
  });
}

void copy_into(const Tensor& to, const Tensor& from) {
  if ((to->flags | from->flags) & TensorImpl::kBatched) [[unlikely]] refuse_memory_of_batch(to->is(TensorImpl::kBatched) ? to : from, "copy");
  const Access written(to);
  if (!written) return;
  const Access read(from, "copy");
  if (to.numel() == 0) return;
  const DType a = to.dtype(), b = from.dtype();
  // One run, and too short for a second thread: single numbers, vectors, row-major tensors of one shape.
  if (const int64_t n = to.numel(); n <= 32768 && from.numel() == (from.dim() ? n : 1)) {
    const bool straight = to.is_contiguous() && from.is_contiguous() && same(to.sizes(), from.sizes());
    if (straight || (to.dim() <= 1 && from.dim() <= 1) || (from.dim() == 0 && to.is_contiguous())) {
      const int64_t to_step = to.is_contiguous() ? 1 : to.stride(0), from_step = from.dim() == 0 ? 0 : straight ? 1 : from.stride(0);
      return convert_strided(to.bytes(), a, to_step * itemsize(a), from.bytes(), b, from_step * itemsize(b), n);
    }
  }
  Walk walk(to.sizes());
  walk.add(to);
  walk.add(from);
  walk.plan();
  walk.run(32768, [&](char* const* p, const int64_t* strides, int64_t n) {
    convert_strided(p[0], a, strides[0], p[1], b, strides[1], n);
  });
}

Tensor copy_of(const Tensor& t, DType dtype) {
  Tensor to = empty(t.sizes(), dtype);
  copy_into(to, t);
  return to;
}

}  // namespace adjoint
