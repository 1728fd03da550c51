// Connectionist temporal classification: a sum over all ways to spell a target in time.
//
// The target is widened by blanks between its letters and around them. α[t, s] is the logarithm of the
// probability to have come to place s by step t, from s, from s - 1, or past a blank from s - 2; β[t, s] that
// of all that follows it. The derivative by a class at a step is the probability that a way has it there.
#include "kernels/ctc.h"

#include <algorithm>
#include <limits>

#include "for_size.h"
#include "kernels/cpu/ctc.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace {

constexpr int64_t kPad = 2;  // places before and after those of a target, that cannot be

struct Call {
  int64_t batch = 1, steps, count, classes, letters;

  Call(const Tensor& x, const Tensor& targets, const Spelling& how, const char* op) {
    const IntList s = x.sizes(), t = targets.sizes();
    const size_t lead = s.size() < 3 ? 0 : s.size() - 3;
    if (s.size() < 3 || !x.is_floating() || t.size() != lead + 2 || !same(t.first(lead), s.first(lead)) ||
        t[lead] != s[lead + 1] || is_differentiable(targets.dtype()) || targets.dtype() == DType::Bool)
      fail(op, "(): expected log_probs (T, N, C) and integers (N, S), but got ", name_of(x.dtype()), " ",
           to_string(s), " and ", name_of(targets.dtype()), " ", to_string(t));
    batch = product(s.first(lead));
    steps = s[lead], count = s[lead + 1], classes = s[lead + 2], letters = t[lead + 1];
    const auto within = [&](IntList lengths, int64_t most) {
      return static_cast<int64_t>(lengths.size()) == count &&
             std::ranges::all_of(lengths, [&](int64_t n) { return n >= 0 && n <= most; });
    };
    if (!within(how.steps, steps) || !within(how.letters, letters))
      fail(op, "(): expected ", count, " input_lengths up to ", steps, " and target_lengths up to ", letters,
           ", but got ", to_string(how.steps), " and ", to_string(how.letters));
    if (how.blank < 0 || how.blank >= classes)
      fail(op, "(): blank must be in label range: got ", how.blank, " for ", classes, " classes");
  }
};

/// A sample's target with its blanks, and the rows that are made of it.
template <class T>
struct Sample {
  static constexpr T never = -std::numeric_limits<T>::infinity();
  const CtcTable<T>& table = best_variant<CtcTable<T>>();
  int64_t steps, width, classes, stride, row;
  const T* x;
  const int64_t *letters, blank;
  runtime::Scratch<T> jump;  // 0 where a place is reached from the last but one, else -inf

  Sample(const Call& s, const Spelling& how, const Tensor& log_probs, const Tensor& targets, int64_t i)
      : classes(s.classes),
        stride(s.count * s.classes),
        x(log_probs.data<T>() + i / s.count * s.steps * stride + i % s.count * s.classes),
        letters(targets.data<int64_t>() + i * s.letters),
        blank(how.blank) {
    const auto n = static_cast<size_t>(i % s.count);
    steps = how.steps[n];
    width = 2 * how.letters[n] + 1;
    row = width + 2 * kPad;
    jump = filled(1);
    for (int64_t k = 1; k < how.letters[n]; ++k)
      if (letters[k] != letters[k - 1]) jump[kPad + 2 * k + 1] = 0;
  }
  /// Rows of places, the first of a row kPad behind its beginning.
  runtime::Scratch<T> filled(int64_t rows) const {
    runtime::Scratch<T> to(rows * row);
    std::fill_n(to.get(), rows * row, never);
    return to;
  }
  void emit(int64_t t, T* to) const {
    const T* from = x + t * stride;
    for (int64_t s = 0; s < width; ++s) to[s] = from[s % 2 ? letters[s / 2] : blank];
  }
  /// α at every step, or, where `all` is not wanted, at the last two in turns; the logarithm of the sum.
  T forward(T* alpha, bool all, T* emitted) const {
    if (!steps) return width == 1 ? T(0) : never;
    emit(0, emitted);
    std::copy_n(emitted, std::min<int64_t>(width, 2), alpha + kPad);
    T* last = alpha + kPad;
    for (int64_t t = 1; t < steps; ++t) {
      T* to = alpha + kPad + (all ? t : t % 2) * row;
      emit(t, emitted);
      table.step(last, last - 1, last - 2, jump.get() + kPad, emitted, width, to);
      last = to;
    }
    T sum;
    const T zero = 0, *end = last + width - 1;
    table.step(end, end - 1, alpha, &zero, &zero, 1, &sum);  // the third is what cannot be
    return sum;
  }
  /// -g times the derivative of that logarithm, added to rows of `to`.
  void backward(T g, bool zero_infinity, T* to) const {
    const runtime::Scratch<T> alpha = filled(std::max<int64_t>(1, steps)), beta = filled(3),
                              jumps = filled(1);
    T *next = beta.get() + kPad, *here = next + row, *emitted = here + row;
    const T sum = forward(alpha.get(), true, emitted);
    if (sum == never) {
      for (int64_t t = 0; !zero_infinity && t < steps; ++t)
        std::fill_n(to + t * stride, classes, std::numeric_limits<T>::quiet_NaN());
      return;
    }
    std::copy_n(jump.get() + kPad + 2, width - 2 > 0 ? width - 2 : 0, jumps.get());
    std::fill_n(here, width, never);
    for (int64_t s = std::max<int64_t>(0, width - 2); s < width; ++s) here[s] = 0;
    const runtime::Scratch<T> zeros(width);
    std::fill_n(zeros.get(), width, T(0));
    for (int64_t t = steps; t-- > 0;) {
      if (t + 1 < steps) table.step(next, next + 1, next + 2, jumps.get(), zeros.get(), width, here);
      T* row_of = to + t * stride;
      table.occupancy(alpha.get() + kPad + t * row, here, -sum, width, emitted);
      T blanks = 0;
      for (int64_t s = 0; s < width; s += 2) blanks += emitted[s];
      row_of[blank] -= g * blanks;
      for (int64_t s = 1; s < width; s += 2) row_of[letters[s / 2]] -= g * emitted[s];
      emit(t, emitted);
      for (int64_t s = 0; s < width; ++s) next[s] = here[s] + emitted[s];
    }
  }
};

