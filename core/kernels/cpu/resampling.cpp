// Resampling: the terms of each result along each dimension, and the passes over images, one dimension after
// the other.
//
// The transpose has the transposed lists of terms, so that it runs in the same loops. Start reading at
// `Terms`.
#include "kernels/resampling.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "for_size.h"
#include "kernels/cpu/resampling.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace {

/// Of `count` results along a dimension, which of `size` elements make each, and with what weights: those
/// from starts[i] on.
struct Terms {
  int64_t size, count;
  std::vector<int64_t> starts{0}, places;
  std::vector<double> weights, divisors;
  /// Results are the elements.
  bool same;

  Terms(int64_t from, int64_t to, bool copies = false) : size(from), count(to), same(copies) {}
  void add(int64_t place, double weight) {
    places.push_back(std::clamp<int64_t>(place, 0, size - 1));
    weights.push_back(weight);
  }
  void end() { starts.push_back(static_cast<int64_t>(places.size())); }

  Terms transposed() const {
    Terms t(count, size, same);
    if (same) return t;
    t.starts.assign(static_cast<size_t>(size) + 1, 0);
    for (const int64_t p : places) ++t.starts[static_cast<size_t>(p) + 1];
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) t.starts[i + 1] += t.starts[i];
    std::vector<int64_t> next(t.starts.begin(), t.starts.end() - 1);
    t.places.resize(places.size());
    t.weights.resize(places.size());
    for (size_t o = 0; o < static_cast<size_t>(count); ++o)
      for (auto k = static_cast<size_t>(starts[o]); k < static_cast<size_t>(starts[o + 1]); ++k) {
        const auto to = static_cast<size_t>(next[static_cast<size_t>(places[k])]++);
        t.places[to] = static_cast<int64_t>(o);
        t.weights[to] = divisors.empty() ? weights[k] : weights[k] / divisors[o];
      }
    return t;
  }
};

/// Keys's kernel at distances below 1, and from there to 2. The constant is torch's, and Keys's own where it
/// is widened.
double near(double s, double a) { return ((a + 2) * s - (a + 3)) * s * s + 1; }
double far(double s, double a) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; }

double wide_kernel(std::string_view mode, double t) {
  if (mode == "linear-wide") return std::max(0.0, 1 - t);
  if (mode == "cubic-wide") return t < 1 ? near(t, -0.5) : t < 2 ? far(t, -0.5) : 0;
  const auto sinc = [](double x) {
    return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
  };
  return t < 3 ? sinc(t) * sinc(t / 3) : 0;
}

Terms terms_of(int64_t size, int64_t count, double scale, const Resampling& how) {
  Terms t(size, count);
  const std::string_view mode = how.mode;
  // As in torch, linear modes copy where as many elements come out as went in, whatever the scale.
  t.same =
      size == count && (mode == "linear" || mode == "area" || (scale == 0 && mode.starts_with("nearest")));
  if (t.same) return t;
  const double step = how.align
                          ? (count > 1 ? static_cast<double>(size - 1) / static_cast<double>(count - 1) : 0)
                      : scale != 0 ? 1 / scale
                                   : static_cast<double>(size) / static_cast<double>(count);
  const auto last = static_cast<double>(size - 1);
  for (int64_t i = 0; i < count; ++i, t.end()) {
    const auto at = static_cast<double>(i);
    if (mode.starts_with("nearest")) {
      t.add(static_cast<int64_t>(std::min(std::floor((mode == "nearest" ? at : at + 0.5) * step), last)), 1);
    } else if (mode == "area") {
      const int64_t first = i * size / count, end = ((i + 1) * size + count - 1) / count;
      for (int64_t k = first; k < end; ++k) t.add(k, 1);
      t.divisors.push_back(static_cast<double>(end - first));
    } else if (mode == "linear") {
      const double place = std::max(0.0, how.align ? at * step : (at + 0.5) * step - 0.5),
                   low = std::min(std::floor(place), last);
      const double share = std::clamp(place - low, 0.0, 1.0);
      t.add(static_cast<int64_t>(low), 1 - share);
      t.add(static_cast<int64_t>(low) + 1, share);
    } else if (mode == "cubic") {
      const double place = how.align ? at * step : (at + 0.5) * step - 0.5, low = std::floor(place),
                   s = place - low;
      const double bounded = std::clamp(low, -3.0, last + 3);
      const auto first = static_cast<int64_t>(bounded);
      const double weights[] = {far(s + 1, -0.75), near(s, -0.75), near(1 - s, -0.75), far(2 - s, -0.75)};
      for (int64_t k = 0; k < 4; ++k) t.add(first - 1 + k, weights[k]);
    } else {
      const double wide = std::max(step, 1.0),
                   reach = wide * (mode == "linear-wide"  ? 1
                                   : mode == "cubic-wide" ? 2
                                                          : 3),
                   middle = (at + 0.5) * step;
      const auto first = static_cast<int64_t>(std::clamp(middle - reach + 0.5, 0.0, last + 1)),
                 end = static_cast<int64_t>(std::clamp(middle + reach + 0.5, 0.0, last + 1));
      double sum = 0;
      for (int64_t k = first; k < end; ++k)
        sum += wide_kernel(mode, std::abs((static_cast<double>(k) + 0.5 - middle) / wide));
      for (int64_t k = first; k < end; ++k)
        t.add(k, wide_kernel(mode, std::abs((static_cast<double>(k) + 0.5 - middle) / wide)) / sum);
    }
  }
  return t;
}

