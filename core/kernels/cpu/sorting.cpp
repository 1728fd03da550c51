// Sorting by keys: every element becomes an unsigned integer that orders as the element does, joined with its
// index.
//
// Up to 32 bits, key and index make one 64-bit number, and comparing two of these orders equal elements by
// index. Wider elements are pairs. Long rows are sorted digit by digit, short ones by comparison; both ways
// are stable.
#include "kernels/sorting.h"

#include <algorithm>
#include <cmath>

#include "for_size.h"
#include "kernels/cpu/math/bits.h"
#include "kernels/indexing.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace {

// --- Keys -----------------------------------------------------------------------------------------

ADJOINT_INLINE uint32_t key_of(float x) {
  uint32_t u;
  const float y = x + 0.0f;  // -0 is equal to 0
  std::memcpy(&u, &y, 4);
  u ^= u >> 31 ? ~uint32_t{0} : 0x80000000u;
  return x != x ? ~uint32_t{0} : u;
}
ADJOINT_INLINE uint64_t key_of(double x) {
  uint64_t u;
  const double y = x + 0.0;
  std::memcpy(&u, &y, 8);
  u ^= u >> 63 ? ~uint64_t{0} : uint64_t{1} << 63;
  return x != x ? ~uint64_t{0} : u;
}
ADJOINT_INLINE uint64_t key_of(int64_t x) {
  return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
}
ADJOINT_INLINE uint32_t key_of(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
ADJOINT_INLINE uint32_t key_of(bool x) { return x; }
ADJOINT_INLINE uint32_t key_of(uint8_t x) { return x; }
ADJOINT_INLINE uint32_t key_of(int8_t x) { return key_of(int32_t{x}); }
ADJOINT_INLINE uint32_t key_of(int16_t x) { return key_of(int32_t{x}); }
template <class T>
ADJOINT_INLINE uint32_t key_of(T x) {
  return key_of(static_cast<float>(x));
}  // Half, BFloat16

/// Key and index in one number.
struct Narrow {
  uint64_t bits;
  static constexpr int kDigits = 4;
  Narrow() = default;
  Narrow(uint32_t key, int64_t index) : bits(uint64_t{key} << 32 | static_cast<uint64_t>(index)) {}
  uint32_t key() const { return static_cast<uint32_t>(bits >> 32); }
  int64_t index() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  uint64_t digit(int d) const { return bits >> (32 + 8 * d) & 255; }
  bool operator<(Narrow o) const { return bits < o.bits; }
};
struct Broad {
  uint64_t bits;
  int64_t where;
  static constexpr int kDigits = 8;
  Broad() = default;
  Broad(uint64_t key, int64_t index) : bits(key), where(index) {}
  uint64_t key() const { return bits; }
  int64_t index() const { return where; }
  uint64_t digit(int d) const { return bits >> (8 * d) & 255; }
  bool operator<(Broad o) const { return bits != o.bits ? bits < o.bits : where < o.where; }
};

template <class E>
void sort_entries(E* e, int64_t n, E* other) {
  if (n < 256) {
    std::sort(e, e + n);
    return;
  }
  // From the lowest digit up; digits that all entries share are passed over.
  decltype(e->key()) varied = 0;
  for (int64_t i = 1; i < n; ++i) varied |= e[i].key() ^ e[0].key();
  E *from = e, *to = other;
  for (int d = 0; d < E::kDigits; ++d) {
    if ((varied >> (8 * d) & 255) == 0) continue;
    int64_t c[256] = {};
    for (int64_t i = 0; i < n; ++i) ++c[e[i].digit(d)];
    for (int64_t v = 0, at = 0; v < 256; ++v) {
      const int64_t here = c[v];
      c[v] = at;
      at += here;
    }
    for (int64_t i = 0; i < n; ++i) to[c[from[i].digit(d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != e) std::memcpy(static_cast<void*>(e), from, static_cast<size_t>(n) * sizeof(E));
}

/// Entry k of the order, whatever becomes of the others: those stay that share its digits, from the highest
/// down.
template <class E>
E entry_at(E* e, int64_t n, int64_t k) {
  constexpr int64_t kFew = 64, kTables = 4;  // where neighbours share a digit, counts wait for each other
  for (int d = E::kDigits - 1; d >= 0 && n > kFew; --d) {
    uint32_t c[kTables][256] = {};
    for (int64_t i = 0; i < n; ++i) ++c[i % kTables][e[i].digit(d)];
    uint64_t digit = 0;
    int64_t here = 0;
    for (;; ++digit, k -= here) {
      here = int64_t{c[0][digit]} + c[1][digit] + c[2][digit] + c[3][digit];
      if (k < here) break;
    }
    if (here == n) continue;
    int64_t m = 0;
    for (int64_t i = 0; i < n; ++i) {
      const E entry = e[i];
      e[m] = entry;
      m += entry.digit(d) == digit;
    }
    n = m;
  }
  if (n <= kFew) std::nth_element(e, e + k, e + n);
  return e[k];  // of equal keys that many are in the order of their indices
}

/// Entries of a row whose elements lie `step` apart.
template <class T, class E>
[[gnu::noinline, gnu::optimize("O3")]] void make_entries(const T* p, int64_t step, int64_t n, bool descending,
                                                         E* e) {
  using Key = decltype(key_of(T()));
  const Key flip = descending ? static_cast<Key>(~Key{0}) : Key{0};
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) e[i] = E(key_of(p[i]) ^ flip, i);
  else
    for (int64_t i = 0; i < n; ++i) e[i] = E(key_of(p[i * step]) ^ flip, i);
}

// --- Rows -----------------------------------------------------------------------------------------

/// f(entries, other, x, n, put) for every slice of a row-major tensor: the slice's entries, scratch room for
/// as many, its first element; put(k, entry) writes result k.
template <class F>
void run_rows(const Tensor& indices, const Tensor& values, const Tensor& x, int64_t dim, bool descending,
              int64_t results, const F& f) {
  const Slices s(x.sizes(), dim);
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      auto run = [&]<class E>(TypeTag<E>) {
        runtime::parallel_for(0, s.count(), std::max<int64_t>(1, 4096 / (s.n + 1)),
                              [&](int64_t b, int64_t e) {
                                constexpr int64_t kFew = 64;
                                E few[2 * kFew];
                                runtime::Scratch<E> many;
                                if (s.n > kFew) many = runtime::Scratch<E>(2 * s.n);
                                E* entries = s.n > kFew ? many.get() : few;
                                for (int64_t slice = b; slice < e; ++slice) {
                                  const int64_t o = slice / s.inner, j = slice % s.inner;
                                  const T* p = x.data<T>() + o * s.n * s.inner + j;
                                  make_entries(p, s.inner, s.n, descending, entries);
                                  const int64_t first = o * results * s.inner + j;
                                  f(entries, entries + s.n, p, s, [&](int64_t k, E entry) {
                                    if (values.defined())
                                      values.data<T>()[first + k * s.inner] = p[entry.index() * s.inner];
                                    indices.data<int64_t>()[first + k * s.inner] = entry.index();
                                  });
                                }
                              });
      };
      constexpr bool narrow = sizeof(decltype(key_of(T()))) == 4;
      if (narrow && s.n < int64_t{1} << 32) {
        if constexpr (narrow) run(TypeTag<Narrow>{});
      } else {
        run(TypeTag<Broad>{});
      }
    }
  });
}

