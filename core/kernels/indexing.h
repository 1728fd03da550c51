// Indexing as loops: where the elements are that indices name, and how they are moved, added and filtered.
//
// An `IndexPlan` says for one tensor and one list of index tensors: the result's shape, and the elements as
// before × positions × after: dimensions in front of the indexed ones, one byte offset for each position that
// the broadcast index tensors name, and the dimensions behind. gather and scatter, whose index has a value
// for each element, are runs of elements (`Lines`); masks pass over all elements in order. Start reading at
// `IndexPlan`.
//
// Every write has one result for every number of threads: what may meet in one place is done by one thread,
// in order.
#pragma once

#include <vector>

#include "tensor/into.h"

namespace adjoint {

/// An index in memory that another thread may be writing, as NumPy lets programs do: read once, then checked,
/// then used.
inline int64_t read_once(const int64_t* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
/// IndexError for an index that was right when it was looked at first.
[[noreturn, gnu::cold]] void refuse_changed_index();

struct IndexPlan {
  /// Checks every index against the size of its dimension; `wrap` lets negative ones count from the end. No
  /// entry is a mask: see `without_masks`. `phrase` opens the error of an index that is out of bounds.
  IndexPlan(const Tensor& self, TensorList indices, bool wrap, const char* op, const char* phrase = "");

  /// Of the result.
  Dims shape;
  /// Sizes, and strides in bytes. Neighbours in `after` that lie without a gap are one.
  Dims before, before_strides, after, after_strides;
  int64_t positions = 1;
  /// Of the indexed dimension, where there is but one: its size, and its stride in bytes. Else 0.
  int64_t slots = 0, slot_step = 0;

  template <class F>
  void each_tensor(const F& f) {
    for (Entry& e : entries_) f(e.index);
  }
  int64_t rows() const { return product(before.span()); }
  int64_t row_length() const { return product(after.span()); }
  /// Whether the elements of a row lie side by side.
  bool dense_rows(int64_t item) const {
    return after.empty() || (after.size() == 1 && (after[0] == 1 || after_strides[0] == item));
  }

  /// The byte offsets of positions [begin, begin + n).
  void offsets(int64_t begin, int64_t n, int64_t* to) const;
  /// The byte offset of a row: of an index into the dimensions before.
  int64_t row_offset(int64_t row) const {
    int64_t at = 0;
    for (int i = static_cast<int>(before.size()) - 1; row && i >= 0; --i) {
      at += row % before[i] * before_strides[i];
      row /= before[i];
    }
    return at;
  }
  /// The slot that the only index names at a position.
  int64_t only_slot(int64_t p) const {
    int64_t v = read_once(entries_[0].index.data<int64_t>() + p);
    v += v < 0 ? slots : 0;
    if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(slots)) [[unlikely]]
      refuse_changed_index();
    return v;
  }

 private:
  struct Entry {
    Tensor index;  // int64
    Dims strides;  // over `common_`, in elements; 0 where it is broadcast
    int64_t size, step;
  };
  std::vector<Entry> entries_;
  Dims common_;
};

/// The positions where a mask holds: per dimension a vector.
Tensors positions_of(const Tensor& mask);
/// The list with masks replaced by the positions where they hold, found by a function; checked against the
/// shape of self.
Tensors without_masks(const Tensor& self, TensorList indices,
                      Tensors (*positions)(const Tensor&) = positions_of);
/// Whether the list is one mask over all of a row-major tensor.
bool all_masked(const Tensor& self, TensorList indices);
/// For a vector of integers along one dimension.
IndexPlan along_dimension(const Tensor& self, int d, const Tensor& index, const char* op, bool wrap = false,
                          const char* phrase = "");
/// An index for gather and scatter, as int64.
Tensor gather_index(const Tensor& index, const char* op);
/// Refuses what scatter cannot take; the index as int64.
Tensor scatter_index(const Tensor& out, int64_t d, const Tensor& index, const Tensor* src, const char* op);
/// Refuses values that do not broadcast to the shape; leading dimensions of size 1 may be too many.
Tensor fitted(const Tensor& values, IntList shape, const char* op);

/// What is in a tensor before values are added to it.
enum class Before { Itself, Zeros, Other };

Tensor read_at(Into into, const Tensor& self, const IndexPlan& plan);
/// Write values, which broadcast to the plan's shape and are converted. Where a place is named twice, the
/// last stays.
void write_at(const Tensor& self, const IndexPlan& plan, const Tensor& values);
/// x[indices] = values, or += values.
void put_at(const Tensor& self, const Tensor& values, TensorList indices, bool accumulate);
/// Add values, which broadcast to the plan's shape and are converted, in order: to what is there, or, where
/// self is new and row-major, to zeros or to another row-major tensor of its shape.
void add_at(const Tensor& self, const IndexPlan& plan, const Tensor& values, Before before = Before::Itself,
            const Tensor& other = {});

/// The elements of self that `index` names along dimension d: one for each of its own. Where self is another
/// tensor made `flat`, negative ones count from the end. Shapes are checked already.
void gather_into(const Tensor& out, const Tensor& self, int64_t d, const Tensor& index, bool flat,
                 const char* op);
enum class Scattering { Write, Add, Multiply, Largest, Smallest };
/// The reverse: `out`, which is new, gets the elements of `base`, or zeros where that is undefined, and then
/// those of src, or one value where that is undefined, where `index` says.
void scatter_into(const Tensor& out, const Tensor& base, int64_t d, const Tensor& index, const Tensor& src,
                  const Scalar& value, Scattering how, const char* op);

// Masks, row-major and of the same number of elements as the row-major tensors they go with.

int64_t count_true(const Tensor& mask);
/// The elements where a mask holds, in order.
Tensor compress(const Tensor& self, const Tensor& mask);
/// Write values in order where a mask holds, and zeros elsewhere if `clear`. A single value, where `fill`,
/// goes everywhere.
void expand_into(const Tensor& out, const Tensor& mask, const Tensor& values, bool clear, bool fill);
template <class T>
T added(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (is_half_v<T>)
    return T(static_cast<float>(a) + static_cast<float>(b));
  else
    return static_cast<T>(a + b);
}

}  // namespace adjoint