/// The terms along the innermost dimension, by blocks.
template <class T>
struct Blocks {
  std::vector<int32_t> places;
  std::vector<T> weights, divisors;
  std::vector<ResampledBlock<T>> blocks;

  explicit Blocks(const Terms& t) {
    constexpr int64_t L = kResampledLanes;
    const int64_t count = t.same ? 0 : (t.count + L - 1) / L;
    std::vector<size_t> from;
    for (int64_t b = 0; b < count; ++b) {
      const int64_t first = b * L, end = std::min(t.count, first + L);
      int64_t low = t.size, high = 0, terms = 0;
      for (int64_t i = first; i < end; ++i) {
        const auto s = static_cast<size_t>(i);
        terms = std::max(terms, t.starts[s + 1] - t.starts[s]);
        for (auto k = static_cast<size_t>(t.starts[s]); k < static_cast<size_t>(t.starts[s + 1]); ++k)
          low = std::min(low, t.places[k]), high = std::max(high, t.places[k]);
      }
      // The whole of two registers lies within the row where it can.
      const int64_t base = std::max<int64_t>(0, std::min(low, t.size - 2 * L));
      from.push_back(places.size());
      blocks.push_back({base, high - base + 1, terms, nullptr, nullptr, nullptr});
      for (int64_t k = 0; k < terms; ++k)
        for (int64_t l = 0; l < L; ++l) {
          const auto i = static_cast<size_t>(std::min(first + l, end - 1));
          const int64_t have = t.starts[i + 1] - t.starts[i];
          const auto at = static_cast<size_t>(t.starts[i] + k);
          places.push_back(k < have ? static_cast<int32_t>(t.places[at] - base) : -1);
          weights.push_back(k < have ? static_cast<T>(t.weights[at]) : T(0));
        }
      for (int64_t l = 0; l < L && !t.divisors.empty(); ++l)
        divisors.push_back(static_cast<T>(t.divisors[static_cast<size_t>(std::min(first + l, end - 1))]));
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      blocks[b].places = places.data() + from[b];
      blocks[b].weights = weights.data() + from[b];
      blocks[b].divisors = divisors.empty() ? nullptr : divisors.data() + static_cast<int64_t>(b) * L;
    }
  }
};

/// What decides how an image is resampled.
struct Signature {
  std::string mode;
  bool align, transposed;
  size_t dims;
  int64_t from[3], to[3];
  double scales[3];
  bool operator==(const Signature&) const = default;
  template <class F>
  void each_tensor(const F&) {}  // it holds none
};

/// What follows from a signature.
template <class T>
struct Plan {
  Signature of;
  std::vector<Terms> terms;
  std::vector<Blocks<T>> blocks;  // one
  std::vector<std::vector<T>> weights;
  std::vector<size_t> order;

  explicit Plan(const Signature& s) : of(s), weights(s.dims) {
    const size_t n = s.dims;
    const Resampling how{s.mode, s.scales, s.align};
    for (size_t d = 0; d < n; ++d)
      terms.push_back(s.transposed ? terms_of(s.to[d], s.from[d], s.scales[d], how).transposed()
                                   : terms_of(s.from[d], s.to[d], s.scales[d], how));
    blocks.emplace_back(terms[n - 1]);
    for (size_t d = 0; d + 1 < n; ++d) weights[d].assign(terms[d].weights.begin(), terms[d].weights.end());
    // What shrinks the image comes first, of the others the innermost.
    for (size_t d = n; d-- > 0;)
      if (!terms[d].same) order.push_back(d);
    std::ranges::stable_sort(order, {},
                             [&](size_t d) { return terms[d].count < terms[d].size && d + 1 < n ? 0 : 1; });
  }
};

/// A thread keeps its last small plans, since small images take less time than these.
template <class T>
std::shared_ptr<const Plan<T>> plan_of(const Signature& s) {
  thread_local std::shared_ptr<const Plan<T>> recent[4];
  thread_local size_t next = 0;
  for (const auto& plan : recent)
    if (plan && plan->of == s) return plan;
  auto plan = std::make_shared<const Plan<T>>(s);
  size_t terms = 0;
  for (const Terms& t : plan->terms) terms += t.places.size();
  if (terms < 4096) recent[next++ % 4] = plan;
  return plan;
}

