// Losses over classes, squared distance, embedding: checks and loops. The exponentials of cross-entropy are
// those of softmax and logsumexp; what is here touches one element per sample.
#include "kernels/loss.h"

#include <cmath>

#include "kernels/cpu/reduction.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/indexing.h"
#include "kernels/launch.h"
#include "kernels/reduction.h"
#include "kernels/slices.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace {

/// Samples and what each weighs: x is (N, C, S) with S positions per sample.
struct Classes {
  int64_t samples = 1, classes = 0, positions = 1;
  int64_t dim = 0;
  Tensor target;  // int64, row-major
  Tensor weight;  // per class, row-major, or undefined
  int64_t ignore = 0;

  const char* op = "";

  template <class F>
  void each_tensor(const F& f) {
    f(target);
    f(weight);
  }
  int64_t count() const { return samples * positions; }
  /// The class of a sample, checked as it is used: another thread may be writing the target.
  int64_t at(int64_t p) const {
    const int64_t t = read_once(target.data<int64_t>() + p);
    if (static_cast<uint64_t>(t) >= static_cast<uint64_t>(classes) && t != ignore) [[unlikely]]
      fail<IndexError>(op, "(): Target ", t, " is out of bounds: there are ", classes,
                       " classes (ignore_index is ", ignore, ")");
    return t;
  }
};

/// Throws what it finds.
bool check_each(const Tensor&, const Classes& c) {
  for (int64_t p = 0; p < c.count(); ++p) c.at(p);
  return false;
}

/// Everything that can be wrong is found here, before anything is computed.
Classes classes_of(IntList sizes, DType dtype, const Tensor& target, const Tensor& weight,
                   const ClassLoss& options, bool logits, const char* op) {
  Classes c;
  need_floating(dtype, op);
  if (sizes.empty())
    fail<ValueError>(op, "(): Expected input to have at least 1 dimension (the classes), but it has none");
  if (!is_integral(target.dtype()) || target.dtype() == DType::Bool)
    fail(op, "(): expected scalar type Long but found ", name_of(target.dtype()),
         ": targets are class indices, in an integer type");
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    fail(op, "(): label_smoothing must be between 0.0 and 1.0. Got: ", options.smoothing);
  const IntList t = target.sizes();
  if (sizes.size() == 1) {
    c.classes = sizes[0];
    if (t.size() > 1 || target.numel() != 1)
      fail<ValueError>(op, "(): Expected a target of one class for one sample of shape ", to_string(sizes),
                       ", but its shape is ", to_string(t));
  } else {
    c.dim = 1;
    c.samples = sizes[0];
    c.classes = sizes[1];
    c.positions = product(sizes.subspan(2));
    if (t.empty() || t[0] != sizes[0])
      fail<ValueError>(op, "(): Expected input batch_size (", sizes[0], ") to match target batch_size (",
                       t.empty() ? 0 : t[0], "); the shapes are ", to_string(sizes), " and ", to_string(t));
    if (same(t, sizes) && logits)
      fail(op, "(): Expected floating point type for target with class probabilities, got ",
           type_name_of(target.dtype()));
    if (!same(t.subspan(1), sizes.subspan(2))) {
      Dims wanted(sizes.subspan(2));
      wanted.insert(wanted.begin(), sizes[0]);
      if (sizes.size() == 2)
        fail(op, "(): 0D or 1D target tensor expected, multi-target not supported: the input has shape ",
             to_string(sizes), ", the target ", to_string(t));
      fail(op, "(): Expected target size ", to_string({wanted.data(), wanted.size()}), ", got ",
           to_string(t));
    }
  }
  if (weight.defined()) {
    if (weight.dim() != 1 || weight.numel() != c.classes || !weight.is_floating())
      fail(op, "(): weight tensor should be defined either for all ", c.classes,
           " classes or no classes but got weight tensor of shape: ", weight.sizes(), " and type ",
           name_of(weight.dtype()));
    c.weight = dense_as(weight, compute_dtype(dtype));
  }
  c.target = dense_as(target, DType::Int64);
  c.ignore = options.ignore;
  c.op = op;
  check<&check_each>(c.target, c);
  return c;
}

/// Elements of x by sample, class and position.
template <class T>
struct View {
  T* data;
  int64_t sample, position, step;
  View(const Tensor& x, const Classes& c) : data(x.data<T>()) {
    if (x.dim() <= 2) {  // any layout
      sample = x.dim() == 2 ? x.stride(0) : 0;
      position = 0;
      step = x.stride(-1);
    } else {
      sample = c.classes * c.positions;
      position = 1;
      step = c.positions;
    }
  }
  T* of(const Classes& c, int64_t p) const {
    return data + (c.positions == 1 ? p * sample : p / c.positions * sample + p % c.positions * position);
  }
};

/// x in type c, in a layout that View and Slices both understand.
Tensor arranged(const Tensor& x, DType c) { return x.dim() <= 2 ? packed(x, c) : dense_as(x, c); }

