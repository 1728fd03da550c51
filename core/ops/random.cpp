// What the rows of random numbers draw.
#include "ops/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/slices.h"
#include "ops/writing.h"
#include "runtime/interrupt.h"
#include "runtime/random.h"
#include "tensor/access.h"

namespace adjoint {

namespace {

using runtime::Generator;

Generator& chosen(OptionalGenerator g) { return g ? *g : runtime::default_generator(); }

/// Fill a tensor by a function that fills contiguous memory of floats or doubles; all else goes through a
/// copy.
template <class F>
void fill(const Tensor& t, F&& f) {
  const runtime::Uninterrupted whole;
  const Access access(t);
  if (!access) return;
  const Tensor to = t.is_contiguous() ? t : empty(t.sizes(), t.dtype());
  switch (t.dtype()) {
    case DType::Float32:
      f(to.data<float>(), to.numel());
      break;
    case DType::Float64:
      f(to.data<double>(), to.numel());
      break;
    default: {
      const Tensor wide = empty(t.sizes(), DType::Float32);
      f(wide.data<float>(), wide.numel());
      copy_into(to, wide);
    }
  }
  if (to.get() != t.get()) copy_into(t, to);
}

/// The dimensions in the order of the elements in memory.
Tensor by_memory(const Tensor& t) {
  std::vector<size_t> order(t.sizes().size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return t.strides()[a] > t.strides()[b]; });
  Dims sizes, strides;
  for (const size_t d : order) {
    sizes.push_back(t.sizes()[d]);
    strides.push_back(t.strides()[d]);
  }
  return over(Ref<Storage>::share(t->storage), t.dtype(), sizes.span(), strides.span(), t.offset());
}

/// Where the generator's numbers are torch's: draw(stream, T* out, n) writes floats or doubles for the
/// elements as they lie in memory. False where they are not.
template <class Draw>
bool fill_as_torch(const Tensor& t, OptionalGenerator g, Draw&& draw) {
  const Access access(t);
  if (!access) return true;
  return chosen(g).draw_torch([&](runtime::TorchStream& stream) {
    const bool wide = t.dtype() != DType::Float32 && (t.dtype() == DType::Float64 || !t.is_floating());
    const Tensor ordered = by_memory(t);
    const Tensor to = ordered.is_contiguous() && (t.dtype() == DType::Float32 || t.dtype() == DType::Float64)
                          ? ordered
                          : empty(ordered.sizes(), wide ? DType::Float64 : DType::Float32);
    if (wide)
      draw(stream, to.data<double>(), to.numel());
    else
      draw(stream, to.data<float>(), to.numel());
    if (to.get() != ordered.get()) copy_into(ordered, to);
  });
}

void need_floating(const Tensor& t, const char* op) {
  if (!t.is_floating())
    fail("\"", op, "\" not implemented for '", name_of(t.dtype()), "': expected a floating-point tensor");
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
  const auto draw = [&]<class T>(runtime::TorchStream& stream, T* out, int64_t n) {
    stream.uniform(out, n, low, high);
    // What a 16-bit type rounds to the upper bound becomes the lower one, too.
    if (itemsize(t.dtype()) > 2) return;
    const auto stored = [&](T x) {
      const float f = static_cast<float>(x);
      return t.dtype() == DType::Float16 ? static_cast<float>(Half(f)) : static_cast<float>(BFloat16(f));
    };
    for (int64_t i = 0; i < n; ++i)
      if (stored(out[i]) == stored(static_cast<T>(high))) out[i] = static_cast<T>(low);
  };
  if (fill_as_torch(t, g, draw)) return;
  // A 16-bit number has fewer digits than the draw: the rest is cut off, so that rounding never reaches the
  // upper bound.
  const float digits = t.dtype() == DType::Float16 ? 2048.0f : t.dtype() == DType::BFloat16 ? 256.0f : 0.0f;
  fill(t, [&]<class T>(T* p, int64_t n) {
    if (digits == 0) return runtime::fill_uniform(chosen(g), p, n, static_cast<T>(low), static_cast<T>(high));
    runtime::fill_uniform(chosen(g), p, n, T(0), T(1));
    for (int64_t i = 0; i < n; ++i)
      p[i] =
          static_cast<T>(low + (high - low) * static_cast<double>(std::floor(p[i] * static_cast<T>(digits)) /
                                                                  static_cast<T>(digits)));
  });
}

void fill_normal(const Tensor& t, double mean, double deviation, OptionalGenerator g) {
  if (!(deviation >= 0)) fail("normal expects std >= 0.0, but found std ", deviation);
  if (t.is_complex()) deviation /= std::sqrt(2.0);
  const Tensor parts = parts_of(t);
  need_floating(parts, "normal_");
  const auto draw = [&]<class T>(runtime::TorchStream& stream, T* out, int64_t n) {
    if (n >= 16 && parts.is_contiguous())
      return stream.normal_blocks(out, n, mean, deviation, itemsize(parts.dtype()) == 2);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(stream.normal(mean, deviation));
  };
  if (fill_as_torch(parts, g, draw)) return;
  fill(parts, [&]<class T>(T* p, int64_t n) {
    runtime::fill_normal(chosen(g), p, n, static_cast<T>(mean), static_cast<T>(deviation));
  });
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
  const Access access(t);
  if (!access) return;
  const bool drawn = chosen(g).draw_torch([&](runtime::TorchStream& stream) {
    const Tensor ordered = by_memory(t);
    const Tensor to =
        t.dtype() == DType::Int64 && ordered.is_contiguous() ? ordered : empty(ordered.sizes(), DType::Int64);
    // All of a type of up to 32 bits takes one word.
    const bool narrow = !high && low == 0 && range <= uint64_t{1} << 32;
    int64_t* const out = to.data<int64_t>();
    const int64_t n = to.numel();
    if (narrow || (range != 0 && range < uint64_t{1} << 28)) {
      uint32_t words[256];
      const auto below = static_cast<uint32_t>(range);  // 0 where all words are below
      for (int64_t i = 0; i < n; i += 256) {
        const int64_t some = std::min<int64_t>(256, n - i);
        stream.words(words, some);
        for (int64_t j = 0; j < some; ++j)
          out[i + j] =
              static_cast<int64_t>(static_cast<uint64_t>(low) + (below ? words[j] % below : words[j]));
      }
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = stream.integer(low, range);
    }
    if (to.get() != ordered.get()) copy_into(ordered, to);
  });
  if (drawn) return;
  const Tensor wide = t.dtype() == DType::Int64 && t.is_contiguous() ? t : empty(t.sizes(), DType::Int64);
  if (range == 0)
    runtime::fill_bits(chosen(g), reinterpret_cast<uint64_t*>(wide.data<int64_t>()), wide.numel());
  else
    runtime::fill_randint(chosen(g), wide.data<int64_t>(), wide.numel(), low,
                          static_cast<int64_t>(static_cast<uint64_t>(low) + range));
  if (wide.get() != t.get()) copy_into(t, wide);
}

void fill_bernoulli(const Tensor& t, double p, OptionalGenerator g) {
  if (!(p >= 0 && p <= 1)) fail("bernoulli_ expects p to be in [0, 1], but got p=", p);
  const auto draw = [&]<class T>(runtime::TorchStream& stream, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(stream.bernoulli(p));
  };
  if (fill_as_torch(t, g, draw)) return;
  fill(t, [&]<class T>(T* out, int64_t n) { runtime::fill_bernoulli(chosen(g), out, n, p); });
}

Tensor fresh(IntList size, DType dtype, const char* op) {
  for (int64_t n : size)
    if (n < 0)
      fail("Trying to create tensor with negative dimension ", n, ": ", to_string(size), " in ", op, "()");
  return empty(size, dtype);
}
Tensor fresh_like(const Tensor& t) { return empty_along({&t, 1}, t.sizes(), t.dtype()); }

}  // namespace

