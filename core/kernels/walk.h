// Walking several tensors of one (broadcast) shape together.
//
// `Walk` holds a shape and, per tensor, strides in bytes (0 where it is broadcast). `plan` drops dimensions
// of size 1, orders the rest by stride and merges neighbours that lie without a gap, so that the innermost
// runs are as long as they can be. `run` calls f(pointers, strides, n) for each innermost run, in parallel
// when there is enough work.
#pragma once

#include <algorithm>

#include "runtime/interrupt.h"
#include "runtime/parallel.h"
#include "tensor/tensor.h"

namespace adjoint {

class Walk {
 public:
  static constexpr int kMost = 6;

  explicit Walk(IntList shape) : shape_(shape) {}

  /// Add a tensor whose shape broadcasts to the walk's.
  void add(const Tensor& t) { add(t.bytes(), t.sizes(), t.strides(), t.itemsize()); }
  void add(char* data, IntList sizes, IntList strides, int64_t item) {
    base_[count_] = data;
    const size_t lead = shape_.size() - sizes.size();
    strides_[count_].resize(shape_.size());
    for (size_t i = 0; i < shape_.size(); ++i)
      strides_[count_][i] = i < lead || sizes[i - lead] == 1 ? 0 : strides[i - lead] * item;
    ++count_;
  }
  int count() const { return count_; }
  int64_t numel() const { return product(IntList(shape_.data(), shape_.size())); }

  void plan() {
    // Innermost last. Order by the strides of the first tensor, ties by the others'.
    const int n = static_cast<int>(shape_.size());
    runtime::SmallVector<int64_t, 8> order;
    for (int i = 0; i < n; ++i)
      if (shape_[i] != 1) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      for (int k = 0; k < count_; ++k) {
        const int64_t x = std::abs(strides_[k][a]), y = std::abs(strides_[k][b]);
        if (x != y && x != 0 && y != 0) return x > y;
      }
      return false;
    });
    Dims shape;
    Dims strides[kMost];
    for (int64_t d : order) {
      bool merge = !shape.empty();
      for (int k = 0; k < count_ && merge; ++k) merge = strides[k].back() == strides_[k][d] * shape_[d];
      if (merge) {
        shape.back() *= shape_[d];
        for (int k = 0; k < count_; ++k) strides[k].back() = strides_[k][d];
      } else {
        shape.push_back(shape_[d]);
        for (int k = 0; k < count_; ++k) strides[k].push_back(strides_[k][d]);
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      for (int k = 0; k < count_; ++k) strides[k].push_back(0);
    }
    shape_ = shape;
    for (int k = 0; k < count_; ++k) strides_[k] = strides[k];
  }

  /// `grain`: elements below which a second thread is not worth it; INT64_MAX: one thread, in order.
  template <class F>
  void run(int64_t grain, F&& f) const {
    const int inner = static_cast<int>(shape_.size()) - 1;
    const int64_t n = shape_[inner];
    int64_t rows = 1;
    for (int i = 0; i < inner; ++i) rows *= shape_[i];
    if (rows == 0 || n == 0) return;
    int64_t step[kMost];
    for (int k = 0; k < count_; ++k) step[k] = strides_[k][inner];
    if (rows > 1 && grain != INT64_MAX && crosses()) return run_tiles(rows / shape_[inner - 1], grain, f);
    if (rows == 1 || n > kLong) {  // each run in pieces
      Dims at(static_cast<size_t>(inner));
      for (int64_t row = 0; row < rows; ++row) {
        char* start[kMost] = {};
        locate(row, inner, start, at);
        loop(n, grain, 1, [&](int64_t b, int64_t e) {
          char* p[kMost] = {};
          for (int k = 0; k < count_; ++k) p[k] = start[k] + b * step[k];
          f(p, step, e - b);
        });
      }
      return;
    }
    loop(rows, grain, n, [&](int64_t b, int64_t e) {
      Row at(*this, b);
      for (int64_t row = b; row < e; ++row, at.next()) f(static_cast<char* const*>(at.p_), step, n);
    });
  }

  /// Whether an operand lies along the last dimension but one: runs along the last would use one element of
  /// each of its cache lines.
  bool crosses() const {
    const size_t inner = shape_.size() - 1;
    if (shape_[inner] < kTile || shape_[inner - 1] < 8) return false;
    for (int k = 0; k < count_; ++k) {
      const int64_t along = std::abs(strides_[k][inner]), across = std::abs(strides_[k][inner - 1]);
      if (along >= 64 && across != 0 && across < along) return true;
    }
    return false;
  }

