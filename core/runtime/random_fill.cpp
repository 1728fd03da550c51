// From random words to random numbers, a group at a time, in loops without branches.
//
// Logarithm, sine and cosine are fitted here for the ranges that occur, with the least largest error that
// their number of terms allows (below a third of a rounding error in either precision). Choices between two
// values are made with masks, so that every loop vectorises for every instruction set.
//
// Compile with -O3 -fno-math-errno -fno-trapping-math, since a square root that may report an error keeps its
// loop scalar, which then takes three times as long; and with -ffp-contract=off, which makes the numbers the
// same to the last bit on every instruction set.
//
// Start reading at `each_group`, then `normal`.
#include "runtime/random_fill.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace adjoint::runtime::fill {
namespace {

#ifdef __SIZEOF_INT128__
__extension__ using Wide = unsigned __int128;
#endif

using philox::generate;
using philox::Group;
using philox::lanes;

/// Calls make(group, destination) for each group; the last one, if it is cut short, by way of a buffer.
template <int64_t per_group, class T, class Make>
ADJOINT_RANDOM_INLINE void each_group(const Part& part, T* out, const Make& make) {
  for (int64_t g = part.first; g < part.last; ++g) {
    Group words;
    generate(part.stream, static_cast<uint64_t>(g), words);
    const int64_t at = g * per_group;
    if (at + per_group <= part.n) {
      make(words, out + at);
    } else {
      T buffer[per_group];
      make(words, buffer);
      std::memcpy(out + at, buffer, static_cast<size_t>(part.n - at) * sizeof(T));
    }
  }
}

// --- words to numbers -----------------------------------------------------------------------------

ADJOINT_RANDOM_INLINE float to_float(uint32_t w) { return static_cast<float>(static_cast<int32_t>(w)); }
ADJOINT_RANDOM_INLINE double to_double(uint32_t w) { return static_cast<double>(static_cast<int32_t>(w)); }

/// In [0, 1), a multiple of 2^-24 or 2^-53.
ADJOINT_RANDOM_INLINE float unit(uint32_t w) { return to_float(w >> 8) * 0x1p-24f; }
ADJOINT_RANDOM_INLINE double unit(uint32_t high, uint32_t low) {
  return (to_double(high >> 5) * 0x1p26 + to_double(low >> 6)) * 0x1p-53;
}
/// In (0, 1]; the float keeps all 31 bits for small values, which make the tail of a distribution.
ADJOINT_RANDOM_INLINE float unit_above_zero(uint32_t w) { return to_float(w >> 1) * 0x1p-31f + 0x1p-32f; }
ADJOINT_RANDOM_INLINE double unit_above_zero(uint32_t high, uint32_t low) {
  return unit(high, low) + 0x1p-53;
}

/// log(x) for normal x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh(s), s = (m - 1) /
/// (m + 1).
ADJOINT_RANDOM_INLINE float log(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int32_t e = static_cast<int32_t>(bits - 0x3F3504F3u) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float p = 1.99999999863131817f +
                  z * (0.666668153381511875f + z * (0.399748505175190478f + z * 0.299243904791449868f));
  return static_cast<float>(e) * 0.693147180559945309f + s * p;
}
ADJOINT_RANDOM_INLINE double log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t biased = (bits - 0x3FE6A09E667F3BCDu + (uint64_t{1023} << 52)) >> 52;  // e + 1023
  const double f = std::bit_cast<double>(bits - ((biased - 1023) << 52)) - 1.0;
  // An integer below 2^52 in the low bits of 2^52 is that number added to 2^52.
  const double e = std::bit_cast<double>(biased | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double p = 2.0 + z * (0.666666666666676457 +
                              z * (0.399999999993023381 +
                                   z * (0.285714287606416799 +
                                        z * (0.222221970567260466 +
                                             z * (0.181836316802293288 +
                                                  z * (0.15312528148364191 + z * 0.148097103606552767))))));
  return e * 0.693147180559945309417 + s * p;
}

/// The turn w / 2^32 is `quadrant` quarter turns and r eighths of a turn, r in [-1, 1].
ADJOINT_RANDOM_INLINE uint32_t quadrant(uint32_t w) { return (w + (uint32_t{1} << 29)) >> 30; }
ADJOINT_RANDOM_INLINE float eighths(uint32_t w) { return to_float(w << 2) * 0x1p-31f; }
ADJOINT_RANDOM_INLINE double eighths(uint32_t w, uint32_t fine) {
  return to_double(w << 2) * 0x1p-31 + to_double(fine >> 1) * 0x1p-60;
}

struct FloatPair {
  float cosine, sine;
};
struct DoublePair {
  double cosine, sine;
};

/// Turns the first octants' values into the quadrant's: swaps them where it is odd, then sets the signs.
template <class Pair, class Bits, class T>
ADJOINT_RANDOM_INLINE Pair turn(Bits q, T cosine, T sine) {
  constexpr int top = sizeof(Bits) * 8 - 1;
  const Bits c = std::bit_cast<Bits>(cosine), s = std::bit_cast<Bits>(sine);
  const Bits swapped = Bits{0} - (q & 1);
  const Bits difference = (c ^ s) & swapped;
  return {std::bit_cast<T>(c ^ difference ^ (((q + 1) >> 1 & 1) << top)),
          std::bit_cast<T>(s ^ difference ^ ((q >> 1 & 1) << top))};
}

ADJOINT_RANDOM_INLINE FloatPair circle(uint32_t w) {
  const float r = eighths(w);
  const float z = r * r;
  const float s =
      r * (0.785398160976618343f +
           z * (-0.0807454347081014744f + z * (0.00249000680149235667f + z * -0.0000359542907251107495f)));
  const float c =
      0.999999999952489417f +
      z * (-0.308425135158290555f +
           z * (0.0158543252284445922f + z * (-0.000325938585941626204f + z * 3.52979713429785348e-6f)));
  return turn<FloatPair>(quadrant(w), c, s);
}
ADJOINT_RANDOM_INLINE DoublePair circle(uint32_t w, uint32_t fine) {
  const double r = eighths(w, fine);
  const double z = r * r;
  const double s = r * (0.785398163397448307 +
                        z * (-0.0807455121882805395 +
                             z * (0.00249039457018884385 +
                                  z * (-0.0000365762041589138749 +
                                       z * (3.13361622543321622e-7 +
                                            z * (-1.75715007469839341e-9 + z * 6.87736057316632563e-12))))));
  const double c =
      1.0 + z * (-0.308425137534042453 +
                 z * (0.0158543442438154193 +
                      z * (-0.000325991886926737642 +
                           z * (3.59086044602795203e-6 +
                                z * (-2.46113640336525961e-8 +
                                     z * (1.15005120282173413e-10 + z * -3.85818900734166773e-13))))));
  return turn<DoublePair>(uint64_t{quadrant(w)}, c, s);
}

}  // namespace

