#include "kernels/in_registers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "for_size.h"
#include "kernels/cpu/in_registers.h"
#include "kernels/cpu/variants.h"
#include "runtime/lock.h"

namespace adjoint {

const Pass& pass_of(DType type) {
  const PassTable& table = best_variant<PassTable>();
  return type == DType::Float32 ? table.floats : table.doubles;
}

namespace {

/// How many numbers a loop is asked about: whole vectors, single ones, and what is between.
constexpr int kAsked = 75;

template <class T>
using Numbers = T[kAsked];

/// Numbers of all sizes, among them those that are none; or nothing else, of all kinds.
template <class T>
void fill(Numbers<T>& x, uint64_t seed, bool only_nan) {
  using Limits = std::numeric_limits<T>;
  constexpr T special[] = {0,
                           -T(0),
                           1,
                           -1,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::denorm_min(),
                           Limits::max()};
  for (T& e : x) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto number = static_cast<int64_t>(seed >> 24);
    if (only_nan) {
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      e = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(Limits::quiet_NaN()) ^
                                             static_cast<Bits>(number & 0xffff) ^
                                             static_cast<Bits>(number >> 20 & 1) << (8 * sizeof(T) - 1)));
    } else if (number % 8 == 7) {
      e = special[(seed >> 40) % std::size(special)];
    } else {
      e = std::ldexp(static_cast<T>(number % 0xffffff - 0x7fffff), static_cast<int>(seed >> 12 & 31) - 39);
    }
  }
}

/// A way that a loop may compute its elements in: steps over operands a, b and c, or some of them.
struct Form {
  int operands;
  LoopMeaning::Way way;
};
constexpr int kA = 0, kB = 1, kC = 2, kOne = LoopMeaning::kOne;
constexpr Form kForms[] = {
    {2, {2, {{Cheap::Read, kA}, {Cheap::Plus, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::PlusTo, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::Times, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::TimesTo, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::Minus, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::MinusFrom, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::Over, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::Under, kB}}}},
    {1, {2, {{Cheap::Read, kA}, {Cheap::Negative, kA}}}},
    {1, {2, {{Cheap::Read, kA}, {Cheap::Square, kA}}}},
    {1, {2, {{Cheap::Read, kA}, {Cheap::Root, kA}}}},
    {1, {2, {{Cheap::Read, kA}, {Cheap::Under, kOne}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::Shared, kB}}}},
    {2, {2, {{Cheap::Read, kA}, {Cheap::SharedTo, kB}}}},
    // a · (b · c), a · (-(b/c)/c).
    {3, {3, {{Cheap::Read, kB}, {Cheap::Times, kC}, {Cheap::Times, kA}}}},
    {3, {3, {{Cheap::Read, kB}, {Cheap::Times, kC}, {Cheap::TimesTo, kA}}}},
    {3, {3, {{Cheap::Read, kB}, {Cheap::TimesTo, kC}, {Cheap::Times, kA}}}},
    {3, {3, {{Cheap::Read, kB}, {Cheap::TimesTo, kC}, {Cheap::TimesTo, kA}}}},
    {3,
     {5,
      {{Cheap::Read, kB}, {Cheap::Over, kC}, {Cheap::Negative, kA}, {Cheap::Over, kC}, {Cheap::Times, kA}}}},
    {3,
     {5,
      {{Cheap::Read, kB},
       {Cheap::Over, kC},
       {Cheap::Negative, kA},
       {Cheap::Over, kC},
       {Cheap::TimesTo, kA}}}},
    {3, {3, {{Cheap::Read, kA}, {Cheap::Alike, kB}, {Cheap::Where, kC}}}},
    {3, {4, {{Cheap::Read, kA}, {Cheap::Equal, kB}, {Cheap::Where, kC}, {Cheap::Unless, kB}}}},
};

template <class T>
constexpr T kNumberOne = 1;