template <class F>
void each_row(const Tensor& x, int64_t dim, bool descending, const Tensor& values, const Tensor& indices,
              int64_t results, const F& f) {
  on<&run_rows<F>>(Out(indices), Out(values), x, dim, descending, results, f);
}

Dims with_size(IntList sizes, int64_t dim, int64_t size) {
  Dims out(sizes);
  if (!out.empty()) out[dim] = size;
  return out;
}
Dims without(IntList sizes, int64_t dim, bool keepdim) {
  Dims out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (static_cast<int64_t>(i) != dim)
      out.push_back(sizes[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}
Pair make_pair_of(Into into, const Dims& shape, DType dtype) {
  return {into.empty(shape.span(), dtype), into.empty(shape.span(), DType::Int64, 1)};
}

}  // namespace

Pair sort(Into into, const Tensor& self, int64_t dim, bool descending, bool with_values, const char* op) {
  need_order(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const Tensor x = dense(self);
  Pair out{with_values ? into.empty(x.sizes(), x.dtype()) : Tensor(),
           into.empty(x.sizes(), DType::Int64, with_values)};
  if (x.numel() == 0) return out;
  each_row(x, d, descending, std::get<0>(out), std::get<1>(out), Slices(x.sizes(), d).n,
           [](auto* e, auto* other, const auto*, const Slices& s, const auto& put) {
             sort_entries(e, s.n, other);
             for (int64_t k = 0; k < s.n; ++k) put(k, e[k]);
           });
  // In the order of what was sorted.
  if (self.is_contiguous() || !without_gaps(self)) return out;
  return {with_values ? laid_as(std::get<0>(out), self, self.dtype()) : Tensor(),
          laid_as(std::get<1>(out), self, DType::Int64)};
}

Pair topk(Into into, const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, const char* op) {
  need_order(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const int64_t n = self.dim() ? self.size(d) : 1;
  if (k < 0 || k > n)
    fail(op, "(): selected index k out of range: k is ", k, ", but dimension ", d, " has size ", n);
  const Tensor x = dense(self);
  Pair out = make_pair_of(into, with_size(x.sizes(), d, k), x.dtype());
  if (std::get<0>(out).numel() == 0) return out;
  each_row(x, d, largest, std::get<0>(out), std::get<1>(out), k,
           [k, sorted](auto* e, auto*, const auto*, const Slices& s, const auto& put) {
             constexpr int64_t kFew = 16;
             if (k <= kFew && s.n >= 4 * k) {
               // The best so far, in order: few of the others come in.
               std::decay_t<decltype(*e)> best[kFew];
               for (int64_t i = 0; i < s.n; ++i) {
                 if (i >= k && !(e[i] < best[k - 1])) continue;
                 int64_t at = std::min(i, k - 1);
                 for (; at > 0 && e[i] < best[at - 1]; --at) best[at] = best[at - 1];
                 best[at] = e[i];
               }
               for (int64_t i = 0; i < k; ++i) put(i, best[i]);
               return;
             }
             if (k < s.n) std::nth_element(e, e + k - 1, e + s.n);
             if (sorted) std::sort(e, e + k);
             for (int64_t i = 0; i < k; ++i) put(i, e[i]);
           });
  return out;
}

Pair kth_value(Into into, const Tensor& self, int64_t k, int64_t dim, bool keepdim, const char* op) {
  need_order(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const int64_t n = self.dim() ? self.size(d) : 1;
  if (!n && self.dim())
    fail<IndexError>(op, "(): Expected reduction dim ", d, " to have non-zero size: the shape is ",
                     self.sizes());
  if (k < 1 || k > n)
    fail(op, "(): selected number k out of range for dimension ", d, ": k is ", k,
         ", but the dimension has size ", n);
  const Tensor x = dense(self);
  Pair out = make_pair_of(into, without(x.sizes(), d, keepdim), x.dtype());
  if (x.numel() == 0) return out;
  each_row(x, d, false, std::get<0>(out), std::get<1>(out), 1,
           [k](auto* e, auto*, const auto*, const Slices& s, const auto& put) {
             put(0, entry_at(e, s.n, k - 1));
           });
  return out;
}

Pair median(Into into, const Tensor& self, int64_t dim, bool keepdim, bool skip_nan, const char* op) {
  need_order(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const Tensor x = dense(self);
  Pair out = make_pair_of(into, without(x.sizes(), d, keepdim), x.dtype());
  if (self.dim() && self.size(d) == 0)
    fail<IndexError>(op, "(): Expected reduction dim ", d, " to have non-zero size, but the shape is ",
                     self.sizes());
  if (x.numel() == 0) return out;
  each_row(x, d, false, std::get<0>(out), std::get<1>(out), 1,
           [skip_nan](auto* e, auto*, const auto* p, const Slices& s, const auto& put) {
             int64_t nans = 0, first = -1;
             for (int64_t i = 0; i < s.n; ++i) {
               const auto v = p[i * s.inner];
               if (v != v) {
                 if (first < 0) first = i;
                 ++nans;
               }
             }
             if (first >= 0 && (!skip_nan || nans == s.n)) {
               put(0, std::decay_t<decltype(*e)>(0, first));
               return;
             }
             put(0, entry_at(e, s.n, (s.n - nans - 1) / 2));  // NaN come last
           });
  return out;
}

namespace {

/// The most frequent of a row of up to kCounted entries, the least of several, and of it the last: by a table
/// of the keys seen, which is quicker than to sort them. NaN equals nothing.
constexpr int64_t kCounted = 1024;
template <class E, class IsNumber>
E most_frequent(const E* e, int64_t n, const IsNumber& is_number) {
  uint16_t first[2 * kCounted], count[kCounted], last[kCounted];  // by place in the table; by its first entry
  int bits = 4;
  while ((int64_t{1} << bits) < 2 * n) ++bits;
  std::memset(first, 0, sizeof(uint16_t) << bits);
  const size_t mask = (size_t{1} << bits) - 1;
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_number(i)) continue;
    size_t at = static_cast<size_t>(e[i].key() * uint64_t{0x9e3779b97f4a7c15} >> (64 - bits));
    while (first[at] && e[first[at] - 1].key() != e[i].key()) at = (at + 1) & mask;
    if (!first[at]) {
      first[at] = static_cast<uint16_t>(i + 1);
      count[i] = 0;
    }
    const int64_t k = first[at] - 1;
    ++count[k];
    last[k] = static_cast<uint16_t>(i);
    if (best < 0 || count[k] > count[best] || (count[k] == count[best] && e[k].key() < e[best].key()))
      best = k;
  }
  return best < 0 ? e[0] : e[last[best]];
}

}  // namespace

Tensor mode_index(const Tensor& self, int64_t dim, bool keepdim, const char* op) {
  need_order(self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const Tensor x = dense(self);
  const Dims shape = without(x.sizes(), d, keepdim);
  const Tensor out = empty({shape.data(), shape.size()}, DType::Int64);
  if (x.numel() == 0) return out;
  each_row(x, d, false, Tensor(), out, 1,
           [](auto* e, auto* other, const auto* p, const Slices& s, const auto& put) {
             if (s.n <= kCounted)
               return put(0, most_frequent(e, s.n, [&](int64_t i) {
                            const auto v = p[i * s.inner];
                            return v == v;
                          }));
             sort_entries(e, s.n, other);
             int64_t length = 0, longest = 0, end = 0;
             for (int64_t i = 0; i < s.n; ++i) {
               const auto v = p[e[i].index() * s.inner];
               length =
                   i > 0 && e[i].key() == e[i - 1].key() && v == v ? length + 1 : 1;  // NaN equals nothing
               if (length > longest) longest = length, end = i;
             }
             put(0, e[end]);
           });
  return out;
}

Tensor median_of_all(const Tensor& self, bool skip_nan, const char* op) {
  need_order(self.dtype(), op);
  if (self.numel() == 0) {
    if (!self.is_floating())
      fail(op, "(): an empty tensor of type ", name_of(self.dtype()), " has no median");
    return scalar_tensor(Scalar(std::nan("")), self.dtype());
  }
  const Tensor x = dense(self);
  const int64_t size = x.numel(), stride = 1;
  return std::get<0>(median({}, alias(x, {&size, 1}, {&stride, 1}, x.offset()), 0, false, skip_nan, op));
}

static std::tuple<Tensor, Tensor, Tensor> unique_of(const Tensor& self, bool return_inverse,
                                                    bool return_counts, const char* op) {
  const Tensor x = dense(self);
  const int64_t n = x.numel(), stride = 1;
  const Tensor flat = alias(x, {&n, 1}, {&stride, 1}, x.offset());
  const auto [values, order] = sort({}, flat, 0, false, true, op);
  Tensor inverse = return_inverse ? empty(x.sizes(), DType::Int64) : Tensor();
  const int64_t* from = order.data<int64_t>();
  Tensor starts = empty({&n, 1}, DType::Int64);  // where each value's run begins
  int64_t* start = starts.data<int64_t>();
  int64_t found = 0;
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      const T* v = values.template data<T>();
      for (int64_t i = 0; i < n; ++i) {
        if (i == 0 || v[i] != v[i - 1]) start[found++] = i;
        if (return_inverse) inverse.data<int64_t>()[from[i]] = found - 1;
      }
    }
  });
  Tensor out = empty({&found, 1}, x.dtype());
  Tensor counts = return_counts ? empty({&found, 1}, DType::Int64) : Tensor();
  for (int64_t k = 0; k < found; ++k) {
    std::memcpy(out.bytes() + k * x.itemsize(), values.bytes() + start[k] * x.itemsize(),
                static_cast<size_t>(x.itemsize()));
    if (return_counts) counts.data<int64_t>()[k] = (k + 1 < found ? start[k + 1] : n) - start[k];
  }
  return {out, inverse, counts};
}

std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool return_inverse, bool return_counts,
                                          const char* op) {
  need_order(self.dtype(), op);
  return ask<&unique_of>(op, self, return_inverse, return_counts, op);
}

