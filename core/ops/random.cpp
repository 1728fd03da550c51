// What the rows of random numbers draw.
#include "ops/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/random.h"
#include "kernels/slices.h"
#include "ops/creation.h"
#include "ops/writing.h"

namespace adjoint {

namespace {

using runtime::Generator;

Generator* chosen(OptionalGenerator g) { return g ? g : &runtime::default_generator(); }

void need_floating(const Tensor& t, const char* op) {
  if (!t.is_floating())
    fail<NotImplemented>("\"", op, "\" not implemented for '", name_of(t.dtype()),
                         "': expected a floating-point tensor");
}

/// The largest integer up to which a type holds all of them.
int64_t largest_integer(DType type) {
  switch (type) {
    case DType::Bool:
      return 1;
    case DType::UInt8:
      return UINT8_MAX;
    case DType::Int8:
      return INT8_MAX;
    case DType::Int16:
      return INT16_MAX;
    case DType::Int32:
      return INT32_MAX;
    case DType::BFloat16:
      return 1 << 8;
    case DType::Float16:
      return 1 << 11;
    case DType::Float32:
      return 1 << 24;
    case DType::Float64:
      return int64_t{1} << 53;
    default:
      return INT64_MAX;
  }
}

/// Real and imaginary parts of a complex tensor, side by side; a real one as it is.
Tensor parts_of(const Tensor& t) {
  if (!t.is_complex()) return t;
  Dims sizes(t.sizes()), strides(t.strides());
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return over(Ref<Storage>::share(t->storage), real_dtype(t.dtype()), sizes.span(), strides.span(),
              t.offset() * 2);
}

void fill_uniform(const Tensor& t, double low, double high, OptionalGenerator g) {
  need_floating(t, "uniform_");
  if (!(low <= high))
    fail("uniform_ expects to return a [from, to) range, but found from=", low, " > to=", high);
  on<&kernels::draw_uniform>(Out(t), low, high, chosen(g));
}

void fill_normal(const Tensor& t, double mean, double deviation, OptionalGenerator g) {
  if (!(deviation >= 0)) fail("normal expects std >= 0.0, but found std ", deviation);
  if (t.is_complex()) deviation /= std::sqrt(2.0);
  const Tensor parts = parts_of(t);
  need_floating(parts, "normal_");
  on<&kernels::draw_normal>(Out(parts), mean, deviation, chosen(g));
}

/// Integers in [low, high), or up to the largest that the type holds exactly.
void fill_integers(const Tensor& t, int64_t low, std::optional<int64_t> high, OptionalGenerator g) {
  const int64_t largest = largest_integer(t.dtype());
  if (high && t.is_floating()) {
    const double most = t.dtype() == DType::Float16 ? 65504 : HUGE_VAL;
    if (std::abs(double(low)) > most) fail("from is out of bounds for ", name_of(t.dtype()));
    if (std::abs(double(*high - 1)) > most) fail("to - 1 is out of bounds for ", name_of(t.dtype()));
    // As torch keeps what is drawn within the bounds where the type does not hold them.
    const auto stored = [&](int64_t x) {
      const double held = t.dtype() == DType::Float64    ? double(x)
                          : t.dtype() == DType::Float16  ? double(float(Half(float(x))))
                          : t.dtype() == DType::BFloat16 ? double(float(BFloat16(float(x))))
                                                         : double(float(x));
      return std::abs(held) < 0x1p63 ? static_cast<int64_t>(held) : x;
    };
    const auto spacing = [&](int64_t x) {
      return std::bit_floor(static_cast<uint64_t>(x < 0 ? -x : x)) / static_cast<uint64_t>(largest) * 2;
    };
    const int64_t least = low;
    if (low < largest && stored(low + 1) < low)
      low = stored(low + 1) + static_cast<int64_t>(spacing(low + 1));
    if (*high > INT64_MIN && stored(*high - 1) >= *high)
      high = stored(*high - 1) - static_cast<int64_t>(spacing(*high - 1));
    if (low >= *high) low = least, high = least + 1;
  }
  if (low >= high.value_or(INT64_MAX) && (high || low > largest))
    fail("random_ expects 'from' to be less than 'to', but got from=", low,
         " >= to=", high.value_or(largest));
  const uint64_t range =
      static_cast<uint64_t>(high ? *high : largest) - static_cast<uint64_t>(low) + (high ? 0 : 1);
  on<&kernels::draw_integers>(Out(t), low, range, !high, chosen(g));
}

void fill_bernoulli(const Tensor& t, double p, OptionalGenerator g) {
  if (!(p >= 0 && p <= 1)) fail("bernoulli_ expects p to be in [0, 1], but got p=", p);
  on<&kernels::draw_bernoulli>(Out(t), p, chosen(g));
}

Tensor fresh(Into into, IntList size, DType dtype, const char* op) {
  return into.empty(checked_sizes(size, op), dtype);
}
Tensor fresh_like(const Tensor& t) { return empty_along({&t, 1}, t.sizes(), t.dtype()); }

}  // namespace

Tensor RandomWrite::overwritten(const Tensor& g) { return adjoint::overwritten(g); }

Tensor Rand::forward(Into into, Sizes size, OptionalType dtype, OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  const Tensor t = fresh(into, size, dtype.value_or(default_dtype()), "rand");
  fill_uniform(parts_of(t), 0, 1, generator);
  return t;
}
Tensor RandLike::forward(const Tensor& self, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_uniform(parts_of(t), 0, 1, generator);
  return t;
}
Tensor Randn::forward(Into into, Sizes size, OptionalType dtype, OptionalGenerator generator) {
  return RandnAbout::forward(into, size, 0, 1, dtype, generator);
}
Tensor RandnAbout::forward(Into into, Sizes size, double mean, double std, OptionalType dtype,
                           OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  const Tensor t = fresh(into, size, dtype.value_or(default_dtype()), "randn");
  fill_normal(t, mean, std, generator);
  return t;
}
Tensor RandnLike::forward(const Tensor& self, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_normal(t, 0, 1, generator);
  return t;
}
Tensor RandInt::forward(Into into, Sizes size, int64_t low, int64_t high, DType dtype,
                        OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  const Tensor t = fresh(into, size, dtype, "randint");
  fill_integers(t, low, high, generator);
  return t;
}
Tensor RandIntLike::forward(const Tensor& self, int64_t low, int64_t high, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_integers(t, low, high, generator);
  return t;
}

Tensor BernoulliEach::forward(const Tensor& self, OptionalGenerator generator) {
  need_floating(self, "bernoulli");
  const Tensor p = copy_of(self, self.dtype() == DType::Float64 ? DType::Float64 : DType::Float32);
  const Tensor out = empty(p.sizes(), p.dtype());
  on<&kernels::draw_bernoulli_each>(Out(out), p, chosen(generator));
  return self.dtype() == out.dtype() ? out : copy_of(out, self.dtype());
}

Tensor BernoulliLike::forward(const Tensor& self, double p, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_bernoulli(t, p, generator);
  return t;
}

Tensor RandPerm::forward(Into into, int64_t n, DType dtype, OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  if (n < 0) fail("randperm(): n must be non-negative, but got ", n);
  const int64_t sizes[] = {n};
  const Tensor t = into.empty_for(dtype, sizes, DType::Int64);
  on<&kernels::draw_permutation>(Out(t), chosen(generator));
  return as_dtype(into, t, dtype);
}

Tensor Multinomial::forward(Into into, const Tensor& self, int64_t num_samples, bool replacement,
                            OptionalGenerator generator) {
  if (!is_floating(self.dtype()))
    fail("multinomial only supports floating-point dtypes for input, got: ", type_name_of(self.dtype()));
  if (self.dim() != 1 && self.dim() != 2)
    fail("prob_dist must be 1 or 2 dim, but found shape ", self.sizes());
  if (num_samples <= 0) fail("cannot sample n_sample <= 0 samples: got ", num_samples);
  const int64_t columns = self.size(-1), rows = self.dim() == 2 ? self.size(0) : 1;
  if (columns > int64_t{1} << 24) fail("number of categories cannot exceed 2^24, but there are ", columns);
  if (!replacement && num_samples > columns)
    fail("cannot sample n_sample > prob_dist.size(-1) samples without replacement: ", num_samples, " > ",
         columns);
  const Tensor weights = copy_of(self, DType::Float64);
  Dims sizes;
  if (self.dim() == 2) sizes.push_back(rows);
  sizes.push_back(num_samples);
  const Tensor out = into.empty(sizes.span(), DType::Int64);
  on<&kernels::draw_columns>(Out(out), weights, replacement, self.dtype() != DType::Float64,
                             chosen(generator));
  return out;
}

Tensor Uniform::forward(const Tensor& self, double low, double high, OptionalGenerator generator) {
  fill_uniform(parts_of(self), low, high, generator);
  return self;
}
Tensor Normal::forward(const Tensor& self, double mean, double std, OptionalGenerator generator) {
  fill_normal(self, mean, std, generator);
  return self;
}
Tensor ExponentialFill::forward(const Tensor& self, double rate, OptionalGenerator generator) {
  need_floating(self, "exponential_");
  if (!(rate > 0)) fail("exponential_ expects lambda > 0.0, but found lambda=", rate);
  on<&kernels::draw_exponential>(Out(self), rate, chosen(generator));
  return self;
}
Tensor TransformedFill::forward(const Tensor& self, int64_t kind, double a, double b,
                                OptionalGenerator generator) {
  if (kind < 0 || kind > 2) fail(name, "(): expected kind to be 0, 1 or 2, but got ", kind);
  on<&kernels::draw_transformed>(Out(self), static_cast<kernels::Transformed>(kind), a, b, chosen(generator));
  return self;
}
Tensor RandomIntegers::forward(const Tensor& self, int64_t low, std::optional<int64_t> high,
                               OptionalGenerator generator) {
  fill_integers(self, low, high, generator);
  return self;
}
Tensor Bernoulli::forward(const Tensor& self, double p, OptionalGenerator generator) {
  fill_bernoulli(self, p, generator);
  return self;
}

}  // namespace adjoint

ADJOINT_FAMILY(RandomNumbers)
