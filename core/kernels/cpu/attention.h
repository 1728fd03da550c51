// What happens to a tile of scores between the products of attention, per instruction set
// (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

#include "runtime/philox.h"

namespace adjoint {

/// Keys whose scores are worked on together: whole groups of random words.
inline constexpr int64_t kAttentionKeys = 256;

/// Factors of weights that are left out at random: 0, or what makes up for it. Those of row r begin with word
/// 0 of a group.
template <class T>
struct AttentionDropout {
  T factor = 0;        // of what stays
  uint64_t below = 0;  // smaller words mean 0; none: nothing is left out
  runtime::philox::Stream stream{};
  uint64_t group = 0, groups = 0;  // of row 0, and from row to row
};

/// Products of `rows` queries and `columns` keys, with `step` elements from row to row.
template <class T>
struct ScoreTile {
  T* scores;
  int64_t rows, columns, step;
  T scale;
  /// Bool, or a term; null for none. In bytes.
  const char* mask;
  bool mask_is_bool;
  int64_t mask_down, mask_across;
  /// Row r sees the first `seen` + r keys.
  int64_t seen;
  AttentionDropout<T> dropout;
};

template <class T>
struct AttentionTable {
  /// Scores become exp(score - max), those left out 0, after `max` and `sum` of each row have taken them in;
  /// rows of `out`, a sum of values so far, are scaled to the new maximum (null: there is none yet).
  void (*forward)(const ScoreTile<T>& tile, T* max, T* sum, T* out, int64_t width);
  /// Products become weights, and the cotangents of weights, `d`, those of products. `log_sum` and `mean` are
  /// the rows'. The cotangent of the mask is added to `of_mask` (null: none), whose rows lie `of_mask_down`
  /// apart.
  void (*backward)(const ScoreTile<T>& tile, T* d, const T* log_sum, const T* mean, T* of_mask,
                   int64_t of_mask_down);
  /// The factors of n weights.
  void (*factors)(const AttentionDropout<T>& dropout, int64_t n, T* out);
};

}  // namespace adjoint
