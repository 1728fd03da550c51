// The steps of the optimisers for one instruction set. Start with `for_blocks`: how a part of a slot is cut
// into blocks.
//
// Every formula is a sequence of short loops over one block, small enough to stay in the first-level cache.
// Options are tested between the loops and never inside, so that each loop is branch-free and vectorises, and
// there is one piece of code for all combinations of options.
#include "kernels/cpu/optimizer.h"

#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

using namespace kernels;

/// Elements of a block: the gradient copy and five streams of float64 take 12 KiB.
constexpr int64_t kBlock = 256;

/// Pointers of one slot, moved to the first element of a block.
template <class T>
struct Block {
  T* __restrict parameter;
  const T* gradient;
  T* __restrict state[3];
  int64_t size;
};

/// Calls `step(block, g)` for each block of elements `begin` to `end`; g is scratch for as many elements.
template <class T, class Step>
ADJOINT_INLINE void for_blocks(const OptimizerSlot& slot, int64_t begin, int64_t end, const Step& step) {
  alignas(64) T scratch[kBlock];
  for (int64_t i = begin; i < end; i += kBlock) {
    Block<T> block;
    block.parameter = static_cast<T*>(slot.parameter) + i;
    block.gradient = static_cast<const T*>(slot.gradient) + i;
    for (int k = 0; k < 3; ++k) block.state[k] = slot.state[k] ? static_cast<T*>(slot.state[k]) + i : nullptr;
    block.size = end - i < kBlock ? end - i : kBlock;
    step(block, scratch);
  }
}

/// g = ±gradient + weight_decay · parameter.
template <class T>
ADJOINT_INLINE void load_gradient(const Block<T>& block, T* __restrict g, bool maximize, T weight_decay) {
  const T* __restrict p = block.parameter;
  const T* gradient = block.gradient;
  const T sign = maximize ? T(-1) : T(1);
  for (int64_t i = 0; i < block.size; ++i) g[i] = sign * gradient[i];
  // Skipped when zero, so that an infinite parameter does not make a NaN of 0 · ∞.
  if (weight_decay != 0) {
    for (int64_t i = 0; i < block.size; ++i) g[i] += weight_decay * p[i];
  }
}

template <class T>
void sgd(const OptimizerSlot& slot, int64_t begin, int64_t end, const SgdOptions& o) {
  const T lr = T(o.lr), momentum = T(o.momentum), keep = T(1 - o.dampening);
  for_blocks<T>(slot, begin, end, [&](const Block<T>& block, T* __restrict g) {
    load_gradient(block, g, o.maximize, T(o.weight_decay));
    T* __restrict p = block.parameter;
    if (T* __restrict b = block.state[0]) {
      for (int64_t i = 0; i < block.size; ++i) b[i] = momentum * b[i] + keep * g[i];
      if (o.nesterov) {
        for (int64_t i = 0; i < block.size; ++i) p[i] -= lr * (g[i] + momentum * b[i]);
      } else {
        for (int64_t i = 0; i < block.size; ++i) p[i] -= lr * b[i];
      }
    } else {
      for (int64_t i = 0; i < block.size; ++i) p[i] -= lr * g[i];
    }
  });
}

template <class T>
void adam(const OptimizerSlot& slot, int64_t begin, int64_t end, const AdamOptions& o, double correction1,
          double root_of_correction2) {
  // With one division: m / (√v / root + ε) = m root / (√v + ε root).
  const T step_size = T(o.lr / correction1 * root_of_correction2), eps = T(o.eps * root_of_correction2);
  const T rest1 = T(1 - o.beta1), beta2 = T(o.beta2), rest2 = T(1 - o.beta2);
  const bool shrinks = o.decoupled && o.weight_decay != 0;
  const T shrink = T(1 - o.lr * o.weight_decay);
  for_blocks<T>(slot, begin, end, [&](const Block<T>& block, T* __restrict g) {
    load_gradient(block, g, o.maximize, T(o.decoupled ? 0 : o.weight_decay));
    T* __restrict p = block.parameter;
    T* __restrict m = block.state[0];
    T* __restrict v = block.state[1];
    if (shrinks) {
      for (int64_t i = 0; i < block.size; ++i) p[i] *= shrink;
    }
    for (int64_t i = 0; i < block.size; ++i) {
      m[i] += rest1 * (g[i] - m[i]);
      v[i] = beta2 * v[i] + rest2 * (g[i] * g[i]);
    }
    const T* __restrict second = v;
    if (T* __restrict largest = block.state[2]) {
      // Written so that a NaN of v wins.
      for (int64_t i = 0; i < block.size; ++i) largest[i] = largest[i] >= v[i] ? largest[i] : v[i];
      second = largest;
    }
    for (int64_t i = 0; i < block.size; ++i) p[i] -= step_size * m[i] / (math::sqrt(second[i]) + eps);
  });
}

