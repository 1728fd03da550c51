// Borders: along each dimension it is known which element each element of the result is; those in the middle
// follow each other, and are copied as one run. Start reading at `Along`.
#include "kernels/padding.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/math/bits.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "tensor/checked.h"

namespace adjoint::kernels {

namespace {

enum class Mode : uint8_t { Constant, Reflect, Replicate, Circular };

/// A dimension of `size` elements of which `length` are made. From `first` on, `count` of them are those from
/// `start` on.
struct Along {
  Mode mode;
  int64_t size, before, start, left, length, first, count;

  Along(int64_t n, int64_t b, int64_t after, Mode m, int64_t least, size_t dim, const char* op)
      : mode(m), size(n), before(b), start(std::max<int64_t>(0, -b)) {
    length = checked_add(n, checked_add(before, after, op), op);
    left = n - start - std::max<int64_t>(0, -after);
    const auto refuse = [&](const auto&... why) {
      fail(op, "(): ", why..., ": dimension ", dim, " of size ", n, " with padding (", before, ", ", after,
           ")");
    };
    const int64_t most = std::max(before, after);
    if (length < least)
      refuse(
          "a size is too small, plus negative padding resulted in a negative output size, which is invalid");
    if (m != Mode::Constant && !n && length) refuse("there is nothing to pad with, since the size is 0");
    if (m == Mode::Reflect && most >= n)
      refuse("Padding size should be less than the corresponding input dimension");
    if (m == Mode::Circular && most > n) refuse("Padding value causes wrapping around more than once");
    if (m == Mode::Circular && left < 1 && length) refuse("the padding leaves nothing of the input");
    first = std::min(length, std::max<int64_t>(0, before));
    count = std::clamp<int64_t>(left, 0, length - first);
  }
  /// Which element that of the result is; -1 for none.
  int64_t at(int64_t i) const {
    const int64_t place = i - before, end = size - 1;
    switch (mode) {
      case Mode::Constant:
        return place < 0 || place > end ? -1 : place;
      case Mode::Reflect:
        return end - std::abs(end - std::abs(place));
      case Mode::Replicate:
        return std::clamp<int64_t>(place, 0, end);
      case Mode::Circular:
        return ((place - start) % left + left) % left + start;
    }
    return -1;
  }
};

struct Plan {
  /// The last dimensions, from where the padding begins; what lies behind the innermost that is padded is a
  /// block.
  std::vector<Along> dims;
  int64_t outer = 1, block = 1, in = 1, rows = 1;
  Dims result;

  template <class F>
  void each_tensor(const F&) {}  // it holds none
  Plan(IntList sizes, IntList pad, std::string_view mode, const char* op) : result(sizes) {
    constexpr std::string_view modes[] = {"constant", "reflect", "replicate", "circular"};
    const auto found = std::ranges::find(modes, mode);
    if (found == std::end(modes)) fail<ValueError>(op, "(): padding mode '", mode, "' is not known");
    const Mode m = Mode(found - modes);
    // Which results may be empty is as in torch.
    const int64_t least = m == Mode::Reflect || (m == Mode::Replicate && pad.size() == 2);
    if (pad.size() % 2) fail(op, "(): Length of pad must be even but instead it equals ", pad.size());
    if (pad.size() > 2 * sizes.size())
      fail(op,
           "(): Length of pad should be no more than twice the number of dimensions of the input. Pad length "
           "is ",
           pad.size(), " while the input has ", sizes.size(), " dimensions.");
    size_t d = sizes.size();
    bool inner = true;
    for (size_t i = 0; i < pad.size(); i += 2) {
      --d;
      const bool kept = !pad[i] && !pad[i + 1];
      if (inner && kept) {
        block *= sizes[d];
        continue;
      }
      inner = false;
      dims.insert(dims.begin(),
                  Along(sizes[d], pad[i], pad[i + 1], kept ? Mode::Constant : m, kept ? 0 : least, d, op));
      result[d] = dims[0].length;
      in = checked_multiply(in, sizes[d], op);
    }
    while (d > 0) outer *= sizes[--d];
    for (size_t k = 0; k + 1 < dims.size(); ++k) rows = checked_multiply(rows, dims[k].length, op);
  }
  /// Which row of the input a row of the result is; -1 for none.
  int64_t row_of(int64_t row) const {
    int64_t at = 0, step = 1;
    bool none = false;
    for (size_t k = dims.size() - 1; k-- > 0; step *= dims[k].size) {
      const int64_t i = dims[k].at(row % dims[k].length);
      none |= i < 0;
      at += i * step;
      row /= dims[k].length;
    }
    return none ? -1 : at;
  }
};

template <class E>
void pad_rows(const Plan& p, const E* x, E* y, E value) {
  const Along& last = p.dims.back();
  const int64_t n = last.length, width = n * p.block;
  runtime::parallel_for(0, p.outer * p.rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, width)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            E* to = y + r * width;
                            const int64_t row = p.row_of(r % p.rows);
                            if (row < 0) {
                              std::fill_n(to, width, value);
                              continue;
                            }
                            const E* from = x + r / p.rows * p.in * p.block + row * last.size * p.block;
                            const auto some = [&](int64_t i, int64_t stop) {
                              for (; i < stop; ++i) {
                                const int64_t at = last.at(i);
                                if (at < 0)
                                  std::fill_n(to + i * p.block, p.block, value);
                                else
                                  for (int64_t b = 0; b < p.block; ++b)
                                    to[i * p.block + b] = from[at * p.block + b];
                              }
                            };
                            some(0, last.first);
                            if (last.count)
                              std::memcpy(to + last.first * p.block, from + last.start * p.block,
                                          static_cast<size_t>(last.count * p.block) * sizeof(E));
                            some(last.first + last.count, n);
                          }
                        });
}