namespace {

/// An index, checked as it is used: another thread may be writing it.
[[gnu::always_inline]] inline int64_t checked_index(const int64_t* at, int64_t size, const char* op) {
  const int64_t v = read_once(at);
  if (v < 0 || v >= size) [[unlikely]]
    fail<IndexError>(op, "(): index ", v, " is out of bounds for dimension with size ", size);
  return v;
}

/// Indices of int64 have these sizes; of dimension `free`, any.
void need_places(IntList sizes, const Tensor& at, int free, const char* op) {
  const IntList found = at.sizes();
  bool fits = at.dtype() == DType::Int64 && found.size() == sizes.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = found[i] == sizes[i] || static_cast<int>(i) == free;
  if (!fits)
    fail(op, "(): values ", to_string(sizes), " and indices ", to_string(found), " of type ",
         name_of(at.dtype()),
         " do not belong together: expected int64, and the same sizes but along the dimension");
}

}  // namespace

static void gather_slices(const Tensor& out, const Tensor& x, const Tensor& at, const Slices& s,
                          int64_t size) {
  const int64_t* where = at.data<int64_t>();
  visit_size(x.itemsize(), [&]<class U>(TypeTag<U>) {
    const U* p = x.data<U>();
    U* o = out.data<U>();
    s.each(2, [&](int64_t slice, int64_t first) {
      const int64_t base = slice / s.inner * size * s.inner + slice % s.inner;
      for (int64_t i = 0; i < s.n; ++i)
        o[first + i * s.inner] =
            p[base + checked_index(where + first + i * s.inner, size, "_gather_along") * s.inner];
    });
  });
}

