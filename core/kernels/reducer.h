// Driving a fold over a tensor: which elements go into which accumulator, in what order, on which thread.
//
// `Reducer` sorts the dimensions into kept and reduced, merges neighbours that lie without a gap, and decides by the
// strides between the two forms of loops (kernels/cpu/reduction.h): rows, where the innermost dimension in memory is
// reduced, and columns, where it is kept. Elements of another type, or that do not lie side by side, pass through a
// small buffer. Work is split in pieces that depend on the shape alone and merged in order, so that results are the
// same to the last bit for any number of threads. Start reading at `Reducer::run`.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/copy.h"
#include "kernels/cpu/reduction.h"
#include "kernels/cpu/variants.h"
#include "kernels/reduction.h"
#include "runtime/parallel.h"
#include "tensor/access.h"

namespace adjoint {

class Reducer {
 public:
  /// To fold `self` over the dimensions in `mask`. Places along the reduction (FirstMax, FirstMin) mean something only
  /// for one dimension or a row-major tensor.
  Reducer(const Tensor& self, uint64_t mask);

  int64_t outputs() const { return outputs_; }
  /// Elements per result.
  int64_t length() const { return length_; }

  /// finish(acc, first, stride, n) is given the accumulators of results first, first + stride, …, by place in the
  /// row-major result; it may run on any thread. `merge(a, b)` takes b, which came later, into a.
  template <class T, class Acc, class Merge, class Finish>
  void run(Fold fold, double parameter, const Acc& identity, const Merge& merge, const Finish& finish) const;

 private:
  struct Axis {
    int64_t size, stride, out;
  };
  using Axes = runtime::SmallVector<Axis, 6>;
  // Elements of a task, of the buffer, results per batch.
  static constexpr int64_t kTask = 1 << 17, kGrain = 1 << 15, kBuffer = 1024, kBatch = 64;

  static void arrange(Axes& axes);
  static int64_t offset_of(const Axes& axes, int64_t count, int64_t index, int64_t* out);

  template <class T, class Acc> struct Loop {
    FoldLoops loops;
    double parameter;
    const Reducer* plan;
    bool same_type;
    void rows(Acc* acc, const char* p, int64_t row_stride, int64_t rows, int64_t n, int64_t stride, int64_t start) const;
    template <class Merge>
    void columns(Acc* acc, const char* p, int64_t row_stride, int64_t rows, int64_t columns, int64_t stride, int64_t start,
                 const Acc& identity, const Merge& merge, bool foldable) const;
  };
  /// f(pointer, n, start) for the runs of the innermost reduced axis that elements b … e of the reduction fall into.
  template <class F> void each_run(const char* base, int64_t b, int64_t e, const F& f) const;
  template <class T, class Acc, class Merge, class Finish>
  void run_rows(const Loop<T, Acc>& loop, const Acc& identity, const Merge& merge, const Finish& finish) const;
  template <class T, class Acc, class Merge, class Finish>
  void run_columns(const Loop<T, Acc>& loop, const Acc& identity, const Merge& merge, const Finish& finish, bool foldable) const;