template <class T>
void unpad_rows(const Plan& p, const T* g, T* x) {
  const Along& last = p.dims.back();
  const int64_t n = last.length, width = n * p.block;
  runtime::parallel_for(0, p.outer, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.rows * width)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin * p.rows; r < end * p.rows; ++r) {
                            const T* from = g + r * width;
                            T* to =
                                x + r / p.rows * p.in * p.block + p.row_of(r % p.rows) * last.size * p.block;
                            const auto some = [&](int64_t i, int64_t stop) {
                              for (; i < stop; ++i)
                                for (int64_t b = 0; b < p.block; ++b)
                                  to[last.at(i) * p.block + b] += from[i * p.block + b];
                            };
                            some(0, last.first);
                            if (last.count) {
                              T* middle = to + last.start * p.block;
                              const T* given = from + last.first * p.block;
                              ADJOINT_INDEPENDENT
                              for (int64_t i = 0; i < last.count * p.block; ++i) middle[i] += given[i];
                            }
                            some(last.first + last.count, n);
                          }
                        });
}

}  // namespace

static void pad_all(const Tensor& y, const Plan& plan, const Tensor& x, const Scalar& value) {
  alignas(16) char one[16];
  write_element(one, x.dtype(), value);
  visit_size(x.itemsize(), [&]<class E>(TypeTag<E>) {
    E bits;
    std::memcpy(&bits, one, sizeof bits);
    pad_rows(plan, reinterpret_cast<const E*>(x->data), reinterpret_cast<E*>(y->data), bits);
  });
}

Tensor padded(const Tensor& self, IntList pad, std::string_view mode, const Scalar& value, const char* op) {
  const Plan plan(self.sizes(), pad, mode, op);
  if (plan.dims.empty()) return copy_of(self, self.dtype());
  const Tensor x = dense(self), y = empty(plan.result.span(), self.dtype());
  if (y.numel()) on<&pad_all>(Out(y), plan, x, value);
  return y;
}

static void unpad_all(const Tensor& x, const Plan& plan, const Tensor& g) {
  with_number(x.dtype(), [&]<class T>(TypeTag<T>) { unpad_rows(plan, g.data<T>(), x.data<T>()); });
}

Tensor padded_transposed(const Tensor& given, IntList sizes, IntList pad, std::string_view mode,
                         const char* op) {
  const IntList all = given.sizes();
  Dims shape(all);
  if (!is_differentiable(given.dtype()))
    fail(op, "(): expected floating-point or complex numbers, but got ", name_of(given.dtype()));
  if (sizes.size() > all.size() || pad.size() != 2 * sizes.size() || mode == "constant")
    fail(op, "(): expected sizes of the dimensions that are padded, but got ", to_string(sizes),
         " for padding ", to_string(pad), " of ", to_string(all));
  std::ranges::copy(sizes, shape.data() + (all.size() - sizes.size()));
  const Plan plan(shape.span(), pad, mode, op);
  need_shape(given, plan.result.span(), "a gradient", op);
  if (plan.dims.empty()) return copy_of(given, given.dtype());
  const DType c = compute_dtype(given.dtype());
  const Tensor g = dense_as(given, c), x = zeros(shape.span(), c);
  if (g.numel()) on<&unpad_all>(Out(x), plan, g);
  return as_dtype(x, given.dtype());
}

}  // namespace adjoint::kernels
