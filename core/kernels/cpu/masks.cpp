// Masks: the elements where one holds, packed, and back. Each block of a mask is first made a list of
// positions, without branches, so that an irregular mask costs no more than a regular one.
#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/copy.h"
#include "kernels/cpu/indexing.h"
#include "kernels/cpu/variants.h"
#include "kernels/indexing.h"
#include "kernels/launch.h"
#include "kernels/reduction.h"
#include "runtime/parallel.h"

namespace adjoint {

namespace {

/// For each byte its bits that are set, the first ones first.
constexpr auto kBitsOf = [] {
  std::array<std::array<uint8_t, 8>, 256> bits{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned i = 0, n = 0; i < 8; ++i)
      if (byte >> i & 1) bits[byte][n++] = static_cast<uint8_t>(i);
  return bits;
}();

/// Writes the positions below `length` where a mask holds, and up to seven more numbers; gives how many hold.
int64_t positions_of(const unsigned char* mask, int64_t length, uint16_t* to) {
  typedef uint8_t Bytes __attribute__((vector_size(8)));
  typedef uint16_t Words __attribute__((vector_size(16), aligned(2), may_alias));
  int64_t found = 0, i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, mask + i, sizeof eight);
    eight &= 0x0101010101010101;
    // Byte k goes to bit 56 + k, and no two of the other products meet.
    const uint64_t byte = eight * 0x0102040810204080 >> 56;
    Bytes bits;
    std::memcpy(&bits, kBitsOf[byte].data(), sizeof bits);
    *reinterpret_cast<Words*>(to + found) = __builtin_convertvector(bits, Words) + static_cast<uint16_t>(i);
    found += static_cast<int64_t>(eight * 0x0101010101010101 >> 56);
  }
  for (; i < length; ++i) {
    to[found] = static_cast<uint16_t>(i);
    found += mask[i] & 1;
  }
  return found;
}

/// A mask cut into chunks, and how many hold before each.
class Chunks {
 public:
  static constexpr int64_t kLength = 1 << 16;
  explicit Chunks(const Tensor& mask)
      : mask_(mask.data<bool>()), n_(mask.numel()), chunks_((n_ + kLength - 1) / kLength) {
    before_.resize(static_cast<size_t>(chunks_) + 1);
    const auto count = best_variant<IndexTable>().count;
    runtime::parallel_for(0, chunks_, 4, [&](int64_t b, int64_t e) {
      for (int64_t c = b; c < e; ++c)
        before_[c + 1] = count(mask_ + c * kLength, std::min(kLength, n_ - c * kLength));
    });
    for (int64_t c = 0; c < chunks_; ++c) before_[c + 1] += before_[c];
  }
  int64_t total() const { return before_[chunks_]; }

  /// f(start, length, held before, positions relative to start, their number) for blocks of the mask, in
  /// parallel.
  template <class F>
  void each_block(const F& f) const {
    runtime::parallel_for(0, chunks_, 1, [&](int64_t b, int64_t e) {
      constexpr int64_t kBlock = 256;
      uint16_t at[kBlock + 8];
      for (int64_t c = b; c < e; ++c) {
        int64_t held = before_[c];
        const int64_t end = std::min(n_, (c + 1) * kLength);
        for (int64_t start = c * kLength; start < end; start += kBlock) {
          const int64_t length = std::min(kBlock, end - start);
          // Another thread may have written the mask since it was counted: no more than there is room for.
          const int64_t found =
              std::min(positions_of(reinterpret_cast<const unsigned char*>(mask_ + start), length, at),
                       before_[c + 1] - held);
          f(start, length, held, static_cast<const uint16_t*>(at), found);
          held += found;
        }
      }
    });
  }

 private:
  const bool* mask_;
  int64_t n_, chunks_;
  runtime::SmallVector<int64_t, 6> before_;
};

}  // namespace

static int64_t count_all(const Tensor& mask) {
  return best_variant<IndexTable>().count(mask.data<bool>(), mask.numel());
}
int64_t count_true(const Tensor& mask) { return ask<&count_all>("count of a mask", mask); }

static Tensor compressed(const Tensor& mask, const Tensor& self) {
  const Chunks chunks(mask);
  const int64_t shape[] = {chunks.total()};
  const Tensor out = empty(shape, self.dtype());
  visit_size(self.itemsize(), [&](auto tag) {
    using U = typename decltype(tag)::type;
    const U* from = self.data<U>();
    U* to = out.data<U>();
    chunks.each_block([=](int64_t start, int64_t length, int64_t held, const uint16_t* at, int64_t n) {
      if (n == length)
        std::memcpy(to + held, from + start, static_cast<size_t>(n) * sizeof(U));
      else
        for (int64_t i = 0; i < n; ++i) to[held + i] = from[start + at[i]];
    });
  });
  return out;
}

