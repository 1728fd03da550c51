// What connectionist temporal classification is composed of: sums over time (the names are those of
// kernels/cpu/ctc.cpp).
#include "ops/ctc.h"

#include "dispatch/constants.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/creation.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/exponential.h"
#include "ops/indexing.h"
#include "ops/joining.h"
#include "ops/part.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/trigonometric.h"

namespace adjoint {

namespace {

// The logarithm of 0, finite so that differences of it are no NaN.
constexpr double kNever = -1e30;

/// A constant table of the given shape: f(row, column).
template <class F>
Tensor tabled(int64_t rows, int64_t columns, DType dtype, const F& f) {
  const int64_t sizes[] = {rows, columns};
  const Tensor t = empty(sizes, DType::Float64);
  std::vector<double> numbers(static_cast<size_t>(t.numel()));
  for (int64_t i = 0; i < t.numel(); ++i)
    numbers[static_cast<size_t>(i)] = f(static_cast<size_t>(i / columns), i % columns);
  on<&kernels::write_numbers>(Out(t), std::span<const double>(numbers));
  return as_dtype(constant_of(t, "ctc_loss"), dtype);
}

Tensor joined(const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  return call<Cat>(TensorList(both), Dim(-1));
}

Tensor reshaped(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return call<Reshape>(t, IntList(sizes.begin(), sizes.size()));
}

}  // namespace

Tensor CtcLoss::composed(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                         IntList target_lengths, int64_t blank, bool zero_infinity) {
  // Samples of a batch are further samples.
  const IntList s = log_probs.sizes();
  const size_t lead = s.size() - 3;
  const int64_t batch = product(s.first(lead)), steps = s[lead], count = s[lead + 1], all = batch * count,
                longest = targets.size(-1), width = 2 * longest + 1;
  const DType dtype = compute_dtype(log_probs.dtype());
  const Tensor x =
      reshaped(call<Transpose>(reshaped(as_type(log_probs, dtype), {batch, steps, count, s[lead + 2]}),
                               Dim(0), Dim(1)),
               {steps, all, s[lead + 2]});
  const auto letters = [&](size_t i) { return target_lengths[i % static_cast<size_t>(count)]; };
  const auto last = [&](size_t i) { return input_lengths[i % static_cast<size_t>(count)] - 1; };
  const auto table = [&](int64_t columns, DType type, const auto& f) {
    return tabled(all, columns, type, f);
  };
  // What is spelled, and where a blank may be left out.
  const auto blanks = [&](int64_t columns) {
    return table(columns, DType::Int64, [&](size_t, int64_t) { return double(blank); });
  };
  const Tensor read =
      call<Where>(table(longest, DType::Bool, [&](size_t i, int64_t k) { return k < letters(i); }),
                  as_type(reshaped(targets, {all, longest}), DType::Int64), blanks(longest));
  const Tensor pairs[] = {blanks(longest), read};
  const Tensor spelled =
      joined(reshaped(call<Stack>(TensorList(pairs), NewDim(-1)), {all, 2 * longest}), blanks(1));
  const Tensor never = table(2, dtype, [](size_t, int64_t) { return kNever; });
  const auto cut = [&](const Tensor& t, int64_t start) { return call<Narrow>(t, Dim(-1), start, width); };
  const Recorded same_letter = call<To>(
      call<Equal>(spelled,
                  cut(joined(table(2, DType::Int64, [](size_t, int64_t) { return -1.0; }), spelled), 0)),
      dtype);
  const Recorded odd = table(width, dtype, [](size_t, int64_t k) { return k % 2 && k > 1 ? 0 : kNever; });
  const Recorded jump = same_letter * number(kNever, x) + odd;
  const int64_t sizes[] = {steps, all, width};
  const Tensor places = call<Expand>(call<Unsqueeze>(spelled, int64_t{0}), Sizes(IntList(sizes)));
  const Tensors emitted = call_all<Unbind>(call<Gather>(x, Dim(2), places, false), int64_t{0});
  // Each sample as far as it goes; without a step there is the empty way alone.
  Recorded alpha = table(width, dtype, [](size_t, int64_t k) { return k ? kNever : 0; }),
           next = table(width, dtype,
                        [&](size_t i, int64_t k) { return k == 0 || (k == 1 && letters(i)) ? 0 : kNever; });
  for (int64_t t = 0; t < steps; ++t) {
    if (t) {
      const Tensor before = joined(never, alpha.tensor);
      const Recorded jumped = Recorded(cut(before, 0)) + jump;
      next = apply<LogAddExp>(apply<LogAddExp>(alpha, Recorded(cut(before, 1))), jumped);
    }
    next = next + Recorded(emitted[static_cast<size_t>(t)]);
    const bool each = std::ranges::all_of(input_lengths, [&](int64_t n) { return t < n; });
    alpha = each
                ? next
                : select(table(1, DType::Bool, [&](size_t i, int64_t) { return t <= last(i); }), next, alpha);
  }
  const Recorded ends = table(width, dtype, [&](size_t i, int64_t k) {
    return k == 2 * letters(i) || k == 2 * letters(i) - 1 ? 0 : kNever;
  });
  const int64_t over[] = {-1};
  const Recorded sum = call<LogSumExp>((alpha + ends).tensor, OptionalDims(DimList(IntList(over))), false);
  const Recorded possible = sum > number(0.5 * kNever, x), zero = number(0, x);
  Recorded loss = select(possible, -sum, zero);
  if (!zero_infinity) {
    // What is impossible is infinite, and its derivative by all that it reads is NaN: ∞ · 0, by factors that
    // are 0 · tanh(x).
    const Tensor counted = call<Transpose>(
        table(steps, DType::Bool, [&](size_t i, int64_t t) { return t <= last(i); }), Dim(0), Dim(1));
    const int64_t step_and_class[] = {0, 2};
    const Recorded read_all =
        call<Sum>(select(call<Unsqueeze>(counted, int64_t{-1}), apply<Tanh>(Recorded(x)) * zero, zero).tensor,
                  OptionalInts(IntList(step_and_class)), false, OptionalType());
    loss = loss + select(possible, zero, number(std::numeric_limits<double>::infinity(), x)) *
                      (number(1, x) + read_all);
  }
  Dims losses(s.first(lead));
  losses.push_back(count);
  return as_type(call<Reshape>(loss.tensor, losses.span()), log_probs.dtype());
}

}  // namespace adjoint

ADJOINT_FAMILY(Ctc)
