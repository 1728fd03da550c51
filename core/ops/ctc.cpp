// The rule of connectionist temporal classification: fused where nothing is recorded, else as sums over time
// in recorded operations (the names are those of kernels/cpu/ctc.cpp).
#include "ops/ctc.h"

#include "dispatch/constants.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/creation.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "ops/comparison.h"
#include "ops/exponential.h"
#include "ops/indexing.h"
#include "ops/joining.h"
#include "ops/part.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/writing.h"

namespace adjoint::rules {

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

Tensor log_sum(Tensors ways, int64_t dim) {
  const int64_t dims[] = {dim};
  return call<LogSumExp>(call<Stack>(TensorList(ways), NewDim(dim)), OptionalDims(DimList(IntList(dims))),
                         false);
}

Tensor joined(const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  return call<Cat>(TensorList(both), Dim(-1));
}

Tensor reshaped(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return call<Reshape>(t, IntList(sizes.begin(), sizes.size()));
}

}  // namespace

Tensor ctc_loss(const Tensor& given, const Tensor& log_probs, const Tensor& targets,
                const kernels::Spelling& how) {
  if (!recording())
    return call<CtcLossBackward>(given, log_probs, targets, how.steps, how.letters, how.blank,
                                 how.zero_infinity);
  // Samples of a batch are further samples.
  const IntList s = log_probs.sizes();
  const size_t lead = s.size() - 3;
  const int64_t batch = product(s.first(lead)), steps = s[lead], count = s[lead + 1], classes = s[lead + 2],
                all = batch * count, longest = targets.size(-1), width = 2 * longest + 1;
  if (!all || !steps)
    return call<Mul>(log_probs, constant<Zeros>(Sizes(), OptionalType(log_probs.dtype()), false));
  const Tensor x =
      reshaped(call<Transpose>(reshaped(log_probs, {batch, steps, count, classes}), Dim(0), Dim(1)),
               {steps, all, classes});
  const DType dtype = x.dtype();
  const auto letters = [&](size_t i) { return how.letters[i % static_cast<size_t>(count)]; };
  const auto last = [&](size_t i) { return how.steps[i % static_cast<size_t>(count)] - 1; };
  const auto table = [&](int64_t columns, DType type, const auto& f) {
    return tabled(all, columns, type, f);
  };
  // What is spelled, and where a blank may be left out.
  const Tensor blanks = table(longest, DType::Int64, [&](size_t, int64_t) { return double(how.blank); });
  const Tensor read =
      call<Where>(table(longest, DType::Bool, [&](size_t i, int64_t k) { return k < letters(i); }),
                  call<To>(reshaped(targets, {all, longest}), DType::Int64), blanks);
  const Tensor pairs[] = {blanks, read};
  const Tensor spelled = joined(reshaped(call<Stack>(TensorList(pairs), NewDim(-1)), {all, 2 * longest}),
                                table(1, DType::Int64, [&](size_t, int64_t) { return double(how.blank); }));
  const Tensor never = table(2, dtype, [](size_t, int64_t) { return kNever; });
  const auto cut = [&](const Tensor& t, int64_t start) { return call<Narrow>(t, Dim(-1), start, width); };
  const Recorded none = table(width, dtype, [](size_t, int64_t) { return kNever; });
  const Recorded same_letter = call<To>(
      call<Equal>(spelled,
                  cut(joined(table(2, DType::Int64, [](size_t, int64_t) { return -1.0; }), spelled), 0)),
      dtype);
  const Recorded odd = table(width, dtype, [](size_t, int64_t k) { return k % 2 && k > 1 ? 0 : kNever; });
  const Recorded jump = same_letter * number(kNever, x) + odd;
  const Recorded jump_back(cut(joined(jump.tensor, never), 2));
  const int64_t sizes[] = {steps, all, width};
  const Tensor places = call<Expand>(call<Unsqueeze>(spelled, int64_t{0}), Sizes(IntList(sizes)));
  const Tensor emitted = call<Gather>(x, Dim(2), places, false);
  const auto at = [&](int64_t t) { return Recorded(call<Select>(emitted, Dim(0), t)); };
  const auto chosen = [&](const auto& f, const Recorded& a, const Recorded& b) {
    return Recorded(call<Where>(table(1, DType::Bool, [&](size_t i, int64_t) { return f(last(i)); }),
                                a.tensor, b.tensor));
  };
  // Forward, each sample as far as it goes; and backward from its end.
  Tensors alphas, betas(static_cast<size_t>(steps));
  Recorded alpha = at(0) + Recorded(table(width, dtype, [&](size_t i, int64_t k) {
                     return k == 0 || (k == 1 && letters(i)) ? 0 : kNever;
                   }));
  alphas.push_back(alpha.tensor);
  for (int64_t t = 1; t < steps; ++t) {
    const Tensor before = joined(never, alpha.tensor);
    const Recorded next =
        Recorded(log_sum({alpha.tensor, cut(before, 1), (Recorded(cut(before, 0)) + jump).tensor}, 0)) +
        at(t);
    alpha = chosen([&](int64_t end) { return t <= end; }, next, alpha);
    alphas.push_back(alpha.tensor);
  }
  const Recorded ends = table(width, dtype, [&](size_t i, int64_t k) {
    return k == 2 * letters(i) || k == 2 * letters(i) - 1 ? 0 : kNever;
  });
  Recorded beta = ends;
  for (int64_t t = steps; t-- > 0; betas[static_cast<size_t>(t)] = beta.tensor) {
    if (t + 1 == steps) continue;
    const Recorded from = beta + at(t + 1);
    const Tensor after = joined(from.tensor, never);
    const Recorded next =
        log_sum({from.tensor, cut(after, 1), (Recorded(cut(after, 2)) + jump_back).tensor}, 0);
    beta = chosen([&](int64_t end) { return t < end; }, next, beta);
  }
  const int64_t over[] = {-1};
  const Recorded sum = call<LogSumExp>((alpha + ends).tensor, OptionalDims(DimList(IntList(over))), true);
  const Recorded stacked = Recorded(call<Stack>(TensorList(alphas), NewDim(0))) +
                           Recorded(call<Stack>(TensorList(betas), NewDim(0))) - sum;
  const Tensor counted =
      reshaped(call<Transpose>(table(steps, DType::Bool, [&](size_t i, int64_t t) { return t <= last(i); }),
                               Dim(0), Dim(1)),
               {steps, all, 1});
  const Recorded possible = sum > number(0.5 * kNever, x);
  const Recorded otherwise = number(how.zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN(), x);
  const Recorded occupancy = call<Exp>(call<Where>(possible.tensor, stacked.tensor, none.tensor));
  const Recorded there(counted), share = select(there && possible, occupancy, number(0, x));
  const Recorded g(reshaped(given, {all, 1}));
  const int64_t shape[] = {steps, all, classes};
  const Recorded sums = call<ScatterAdd>(constant<Zeros>(Sizes(IntList(shape)), OptionalType(dtype), false),
                                         Dim(2), places, (-(share * g)).tensor);
  const Tensor to = select(there && !possible, otherwise, sums).tensor;
  return call<Reshape>(call<Transpose>(reshaped(to, {steps, batch, count, classes}), Dim(0), Dim(1)), s);
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(Ctc)
