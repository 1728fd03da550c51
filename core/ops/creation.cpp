// What the rows of creation make.
#include "ops/creation.h"

#include <algorithm>
#include <cmath>

#include "autograd/meta.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/creation.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "tensor/checked.h"
#include "tensor/number.h"

namespace adjoint {

IntList checked_sizes(IntList sizes, const char* op) {
  for (int64_t n : sizes)
    if (n < 0)
      fail("Trying to create tensor with negative dimension ", n, ": ", to_string(sizes), " in ", op, "()");
  return sizes;
}

Tensor made(Tensor t, bool requires_grad) {
  if (!requires_grad) return t;
  // With a capital, unlike the refusal of the flag itself: programs match both as torch writes them.
  if (!is_differentiable(t.dtype()))
    fail("Only Tensors of floating point and complex dtype can require gradients, but this one is ",
         name_of(t.dtype()), " of shape ", t.sizes(), "; convert it first, for example with .to(float32)");
  set_requires_grad(t, true);
  return t;
}

namespace {

/// The device of that number; that of `t` where none is given.
Device device_or_that_of(const Tensor& t, std::optional<int64_t> number) {
  if (number && !is_device(*number)) fail<ValueError>("there is no device number ", *number);
  return number ? static_cast<Device>(*number) : device_of(t);
}

/// `fresh`, row-major, with its dimensions laid out in the order in which those of `t` are.
Tensor in_order_of(const Tensor& t, Tensor fresh) {
  if (!t.is_contiguous()) fresh->set_geometry(Dims(t.sizes()), strides_along({&t, 1}, t.sizes()).data());
  return fresh;
}

int64_t count_steps(double start, double end, double step) {
  if (step == 0) fail("arange(): step must be nonzero");
  if (!std::isfinite(start) || !std::isfinite(end) || std::isnan(step))
    fail("arange(): unsupported range: ", start, " -> ", end);
  if ((step > 0 && end < start) || (step < 0 && end > start))
    fail("arange(): upper bound and lower bound inconsistent with step sign: start ", start, ", end ", end,
         ", step ", step);
  const double n = std::ceil((end - start) / step);
  if (n > 9e18) fail("arange(): invalid size, possible overflow");
  return static_cast<int64_t>(n);
}

/// Towards 0. `count_steps` has refused what is not finite.
Scalar whole_part(const Scalar& s) {
  if (!s.is_integral() && std::abs(s.as_double()) >= 0x1p63)
    fail("arange(): ", to_string(s), " does not fit into an integer");
  return Scalar(s.as_int());
}

void need_steps(int64_t n, const char* op) {
  if (n < 0) fail(op, "(): number of steps must be non-negative, but got ", n);
}

}  // namespace

std::atomic<bool> fill_uninitialized{false};

namespace {

// Memory that nobody has written yet, or numbers that nobody mistakes for results.
Tensor unwritten(Into into, IntList sizes, DType type) {
  if (!fill_uninitialized.load(std::memory_order_relaxed)) [[likely]]
    return into.empty(sizes, type);
  if (is_floating(type) || is_complex(type))
    return full(sizes, Scalar(std::numeric_limits<double>::quiet_NaN()), type);
  const int64_t bits = 8 * itemsize(type) - (type == DType::UInt8 ? 0 : 1);
  return full(sizes,
              Scalar(type == DType::Bool ? int64_t{1} : static_cast<int64_t>(~uint64_t{0} >> (64 - bits))),
              type);
}

}  // namespace

Tensor Empty::forward(Into into, Sizes size, OptionalType dtype, bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  return made(unwritten(into, checked_sizes(size, "empty"), dtype.value_or(default_dtype())), requires_grad);
}
Tensor Zeros::forward(Into into, Sizes size, OptionalType dtype, bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  return made(zeroed(into.empty(checked_sizes(size, "zeros"), dtype.value_or(default_dtype()))),
              requires_grad);
}
Tensor Ones::forward(Into into, Sizes size, OptionalType dtype, bool requires_grad) {
  return Full::forward(into, size, Scalar(1.0), dtype, requires_grad);
}
Tensor Full::forward(Into into, Sizes size, Scalar fill_value, OptionalType dtype, bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  const DType type = dtype.value_or(fill_value.dtype());
  refuse_overflow(fill_value, rounding_dtype(type), "full");
  return made(filled(into.empty(checked_sizes(size, "full"), type), fill_value), requires_grad);
}
Tensor EmptyLike::forward(const Tensor& self, OptionalType dtype, bool requires_grad,
                          std::optional<int64_t> device) {
  const DeviceScope scope(device_or_that_of(self, device));
  return made(in_order_of(self, unwritten({}, self.sizes(), dtype.value_or(self.dtype()))), requires_grad);
}
Tensor ZerosLike::forward(const Tensor& self, OptionalType dtype, bool requires_grad,
                          std::optional<int64_t> device) {
  return FullLike::forward(self, Scalar(0), dtype, requires_grad, device);
}
Tensor OnesLike::forward(const Tensor& self, OptionalType dtype, bool requires_grad,
                         std::optional<int64_t> device) {
  return FullLike::forward(self, Scalar(1), dtype, requires_grad, device);
}
Tensor FullLike::forward(const Tensor& self, Scalar fill_value, OptionalType dtype, bool requires_grad,
                         std::optional<int64_t> device) {
  const DeviceScope scope(device_or_that_of(self, device));
  const DType type = dtype.value_or(self.dtype());
  refuse_overflow(fill_value, rounding_dtype(type), "full_like");
  return made(in_order_of(self, full(self.sizes(), fill_value, type)), requires_grad);
}

Tensor Arange::forward(Into into, Scalar start, OptionalScalar to, Scalar step, OptionalType dtype,
                       bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  Scalar end = to.value_or(start);
  if (!to) start = Scalar(0);
  bool whole = start.is_integral() && end.is_integral() && step.is_integral();
  const DType type = dtype.value_or(whole ? DType::Int64 : default_dtype());
  if (type == DType::Bool)
    fail<NotImplemented>("\"arange\" not implemented for 'Bool': a range of numbers needs another dtype");
  if (!whole && is_integral(type)) {
    // int64 loses the fractions before numbers are counted; smaller types count with them, and then lose
    // them: by a step of 0 the first number stands again and again.
    const Scalar given = step;
    const int64_t n = count_steps(start.as_double(), end.as_double(), step.as_double());
    start = whole_part(start), end = whole_part(end), step = whole_part(step);
    if (type != DType::Int64) {
      const Tensor t = into.empty(IntList(&n, 1), type);
      on<&kernels::whole_ramp>(Out(t), start.as_int(), step.as_int());
      return made(t, requires_grad);
    }
    if (step.as_int() == 0)
      fail<ValueError>("arange(): step must be nonzero, but ", to_string(given), " is 0 in int64");
    whole = true;
  }
  if (whole) {
    __extension__ using Wide = __int128;  // the distance of two numbers may take 65 bits
    const Wide a = start.as_int(), s = step.as_int(), e = end.as_int();
    if (s == 0 || (s > 0 ? e < a : e > a))
      (void)count_steps(start.as_double(), end.as_double(), step.as_double());
    const Wide n = (e - a + s + (s > 0 ? -1 : 1)) / s;
    if (n > INT64_MAX) fail("arange(): invalid size, possible overflow");
    const int64_t sizes[] = {static_cast<int64_t>(n)};
    const Tensor t = into.empty(sizes, type);
    on<&kernels::whole_ramp>(Out(t), static_cast<int64_t>(a), static_cast<int64_t>(s));
    return made(t, requires_grad);
  }
  const double a = start.as_double(), s = step.as_double();
  const int64_t sizes[] = {count_steps(a, end.as_double(), s)};
  const Tensor t = into.empty(sizes, type);
  on<&kernels::ramp>(Out(t), a, s);
  return made(t, requires_grad);
}

Tensor Linspace::forward(Into into, double start, double end, int64_t n, OptionalType dtype,
                         bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  need_steps(n, "linspace");
  const int64_t sizes[] = {n};
  const Tensor t = into.empty(sizes, dtype.value_or(default_dtype()));
  on<&kernels::spaced>(Out(t), start, end);
  return made(t, requires_grad);
}

Tensor Logspace::forward(Into into, double start, double end, int64_t n, double base, OptionalType dtype,
                         bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  need_steps(n, "logspace");
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  const int64_t sizes[] = {n};
  const Tensor t = into.empty(sizes, dtype.value_or(default_dtype()));
  on<&kernels::powers>(Out(t), start, step, base);
  return made(t, requires_grad);
}

Tensor Eye::forward(Into into, int64_t n, std::optional<int64_t> columns, OptionalType dtype,
                    bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  const int64_t m = columns.value_or(n);
  if (n < 0) fail("eye(): n must be greater or equal to 0, got ", n);
  if (m < 0) fail("eye(): m must be greater or equal to 0, got ", m);
  const int64_t sizes[] = {n, m};
  const Tensor t = into.empty(sizes, dtype.value_or(default_dtype()));
  on<&kernels::identity>(Out(t));
  return made(t, requires_grad);
}

Tensor TriangleIndices::forward(int64_t n, int64_t m, int64_t offset, bool upper, OptionalType dtype,
                                bool requires_grad) {
  const DeviceScope scope(thread_state.default_device);
  const char* op = upper ? "triu_indices" : "tril_indices";
  constexpr int64_t kMost = int64_t{1} << 60;
  if (n < 0 || m < 0 || n > kMost || m > kMost)
    fail(op, "(): expected sizes from 0 to 2**60, got ", n, " rows and ", m, " columns");
  offset = std::clamp(offset, -n, m);
  // Row i has the columns from `begin` up to `end`; rows before `first` and from `last` on have none.
  const int64_t first = upper ? 0 : -std::min<int64_t>(offset, 0);
  const int64_t last = m == 0 ? first : std::max(first, upper ? std::min(n, m - offset) : n);
  const auto begin = [&](int64_t i) { return upper ? std::max<int64_t>(i + offset, 0) : 0; };
  const auto end = [&](int64_t i) { return upper ? m : std::min(i + offset + 1, m); };
  // From the shortest row on each has one more, up to m.
  const int64_t shortest = last == first ? m : upper ? m - begin(last - 1) : end(first);
  const int64_t unequal = std::min(m - shortest, last - first);
  const int64_t least = checked_multiply(unequal, shortest, op),
                more = checked_multiply(unequal, unequal - 1, op) / 2;
  const int64_t count =
      checked_add(checked_add(least, more, op), checked_multiply(last - first - unequal, m, op), op);
  const int64_t sizes[] = {2, count};
  const Tensor t = empty(sizes, DType::Int64);
  on<&kernels::triangle>(Out(t), first, m, offset, upper);
  const DType type = dtype.value_or(DType::Int64);
  return made(type == DType::Int64 ? t : copy_of(t, type), requires_grad);
}

}  // namespace adjoint

ADJOINT_FAMILY(Creation)
