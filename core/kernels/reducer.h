// Driving a fold over a tensor: which elements go into which accumulator, in what order, on which thread.
//
// `Reducer` sorts the dimensions into kept and reduced, merges neighbours that lie without a gap, and decides
// by the strides between the two forms of loops (kernels/cpu/reduction.h): rows, where the innermost
// dimension in memory is reduced, and columns, where it is kept. Elements of another type, or that do not lie
// side by side, pass through a small buffer. Work is split in pieces that depend on the shape alone and
// merged in order, so that results are the same to the last bit for any number of threads. It is compiled
// once, not per type: accumulators are bytes to it. Start reading at `Reducer::run`.
#pragma once

#include <type_traits>

#include "kernels/copy.h"
#include "kernels/cpu/reduction.h"
#include "kernels/cpu/variants.h"
#include "kernels/reduction.h"
#include "runtime/function_ref.h"

namespace adjoint {

namespace launch {
struct Routine;
}
/// Whether a routine is one of (result, operand, dimensions in a mask, …) that reads its operand by a Reducer
/// alone, each element once, and in pieces of `Elements::kPiece` with the same result.
bool folds_in_pieces(const launch::Routine& routine);
/// Whether a routine is one of (one or two results, operand, dimensions in a mask, …) that reads its operand
/// by a Reducer alone, and does nothing else: rows that follow each other are reduced each by itself.
bool folds_rows(const launch::Routine& routine);

/// Elements that are made as they are folded, instead of a row-major tensor that lies `at` an address, and is
/// folded as a whole.
struct Elements {
  static constexpr int64_t kPiece = 1024;
  /// Up to so many are folded by one thread.
  static constexpr int64_t kAlone = 1 << 18;
  const char* at;
  using Use = runtime::FunctionRef<void(const char* from, int64_t first, int64_t n)>;
  /// Makes those from `begin` to `end`, and gives them away in order, in pieces. Called on any thread, for
  /// each element once.
  runtime::FunctionRef<void(int64_t begin, int64_t end, Use use)> make;
  /// Those of this thread.
  static constinit thread_local const Elements* current;
};

class Reducer {
 public:
  /// To fold `self` over the dimensions in `mask`. Places along the reduction (FirstMax, FirstMin) mean
  /// something only for one dimension or a row-major tensor.
  Reducer(const Tensor& self, uint64_t mask);

  int64_t outputs() const { return outputs_; }
  /// Elements per result.
  int64_t length() const { return length_; }

  /// finish(acc, first, stride, n) is given the accumulators of results first, first + stride, …, by place in
  /// the row-major result; it may run on any thread. `merge(a, b)` takes b, which came later, into a.
  template <class T, class Acc, class Merge, class Finish>
  void run(Fold fold, double parameter, const Acc& identity, const Merge& merge, const Finish& finish) const {
    static_assert(sizeof(Acc) <= kMostBytes && std::is_trivially_copyable_v<Acc>);
    if (outputs_ == 0) return;
    const bool bytes = std::is_same_v<T, uint8_t> && have_ == DType::Bool;
    const auto begin = [&](void* a, int64_t n) {
      for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(a)[i] = identity;
    };
    const auto merge_all = [&](void* a, const void* b, int64_t n) {
      for (int64_t i = 0; i < n; ++i) merge(static_cast<Acc*>(a)[i], static_cast<const Acc*>(b)[i]);
    };
    const auto finish_all = [&](const void* a, int64_t first, int64_t stride, int64_t n) {
      finish(static_cast<const Acc*>(a), first, stride, n);
    };
    run({best_variant<FoldTable<T>>().folds[static_cast<int>(fold)], parameter, dtype_of<T>,
         bytes || have_ == dtype_of<T>, fold != Fold::FirstMax && fold != Fold::FirstMin,
         fold == Fold::Moments || fold == Fold::ExpSum ? 64 : 0, sizeof(T), sizeof(Acc), begin, merge_all,
         finish_all});
  }

 private:
  struct Axis {
    int64_t size, stride, out;
  };
  using Axes = runtime::SmallVector<Axis, 6>;
  // Elements of a task, of the buffer, results per batch; the bytes of an accumulator.
  static constexpr int64_t kTask = Elements::kAlone / 2, kGrain = 1 << 15, kBuffer = 1024, kBatch = 64,
                           kMostBytes = 32;

  /// A fold without its types.
  struct Plan {
    FoldLoops loops;
    double parameter;
    DType type;          // of the elements that the loops take
    bool same_type;      // as the tensor's
    bool foldable;       // the order of rows says nothing
    int64_t widened;     // columns up to which rows are joined, beside the narrowest
    int64_t item, size;  // bytes of an element, of an accumulator
    runtime::FunctionRef<void(void* acc, int64_t n)> begin;
    runtime::FunctionRef<void(void* into, const void* from, int64_t n)> merge;
    runtime::FunctionRef<void(const void* acc, int64_t first, int64_t stride, int64_t n)> finish;
  };

  static void arrange(Axes& axes);
  static int64_t offset_of(const Axes& axes, int64_t count, int64_t index, int64_t* out);
  /// f(pointer, n, start) for the runs of the innermost reduced axis that elements b … e of the reduction
  /// fall into.
  template <class F>
  void each_run(const char* base, int64_t b, int64_t e, const F& f) const;

  void run(const Plan& plan) const;
  void run_rows(const Plan& plan) const;
  void run_columns(const Plan& plan) const;
  void rows(const Plan& plan, char* acc, const char* p, int64_t row_stride, int64_t rows, int64_t n,
            int64_t stride, int64_t start) const;
  void columns(const Plan& plan, char* acc, const char* p, int64_t row_stride, int64_t rows, int64_t columns,
               int64_t stride, int64_t start) const;

  const char* base_;
  DType have_;
  int64_t outputs_ = 1, length_ = 1;
  bool columns_ = false;
  const Elements* elements_ = nullptr;
  Axes kept_, reduced_;  // innermost last; kept_ is never empty
};

}  // namespace adjoint