  /// Exchange two dimensions: the same runs, in another order.
  void swap(size_t a, size_t b) {
    std::swap(shape_[a], shape_[b]);
    for (int k = 0; k < count_; ++k) std::swap(strides_[k][a], strides_[k][b]);
  }

  const Dims& shape() const { return shape_; }
  int64_t stride(int operand, size_t dimension) const { return strides_[operand][dimension]; }

  /// One run after another, from number `row` on.
  class Row {
   public:
    Row(const Walk& walk, int64_t row) : walk_(walk), at_(walk.shape_.size() - 1) {
      walk.locate(row, inner(), p_, at_);
    }
    char* pointer(int operand) const { return p_[operand]; }
    /// Runs up to the end of the dimension before the innermost.
    int64_t left() const { return walk_.shape_[inner() - 1] - at_[inner() - 1]; }
    /// Past `count` runs, at most those that are left.
    void skip(int64_t count) {
      for (int k = 0; k < walk_.count_; ++k) p_[k] += (count - 1) * walk_.strides_[k][inner() - 1];
      at_[inner() - 1] += count - 1;
      next();
    }
    void next() {
      for (int i = inner() - 1; i >= 0; --i) {
        for (int k = 0; k < walk_.count_; ++k) p_[k] += walk_.strides_[k][i];
        if (++at_[i] < walk_.shape_[i]) return;
        for (int k = 0; k < walk_.count_; ++k) p_[k] -= walk_.strides_[k][i] * walk_.shape_[i];
        at_[i] = 0;
      }
    }

   private:
    int inner() const { return static_cast<int>(walk_.shape_.size()) - 1; }
    friend class Walk;
    const Walk& walk_;
    char* p_[kMost] = {};
    Dims at_;
  };

 private:
  static constexpr int64_t kTile = 64, kLong = int64_t{1} << 22;

  /// f(b, e) for pieces of [0, count), each of `cost` elements: in parallel, or where `grain` is INT64_MAX in
  /// order.
  template <class F>
  static void loop(int64_t count, int64_t grain, int64_t cost, F&& f) {
    if (grain != INT64_MAX) return runtime::parallel_for(0, count, std::max<int64_t>(1, grain / cost), f);
    const int64_t piece = std::max<int64_t>(1, (1 << 18) / cost);
    for (int64_t b = 0; b < count;) {
      const int64_t e = count - b > piece ? b + piece : count;
      f(b, e);
      if ((b = e) < count) runtime::check_interrupt();
    }
  }

  /// The addresses of the run number `row` of the first `dims` dimensions, and its position.
  void locate(int64_t row, int dims, char** p, Dims& at) const {
    for (int k = 0; k < count_; ++k) p[k] = base_[k];
    for (int i = dims - 1; i >= 0; --i) {
      at[i] = row % shape_[i];
      row /= shape_[i];
      for (int k = 0; k < count_; ++k) p[k] += at[i] * strides_[k][i];
    }
  }

  /// Squares of the last two dimensions, so that what one run brings to the cache serves its neighbours.
  template <class F>
  void run_tiles(int64_t matrices, int64_t grain, F&& f) const {
    const int inner = static_cast<int>(shape_.size()) - 1;
    const int64_t n = shape_[inner], m = shape_[inner - 1], strips = (m - 1) / kTile + 1;
    int64_t step[kMost];
    for (int k = 0; k < count_; ++k) step[k] = strides_[k][inner];
    runtime::parallel_for(0, matrices * strips, std::max<int64_t>(1, grain / (n * kTile)),
                          [&](int64_t b, int64_t e) {
                            Dims at(static_cast<size_t>(inner));
                            for (int64_t strip = b; strip < e; ++strip) {
                              char* start[kMost] = {};
                              locate(strip / strips, inner - 1, start, at);
                              const int64_t first = strip % strips * kTile, last = std::min(m, first + kTile);
                              for (int64_t column = 0; column < n; column += kTile)
                                for (int64_t row = first; row < last; ++row) {
                                  char* p[kMost] = {};
                                  for (int k = 0; k < count_; ++k)
                                    p[k] = start[k] + row * strides_[k][inner - 1] + column * step[k];
                                  f(static_cast<char* const*>(p), step, std::min(kTile, n - column));
                                }
                            }
                          });
  }

  Dims shape_;
  Dims strides_[kMost];
  char* base_[kMost];
  int count_ = 0;
};

}  // namespace adjoint