Tensor RandomWrite::overwritten(const Tensor& g) { return adjoint::overwritten(g); }

Tensor Rand::forward(Sizes size, OptionalType dtype, OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  const Tensor t = fresh(size, dtype.value_or(default_dtype()), "rand");
  fill_uniform(parts_of(t), 0, 1, generator);
  return t;
}
Tensor RandLike::forward(const Tensor& self, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_uniform(parts_of(t), 0, 1, generator);
  return t;
}
Tensor Randn::forward(Sizes size, double mean, double std, OptionalType dtype, OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  const Tensor t = fresh(size, dtype.value_or(default_dtype()), "randn");
  fill_normal(t, mean, std, generator);
  return t;
}
Tensor RandnLike::forward(const Tensor& self, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_normal(t, 0, 1, generator);
  return t;
}
Tensor RandInt::forward(Sizes size, int64_t low, int64_t high, DType dtype, OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  const Tensor t = fresh(size, dtype, "randint");
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
  const Access access(p);
  const auto draw = [&]<class T>(const T* q) {
    if (!access) return;
    for (int64_t i = 0; i < p.numel(); ++i)
      if (!(q[i] >= 0 && q[i] <= 1))
        fail("Expected p_in >= 0 && p_in <= 1 to be true, but element ", i, " is ", q[i]);
    const bool drawn = chosen(generator).draw_torch([&](runtime::TorchStream& stream) {
      for (int64_t i = 0; i < p.numel(); ++i) out.data<T>()[i] = static_cast<T>(stream.bernoulli(q[i]));
    });
    if (!drawn) runtime::fill_bernoulli_each(chosen(generator), out.data<T>(), q, p.numel());
  };
  if (p.dtype() == DType::Float64)
    draw(p.data<double>());
  else
    draw(p.data<float>());
  return self.dtype() == out.dtype() ? out : copy_of(out, self.dtype());
}