template <class T>
LoopMeaning ask(Loop loop, unsigned taken, unsigned constant, const void* const* numbers,
                const double* parameters) {
  constexpr int kMost = 3;
  int operands[kMost], count = 0;
  for (int k = 0; k < StraightCall::kOperands; ++k)
    if (taken >> k & 1) {
      if (count == kMost) return {};
      operands[count++] = k;
    }
  if (!count) return {};
  // Each form with its operands in each order.
  std::vector<LoopMeaning::Way> fitting;
  for (const Form& form : kForms) {
    if (form.operands > count) continue;
    int order[kMost] = {0, 1, 2};
    do {
      LoopMeaning::Way& way = fitting.emplace_back(form.way);
      for (LoopMeaning::Step& step : way.steps)
        if (step.operand >= 0) step.operand = order[step.operand];
    } while (std::next_permutation(order, order + count));
  }
  // A loop may treat a number in a way of its own, and all the same numbers as one, and what is equal: that
  // is asked for, too.
  constexpr T uniform[] = {T(0.5),
                           1,
                           2,
                           3,
                           -1,
                           T(1) / 3,
                           0,
                           std::numeric_limits<T>::infinity(),
                           std::numeric_limits<T>::quiet_NaN()};
  constexpr int kDrawn = 4, kUniform = static_cast<int>(std::size(uniform));
  for (int round = 0; !fitting.empty() && round < kDrawn + kUniform + kMost; ++round) {
    Numbers<T> x[kMost], one, y, z;
    std::fill_n(one, kAsked, T(1));
    const void* in[StraightCall::kOperands] = {};
    unsigned filled = 0;
    for (int k = 0; k < count; ++k) {
      fill(x[k], 17 * static_cast<uint64_t>(round) + 5 * static_cast<uint64_t>(k) + 1, round == 2);
      in[operands[k]] = x[k];
      const bool is_number = constant >> operands[k] & 1;
      const int k_uniform = round - kDrawn;
      if (!is_number && (k == 0 || k_uniform < 0 || k_uniform >= kUniform)) continue;
      T number = k_uniform >= 0 && k_uniform < kUniform ? uniform[k_uniform] : x[k][round];
      if (const void* known = numbers[operands[k]]) std::memcpy(&number, known, sizeof(T));
      std::fill_n(x[k], kAsked, number);
      filled |= 1u << k;
    }
    // An operand and the next one, of which one is no number, have equal elements.
    if (const int k = round - kDrawn - kUniform; k >= 0 && k < count) {
      const int next = (k + 1) % count, to = filled >> next & 1 ? k : next, from = to == k ? next : k;
      for (int i = 0; !(filled >> to & 1) && i < kAsked; i += 2) x[to][i] = x[from][i];
    }
    loop(y, in, kAsked, parameters);
    std::erase_if(fitting, [&](const LoopMeaning::Way& way) {
      Cheap steps[LoopMeaning::kMostSteps + 1];
      char* at[LoopMeaning::kMostSteps + 1];
      for (int s = 0; s < way.count; ++s) {
        steps[s] = way.steps[s].what;
        at[s] = reinterpret_cast<char*>(way.steps[s].operand < 0 ? one : x[way.steps[s].operand]);
      }
      steps[way.count] = Cheap::Write;
      at[way.count] = reinterpret_cast<char*>(z);
      pass_of(dtype_of<T>).run(steps, at, way.count + 1, kAsked);
      return std::memcmp(y, z, sizeof y) != 0;
    });
  }
  // What comes first of what fits, and the first that begins with each other operand.
  LoopMeaning found;
  int ways = 0;
  unsigned begun = 0;
  for (LoopMeaning::Way& way : fitting) {
    const int first = way.steps[0].operand;
    if (begun >> first & 1) continue;
    begun |= 1u << first;
    for (LoopMeaning::Step& step : way.steps)
      if (step.operand >= 0) step.operand = operands[step.operand];
    found.ways[ways++] = way;
  }
  return found;
}

/// Whether all elements at once get the bits that they get in pieces of each length.
bool agrees(Loop loop, int64_t item, const void* const* in, const int64_t* items, const double* parameters,
            std::span<const int> lengths) {
  char whole[kAsked * sizeof(double)], pieces[kAsked * sizeof(double)];
  loop(whole, in, kAsked, parameters);
  return std::ranges::all_of(lengths, [&](int m) {
    for (int at = 0; at < kAsked; at += m) {
      const void* from[StraightCall::kOperands] = {};
      for (int k = 0; k < StraightCall::kOperands; ++k)
        if (in[k]) from[k] = static_cast<const char*>(in[k]) + at * items[k];
      loop(pieces + at * item, from, std::min(m, kAsked - at), parameters);
    }
    return std::memcmp(whole, pieces, static_cast<size_t>(kAsked * item)) == 0;
  });
}

