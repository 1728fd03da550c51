#include "tensor/shape.h"

namespace adjoint {

void fail_overflow(int64_t a, const char* sign, int64_t b, const char* op) {
  fail(op, "(): ", a, " ", sign, " ", b,
       " overflows a 64-bit integer (Storage size calculation overflowed): no tensor can be that large");
}

void fail_rank(size_t rank) {
  fail<ValueError>("a tensor has at most ", kMaxDims, " dimensions, but ", rank, " were asked for");
}

Stretch stretch_of(IntList sizes, IntList strides, int64_t offset, int64_t itemsize, const char* op) {
  Stretch s{offset, checked_add(offset, 1, op)};
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    // Whole lengths, and in bytes: what walks over the elements steps behind the last one.
    checked_multiply(checked_multiply(sizes[i], strides[i], op), itemsize, op);
    empty |= sizes[i] == 0;
    int64_t& end = strides[i] < 0 ? s.low : s.high;
    if (sizes[i] > 0) end = checked_add(end, (sizes[i] - 1) * strides[i], op);
  }
  checked_multiply(s.low, itemsize, op);
  checked_multiply(s.high, itemsize, op);
  return empty ? Stretch{offset, offset} : s;
}

[[gnu::hot]] int64_t count_of(IntList sizes, const char* op) {
  if (sizes.size() > kMaxDims) fail_rank(sizes.size());
  int64_t n = 1;
  bool zero = false;
  for (int64_t s : sizes) {
    if (s < 0) fail(op, "(): Trying to create tensor with negative dimension ", s, ": ", to_string(sizes));
    zero |= s == 0;
  }
  if (zero) return 0;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(n, s, &n))
      fail(op, "(): the size of shape ", to_string(sizes),
           " overflows a 64-bit integer (Storage size calculation overflowed)");
  return n;
}

Dims contiguous_strides(IntList sizes) {
  Dims strides(sizes.size());
  int64_t dense = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = dense;
    dense = checked_multiply(dense, sizes[i] ? sizes[i] : 1, "contiguous strides");
  }
  return strides;
}

int wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  const int64_t rank = ndim ? ndim : 1;
  if (dim < -rank || dim >= rank)
    fail<IndexError>(op, "(): Dimension out of range (expected to be in range of [", -rank, ", ", rank - 1,
                     "], but got ", dim, ")");
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

uint64_t dim_mask(std::optional<IntList> dims, int64_t ndim, const char* op) {
  const uint64_t all = ndim >= 64 ? ~uint64_t{0} : (uint64_t{1} << ndim) - 1;
  if (!dims || dims->empty()) return all;
  uint64_t mask = 0;
  for (int64_t d : *dims) {
    const uint64_t bit = uint64_t{1} << wrap_dim(d, ndim, op);
    if (mask & bit)
      fail(op, "(): dim ", d < 0 ? d + ndim : d, " appears multiple times in the list of dims ",
           to_string(*dims));
    mask |= bit;
  }
  return mask & all;
}

Dims broadcast_shapes(IntList a, IntList b, const char* op) {
  const size_t n = a.size() > b.size() ? a.size() : b.size();
  Dims out(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = i < n - a.size() ? 1 : a[i - (n - a.size())];
    const int64_t y = i < n - b.size() ? 1 : b[i - (n - b.size())];
    if (x != y && x != 1 && y != 1)
      fail(op, "(): The size of tensor a (", x, ") must match the size of tensor b (", y,
           ") at non-singleton dimension ", i, "; the shapes are ", to_string(a), " and ", to_string(b));
    out[i] = x == 1 ? y : x;
  }
  return out;
}

std::string to_string(IntList sizes) {
  std::string s = "[";
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? ", " : "") + std::to_string(sizes[i]);
  return s + "]";
}

}  // namespace adjoint