/// The last dimensions of x by the terms of a plan, one after the other.
template <class T>
void passes(const Tensor& x, const Signature& signature, int64_t planes, const Tensor& y) {
  const auto& table = best_variant<ResamplingTable<T>>();
  const std::shared_ptr<const Plan<T>> plan = plan_of<T>(signature);
  const auto& [of, terms, all_blocks, weights, order] = *plan;
  const auto& blocks = all_blocks[0];
  const size_t n = terms.size();
  constexpr int64_t kLeast = 2 * kResampledLanes;
  int64_t in = 1, out = 1, most = 1;
  for (const Terms& t : terms) in *= t.size, out *= t.count, most *= std::max(t.size, t.count);
  runtime::parallel_for(
      0, planes, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, in + out)),
      [&](int64_t begin, int64_t end) {
        const runtime::Scratch<T> rooms[2] = {runtime::Scratch<T>(order.size() > 1 ? most : 1),
                                              runtime::Scratch<T>(order.size() > 2 ? most : 1)};
        T padded[kLeast] = {};
        for (int64_t p = begin; p < end; ++p) {
          const T* from = x.data<T>() + p * in;
          int64_t now[3];
          for (size_t i = 0; i < n; ++i) now[i] = terms[i].size;
          if (order.empty()) std::copy_n(from, in, y.data<T>() + p * out);
          for (size_t k = 0; k < order.size(); ++k) {
            const size_t d = order[k];
            const Terms& t = terms[d];
            T* to = k + 1 == order.size() ? y.data<T>() + p * out : rooms[k % 2].get();
            int64_t outer = 1, inner = 1;
            for (size_t i = 0; i < n; ++i) (i < d ? outer : inner) *= i == d ? 1 : now[i];
            if (d + 1 == n) {
              for (int64_t o = 0; o < outer; ++o) {
                const T* row = from + o * t.size;
                if (t.size < kLeast) row = std::copy_n(row, t.size, padded) - t.size;
                table.row(row, std::max(t.size, kLeast), blocks.blocks.data(), t.count, to + o * t.count);
              }
            } else {
              for (int64_t o = 0; o < outer; ++o)
                for (int64_t i = 0; i < t.count; ++i) {
                  const int64_t first = t.starts[static_cast<size_t>(i)];
                  table.rows(from + o * t.size * inner, t.places.data() + first, weights[d].data() + first,
                             t.starts[static_cast<size_t>(i) + 1] - first,
                             t.divisors.empty() ? T(1) : static_cast<T>(t.divisors[static_cast<size_t>(i)]),
                             inner, to + (o * t.count + i) * inner);
                }
            }
            now[d] = t.count;
            from = to;
          }
        }
      });
}

static void resample_all(const Tensor& y, const Tensor& x, const Signature& signature, int64_t planes) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) { passes<T>(x, signature, planes, y); });
}

Tensor resampled(const Tensor& self, IntList sizes, const Resampling& how, bool transposed, const char* op) {
  const size_t n = sizes.size(), rank = self.sizes().size();
  constexpr std::string_view modes[] = {"nearest", "nearest-exact", "area",       "linear",
                                        "cubic",   "linear-wide",   "cubic-wide", "lanczos-wide"};
  if (std::ranges::find(modes, how.mode) == std::end(modes))
    fail<ValueError>(op, "(): mode '", how.mode, "' is not known");
  if (n < 1 || n > 3 || rank < n || how.scales.size() != n || !self.is_floating())
    fail(op,
         "(): expected floating-point images and sizes and scales of their last 1 to 3 dimensions, but got ",
         name_of(self.dtype()), " ", self.sizes(), " and sizes ", to_string(sizes));
  Dims shape(self.sizes());
  Signature signature{std::string(how.mode), how.align, transposed, n, {}, {}, {}};
  int64_t planes = 1;
  for (size_t d = 0; d < rank - n; ++d) planes *= shape[d];
  for (size_t d = 0; d < n; ++d) {
    int64_t& size = shape[rank - n + d];
    const int64_t given = size;
    constexpr int64_t kMost = int64_t{1} << 31;
    if (sizes[d] < 1 || given < 1 || sizes[d] >= kMost || given >= kMost)
      fail(op, "(): Input and output sizes should be greater than 0 and below 2**31, but got input ",
           self.sizes(), " output ", to_string(sizes));
    size = sizes[d];
    signature.from[d] = given, signature.to[d] = size, signature.scales[d] = how.scales[d];
  }
  const DType c = compute_dtype(self.dtype());
  const Tensor x = dense_as(self, c), y = empty(shape.span(), c);
  if (planes) on<&resample_all>(Out(y), x, signature, planes);
  return as_dtype(y, self.dtype());
}

}  // namespace

Tensor resample(const Tensor& x, IntList sizes, const Resampling& how, const char* op) {
  return resampled(x, sizes, how, false, op);
}
Tensor resample_transposed(const Tensor& g, IntList sizes, const Resampling& how, const char* op) {
  return resampled(g, sizes, how, true, op);
}

}  // namespace adjoint::kernels
