#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/copying.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "kernels/walk.h"
#include "runtime/parallel.h"

namespace adjoint {

namespace {

/// Elements of one type, in any steps.
void move(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n, int64_t item) {
  if (to_stride == item && from_stride == item)
    std::memmove(to, from, static_cast<size_t>(n * item));
  else
    best_variant<PlaneTable>().plane(to, 0, to_stride, from, 0, from_stride, 1, n, item);
}

}  // namespace

void convert_strided(char* to, DType to_type, int64_t to_stride, const char* from, DType from_type,
                     int64_t from_stride, int64_t n) {
  const int64_t item = itemsize(to_type), from_item = itemsize(from_type);
  if (from_stride == 0 && to_stride == item && n > 1) {
    convert_strided(to, to_type, to_stride, from, from_type, 0, 1);
    return best_variant<PlaneTable>().repeat(to, to, item, n);
  }
  if (to_type == from_type) return move(to, to_stride, from, from_stride, n, item);
  if (const auto convert_all = best_variant<CopyTable>().convert[index_of(to_type)][index_of(from_type)]) {
    if (to_stride == item && from_stride == from_item) return convert_all(to, from, n);
    // Side by side, a block at a time.
    constexpr int64_t kBlock = 256;
    alignas(16) char in[kBlock * 8], out[kBlock * 8];
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = std::min(kBlock, n - at);
      const bool dense = from_stride == from_item, direct = to_stride == item;
      char* const there = to + at * to_stride;
      if (!dense) move(in, from_item, from + at * from_stride, from_stride, m, from_item);
      convert_all(direct ? there : out, dense ? from + at * from_item : in, m);
      if (!direct) move(there, to_stride, out, item, m, item);
    }
    return;
  }
  visit(to_type, [&](auto to_tag) {
    visit(from_type, [&](auto from_tag) {
      using To = typename decltype(to_tag)::type;
      using From = typename decltype(from_tag)::type;
      for (int64_t i = 0; i < n; ++i) {
        From v;
        std::memcpy(&v, from + i * from_stride, sizeof(From));
        const To w = convert<To>(v);
        std::memcpy(to + i * to_stride, &w, sizeof(To));
      }
    });
  });
}

/// Elements of one type: planes of the two innermost dimensions.
void move_planes(Walk& walk, int64_t item) {
  const auto plane = best_variant<PlaneTable>().plane;
  const size_t inner = walk.shape().size() - 1;
  const int64_t n = walk.shape()[inner];
  const bool transposed = inner > 0 && walk.stride(0, inner) == item && walk.stride(1, inner - 1) == item;
  if (inner == 0 || n > (1 << 20) || (walk.crosses() && !transposed))
    return walk.run(32768, [&](char* const* p, const int64_t* strides, int64_t m) {
      move(p[0], strides[0], p[1], strides[1], m, item);
    });
  // Planes of few bytes between others, as of what is repeated and of heads that are laid side by side: the
  // larger ones. (Where memory is far, what is written in order is quicker.)
  if (const int64_t few = walk.shape()[inner - 1]; inner > 1 && !transposed &&
                                                   walk.shape()[inner - 2] > few && few * n * item < 4096 &&
                                                   walk.numel() <= (int64_t{1} << 21) / item)
    walk.swap(inner - 2, inner - 1);
  const int64_t rows = walk.numel() / n;
  runtime::parallel_for(0, rows, std::max<int64_t>(1, 32768 / n), [&](int64_t b, int64_t e) {
    Walk::Row at(walk, b);
    for (int64_t row = b, taken; row < e; row += taken, at.skip(taken)) {
      taken = std::min(e - row, at.left());
      plane(at.pointer(0), walk.stride(0, inner - 1), walk.stride(0, inner), at.pointer(1),
            walk.stride(1, inner - 1), walk.stride(1, inner), taken, n, item);
    }
  });
}

namespace {
void fill(const Tensor& to, const Tensor& from) {
  if ((to->flags | from->flags) & TensorImpl::kNotAsTheyLie) [[unlikely]] {
    need_own_memory(to, "copy");
    need_own_memory(from, "copy");
    const void* at[] = {&to, &from};
    return launch::elsewhere(launch::routine_of<&fill, Out, Tensor>, at);
  }
  if (to.numel() == 0) return;
  const DType a = to.dtype(), b = from.dtype();
  // One run, and too short for a second thread: single numbers, vectors, row-major tensors of one shape.
  if (const int64_t n = to.numel(); n <= 32768 && from.numel() == (from.dim() ? n : 1)) {
    const bool straight = to.is_contiguous() && from.is_contiguous() && same(to.sizes(), from.sizes());
    if (straight || (to.dim() <= 1 && from.dim() <= 1) || (from.dim() == 0 && to.is_contiguous())) {
      const int64_t to_step = to.is_contiguous() ? 1 : to.stride(0), from_step = from.dim() == 0 ? 0
                                                                                 : straight ? 1
                                                                                            : from.stride(0);
      return convert_strided(to.bytes(), a, to_step * itemsize(a), from.bytes(), b, from_step * itemsize(b),
                             n);
    }
  }
  Walk walk(to.sizes());
  walk.add(to);
  walk.add(from);
  walk.plan();
  if (a == b) return move_planes(walk, itemsize(a));
  walk.run(32768, [&](char* const* p, const int64_t* strides, int64_t n) {
    convert_strided(p[0], a, strides[0], p[1], b, strides[1], n);
  });
}
}  // namespace

void copy_into(const Tensor& to, const Tensor& from) {
  fill(to, from);
  if (thread_state.watched) [[unlikely]]
    announce_copied(to, from, false);
}

void lengthen(const Tensor& to, const Tensor& from) {
  const auto n = static_cast<size_t>(from.numel());
  std::memcpy(to.bytes(), from.bytes(), n);
  std::memset(to.bytes() + n, 0, static_cast<size_t>(to.numel()) - n);
}

Tensor copy_of(Into into, const Tensor& t, DType dtype) {
  Tensor to = into.empty(t.sizes(), dtype);
  fill(to, t);
  if (thread_state.watched) [[unlikely]]
    announce_copied(to, t, true);
  return to;
}

}  // namespace adjoint