template <class T>
void rmsprop(const OptimizerSlot& slot, int64_t begin, int64_t end, const RmspropOptions& o) {
  const T lr = T(o.lr), alpha = T(o.alpha), rest = T(1 - o.alpha), eps = T(o.eps), momentum = T(o.momentum);
  for_blocks<T>(slot, begin, end, [&](const Block<T>& block, T* __restrict g) {
    load_gradient(block, g, o.maximize, T(o.weight_decay));
    T* __restrict p = block.parameter;
    T* __restrict v = block.state[0];
    for (int64_t i = 0; i < block.size; ++i) v[i] = alpha * v[i] + rest * (g[i] * g[i]);
    if (T* __restrict mean = block.state[1]) {
      for (int64_t i = 0; i < block.size; ++i) mean[i] += rest * (g[i] - mean[i]);
      for (int64_t i = 0; i < block.size; ++i) g[i] /= math::sqrt(v[i] - mean[i] * mean[i]) + eps;
    } else {
      for (int64_t i = 0; i < block.size; ++i) g[i] /= math::sqrt(v[i]) + eps;
    }
    if (T* __restrict b = block.state[2]) {
      for (int64_t i = 0; i < block.size; ++i) b[i] = momentum * b[i] + g[i];
      for (int64_t i = 0; i < block.size; ++i) p[i] -= lr * b[i];
    } else {
      for (int64_t i = 0; i < block.size; ++i) p[i] -= lr * g[i];
    }
  });
}

/// One instruction. What it writes is one of its operands or apart from them, so that no element waits for
/// another.
template <class T>
ADJOINT_INLINE void instruct(StepOperation operation, T* d, const T* a, const T* b, const T* c,
                             int64_t size) {
  const auto each = [&](const auto& f) {
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) d[i] = f(i);
  };
  switch (operation) {
    case StepOperation::Add:
      return each([&](int64_t i) { return a[i] + b[i]; });
    case StepOperation::Sub:
      return each([&](int64_t i) { return a[i] - b[i]; });
    case StepOperation::Mul:
      return each([&](int64_t i) { return a[i] * b[i]; });
    case StepOperation::MultiplyAdd:
      return each([&](int64_t i) { return a[i] * b[i] + c[i]; });
    case StepOperation::Div:
      return each([&](int64_t i) { return a[i] / b[i]; });
    // A NaN of either wins.
    case StepOperation::Maximum:
      return each([&](int64_t i) {
        const T most = a[i] > b[i] ? a[i] : b[i];
        return a[i] != a[i] ? a[i] : most;
      });
    case StepOperation::Sqrt:
      return each([&](int64_t i) { return math::sqrt(a[i]); });
    case StepOperation::Abs:
      return each([&](int64_t i) { return a[i] < 0 ? -a[i] : a[i] + T(0); });
    case StepOperation::Sign:
      return each([&](int64_t i) { return T(a[i] > 0) - T(a[i] < 0); });
    case StepOperation::Less:
      return each([&](int64_t i) { return T(a[i] < b[i]); });
    case StepOperation::Where:
      return each([&](int64_t i) { return a[i] != 0 ? b[i] : c[i]; });
    default:
      return each([&](int64_t i) { return a[i]; });
  }
}

template <class T>
void program(const OptimizerSlot& slot, int64_t begin, int64_t end, const StepProgram& o) {
  alignas(64) T own[(StepProgram::kRegisters - StepProgram::kFirstNumber) * kBlock];
  T* at[StepProgram::kRegisters];
  for (int64_t r = StepProgram::kFirstNumber; r < StepProgram::kRegisters; ++r)
    at[r] = own + (r - StepProgram::kFirstNumber) * kBlock;
  const int64_t most = end - begin < kBlock ? end - begin : kBlock;
  for (size_t k = 0; k < o.numbers.size(); ++k) {
    T* __restrict to = at[StepProgram::kFirstNumber + static_cast<int64_t>(k)];
    for (int64_t i = 0; i < most; ++i) to[i] = T(o.numbers[k]);
  }
  for_blocks<T>(slot, begin, end, [&](const Block<T>& block, T*) {
    at[0] = block.parameter;
    at[1] = const_cast<T*>(block.gradient);
    for (int k = 0; k < 3; ++k) at[2 + k] = block.state[k];
    for (size_t k = 0; k < o.code.size(); k += StepProgram::kWords) {
      const int64_t* word = &o.code[k];
      instruct<T>(static_cast<StepOperation>(word[0]), at[word[1]], at[word[2]], at[word[3]], at[word[4]],
                  block.size);
    }
  });
}

template <class T>
constexpr OptimizerTable<T> table{&sgd<T>, &adam<T>, &rmsprop<T>, &program<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<OptimizerTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<OptimizerTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
