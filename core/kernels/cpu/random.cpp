// What draws the numbers is runtime/random.h, and torch's runtime/torch_stream.h.
#include "kernels/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "for_size.h"
#include "kernels/copy.h"
#include "runtime/interrupt.h"

namespace adjoint::kernels {

namespace {

using runtime::Generator;
using runtime::TorchStream;

/// Fill a tensor by a function that fills contiguous memory of floats or doubles; all else goes through a
/// copy.
template <class F>
void fill(const Tensor& t, F&& f) {
  const runtime::Uninterrupted whole;
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
bool fill_as_torch(const Tensor& t, Generator* g, Draw&& draw) {
  return g->draw_torch([&](TorchStream& stream) {
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

}  // namespace

void draw_uniform(const Tensor& t, double low, double high, Generator* g) {
  const auto draw = [&]<class T>(TorchStream& stream, T* out, int64_t n) {
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
    if (digits == 0) return runtime::fill_uniform(*g, p, n, static_cast<T>(low), static_cast<T>(high));
    runtime::fill_uniform(*g, p, n, T(0), T(1));
    for (int64_t i = 0; i < n; ++i)
      p[i] =
          static_cast<T>(low + (high - low) * static_cast<double>(std::floor(p[i] * static_cast<T>(digits)) /
                                                                  static_cast<T>(digits)));
  });
}

void draw_normal(const Tensor& t, double mean, double deviation, Generator* g) {
  const auto draw = [&]<class T>(TorchStream& stream, T* out, int64_t n) {
    if (n >= 16 && t.is_contiguous())
      return stream.normal_blocks(out, n, mean, deviation, itemsize(t.dtype()) == 2);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(stream.normal(mean, deviation));
  };
  if (fill_as_torch(t, g, draw)) return;
  fill(t, [&]<class T>(T* p, int64_t n) {
    runtime::fill_normal(*g, p, n, static_cast<T>(mean), static_cast<T>(deviation));
  });
}

void draw_integers(const Tensor& t, int64_t low, uint64_t range, bool whole, Generator* g) {
  const bool drawn = g->draw_torch([&](TorchStream& stream) {
    const Tensor ordered = by_memory(t);
    const Tensor to =
        t.dtype() == DType::Int64 && ordered.is_contiguous() ? ordered : empty(ordered.sizes(), DType::Int64);
    // All of a type of up to 32 bits takes one word.
    const bool narrow = whole && low == 0 && range <= uint64_t{1} << 32;
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
    runtime::fill_bits(*g, reinterpret_cast<uint64_t*>(wide.data<int64_t>()), wide.numel());
  else
    runtime::fill_randint(*g, wide.data<int64_t>(), wide.numel(), low,
                          static_cast<int64_t>(static_cast<uint64_t>(low) + range));
  if (wide.get() != t.get()) copy_into(t, wide);
}

void draw_bernoulli(const Tensor& t, double p, Generator* g) {
  const auto draw = [&]<class T>(TorchStream& stream, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(stream.bernoulli(p));
  };
  if (fill_as_torch(t, g, draw)) return;
  fill(t, [&]<class T>(T* out, int64_t n) { runtime::fill_bernoulli(*g, out, n, p); });
}

void draw_bernoulli_each(const Tensor& t, const Tensor& p, Generator* g) {
  const auto draw = [&]<class T>(const T* q) {
    for (int64_t i = 0; i < p.numel(); ++i)
      if (!(q[i] >= 0 && q[i] <= 1))
        fail("Expected p_in >= 0 && p_in <= 1 to be true, but element ", i, " is ", q[i]);
    const bool drawn = g->draw_torch([&](TorchStream& stream) {
      for (int64_t i = 0; i < p.numel(); ++i) t.data<T>()[i] = static_cast<T>(stream.bernoulli(q[i]));
    });
    if (!drawn) runtime::fill_bernoulli_each(*g, t.data<T>(), q, p.numel());
  };
  if (p.dtype() == DType::Float64)
    draw(p.data<double>());
  else
    draw(p.data<float>());
}

void draw_exponential(const Tensor& t, double rate, Generator* g) {
  const auto draw = [&]<class T>(TorchStream& stream, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(stream.exponential(rate));
  };
  if (fill_as_torch(t, g, draw)) return;
  fill(t, [&]<class T>(T* p, int64_t n) { runtime::fill_exponential(*g, p, n, static_cast<T>(rate)); });
}

void draw_transformed(const Tensor& t, Transformed kind, double a, double b, Generator* g) {
  const auto draw = [&]<class T>(TorchStream& stream, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(kind == Transformed::LogNormal ? stream.log_normal(a, b)
                              : kind == Transformed::Cauchy  ? stream.cauchy(a, b)
                                                             : stream.geometric(a));
  };
  if (fill_as_torch(t, g, draw)) return;
  fill(t, [&]<class T>(T* p, int64_t n) {
    if (kind == Transformed::LogNormal)
      runtime::fill_normal(*g, p, n, static_cast<T>(a), static_cast<T>(b));
    else
      runtime::fill_uniform(*g, p, n, T(0), T(1));
    for (int64_t i = 0; i < n; ++i)
      p[i] = static_cast<T>(kind == Transformed::LogNormal ? std::exp(p[i])
                            : kind == Transformed::Cauchy
                                ? a + b * std::tan(3.14159265358979323846 * (double(p[i]) - 0.5))
                                : std::ceil(std::log1p(-double(p[i])) / std::log1p(-a)));
  });
}

void draw_permutation(const Tensor& t, Generator* g) {
  const int64_t n = t.numel();
  if (!g->draw_torch([&](TorchStream& stream) { stream.permutation(t.data<int64_t>(), n); }))
    runtime::random_permutation(*g, t.data<int64_t>(), n);
}

void draw_columns(const Tensor& t, const Tensor& weights, bool replacement, bool narrow, Generator* g) {
  const int64_t columns = weights.size(-1), rows = weights.dim() == 2 ? weights.size(0) : 1,
                samples = t.size(-1);
  for (int64_t r = 0; r < rows; ++r) {
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
  const bool drawn = g->draw_torch([&](TorchStream& stream) {
    stream.multinomial(weights.data<double>(), rows, columns, samples, replacement, narrow,
                       t.data<int64_t>());
  });
  if (!drawn)
    runtime::multinomial(*g, weights.data<double>(), rows, columns, samples, replacement, t.data<int64_t>());
}

}  // namespace adjoint::kernels