/// What the samples weigh together: the denominator of the mean.
template <class T>
double total_weight(const Classes& c, const T* w) {
  double sum = 0;
  for (int64_t p = 0; p < c.count(); ++p)
    if (const int64_t t = c.at(p); t != c.ignore) sum += w ? static_cast<double>(w[t]) : 1.0;
  return sum;
}

template <class T>
const T* weights(const Classes& c) {
  return c.weight.defined() ? c.weight.data<T>() : nullptr;
}

template <class T>
double sum_of_weights(const Classes& c, const T* w) {
  if (!w) return static_cast<double>(c.classes);
  double sum = 0;
  for (int64_t k = 0; k < c.classes; ++k) sum += static_cast<double>(w[k]);
  return sum;
}

/// The gradient of each position's loss, from that of the result.
template <class T>
struct GradientOf {
  const T* g;
  int64_t step;
  double scale;
  double operator()(int64_t p) const { return static_cast<double>(g[p * step]) * scale; }
};

}  // namespace

Reduce reduce_of(std::string_view reduction, const char* op) {
  if (reduction == "mean") return Reduce::Mean;
  if (reduction == "sum") return Reduce::Sum;
  if (reduction == "none") return Reduce::None;
  fail<ValueError>(op, "(): ", std::string(reduction),
                   " is not a valid value for reduction: expected 'none', 'mean' or 'sum'");
}

static void lose(const Tensor& out, const Tensor& x, const Tensor& total, const Classes& c,
                 const ClassLoss& options, bool logits) {
  const bool none = options.reduce == Reduce::None;
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* w = weights<T>(c);
    const T* lse = logits ? total.data<T>() : nullptr;
    const View<T> view(x, c);
    const double smooth = options.smoothing / static_cast<double>(c.classes), keep = 1 - options.smoothing;
    const double all = smooth > 0 ? sum_of_weights(c, w) : 0;
    double sum = 0;
    for (int64_t p = 0; p < c.count(); ++p) {
      const int64_t t = c.at(p);
      double loss = 0;
      if (t != c.ignore) {
        const T* q = view.of(c, p);
        const double top = lse ? static_cast<double>(lse[p]) : 0.0;
        loss = keep * (w ? static_cast<double>(w[t]) : 1.0) * (top - static_cast<double>(q[t * view.step]));
        if (smooth > 0) {
          double rest = 0;
          for (int64_t k = 0; k < c.classes; ++k)
            rest += (w ? static_cast<double>(w[k]) : 1.0) * static_cast<double>(q[k * view.step]);
          loss += smooth * (all * top - rest);
        }
      }
      if (none)
        out.data<T>()[p] = static_cast<T>(loss);
      else
        sum += loss;
    }
    if (options.reduce == Reduce::Mean) sum /= total_weight(c, w);
    if (!none) *out.data<T>() = static_cast<T>(sum);
  });
}

Tensor class_loss(const Tensor& self, const Tensor& target, const Tensor& weight, const ClassLoss& options,
                  bool logits, const char* op) {
  const Classes c = classes_of(self.sizes(), self.dtype(), target, weight, options, logits, op);
  const DType type = compute_dtype(self.dtype());
  const Tensor x = arranged(self, type);
  const bool none = options.reduce == Reduce::None;
  Tensor out = none ? empty(c.target.sizes(), type) : empty_scalar(type);
  const Tensor total = logits ? logsumexp({}, x, OptionalInts(IntList(&c.dim, 1)), false, op) : Tensor();
  on<&lose>(Out(out), x, total, c, options, logits);
  return as_dtype(out, self.dtype());
}

static void lose_backward(const Tensor& gx, const Tensor& gy, const Tensor& x, const Classes& c,
                          const ClassLoss& options) {
  with_floating(gx.dtype(), [&]<class T>(TypeTag<T>) {
    const T* w = weights<T>(c);
    const double smooth = options.smoothing / static_cast<double>(c.classes), keep = 1 - options.smoothing;
    const double all = smooth > 0 ? sum_of_weights(c, w) : 0;
    const GradientOf<T> upper{gy.data<T>(), options.reduce == Reduce::None ? 1 : 0,
                              options.reduce == Reduce::Mean ? 1 / total_weight(c, w) : 1.0};
    // The gradient is scale * softmax(x) minus the target's share.
    constexpr int64_t kFew = 128;
    T few[kFew];
    const auto many = c.count() > kFew ? runtime::Scratch<T>(c.count()) : runtime::Scratch<T>();
    T* scale = many ? many.get() : few;
    auto own = [&](int64_t t) { return keep * (w ? static_cast<double>(w[t]) : 1.0); };
    for (int64_t p = 0; p < c.count(); ++p) {
      const int64_t t = c.at(p);
      scale[p] = t == c.ignore ? T(0) : static_cast<T>(upper(p) * (own(t) + smooth * all));
    }
    const auto& table = best_variant<SoftmaxTable<T>>();
    const Slices s(x, c.dim);
    s.each_block(
        kSoftmaxColumns,
        [&](int64_t first, int64_t n) {
          table.rows(x.data<T>() + first * s.n, gx.data<T>() + first * s.n, n, s.n, scale + first, false);
        },
        [&](int64_t first, int64_t at, int64_t width) {
          table.columns(x.data<T>() + at, gx.data<T>() + at, s.n, s.inner, width, scale + first, false);
        });
    const View<T> view(gx, c);
    for (int64_t p = 0; p < c.count(); ++p) {
      const int64_t t = c.at(p);
      if (t == c.ignore) continue;
      T* q = view.of(c, p);
      q[t * view.step] -= static_cast<T>(upper(p) * own(t));
      if (smooth > 0)
        for (int64_t k = 0; k < c.classes; ++k)
          q[k * view.step] -= static_cast<T>(upper(p) * smooth * (w ? static_cast<double>(w[k]) : 1.0));
    }
  });
}

