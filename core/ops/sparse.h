// Sparse tensors: how they are made of indices and values, and the few kernels that their operators need.
//
// Two rows lead from values to a sparse tensor and back, each the other's derivative; so an operator on
// sparse tensors is written in operators on values, and its derivatives follow. The gradient of a sparse
// tensor is one with its pattern: a number for each entry. The other rows know dense tensors only: the
// product of a sparse matrix and a dense one, and the products of rows that its derivative is made of, which
// are each other's rules in turn. See Note: sparse tensors. Start reading at `SparseTensor`.
#pragma once

#include "kernels/sparse.h"
#include "ops/contract/op.h"
#include "tensor/sparse.h"

namespace adjoint {

/// Indices for each sparse dimension: of COO rows of its indices, of CSR and CSC the rows and the columns of
/// the entries.
Tensors sparse_positions(const Tensor& t);
/// The positions of a tensor as a sparse tensor of its own, which later writes do not change and which keeps
/// no values: what derivatives save.
Tensor pattern_of(const Tensor& t);
/// The values of a sparse tensor, and one with other values. Recorded.
Tensor sparse_values(const Tensor& t);
Tensor sparse_with(const Tensor& like, const Tensor& values);
/// Whether two tensors name the same positions in the same order.
bool same_pattern(const Tensor& a, const Tensor& b);
/// The values of a gradient at the positions of a sparse tensor. Recorded.
Tensor values_at(const Tensor& g, const Tensor& pattern);
/// The sum of two tensors of which one at least is sparse; undefined where there is no form of it here.
/// Recorded.
Tensor add_sparse(const Tensor& a, const Tensor& b);
/// Each position named once, in order. COO; recorded.
Tensor coalesced(const Tensor& t);
/// What rows of a table get, where indices name them, but for the row `padding`. Recorded.
Tensor sparse_rows(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding);
/// What elements get that gather() read. Recorded.
Tensor sparse_gathered(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index);

struct SparseRow : Structured {
  static constexpr auto batch = batching::dynamic;
  static constexpr bool takes_sparse = true;
  static constexpr bool method = false;
};

struct SparseTensor : SparseRow {
  static constexpr auto name = "_sparse_tensor";
  static constexpr auto doc =
      "The sparse tensor of given indices and values, which it shares; nothing is checked.";
  static constexpr auto signature = "values, indices, others, size, layout=0, coalesced=False";
  static Tensor forward(const Tensor& values, const Tensor& indices, OptionalTensor others, MemoryInts size,
                        int64_t layout, bool coalesced);
  static constexpr auto linear = LinearIn<"values">{};
  static Tensor gradient(const Tensor& g, const Tensor& indices, const Tensor& others, IntList values,
                         IntList size, int64_t layout, bool coalesced);
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"values"> values, Input<"indices"> indices, Input<"others"> others,
               Argument<IntList, "size"> size, Argument<int64_t, "layout"> layout,
               Argument<bool, "coalesced"> coalesced) {
        return gradient(g, indices, others, values, size.value, layout.value, coalesced.value);
      }};
};

struct SparseWith : SparseRow {
  static constexpr auto name = "_values_in_pattern";
  static constexpr auto doc = "A sparse tensor with the indices of a pattern and the values given.";
  static constexpr auto signature = "pattern, values";
  static Tensor forward(const Tensor& pattern, const Tensor& values);
  static constexpr auto linear = LinearIn<"values">{};
  static constexpr auto vjp =
      Rules{rule_of<"values">([](Grad g, Input<"pattern"> pattern) { return values_at(g, pattern); })};
};

struct SparseValues : SparseRow {
  static constexpr auto name = "_values_of_sparse";
  static constexpr auto doc =
      "The values of a sparse tensor, which share its memory. The pattern is its own.";
  static constexpr auto signature = "self, pattern";
  static Tensor forward(const Tensor& self, const Tensor& pattern);
  static Tensor gradient(const Tensor& g, const Tensor& pattern);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Input<"pattern"> pattern) { return gradient(g, pattern); }};
};

struct SparseLookup : SparseRow {
  static constexpr auto name = "_sparse_at";
  static constexpr auto doc =
      "The sums of a sparse tensor's values at each position of a pattern. The other pattern is its own.";
  static constexpr auto signature = "self, own, pattern";
  static Tensor forward(const Tensor& self, const Tensor& own, const Tensor& pattern);
  static Tensor gradient(const Tensor& g, const Tensor& own, const Tensor& pattern);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"own"> own, Input<"pattern"> pattern) { return gradient(g, own, pattern); }};
};