/// Throws what it finds.
bool check_letters(const Tensor& letters, const Call& s, IntList lengths) {
  for (int64_t i = 0; i < s.batch * s.count; ++i) {
    const int64_t* from = letters.data<int64_t>() + i * s.letters;
    const auto n = static_cast<size_t>(i % s.count);
    for (int64_t k = 0; k < lengths[n]; ++k)
      if (from[k] < 0 || from[k] >= s.classes)
        fail<IndexError>("ctc_loss: index ", from[k], " is out of bounds: the target of sample ", n,
                         " holds classes from 0 to ", s.classes - 1);
  }
  return false;
}
/// The letters as long integers, each of which is a class.
Tensor letters_of(const Tensor& targets, const Call& s, const Spelling& how) {
  const Tensor letters = copy_of(targets, DType::Int64);  // which no other thread writes
  check<&check_letters>(letters, s, how.letters);
  return letters;
}

template <class F>
void each_sample(const Call& s, const F& f) {
  const int64_t cost = s.steps * (2 * s.letters + 1) * 16;
  runtime::parallel_for(0, s.batch * s.count, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, cost)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) f(i);
                        });
}

void lose(const Tensor& loss, const Tensor& x, const Tensor& letters, const Call& s, IntList steps,
          IntList lengths, int64_t blank, bool zero_infinity) {
  const Spelling how{.steps = steps, .letters = lengths, .blank = blank, .zero_infinity = zero_infinity};
  with_floating(loss.dtype(), [&]<class T>(TypeTag<T>) {
    each_sample(s, [&](int64_t i) {
      const Sample<T> sample(s, how, x, letters, i);
      const runtime::Scratch<T> rows = sample.filled(3);
      const T sum = sample.forward(rows.get(), false, rows.get() + 2 * sample.row);
      loss.data<T>()[i] = zero_infinity && sum == sample.never ? T(0) : -sum;
    });
  });
}

void lose_backward(const Tensor& to, const Tensor& g, const Tensor& x, const Tensor& letters, const Call& s,
                   IntList steps, IntList lengths, int64_t blank, bool zero_infinity) {
  const Spelling how{.steps = steps, .letters = lengths, .blank = blank, .zero_infinity = zero_infinity};
  with_floating(to.dtype(), [&]<class T>(TypeTag<T>) {
    each_sample(s, [&](int64_t i) {
      const Sample<T> sample(s, how, x, letters, i);
      sample.backward(g.data<T>()[i], zero_infinity, to.data<T>() + (sample.x - x.data<T>()));
    });
  });
}

/// (…, N) of (…, T, N, C).
Dims sizes_of_losses(const Tensor& log_probs) {
  const IntList sizes = log_probs.sizes();
  Dims losses(sizes.first(sizes.size() - 3));
  losses.push_back(log_probs.size(-2));
  return losses;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Spelling& how, const char* op) {
  const Call s(log_probs, targets, how, op);
  const DType c = compute_dtype(log_probs.dtype());
  const Tensor loss = empty(sizes_of_losses(log_probs).span(), c);
  on<&lose>(Out(loss), dense_as(log_probs, c), letters_of(targets, s, how), s, how.steps, how.letters,
            how.blank, how.zero_infinity);
  return as_dtype(loss, log_probs.dtype());
}

Tensor ctc_loss_backward(const Tensor& gradient, const Tensor& log_probs, const Tensor& targets,
                         const Spelling& how, const char* op) {
  const Call s(log_probs, targets, how, op);
  const DType c = compute_dtype(log_probs.dtype());
  const Dims sizes = sizes_of_losses(log_probs);
  need_shape(gradient, sizes.span(), "a gradient", op);
  const Tensor to = zeros(log_probs.sizes(), c);
  on<&lose_backward>(Out(to), dense_as(gradient, c), dense_as(log_probs, c), letters_of(targets, s, how), s,
                     how.steps, how.letters, how.blank, how.zero_infinity);
  return as_dtype(to, log_probs.dtype());
}

}  // namespace adjoint::kernels