Tensor class_loss_backward(const Tensor& g, const Tensor& self, const Tensor& target, const Tensor& weight,
                           const ClassLoss& options) {
  const Classes c = classes_of(self.sizes(), self.dtype(), target, weight, options, true, "cross_entropy");
  const DType type = compute_dtype(self.dtype());
  const Tensor x = arranged(self, type), gy = dense_as(g, type);
  Tensor gx = empty_as(x, type);
  on<&lose_backward>(Out(gx), gy, x, c, options);
  return as_dtype(gx, self.dtype());
}

static void nll_backward_at(const Tensor& out, const Tensor& gy, const Classes& c, const ClassLoss& options) {
  with_floating(out.dtype(), [&]<class T>(TypeTag<T>) {
    const T* w = weights<T>(c);
    const GradientOf<T> upper{gy.data<T>(), options.reduce == Reduce::None ? 1 : 0,
                              options.reduce == Reduce::Mean ? 1 / total_weight(c, w) : 1.0};
    const View<T> view(out, c);
    for (int64_t p = 0; p < c.count(); ++p) {
      const int64_t t = c.at(p);
      if (t != c.ignore)
        view.of(c, p)[t * view.step] = static_cast<T>(-upper(p) * (w ? static_cast<double>(w[t]) : 1.0));
    }
  });
}

Tensor nll_backward(const Tensor& g, IntList sizes, const Tensor& target, const Tensor& weight,
                    const ClassLoss& options) {
  const Classes c = classes_of(sizes, g.dtype(), target, weight, options, false, "nll_loss");
  const DType type = compute_dtype(g.dtype());
  const Tensor gy = dense_as(g, type);
  Tensor out = zeros(sizes, type);
  on<&nll_backward_at>(Out(out), gy, c, options);
  return as_dtype(out, g.dtype());
}

static void add_squares(const Tensor& out, const Tensor& x, const Tensor& y, bool mean) {
  with_floating(out.dtype(), [&]<class T>(TypeTag<T>) {
    const auto distance = best_variant<FoldTable<T>>().squared_distance;
    const double sum = runtime::parallel_reduce(
        int64_t{0}, x.numel(), int64_t{65536}, 0.0,
        [&](int64_t b, int64_t e) { return distance(x.data<T>() + b, y.data<T>() + b, e - b); },
        [](double a, double b) { return a + b; });
    *out.data<T>() = static_cast<T>(mean ? sum / static_cast<double>(x.numel()) : sum);
  });
}

Tensor squared_distance(const Tensor& self, const Tensor& target, bool mean) {
  if (!self.is_floating() || self.dtype() != target.dtype() || !same(self.sizes(), target.sizes()))
    fail("_squared_distance(): expected two floating-point tensors of one shape and type, but got ",
         name_of(self.dtype()), " ", self.sizes(), " and ", name_of(target.dtype()), " ", target.sizes());
  const DType type = compute_dtype(self.dtype());
  const Tensor x = dense_as(self, type), y = dense_as(target, type);
  Tensor out = empty_scalar(type);
  on<&add_squares>(Out(out), x, y, mean);
  return as_dtype(out, self.dtype());
}

// --- Embedding ------------------------------------------------------------------------------------

namespace {

/// The rows of weight that the indices name.
IndexPlan rows_plan(const Tensor& weight, const Tensor& indices, const char* op) {
  if (indices.dtype() != DType::Int64 && indices.dtype() != DType::Int32)
    fail(op,
         "(): Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
         "Int; but got ",
         name_of(indices.dtype()), " instead");
  const Tensor list[] = {indices};
  return IndexPlan(weight, list, false, op, "index out of range in self: ");
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, const char* op) {
  if (weight.dim() != 2) fail(op, "(): 'weight' must be 2-D, but its shape is ", weight.sizes());
  return read_at({}, weight, rows_plan(weight, indices, op));
}

static void clear_row(const Tensor& out, int64_t row) {
  const int64_t bytes = out.size(-1) * out.itemsize();
  std::memset(out.bytes() + row * bytes, 0, static_cast<size_t>(bytes));
}

Tensor embedding_backward(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding) {
  const DType type = compute_dtype(g.dtype());
  const int64_t width = g.size(-1), shape[] = {rows, width};
  const Tensor out = empty(IntList(shape, 2), type);
  add_at(out, rows_plan(out, indices, "embedding"), g, Before::Zeros);
  if (padding >= 0 && padding < rows) on<&clear_row>(Out(out), padding);
  return as_dtype(out, g.dtype());
}

}  // namespace adjoint::kernels