struct SortPositions : Structured {
  static constexpr auto name = "_sort_positions";
  static constexpr auto doc =
      "The positions that occur among the columns of a matrix, in row-major order, and for each column which "
      "of them it is.";
  static constexpr auto signature = "indices, size";
  static constexpr auto returns = "positions, inverse";
  static constexpr auto samples =
      Cases{"[[0, 2, 0, 1], [1, 0, 1, 3]], [3, 4]", "[[2, 1, 2]], [3]", "index(2, 0, below=3), [3, 4]"};
  static constexpr bool method = false;
  static constexpr bool differentiable = false;
  static std::tuple<Tensor, Tensor> forward(const Tensor& indices, MemoryInts size) {
    return kernels::sort_positions(indices, size, name);
  }
};

struct RowsOfEntries : Structured {
  static constexpr auto name = "_rows_of_entries";
  static constexpr auto doc =
      "The row of each of so many entries of a compressed tensor, from where the entries of each row begin, "
      "and "
      "the last end.";
  static constexpr auto signature = "begin, count";
  static constexpr TypeSet types = types::integer;
  static constexpr auto samples = Cases{"[0, 2, 2, 5], 5", "[0, 0], 0", "[0], 0"};
  static constexpr auto batch = batching::dynamic;
  static constexpr bool method = false;
  static constexpr bool differentiable = false;
  static Tensor forward(const Tensor& begin, int64_t count);
};

struct PlacesOfIndex : Structured {
  static constexpr auto name = "_places_of_index";
  static constexpr auto doc =
      "Of each element of an index its place in each dimension, and in one what the index says itself.";
  static constexpr auto signature = "index, dim";
  static constexpr TypeSet types = types::integer;
  static constexpr auto samples =
      Cases{"index(3, 4, below=5), 1", "index(2, 3, 2, below=4), 0", "index(0, 3, below=5), 1"};
  static constexpr auto batch = batching::dynamic;
  static constexpr bool method = false;
  static constexpr bool differentiable = false;
  static Tensor forward(const Tensor& index, Dim dim);
};

struct RowsDot;

struct EntriesTimes : Structured {
  static constexpr auto name = "_entries_times";
  static constexpr auto doc =
      "The product of a sparse matrix of so many rows, given by the row, the column and the value of its "
      "entries, and a dense one.";
  static constexpr auto signature = "values, rows, columns, dense, count";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples =
      Cases{"(4,), [0, 2, 0, 1], [1, 0, 1, 3], (4, 5), 3", "(3,), [2, 2, 0], [0, 1, 1], (2, 2), 4",
            "(0,), index(0, below=3), index(0, below=3), (4, 2), 3"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& values, const Tensor& rows, const Tensor& columns, const Tensor& dense,
                        int64_t count) {
    return kernels::entries_times(values, rows, columns, dense, count, name);
  }
  static Tensor values_gradient(const Tensor& g, const Tensor& rows, const Tensor& columns,
                                const Tensor& dense);
  static Tensor dense_gradient(const Tensor& g, const Tensor& values, const Tensor& rows,
                               const Tensor& columns, int64_t count);
  static constexpr auto linear = MultilinearIn<"values", "dense">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"rows"> rows, Input<"columns"> columns, Input<"dense"> dense) {
              return values_gradient(g, rows, columns, dense);
            },
            rule_of<"dense">(
                [](Grad g, Input<"values"> values, Input<"rows"> rows, Input<"columns"> columns,
                   Shape<"dense"> s) { return dense_gradient(g, values, rows, columns, s.sizes[0]); })};
};

struct RowsDot : Structured {
  static constexpr auto name = "_rows_dot";
  static constexpr auto doc =
      "For each pair of a row of one matrix and a row of another, the sum of their products.";
  static constexpr auto signature = "self, other, rows, columns";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples =
      Cases{"(3, 5), (4, 5), [0, 2, 0, 1], [1, 0, 1, 3]", "(3, 0), (2, 0), [2, 2, 0], [0, 1, 1]",
            "(3, 2), (2, 2), index(0, below=3), index(0, below=2)"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, const Tensor& other, const Tensor& rows, const Tensor& columns) {
    return kernels::rows_dot(self, other, rows, columns, name);
  }
  static constexpr auto linear = MultilinearIn<"self", "other">{};
  static Tensor gradient(const Tensor& g, const Tensor& other, const Tensor& to, const Tensor& from,
                         int64_t count);
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"other"> other, Input<"rows"> rows, Input<"columns"> columns) {
              return gradient(g, other, rows, columns, s.sizes[0]);
            },
            [](Grad g, Input<"self"> self, Shape<"other"> s, Input<"rows"> rows, Input<"columns"> columns) {
              return gradient(g, self, columns, rows, s.sizes[0]);
            }};
};

using Sparse = Family<SparseTensor, SparseWith, SparseValues, SparseLookup, SortPositions, RowsOfEntries,
                      PlacesOfIndex, EntriesTimes, RowsDot>;

}  // namespace adjoint