Tensor BernoulliLike::forward(const Tensor& self, double p, OptionalGenerator generator) {
  const Tensor t = fresh_like(self);
  fill_bernoulli(t, p, generator);
  return t;
}

Tensor RandPerm::forward(int64_t n, DType dtype, OptionalGenerator generator) {
  const DeviceScope scope(thread_state.default_device);
  if (n < 0) fail("randperm(): n must be non-negative, but got ", n);
  const int64_t sizes[] = {n};
  const Tensor t = empty(sizes, DType::Int64);
  const Access access(t);
  if (access && !chosen(generator).draw_torch(
                    [&](runtime::TorchStream& stream) { stream.permutation(t.data<int64_t>(), n); }))
    runtime::random_permutation(chosen(generator), t.data<int64_t>(), n);
  return dtype == DType::Int64 ? t : copy_of(t, dtype);
}

Tensor Multinomial::forward(const Tensor& self, int64_t num_samples, bool replacement,
                            OptionalGenerator generator) {
  if (!is_floating(self.dtype()))
    fail("multinomial only supports floating-point dtypes for input, got: ", type_name_of(self.dtype()));
  if (self.dim() != 1 && self.dim() != 2)
    fail("prob_dist must be 1 or 2 dim, but found shape ", to_string(self.sizes()));
  if (num_samples <= 0) fail("cannot sample n_sample <= 0 samples: got ", num_samples);
  const int64_t columns = self.size(-1), rows = self.dim() == 2 ? self.size(0) : 1;
  if (columns > int64_t{1} << 24) fail("number of categories cannot exceed 2^24, but there are ", columns);
  if (!replacement && num_samples > columns)
    fail("cannot sample n_sample > prob_dist.size(-1) samples without replacement: ", num_samples, " > ",
         columns);
  const Tensor weights = copy_of(self, DType::Float64);
  const Access access(weights);
  for (int64_t r = 0; access && r < rows; ++r) {
    double total = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double x = weights.data<double>()[r * columns + c];
      if (!(x >= 0) || std::isinf(x))
        fail(
            "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or element < "
            "0: element ",
            c, " of row ", r, " is ", x);
      total += x;
    }
    if (!(total > 0)) fail("invalid multinomial distribution (sum of probabilities <= 0) in row ", r);
  }
  Dims sizes;
  if (self.dim() == 2) sizes.push_back(rows);
  sizes.push_back(num_samples);
  const Tensor out = empty(sizes.span(), DType::Int64);
  const bool narrow = self.dtype() != DType::Float64;
  if (!access) return out;
  const bool drawn = chosen(generator).draw_torch([&](runtime::TorchStream& stream) {
    stream.multinomial(weights.data<double>(), rows, columns, num_samples, replacement, narrow,
                       out.data<int64_t>());
  });
  if (!drawn)
    runtime::multinomial(chosen(generator), weights.data<double>(), rows, columns, num_samples, replacement,
                         out.data<int64_t>());
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
  const auto draw = [&]<class T>(runtime::TorchStream& stream, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(stream.exponential(rate));
  };
  if (fill_as_torch(self, generator, draw)) return self;
  fill(self, [&]<class T>(T* p, int64_t n) {
    runtime::fill_exponential(chosen(generator), p, n, static_cast<T>(rate));
  });
  return self;
}
Tensor TransformedFill::forward(const Tensor& self, int64_t kind, double a, double b,
                                OptionalGenerator generator) {
  if (kind < 0 || kind > 2) fail(name, "(): expected kind to be 0, 1 or 2, but got ", kind);
  const auto draw = [&]<class T>(runtime::TorchStream& stream, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(kind == 0   ? stream.log_normal(a, b)
                              : kind == 1 ? stream.cauchy(a, b)
                                          : stream.geometric(a));
  };
  if (fill_as_torch(self, generator, draw)) return self;
  fill(self, [&]<class T>(T* p, int64_t n) {
    if (kind == 0)
      runtime::fill_normal(chosen(generator), p, n, static_cast<T>(a), static_cast<T>(b));
    else
      runtime::fill_uniform(chosen(generator), p, n, T(0), T(1));
    for (int64_t i = 0; i < n; ++i)
      p[i] = static_cast<T>(kind == 0   ? std::exp(p[i])
                            : kind == 1 ? a + b * std::tan(3.14159265358979323846 * (double(p[i]) - 0.5))
                                        : std::ceil(std::log1p(-double(p[i])) / std::log1p(-a)));
  });
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