  Access access_;
  const char* base_;
  DType have_;
  int64_t outputs_ = 1, length_ = 1;
  bool columns_ = false;
  Axes kept_, reduced_;  // innermost last; kept_ is never empty
};

// --- What follows is the machinery ---------------------------------------------------------------------------------------

template <class T, class Acc>
void Reducer::Loop<T, Acc>::rows(Acc* acc, const char* p, int64_t row_stride, int64_t rows, int64_t n, int64_t stride,
                                 int64_t start) const {
  constexpr int64_t size = sizeof(T);
  if (same_type && (stride == size || n == 1)) {
    loops.rows(acc, p, row_stride / size, rows, n, start, parameter);
    return;
  }
  alignas(64) T buffer[kBuffer];
  char* b = reinterpret_cast<char*>(buffer);
  if (n < kBuffer / 2 && rows > 1 && row_stride == n * stride) {  // several rows lie without a gap
    const int64_t group = kBuffer / n;
    for (int64_t r = 0; r < rows; r += group) {
      const int64_t m = std::min(group, rows - r);
      convert_strided(b, dtype_of<T>, size, p + r * row_stride, plan->have_, stride, m * n);
      loops.rows(acc + r, buffer, n, m, n, start, parameter);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t at = 0; at < n; at += kBuffer) {
      const int64_t m = std::min(kBuffer, n - at);
      convert_strided(b, dtype_of<T>, size, p + r * row_stride + at * stride, plan->have_, stride, m);
      loops.rows(acc + r, buffer, 0, 1, m, start + at, parameter);
    }
}

template <class T, class Acc>
template <class Merge>
void Reducer::Loop<T, Acc>::columns(Acc* acc, const char* p, int64_t row_stride, int64_t rows, int64_t columns, int64_t stride,
                                    int64_t start, const Acc& identity, const Merge& merge, bool foldable) const {
  constexpr int64_t size = sizeof(T);
  if (same_type && stride == size) {
    if (foldable && columns <= 64 && row_stride == columns * size && rows >= 16) {
      // Narrow rows without gaps between them: take several as one wide row, and merge the accumulators.
      const int64_t factor = std::min(256 / columns, rows / 4);
      Acc wide[256];
      for (int64_t j = 0; j < factor * columns; ++j) wide[j] = identity;
      const int64_t whole = rows / factor;
      loops.columns(wide, p, factor * columns, whole, factor * columns, start, parameter);
      for (int64_t k = 0; k < factor; ++k)
        for (int64_t j = 0; j < columns; ++j) merge(acc[j], wide[k * columns + j]);
      p += whole * factor * row_stride;
      rows -= whole * factor;
    }
    loops.columns(acc, p, row_stride / size, rows, columns, start, parameter);
    return;
  }
  alignas(64) T buffer[kBuffer];
  char* b = reinterpret_cast<char*>(buffer);
  const int64_t group = std::max<int64_t>(1, kBuffer / columns);
  for (int64_t r = 0; r < rows; r += group) {
    const int64_t m = std::min(group, rows - r);
    for (int64_t k = 0; k < m; ++k)
      convert_strided(b + k * columns * size, dtype_of<T>, size, p + (r + k) * row_stride, plan->have_, stride, columns);
    loops.columns(acc, buffer, columns, m, columns, start + r, parameter);
  }
}

template <class F> void Reducer::each_run(const char* base, int64_t b, int64_t e, const F& f) const {
  const int64_t inner = static_cast<int64_t>(reduced_.size()) - 1;
  const Axis& run = reduced_[inner];
  while (b < e) {
    const int64_t in = inner == 0 ? b : b % run.size, n = std::min(run.size - in, e - b);
    const int64_t outer = inner == 0 ? 0 : offset_of(reduced_, inner, b / run.size, nullptr);
    f(base + outer + in * run.stride, n, b);
    b += n;
  }
}

template <class T, class Acc, class Merge, class Finish>
void Reducer::run_rows(const Loop<T, Acc>& loop, const Acc& identity, const Merge& merge, const Finish& finish) const {
  const int64_t last = static_cast<int64_t>(kept_.size()) - 1;
  const Axis inner = kept_[last];
  const Axis run = reduced_.back();
  const int64_t pieces = length_ > 2 * kTask ? (length_ - 1) / kTask + 1 : 1;
  if (pieces == 1) {
    runtime::parallel_for(0, outputs_, std::max<int64_t>(1, kGrain / length_), [&](int64_t b, int64_t e) {
      Acc acc[kBatch];
      while (b < e) {
        const int64_t at = last == 0 ? b : b % inner.size;
        const int64_t n = std::min({inner.size - at, e - b, kBatch});
        int64_t out = 0;
        const char* p = base_ + at * inner.stride + (last == 0 ? 0 : offset_of(kept_, last, b / inner.size, &out));
        for (int64_t i = 0; i < n; ++i) acc[i] = identity;
        each_run(p, 0, length_, [&](const char* q, int64_t m, int64_t start) { loop.rows(acc, q, inner.stride, n, m, run.stride, start); });
        finish(acc, out + at * inner.out, inner.out, n);
        b += n;
      }
    });
    return;
  }
  const std::unique_ptr<Acc[]> partial(new Acc[static_cast<size_t>(outputs_ * pieces)]);
  runtime::parallel_for(0, outputs_ * pieces, 1, [&](int64_t b, int64_t e) {
    for (int64_t task = b; task < e; ++task) {
      const int64_t o = task / pieces, piece = task % pieces;
      Acc acc = identity;
      each_run(base_ + offset_of(kept_, last + 1, o, nullptr), piece * kTask, std::min(length_, (piece + 1) * kTask),
               [&](const char* q, int64_t m, int64_t start) { loop.rows(&acc, q, 0, 1, m, run.stride, start); });
      partial[static_cast<size_t>(task)] = acc;
    }
  });
  for (int64_t o = 0; o < outputs_; ++o) {
    Acc* a = &partial[static_cast<size_t>(o * pieces)];
    for (int64_t k = 1; k < pieces; ++k) merge(a[0], a[k]);
    int64_t out = 0;
    offset_of(kept_, last + 1, o, &out);
    finish(a, out, 0, 1);
  }
}

template <class T, class Acc, class Merge, class Finish>
void Reducer::run_columns(const Loop<T, Acc>& loop, const Acc& identity, const Merge& merge, const Finish& finish, bool foldable) const {
  const int64_t last = static_cast<int64_t>(kept_.size()) - 1;
  const Axis inner = kept_[last];
  const Axis run = reduced_.back();
  const int64_t width = std::min(inner.size, kMostColumns), tiles = (inner.size - 1) / width + 1;
  const int64_t rows = std::max<int64_t>(16, 2 * kTask / width);  // of a piece
  const int64_t pieces = length_ > 2 * rows ? (length_ - 1) / rows + 1 : 1;
  const int64_t blocks = outputs_ / inner.size * tiles;
  auto place = [&](int64_t block, int64_t& out, int64_t& n) {
    const int64_t at = block % tiles * width;
    n = std::min(width, inner.size - at);
    out = 0;
    const char* p = base_ + at * inner.stride + (last == 0 ? 0 : offset_of(kept_, last, block / tiles, &out));
    out += at * inner.out;
    return p;
  };
  auto fold = [&](Acc* acc, const char* p, int64_t n, int64_t b, int64_t e) {
    for (int64_t j = 0; j < n; ++j) acc[j] = identity;
    each_run(p, b, e, [&](const char* q, int64_t m, int64_t start) {
      loop.columns(acc, q, run.stride, m, n, inner.stride, start, identity, merge, foldable);
    });
  };
  if (pieces == 1) {
    runtime::parallel_for(0, blocks, std::max<int64_t>(1, kGrain / (width * length_)), [&](int64_t b, int64_t e) {
      Acc acc[kMostColumns];
      for (int64_t block = b; block < e; ++block) {
        int64_t out, n;
        const char* p = place(block, out, n);
        fold(acc, p, n, 0, length_);
        finish(acc, out, inner.out, n);
      }
    });
    return;
  }
  const std::unique_ptr<Acc[]> partial(new Acc[static_cast<size_t>(blocks * pieces * width)]);
  runtime::parallel_for(0, blocks * pieces, 1, [&](int64_t b, int64_t e) {
    for (int64_t task = b; task < e; ++task) {
      const int64_t block = task % blocks, piece = task / blocks;
      int64_t out, n;
      const char* p = place(block, out, n);
      fold(&partial[static_cast<size_t>((block * pieces + piece) * width)], p, n, piece * rows, std::min(length_, (piece + 1) * rows));
    }
  });
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t out, n;
    place(block, out, n);
    Acc* a = &partial[static_cast<size_t>(block * pieces * width)];
    for (int64_t k = 1; k < pieces; ++k)
      for (int64_t j = 0; j < n; ++j) merge(a[j], a[k * width + j]);
    finish(a, out, inner.out, n);
  }
}

template <class T, class Acc, class Merge, class Finish>
void Reducer::run(Fold fold, double parameter, const Acc& identity, const Merge& merge, const Finish& finish) const {
  if (outputs_ == 0 || !access_) return;
  if (length_ == 0) {
    for (int64_t i = 0; i < outputs_; ++i) finish(&identity, i, 0, 1);
    return;
  }
  const bool bytes = std::is_same_v<T, uint8_t> && have_ == DType::Bool;
  const Loop<T, Acc> loop{best_variant<FoldTable<T>>().folds[static_cast<int>(fold)], parameter, this, bytes || have_ == dtype_of<T>};
  const bool foldable = fold != Fold::FirstMax && fold != Fold::FirstMin;
  if (columns_) run_columns<T>(loop, identity, merge, finish, foldable);
  else run_rows<T>(loop, identity, merge, finish);
}

}  // namespace adjoint
