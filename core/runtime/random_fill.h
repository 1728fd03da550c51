// The loops under random.h: elements of groups [first, last) of a stream, into an array of n elements, of
// which the last group may be cut short. Start reading at random_fill.cpp.
#pragma once

#include <cstdint>

#include "runtime/philox.h"

namespace adjoint::runtime::fill {

/// Elements that one group yields: one word each, or two.
inline constexpr int64_t narrow = philox::group_words;
inline constexpr int64_t wide = philox::group_words / 2;

/// The part of a fill that one call does.
struct Part {
  philox::Stream stream;
  int64_t first;  // groups
  int64_t last;
  int64_t n;  // elements of the whole array
};

void bits32(Part part, uint32_t* out);
void bits64(Part part, uint64_t* out);
void uniform(Part part, float* out, float lo, float hi);
void uniform(Part part, double* out, double lo, double hi);
void normal(Part part, float* out, float mean, float deviation);
void normal(Part part, double* out, double mean, double deviation);
void exponential(Part part, float* out, float scale);
void exponential(Part part, double* out, double scale);
void integers(Part part, int64_t* out, int64_t lo, uint64_t range);

}  // namespace adjoint::runtime::fill
