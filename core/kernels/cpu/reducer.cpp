#include "kernels/reducer.h"

#include <algorithm>
#include <cstring>

#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint {

constinit thread_local const Elements* Elements::current = nullptr;

Dims reduced_shape(IntList sizes, uint64_t mask, bool keepdim) {
  Dims out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(mask >> i & 1))
      out.push_back(sizes[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

/// Orders the axes by stride, innermost last, and merges neighbours that lie without a gap, in memory and in
/// the result.
void Reducer::arrange(Axes& axes) {
  for (size_t i = 1; i < axes.size(); ++i)  // insertion: there are few, and equal ones keep their order
    for (size_t k = i; k > 0 && axes[k - 1].stride < axes[k].stride; --k) std::swap(axes[k - 1], axes[k]);
  Axes merged;
  for (const Axis& a : axes) {
    if (a.size == 1) continue;
    if (!merged.empty() && merged.back().stride == a.stride * a.size && merged.back().out == a.out * a.size) {
      merged.back() = {merged.back().size * a.size, a.stride, a.out};
    } else {
      merged.push_back(a);
    }
  }
  if (merged.empty()) merged.push_back({1, 0, 0});
  axes = merged;
}

int64_t Reducer::offset_of(const Axes& axes, int64_t count, int64_t index, int64_t* out) {
  int64_t offset = 0, place = 0;
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t at = i == 0 ? index : index % axes[i].size;
    if (i) index /= axes[i].size;
    offset += at * axes[i].stride;
    place += at * axes[i].out;
  }
  if (out) *out = place;
  return offset;
}

Reducer::Reducer(const Tensor& self, uint64_t mask) : base_(self.bytes()), have_(self.dtype()) {
  const int64_t item = self.itemsize();
  const auto sizes = self.sizes(), strides = self.strides();
  const int n = static_cast<int>(sizes.size());
  const uint64_t all = n ? (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) : 0;
  if (mask == all && self.is_contiguous()) {  // the whole tensor: one run
    length_ = self.numel();
    reduced_.push_back({length_, item, 0});
    kept_.push_back({1, 0, 0});
    if (Elements::current && Elements::current->at == base_) [[unlikely]]
      elements_ = Elements::current;
    return;
  }
  for (int i = n - 1; i >= 0; --i) {
    const bool reduce = mask >> i & 1;
    const Axis axis{sizes[i], strides[i] * item, reduce ? 0 : outputs_};
    (reduce ? length_ : outputs_) *= sizes[i];
    (reduce ? reduced_ : kept_).push_back(axis);
  }
  std::reverse(kept_.begin(), kept_.end());
  std::reverse(reduced_.begin(), reduced_.end());
  arrange(kept_);
  arrange(reduced_);
  // Which axis is innermost in memory? One along which nothing moves (an expanded one) cannot be walked
  // faster.
  const int64_t r = reduced_.back().stride, k = kept_.back().stride;
  columns_ = kept_.back().size > 1 && k != 0 && (r == 0 || k < r || reduced_.back().size == 1);
}

void Reducer::rows(const Plan& plan, char* acc, const char* p, int64_t row_stride, int64_t rows, int64_t n,
                   int64_t stride, int64_t start) const {
  const int64_t size = plan.item;
  if (elements_) [[unlikely]] {
    alignas(64) char buffer[Elements::kPiece * sizeof(Complex<double>)];
    return elements_->make(start, start + n, [&](const char* from, int64_t first, int64_t m) {
      if (!plan.same_type) {
        convert_strided(buffer, plan.type, size, from, have_, stride, m);
        from = buffer;
      }
      plan.loops.rows(acc, from, 0, 1, m, first, plan.parameter);
    });
  }
  if (plan.same_type && (stride == size || n == 1)) {
    plan.loops.rows(acc, p, row_stride / size, rows, n, start, plan.parameter);
    return;
  }
  alignas(64) char buffer[kBuffer * sizeof(Complex<double>)];
  if (n < kBuffer / 2 && rows > 1 && row_stride == n * stride) {  // several rows lie without a gap
    const int64_t group = kBuffer / n;
    for (int64_t r = 0; r < rows; r += group) {
      const int64_t m = std::min(group, rows - r);
      convert_strided(buffer, plan.type, size, p + r * row_stride, have_, stride, m * n);
      plan.loops.rows(acc + r * plan.size, buffer, n, m, n, start, plan.parameter);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t at = 0; at < n; at += kBuffer) {
      const int64_t m = std::min(kBuffer, n - at);
      convert_strided(buffer, plan.type, size, p + r * row_stride + at * stride, have_, stride, m);
      plan.loops.rows(acc + r * plan.size, buffer, 0, 1, m, start + at, plan.parameter);
    }
}

void Reducer::columns(const Plan& plan, char* acc, const char* p, int64_t row_stride, int64_t rows,
                      int64_t columns, int64_t stride, int64_t start) const {
  const int64_t size = plan.item;
  if (plan.same_type && stride == size) {
    // Sums of whole vectors are fast as they are, and few rows do not repay the merging.
    const bool narrow = columns < 16 ? rows >= 24 : columns <= plan.widened && rows >= 1024;
    if (plan.foldable && narrow && row_stride == columns * size) {
      // Narrow rows without gaps between them: take several as one wide row, and merge the accumulators.
      const int64_t factor = std::min(256 / columns, rows / 4), whole = rows / factor;
      alignas(64) char wide[256 * kMostBytes];
      plan.begin(wide, factor * columns);
      plan.loops.columns(wide, p, factor * columns, whole, factor * columns, start, plan.parameter);
      for (int64_t k = 0; k < factor; ++k) plan.merge(acc, wide + k * columns * plan.size, columns);
      p += whole * factor * row_stride;
      rows -= whole * factor;
    }
    plan.loops.columns(acc, p, row_stride / size, rows, columns, start, plan.parameter);
    return;
  }
  alignas(64) char buffer[kBuffer * sizeof(Complex<double>)];
  const int64_t group = std::max<int64_t>(1, kBuffer / columns);
  for (int64_t r = 0; r < rows; r += group) {
    const int64_t m = std::min(group, rows - r);
    for (int64_t k = 0; k < m; ++k)
      convert_strided(buffer + k * columns * size, plan.type, size, p + (r + k) * row_stride, have_, stride,
                      columns);
    plan.loops.columns(acc, buffer, columns, m, columns, start + r, plan.parameter);
  }
}

template <class F>
void Reducer::each_run(const char* base, int64_t b, int64_t e, const F& f) const {
  const int64_t inner = static_cast<int64_t>(reduced_.size()) - 1;
  const Axis& run = reduced_[inner];
  while (b < e) {
    const int64_t in = inner == 0 ? b : b % run.size, n = std::min(run.size - in, e - b);
    const int64_t outer = inner == 0 ? 0 : offset_of(reduced_, inner, b / run.size, nullptr);
    f(base + outer + in * run.stride, n, b);
    b += n;
  }
}

void Reducer::run_rows(const Plan& plan) const {
  const int64_t last = static_cast<int64_t>(kept_.size()) - 1;
  const Axis inner = kept_[last];
  const Axis run = reduced_.back();
  const int64_t pieces = length_ > 2 * kTask ? (length_ - 1) / kTask + 1 : 1;
  if (pieces == 1) {
    runtime::parallel_for(0, outputs_, std::max<int64_t>(1, kGrain / length_), [&](int64_t b, int64_t e) {
      alignas(64) char acc[kBatch * kMostBytes];
      while (b < e) {
        const int64_t at = last == 0 ? b : b % inner.size;
        const int64_t n = std::min({inner.size - at, e - b, kBatch});
        int64_t out = 0;
        const char* p =
            base_ + at * inner.stride + (last == 0 ? 0 : offset_of(kept_, last, b / inner.size, &out));
        plan.begin(acc, n);
        each_run(p, 0, length_, [&](const char* q, int64_t m, int64_t start) {
          rows(plan, acc, q, inner.stride, n, m, run.stride, start);
        });
        plan.finish(acc, out + at * inner.out, inner.out, n);
        b += n;
      }
    });
    return;
  }
  const runtime::Scratch<char> partial(outputs_ * pieces * plan.size);
  runtime::parallel_for(0, outputs_ * pieces, 1, [&](int64_t b, int64_t e) {
    for (int64_t task = b; task < e; ++task) {
      const int64_t o = task / pieces, piece = task % pieces;
      alignas(64) char acc[kMostBytes];
      plan.begin(acc, 1);
      each_run(base_ + offset_of(kept_, last + 1, o, nullptr), piece * kTask,
               std::min(length_, (piece + 1) * kTask), [&](const char* q, int64_t m, int64_t start) {
                 rows(plan, acc, q, 0, 1, m, run.stride, start);
               });
      std::memcpy(&partial[task * plan.size], acc, static_cast<size_t>(plan.size));
    }
  });
  for (int64_t o = 0; o < outputs_; ++o) {
    char* a = &partial[o * pieces * plan.size];
    for (int64_t k = 1; k < pieces; ++k) plan.merge(a, a + k * plan.size, 1);
    int64_t out = 0;
    offset_of(kept_, last + 1, o, &out);
    plan.finish(a, out, 0, 1);
  }
}

void Reducer::run_columns(const Plan& plan) const {
  const int64_t last = static_cast<int64_t>(kept_.size()) - 1;
  const Axis inner = kept_[last];
  const Axis run = reduced_.back();
  const int64_t width = std::min(inner.size, kMostColumns), tiles = (inner.size - 1) / width + 1;
  const int64_t most_rows = std::max<int64_t>(16, 2 * kTask / width);  // of a piece
  const int64_t pieces = length_ > 2 * most_rows ? (length_ - 1) / most_rows + 1 : 1;
  const int64_t blocks = outputs_ / inner.size * tiles;
  auto place = [&](int64_t block, int64_t& out, int64_t& n) {
    const int64_t at = block % tiles * width;
    n = std::min(width, inner.size - at);
    out = 0;
    const char* p = base_ + at * inner.stride + (last == 0 ? 0 : offset_of(kept_, last, block / tiles, &out));
    out += at * inner.out;
    return p;
  };
  auto fold = [&](char* acc, const char* p, int64_t n, int64_t b, int64_t e) {
    plan.begin(acc, n);
    each_run(p, b, e, [&](const char* q, int64_t m, int64_t start) {
      columns(plan, acc, q, run.stride, m, n, inner.stride, start);
    });
  };
  if (pieces == 1) {
    runtime::parallel_for(0, blocks, std::max<int64_t>(1, kGrain / (width * length_)),
                          [&](int64_t b, int64_t e) {
                            alignas(64) char acc[kMostColumns * kMostBytes];
                            for (int64_t block = b; block < e; ++block) {
                              int64_t out, n;
                              const char* p = place(block, out, n);
                              fold(acc, p, n, 0, length_);
                              plan.finish(acc, out, inner.out, n);
                            }
                          });
    return;
  }
  const runtime::Scratch<char> partial(blocks * pieces * width * plan.size);
  const auto partial_of = [&](int64_t block, int64_t piece) {
    return &partial[(block * pieces + piece) * width * plan.size];
  };
  runtime::parallel_for(0, blocks * pieces, 1, [&](int64_t b, int64_t e) {
    for (int64_t task = b; task < e; ++task) {
      const int64_t block = task % blocks, piece = task / blocks;
      int64_t out, n;
      const char* p = place(block, out, n);
      fold(partial_of(block, piece), p, n, piece * most_rows, std::min(length_, (piece + 1) * most_rows));
    }
  });
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t out, n;
    place(block, out, n);
    for (int64_t k = 1; k < pieces; ++k) plan.merge(partial_of(block, 0), partial_of(block, k), n);
    plan.finish(partial_of(block, 0), out, inner.out, n);
  }
}

void Reducer::run(const Plan& plan) const {
  if (length_ == 0) {
    alignas(64) char acc[kMostBytes];
    plan.begin(acc, 1);
    for (int64_t i = 0; i < outputs_; ++i) plan.finish(acc, i, 0, 1);
    return;
  }
  if (columns_)
    run_columns(plan);
  else
    run_rows(plan);
}

}  // namespace adjoint