Tensor gather_along(const Tensor& self, const Tensor& indices, int64_t dim) {
  const int d = wrap_dim(dim, self.dim(), "_gather_along");
  need_places(self.sizes(), indices, d, "_gather_along");
  const Tensor x = dense(self), at = dense(indices);
  const Slices s(at.sizes(), d);
  const int64_t size = self.dim() ? self.size(d) : 1;
  Tensor out = empty(at.sizes(), x.dtype());
  on<&gather_slices>(Out(out), x, at, s, size);
  return out;
}

static void scatter_slices(const Tensor& out, const Tensor& x, const Tensor& at, int64_t d, int64_t size) {
  const Slices s(at.sizes(), d);
  const int64_t* where = at.data<int64_t>();
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* p = x.data<T>();
    T* o = out.data<T>();
    s.each(2, [&](int64_t slice, int64_t first) {
      const int64_t base = slice / s.inner * size * s.inner + slice % s.inner;
      for (int64_t i = 0; i < s.n; ++i) {
        T& to = o[base + checked_index(where + first + i * s.inner, size, "_scatter_along") * s.inner];
        const T from = p[first + i * s.inner];
        if constexpr (std::is_same_v<T, bool>)
          to = to || from;
        else
          to = static_cast<T>(static_cast<compute_t<T>>(to) + static_cast<compute_t<T>>(from));
      }
    });
  });
}

Tensor scatter_along(const Tensor& self, const Tensor& indices, int64_t dim, int64_t size) {
  const int d = wrap_dim(dim, self.dim(), "_scatter_along");
  const Tensor x = dense(self), at = dense(indices);
  need_places(x.sizes(), at, -1, "_scatter_along");
  const Dims shape = with_size(x.sizes(), d, size);
  Tensor out = zeros({shape.data(), shape.size()}, x.dtype());
  if (rounded_once(out, [&](const Tensor& wide) {
        copy_into(wide, scatter_along(copy_of(x, wide.dtype()), at, dim, size));
      }))
    return out;
  on<&scatter_slices>(Out(out), x, at, d, size);
  return out;
}

}  // namespace adjoint::kernels