Tensor compress(const Tensor& self, const Tensor& mask) {
  return ask<&compressed>("masked_select", mask, self);
}

static void expand_all(const Tensor& out, const Tensor& mask, const Tensor& values, bool clear, bool fill) {
  const Chunks chunks(mask);
  visit_size(out.itemsize(), [&](auto tag) {
    using U = typename decltype(tag)::type;
    const U* from = values.data<U>();
    U* to = out.data<U>();
    chunks.each_block([=](int64_t start, int64_t length, int64_t held, const uint16_t* at, int64_t n) {
      U* o = to + start;
      if (clear) std::memset(static_cast<void*>(o), 0, static_cast<size_t>(length) * sizeof(U));
      if (fill)
        for (int64_t i = 0; i < n; ++i) o[at[i]] = *from;
      else
        for (int64_t i = 0; i < n; ++i) o[at[i]] = from[held + i];
    });
  });
}

void expand_into(const Tensor& out, const Tensor& mask, const Tensor& values, bool clear, bool fill) {
  on<&expand_all>(Out(out), mask, values, clear, fill);
}

static Tensors positions_in(const Tensor& t) {
  const Tensor mask = dense(t.dtype() == DType::Bool ? t : copy_of(t, DType::Bool));
  const Chunks chunks(mask);
  const int64_t shape[] = {chunks.total()};
  Tensors out;
  const int last = static_cast<int>(t.dim()) - 1;
  for (int d = 0; d <= last; ++d) out.push_back(empty(shape, DType::Int64));
  if (shape[0] == 0 || last < 0) return out;
  const auto sizes = mask.sizes();
  chunks.each_block([&](int64_t start, int64_t, int64_t held, const uint16_t* at, int64_t n) {
    int64_t* to = out[static_cast<size_t>(last)].data<int64_t>() + held;
    for (int64_t i = 0; i < n; ++i) to[i] = start + at[i];
    // Flat positions become coordinates, from the last dimension on.
    for (int d = last; d > 0; --d) {
      int64_t* here = out[static_cast<size_t>(d)].data<int64_t>() + held;
      int64_t* above = out[static_cast<size_t>(d) - 1].data<int64_t>() + held;
      const int64_t size = sizes[static_cast<size_t>(d)];
      int64_t quotient = 0, first = 0;  // of the one before: positions ascend
      for (int64_t i = 0; i < n; ++i) {
        const int64_t v = here[i];
        if (v - first >= size || v < first) {
          quotient = v / size;
          first = quotient * size;
        }
        above[i] = quotient;
        here[i] = v - first;
      }
    }
  });
  return out;
}

Tensors positions_of(const Tensor& t) { return ask<&positions_in>("nonzero", t); }

namespace kernels {

static void compare(const Tensor& out, const Tensor& x, const Tensor& y) {
  std::atomic<bool> differ = false;
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    // Of halves the numbers are compared, of which two zeros and no two NaN are equal.
    using C = compute_t<T>;
    const T *a = x.data<T>(), *b = y.data<T>();
    const auto found = [=](int64_t begin, int64_t end) {
      int other = 0;
      for (int64_t i = begin; i < end; ++i) other |= static_cast<C>(a[i]) == static_cast<C>(b[i]) ? 0 : 1;
      return other != 0;
    };
    // Different tensors differ early.
    constexpr int64_t kFirst = 64, kBlock = 4096;
    const int64_t n = x.numel(), first = std::min(n, kFirst);
    differ = found(0, first);
    if (n == first || differ) return;
    runtime::parallel_for(first, n, 1 << 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !differ.load(std::memory_order_relaxed); i += kBlock)
        if (found(i, std::min(end, i + kBlock))) differ.store(true, std::memory_order_relaxed);
    });
  });
  *out.data<bool>() = !differ;
}

Tensor same_elements(const Tensor& self, const Tensor& other, const char* op) {
  if (!same(self.sizes(), other.sizes()) || self.dtype() != other.dtype())
    fail(op, "(): expected tensors of one shape and type, but got ", self.sizes(), " ", name_of(self.dtype()),
         " and ", other.sizes(), " ", name_of(other.dtype()));
  const Tensor x = dense(self), y = dense(other), out = empty_scalar(DType::Bool);
  on<&compare>(Out(out), x, y);
  return out;
}

}  // namespace kernels
}  // namespace adjoint