// --- the fills ------------------------------------------------------------------------------------

ADJOINT_VECTOR_CLONES void bits32(Part part, uint32_t* out) {
  each_group<narrow>(part, out, [](const Group& group, uint32_t* to) {
    for (int k = 0; k < 4; ++k) {
      for (int l = 0; l < lanes; ++l) to[k * lanes + l] = group.word[k][l];
    }
  });
}

ADJOINT_VECTOR_CLONES void bits64(Part part, uint64_t* out) {
  each_group<wide>(part, out, [](const Group& group, uint64_t* to) {
    for (int k = 0; k < 2; ++k) {
      for (int l = 0; l < lanes; ++l) {
        to[k * lanes + l] = uint64_t{group.word[2 * k][l]} << 32 | group.word[2 * k + 1][l];
      }
    }
  });
}

// The sum below can round up to hi, which does not belong to the interval.
ADJOINT_VECTOR_CLONES void uniform(Part part, float* out, float lo, float hi) {
  const float width = hi - lo, last = hi > lo ? std::nextafter(hi, lo) : lo;
  each_group<narrow>(part, out, [=](const Group& group, float* to) {
    for (int k = 0; k < 4; ++k) {
      for (int l = 0; l < lanes; ++l) {
        const float x = lo + unit(group.word[k][l]) * width;
        to[k * lanes + l] = x < last ? x : last;
      }
    }
  });
}