template <class T>
bool ask_pieces(Loop loop, DType out, const DType* types, unsigned taken, const double* parameters) {
  constexpr int kOperands = StraightCall::kOperands, kRounds = 4;
  constexpr int lengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 23, 31, 37}, few[] = {16, 37};
  Numbers<T> x[kOperands];
  const void* in[kOperands] = {};
  int64_t items[kOperands] = {};
  for (int k = 0; k < kOperands; ++k) {
    if (!(taken >> k & 1)) continue;
    if (types[k] != dtype_of<T> && types[k] != DType::Bool) return false;
    in[k] = x[k];
    items[k] = itemsize(types[k]);
  }
  const auto draw = [&](uint64_t round) {
    for (int k = 0; k < kOperands; ++k) {
      if (!in[k]) continue;
      fill(x[k], 31 * round + 7 * static_cast<uint64_t>(k) + 1, round == 1);
      if (types[k] != DType::Bool) continue;
      auto* const bytes = reinterpret_cast<unsigned char*>(x[k]);
      for (int i = 0; i < kAsked; ++i)
        bytes[i] = static_cast<uint64_t>(i + k) * 0x9e3779b97f4a7c15 >> (60 - round) & 1;
    }
  };
  for (uint64_t round = 0; round < kRounds; ++round) {
    draw(round);
    if (!agrees(loop, itemsize(out), in, items, parameters, lengths)) return false;
  }
  // What is the same number throughout may be treated in a way of its own: here it is in pieces alone.
  for (int chosen = 1; chosen <= kOperands; ++chosen)
    for (const T number : {T(1), T(2), T(3), T(0.5), T(-0.5), T(-1), T(-2)}) {
      draw(0);
      bool any = false;
      for (int k = 1; k < kOperands; ++k)
        if (in[k] && types[k] != DType::Bool && (chosen == k || chosen == kOperands)) {
          std::fill_n(x[k], kAsked - 1, number);
          any = true;
        }
      if (any && !agrees(loop, itemsize(out), in, items, parameters, few)) return false;
    }
  return true;
}

/// What was asked is known from then on: a program may have thousands of loops, of a dozen kinds.
template <class Answer>
struct Known {
  static constexpr size_t kMost = 1024;
  runtime::SmallLock lock;
  std::map<std::string, Answer> answers;
  template <class Ask>
  Answer get(const std::string& question, const Ask& ask) {
    {
      const std::lock_guard held(lock);
      if (const auto at = answers.find(question); at != answers.end()) return at->second;
    }
    const Answer found = ask();
    const std::lock_guard held(lock);
    if (answers.size() >= kMost) answers.clear();
    return answers[question] = found;
  }
};
template <class... X>
std::string question(const X&... parts) {
  std::string all;
  (all.append(reinterpret_cast<const char*>(&parts), sizeof parts), ...);
  return all;
}

}  // namespace

bool is_even(Loop loop, DType out, const DType* types, unsigned taken, const double* parameters, int count) {
  static Known<bool> known;
  DType type = out;
  bool whole = is_integral(out);
  for (int k = 0; k < StraightCall::kOperands; ++k)
    if (taken >> k & 1) {
      if (types[k] != DType::Bool) type = types[k];
      whole &= is_integral(types[k]);
    }
  if (whole) return true;
  if ((type != DType::Float32 && type != DType::Float64) || (out != type && out != DType::Bool)) return false;
  std::string key = question(loop, out, taken);
  for (int k = 0; k < StraightCall::kOperands; ++k)
    if (taken >> k & 1) key += question(types[k]);
  key.append(reinterpret_cast<const char*>(parameters), static_cast<size_t>(count) * sizeof(double));
  return known.get(key, [&] {
    return type == DType::Float32 ? ask_pieces<float>(loop, out, types, taken, parameters)
                                  : ask_pieces<double>(loop, out, types, taken, parameters);
  });
}

LoopMeaning meaning_of(Loop loop, DType type, unsigned taken, unsigned constant, const void* const* numbers,
                       const double* parameters, int count) {
  static Known<LoopMeaning> known;
  std::string key = question(loop, type, taken, constant);
  for (int k = 0; k < StraightCall::kOperands; ++k)
    if (numbers[k]) key.append(static_cast<const char*>(numbers[k]), static_cast<size_t>(itemsize(type)));
  key.append(reinterpret_cast<const char*>(parameters), static_cast<size_t>(count) * sizeof(double));
  return known.get(key, [&] {
    return type == DType::Float32 ? ask<float>(loop, taken, constant, numbers, parameters)
                                  : ask<double>(loop, taken, constant, numbers, parameters);
  });
}

const void* one_of(DType type) {
  return type == DType::Float32 ? static_cast<const void*>(&kNumberOne<float>) : &kNumberOne<double>;
}

}  // namespace adjoint
