// Philox4x32-10: random words as a function of (seed, position), after Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (2011). No state runs through the numbers, so any thread can
// make any of them.
//
// The function turns a counter and a key into a block of four 32-bit words. Here 16 blocks make a *group*,
// whose loops the compiler turns into vector instructions, lane by lane. Word `k` of lane `l` is element 16 k
// + l of the group: the order in which all fills hand out words, so that they store whole vectors.
#pragma once

#include <cstdint>

// Instruction sets are chosen at load, where the compiler and the loader can. Sanitizers run before the
// loader is ready for that.
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && !defined(__clang__) && \
    __GNUC__ >= 12 && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define ADJOINT_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ADJOINT_VECTOR_CLONES
#endif
#if defined(__GNUC__)
#define ADJOINT_RANDOM_INLINE inline __attribute__((always_inline))
#else
#define ADJOINT_RANDOM_INLINE inline
#endif

namespace adjoint::runtime::philox {

inline constexpr int lanes = 16;
inline constexpr int group_words = 4 * lanes;

/// Where a sequence begins: the key, and the number of its first block.
struct Stream {
  uint64_t seed;
  uint64_t block;
};

struct Group {
  alignas(64) uint32_t word[4][lanes];
};

ADJOINT_RANDOM_INLINE void generate(Stream stream, uint64_t group_number, Group& out) {
  constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  const uint64_t first = stream.block + group_number * lanes;
  const uint32_t seed0 = static_cast<uint32_t>(stream.seed), seed1 = static_cast<uint32_t>(stream.seed >> 32);
  for (int l = 0; l < lanes; ++l) {
    const uint64_t counter = first + static_cast<uint64_t>(l);
    uint32_t a = static_cast<uint32_t>(counter), b = static_cast<uint32_t>(counter >> 32), c = 0, d = 0;
    uint32_t key0 = seed0, key1 = seed1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{multiplier0} * a;
      const uint64_t product1 = uint64_t{multiplier1} * c;
      a = static_cast<uint32_t>(product1 >> 32) ^ b ^ key0;
      b = static_cast<uint32_t>(product1);
      c = static_cast<uint32_t>(product0 >> 32) ^ d ^ key1;
      d = static_cast<uint32_t>(product0);
      key0 += weyl0;
      key1 += weyl1;
    }
    out.word[0][l] = a;
    out.word[1][l] = b;
    out.word[2][l] = c;
    out.word[3][l] = d;
  }
}

/// One block of a stream's counter `stream.block` in a space of counters that `generate` never uses: `number`
/// (above 0) tells its blocks apart. Two words.
ADJOINT_RANDOM_INLINE void generate_one(Stream stream, uint32_t number, uint64_t* out) {
  uint32_t a = static_cast<uint32_t>(stream.block), b = static_cast<uint32_t>(stream.block >> 32), c = number,
           d = 1;
  uint32_t key0 = static_cast<uint32_t>(stream.seed), key1 = static_cast<uint32_t>(stream.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * a, product1 = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(product1 >> 32) ^ b ^ key0;
    b = static_cast<uint32_t>(product1);
    c = static_cast<uint32_t>(product0 >> 32) ^ d ^ key1;
    d = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  out[0] = uint64_t{a} << 32 | b;
  out[1] = uint64_t{c} << 32 | d;
}

}  // namespace adjoint::runtime::philox