ADJOINT_VECTOR_CLONES void uniform(Part part, double* out, double lo, double hi) {
  const double width = hi - lo, last = hi > lo ? std::nextafter(hi, lo) : lo;
  each_group<wide>(part, out, [=](const Group& group, double* to) {
    for (int k = 0; k < 2; ++k) {
      for (int l = 0; l < lanes; ++l) {
        const double x = lo + unit(group.word[2 * k][l], group.word[2 * k + 1][l]) * width;
        to[k * lanes + l] = x < last ? x : last;
      }
    }
  });
}

// Radius sqrt(-2 log u) and a random angle make two independent normal numbers.
ADJOINT_VECTOR_CLONES void normal(Part part, float* out, float mean, float deviation) {
  each_group<narrow>(part, out, [=](const Group& group, float* to) {
    for (int k = 0; k < 4; k += 2) {
      for (int l = 0; l < lanes; ++l) {
        const float radius = deviation * std::sqrt(-2.0f * log(unit_above_zero(group.word[k][l])));
        const FloatPair angle = circle(group.word[k + 1][l]);
        to[k * lanes + l] = mean + radius * angle.cosine;
        to[(k + 1) * lanes + l] = mean + radius * angle.sine;
      }
    }
  });
}

ADJOINT_VECTOR_CLONES void normal(Part part, double* out, double mean, double deviation) {
  each_group<wide>(part, out, [=](const Group& group, double* to) {
    for (int l = 0; l < lanes; ++l) {
      const double radius =
          deviation * std::sqrt(-2.0 * log(unit_above_zero(group.word[0][l], group.word[1][l])));
      const DoublePair angle = circle(group.word[2][l], group.word[3][l]);
      to[l] = mean + radius * angle.cosine;
      to[lanes + l] = mean + radius * angle.sine;
    }
  });
}

// u = 1 would give zero; it stands for all that rounds to it.
ADJOINT_VECTOR_CLONES void exponential(Part part, float* out, float scale) {
  each_group<narrow>(part, out, [=](const Group& group, float* to) {
    for (int k = 0; k < 4; ++k) {
      for (int l = 0; l < lanes; ++l) {
        const float x = -log(unit_above_zero(group.word[k][l]));
        to[k * lanes + l] = scale * (x > 0x1p-26f ? x : 0x1p-26f);
      }
    }
  });
}

ADJOINT_VECTOR_CLONES void exponential(Part part, double* out, double scale) {
  each_group<wide>(part, out, [=](const Group& group, double* to) {
    for (int k = 0; k < 2; ++k) {
      for (int l = 0; l < lanes; ++l) {
        const double x = -log(unit_above_zero(group.word[2 * k][l], group.word[2 * k + 1][l]));
        to[k * lanes + l] = scale * (x > 0x1p-55 ? x : 0x1p-55);
      }
    }
  });
}

void integers(Part part, int64_t* out, int64_t lo, uint64_t range) {
  uint64_t* bits = reinterpret_cast<uint64_t*>(out);
  bits64(part, bits);
  const int64_t first = part.first * wide, last = part.last * wide < part.n ? part.last * wide : part.n;
  for (int64_t i = first; i < last; ++i) {
#ifdef __SIZEOF_INT128__
    const uint64_t high = static_cast<uint64_t>((static_cast<Wide>(bits[i]) * range) >> 64);
#else
    const uint64_t a = bits[i], low = (a & 0xFFFFFFFF) * (range & 0xFFFFFFFF);
    const uint64_t middle = (a >> 32) * (range & 0xFFFFFFFF) + (low >> 32);
    const uint64_t middle2 = (a & 0xFFFFFFFF) * (range >> 32) + (middle & 0xFFFFFFFF);
    const uint64_t high = (a >> 32) * (range >> 32) + (middle >> 32) + (middle2 >> 32);
#endif
    bits[i] = static_cast<uint64_t>(lo) + high;
  }
}

}  // namespace adjoint::runtime::fill
