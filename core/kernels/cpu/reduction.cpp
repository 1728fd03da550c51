// The results of reductions: which fold, in which type, and what becomes of the accumulators.
//
// `fold` is the common path: it makes the result, drives the fold (kernels/reducer.h) and writes
// value(accumulator) in the result's type. Everything else here is one function per kind of reduction.
#include "kernels/reduction.h"

#include <cmath>

#include "for_size.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/reducer.h"
#include "runtime/warning.h"

namespace adjoint::kernels {

namespace {

struct Layout {
  uint64_t mask;
  Dims shape;
};

Layout layout(const Tensor& self, const OptionalInts& dim, bool keepdim, const char* op) {
  const uint64_t mask = dim_mask(dim, self.dim(), op);
  return {mask, reduced_shape(self.sizes(), mask, keepdim)};
}

/// Result number i. A number is copied as quickly as it is made anywhere.
Tensor make(Into into, const Dims& shape, DType dtype, size_t i = 0) {
  return shape.empty() ? empty_scalar(dtype) : into.empty({shape.data(), shape.size()}, dtype, i);
}

/// Writes value(acc) for results first, first + stride, … in out's type.
template <class Acc, class Value>
void write(const Tensor& out, const Acc* acc, int64_t first, int64_t stride, int64_t n, const Value& value) {
  using V = decltype(value(*acc));
  auto as = [&]<class Out>(TypeTag<Out>) {
    Out* o = out.data<Out>() + first;
    for (int64_t i = 0; i < n; ++i) o[i * stride] = convert<Out>(value(acc[i]));
  };
  if constexpr (is_complex_v<V>) {
    if (out.dtype() == DType::Complex64)
      as(TypeTag<Complex<float>>{});
    else
      as(TypeTag<Complex<double>>{});
  } else if constexpr (std::is_floating_point_v<V>) {
    switch (out.dtype()) {
      case DType::Float16:
        return as(TypeTag<Half>{});
      case DType::BFloat16:
        return as(TypeTag<BFloat16>{});
      case DType::Float32:
        return as(TypeTag<float>{});
      default:
        return as(TypeTag<double>{});
    }
  } else {
    switch (out.dtype()) {
      case DType::Bool:
        return as(TypeTag<bool>{});
      case DType::UInt8:
        return as(TypeTag<uint8_t>{});
      case DType::Int8:
        return as(TypeTag<int8_t>{});
      case DType::Int16:
        return as(TypeTag<int16_t>{});
      case DType::Int32:
        return as(TypeTag<int32_t>{});
      default:
        return as(TypeTag<int64_t>{});
    }
  }
}

template <class T, class Acc, class Merge, class Value>
void fold(const Tensor& self, uint64_t mask, const Tensor& out, Fold kind, double parameter,
          const Acc& identity, const Merge& merge, const Value& value) {
  Reducer(self, mask)
      .run<T>(kind, parameter, identity, merge,
              [&](const Acc* acc, int64_t first, int64_t stride, int64_t n) {
                write(out, acc, first, stride, n, value);
              });
}

constexpr auto plus = [](auto& a, const auto& b) { a = a + b; };
constexpr auto same_value = [](auto a) { return a; };

template <class T>
T larger_of(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
T smaller_of(T a, T b) {
  return a < b || a != a ? a : b;
}

template <class T>
T bottom() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}
template <class T>
T top() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::max();
}

/// An extreme needs an element: refuse reduced dimensions of size 0 that results depend on.
void refuse_empty(const Tensor& self, uint64_t mask, bool all_given, const char* op) {
  if (self.numel() > 0) return;
  if (!all_given)
    fail<IndexError>(op,
                     "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                     "reduction dim with the 'dim' argument; the shape is ",
                     self.sizes());
  for (int64_t d = 0; d < self.dim(); ++d)
    if (mask >> d & 1 && self.size(d) == 0)
      fail<IndexError>(op, "(): Expected reduction dim ", d, " to have non-zero size, but the shape is ",
                       self.sizes(), " (input.numel() == 0): an extreme of no elements has no identity");
}

void add_elements(const Tensor& out, const Tensor& self, uint64_t mask, Fold kind, double divisor) {
  with_number(out.dtype(), [&]<class T>(TypeTag<T>) {
    using W = wide_t<T>;
    if constexpr (std::is_same_v<T, int64_t>) {
      // Sums wrap around, which only unsigned numbers may.
      fold<T>(self, mask, out, Fold::Sum, 0, uint64_t{0}, plus,
              [](uint64_t a) { return static_cast<int64_t>(a); });
    } else if (divisor == 1) {
      fold<T>(self, mask, out, kind, 0, W(0), plus, same_value);
    } else {
      fold<T>(self, mask, out, kind, 0, W(0), plus, [divisor](W a) { return a / divisor; });
    }
  });
}

Tensor add_up(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, DType type, Fold kind,
              double divisor, const char* op) {
  const Layout l = layout(self, dim, keepdim, op);
  Tensor out = make(into, l.shape, type);
  on<&add_elements>(Out(out), self, l.mask, kind, divisor);
  return out;
}

DType additive_type(const Tensor& self, const OptionalType& dtype) {
  return dtype ? *dtype : is_integral(self.dtype()) ? DType::Int64 : self.dtype();
}

}  // namespace

Tensor sum(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
           const char* op) {
  if (dtype == DType::Bool && self.dtype() != DType::Bool)
    return sum(into, copy_of(self, DType::Bool), dim, keepdim, dtype, op);
  return add_up(into, self, dim, keepdim, additive_type(self, dtype), Fold::Sum, 1, op);
}

Tensor nansum(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
              const char* op) {
  need_order(self.dtype(), op);
  return add_up(into, self, dim, keepdim, additive_type(self, dtype), Fold::NonNanSum, 1, op);
}

Tensor mean(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
            const char* op) {
  const DType type = dtype.value_or(self.dtype());
  if (is_integral(type))
    fail(op, "(): could not infer output dtype. ", dtype ? "Optional" : "Input",
         " dtype must be either a floating point or complex dtype. Got: ", type_name_of(type),
         dtype ? "" : "; convert the input, or pass dtype=");
  const uint64_t mask = dim_mask(dim, self.dim(), op);
  double n = 1;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (mask >> d & 1) n *= static_cast<double>(self.size(d));
  return add_up(into, self, dim, keepdim, type, Fold::Sum, n, op);
}

static void multiply_elements(const Tensor& out, const Tensor& self, uint64_t mask) {
  with_number(out.dtype(), [&]<class T>(TypeTag<T>) {
    using W = wide_t<T>;
    auto times = [](auto& a, const auto& b) { a = a * b; };
    if constexpr (std::is_same_v<T, int64_t>)
      fold<T>(self, mask, out, Fold::Product, 0, uint64_t{1}, times,
              [](uint64_t a) { return static_cast<int64_t>(a); });
    else
      fold<T>(self, mask, out, Fold::Product, 0, W(1), times, same_value);
  });
}

Tensor prod(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
            const char* op) {
  if (dtype == DType::Bool && self.dtype() != DType::Bool)
    return prod(into, copy_of(self, DType::Bool), dim, keepdim, dtype, op);
  const Layout l = layout(self, dim, keepdim, op);
  Tensor out = make(into, l.shape, additive_type(self, dtype));
  on<&multiply_elements>(Out(out), self, l.mask);
  return out;
}

[[gnu::cold, gnu::noinline]] static void warn_of_freedom(const char* op) {
  runtime::warn((std::string(op) + "(): degrees of freedom is <= 0. Correction should be strictly less than "
                                   "the reduction factor (input numel divided by output numel)")
                    .c_str());
}

static void find_moments(const Tensor& out, const Tensor& means, const Tensor& self, uint64_t mask,
                         double correction, bool root) {
  with_number(self.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, int64_t>) {
      using W = wide_t<T>;
      using A = MomentsOf<W>;
      auto merge = [](A& a, const A& b) {
        const double n = a.count + b.count, share = n > 0 ? b.count / n : 0;
        const W d = b.mean - a.mean;
        double square;
        if constexpr (is_complex_v<W>)
          square = d.re * d.re + d.im * d.im;
        else
          square = d * d;
        a = {n, a.count > 0 ? a.mean + d * share : b.mean,
             a.squares + b.squares + square * (a.count * share)};
      };
      Reducer(self, mask)
          .run<T>(Fold::Moments, 0, A{0, W(0), 0}, merge,
                  [&](const A* acc, int64_t first, int64_t stride, int64_t n) {
                    write(out, acc, first, stride, n, [correction, root](const A& a) {
                      // Of no element, and of one that is no number, there is no variance, whatever is
                      // corrected.
                      const double rest = a.count - correction, v = a.squares / (rest > 0 ? rest : 0.0);
                      const bool known = a.count > 0 && a.mean - a.mean == W(0);
                      if (!known) return std::nan("");
                      return root ? std::sqrt(v) : v;
                    });
                    if (means.defined())
                      write(means, acc, first, stride, n,
                            [](const A& a) { return a.count > 0 ? a.mean : W(std::nan("")); });
                  });
    }
  });
}

Pair moments(Into into, const Tensor& self, const OptionalInts& dim, double correction, bool keepdim,
             bool root, bool with_mean, const char* op) {
  if (is_integral(self.dtype()))
    fail(op, "(): std and var only support floating point and complex dtypes, but found ",
         name_of(self.dtype()));
  const Layout l = layout(self, dim, keepdim, op);
  Tensor out = make(into, l.shape, real_dtype(self.dtype()));
  if (out.numel() > 0 && static_cast<double>(self.numel()) / static_cast<double>(out.numel()) <= correction)
      [[unlikely]]
    warn_of_freedom(op);
  Tensor means = with_mean ? make(into, l.shape, self.dtype(), 1) : Tensor();
  on<&find_moments>(Out(out), Out(means), self, l.mask, correction, root);
  return {out, means};
}

static void find_extreme(const Tensor& out, const Tensor& self, uint64_t mask, bool max) {
  with_number(self.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      if (max)
        fold<T>(
            self, mask, out, Fold::Max, 0, bottom<T>(), [](T& a, T b) { a = larger_of(a, b); }, same_value);
      else
        fold<T>(self, mask, out, Fold::Min, 0, top<T>(), [](T& a, T b) { a = smaller_of(a, b); }, same_value);
    }
  });
}

Tensor extreme(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, bool max, const char* op,
               size_t result) {
  need_order(self.dtype(), op);
  const Layout l = layout(self, dim, keepdim, op);
  refuse_empty(self, l.mask, dim && !dim->empty(), op);
  Tensor out = make(into, l.shape, self.dtype(), result);
  on<&find_extreme>(Out(out), self, l.mask, max);
  return out;
}

Tensor extreme_of_all(const Tensor& self, bool max, const char* op) {
  if (self.numel() == 0)
    fail(op,
         "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
         "the 'dim' argument; the shape is ",
         self.sizes());
  return extreme({}, self, {}, false, max, op);
}

namespace {

/// Values (where asked for) and places of extremes along one dimension.
void locate(const Tensor& indices, const Tensor& values, const Tensor& self, uint64_t mask, bool max) {
  with_number(self.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!is_complex_v<T>) {
      using A = Located<T>;
      auto merge = [max](A& a, const A& b) {
        const bool beats =
            (max ? b.value > a.value : b.value < a.value) || (b.value != b.value && a.value == a.value);
        if (a.index < 0 || (b.index >= 0 && beats)) a = b;
      };
      Reducer(self, mask)
          .run<T>(max ? Fold::FirstMax : Fold::FirstMin, 0, A{T(0), -1}, merge,
                  [&](const A* acc, int64_t first, int64_t stride, int64_t n) {
                    if (values.defined())
                      write(values, acc, first, stride, n, [](const A& a) { return a.value; });
                    write(indices, acc, first, stride, n, [](const A& a) { return a.index; });
                  });
    }
  });
}

}  // namespace

Pair extreme_at(Into into, const Tensor& self, int64_t dim, bool keepdim, bool max, const char* op) {
  need_order(self.dtype(), op);
  const uint64_t mask = uint64_t{1} << wrap_dim(dim, self.dim(), op);
  refuse_empty(self, mask, true, op);
  const Dims shape = reduced_shape(self.sizes(), mask, keepdim);
  Pair out{make(into, shape, self.dtype()), make(into, shape, DType::Int64, 1)};
  on<&locate>(Out(std::get<1>(out)), Out(std::get<0>(out)), self, mask, max);
  return out;
}

Tensor place_of_extreme(Into into, const Tensor& self, const std::optional<int64_t>& dim, bool keepdim,
                        bool max, const char* op) {
  need_order(self.dtype(), op);
  const uint64_t mask = dim ? uint64_t{1} << wrap_dim(*dim, self.dim(), op) : dim_mask({}, self.dim(), op);
  refuse_empty(self, mask, dim.has_value(), op);
  Tensor out = make(into, reduced_shape(self.sizes(), mask, keepdim), DType::Int64);
  on<&locate>(Out(out), Tensor(), dim ? self : dense(self), mask, max);
  return out;
}

static void count_truth(const Tensor& out, const Tensor& self, uint64_t mask, bool all) {
  auto count = [&]<class T>(TypeTag<T>, const Tensor& x) {
    const Reducer reducer(x, mask);
    const int64_t wanted = all ? reducer.length() : 1;
    reducer.run<T>(Fold::Nonzero, 0, int64_t{0}, plus,
                   [&](const int64_t* acc, int64_t first, int64_t stride, int64_t n) {
                     write(out, acc, first, stride, n, [wanted](int64_t a) { return int64_t{a >= wanted}; });
                   });
  };
  if (self.dtype() == DType::Bool || self.dtype() == DType::UInt8)
    count(TypeTag<uint8_t>{}, self);
  else
    with_number(self.dtype(), [&](auto tag) { count(tag, self); });
}

Tensor truth(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, bool all, const char* op) {
  const DType type = self.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;     // as torch has it
  if (dim && dim->empty()) return copy_of(into, copy_of(self, DType::Bool), type);  // each element by itself
  const Layout l = layout(self, dim, keepdim, op);
  Tensor out = make(into, l.shape, type);
  on<&count_truth>(Out(out), self, l.mask, all);
  return out;
}

static void count_elements(const Tensor& out, const Tensor& self, uint64_t mask) {
  if (self.dtype() == DType::Bool || self.dtype() == DType::UInt8)
    fold<uint8_t>(self, mask, out, Fold::Nonzero, 0, int64_t{0}, plus, same_value);
  else
    with_number(self.dtype(), [&]<class T>(TypeTag<T>) {
      fold<T>(self, mask, out, Fold::Nonzero, 0, int64_t{0}, plus, same_value);
    });
}

Tensor count_nonzero(Into into, const Tensor& self, const OptionalInts& dim, const char* op) {
  const Layout l = layout(self, dim, false, op);
  Tensor out = make(into, l.shape, DType::Int64);
  on<&count_elements>(Out(out), self, l.mask);
  return out;
}

static void add_exponentials(const Tensor& out, const Tensor& self, uint64_t mask) {
  with_floating(self.dtype(), [&]<class T>(TypeTag<T>) {
    using A = ExpSumOf;
    auto finite = [](double x) { return std::isfinite(x) ? x : 0.0; };
    auto merge = [finite](A& a, const A& b) {
      const double max = larger_of(a.max, b.max), shift = finite(max);
      double sum = 0;
      for (const A* x : {static_cast<const A*>(&a), &b})
        if (x->sum != 0) sum += x->sum * std::exp(finite(x->max) - shift);
      a = {max, sum};
    };
    fold<T>(self, mask, out, Fold::ExpSum, 0, A{bottom<double>(), 0}, merge,
            [finite](const A& a) { return finite(a.max) + std::log(a.sum); });
  });
}

Tensor logsumexp(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const char* op) {
  if (is_integral(self.dtype())) return logsumexp(into, copy_of(self, default_dtype()), dim, keepdim, op);
  const Layout l = layout(self, dim, keepdim, op);
  Tensor out = make(into, l.shape, self.dtype());
  if (self.is_complex())
    on<&add_exponentials_of_complex>(Out(out), self, l.mask);
  else
    on<&add_exponentials>(Out(out), self, l.mask);
  return out;
}

static void find_norm(const Tensor& out, const Tensor& self, uint64_t mask, double ord, DType type) {
  with_number(type, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, int64_t>) {
      using R = real_t<T>;
      if (ord == 2)
        return fold<T>(self, mask, out, Fold::SquareSum, 0, 0.0, plus, [](double a) { return std::sqrt(a); });
      if (ord == 1) return fold<T>(self, mask, out, Fold::AbsSum, 0, 0.0, plus, same_value);
      if (ord == 0)
        return fold<T>(self, mask, out, Fold::Nonzero, 0, int64_t{0}, plus,
                       [](int64_t a) { return static_cast<double>(a); });
      if (std::isinf(ord) && ord > 0)
        return fold<T>(
            self, mask, out, Fold::AbsMax, 0, R(0), [](R& a, R b) { a = larger_of(a, b); }, same_value);
      if (std::isinf(ord))
        return fold<T>(
            self, mask, out, Fold::AbsMin, 0, top<R>(), [](R& a, R b) { a = smaller_of(a, b); }, same_value);
      fold<T>(self, mask, out, Fold::PowerSum, ord, 0.0, plus,
              [ord](double a) { return std::pow(a, 1 / ord); });
    }
  });
}

Tensor vector_norm(Into into, const Tensor& self, double ord, const OptionalInts& dim, bool keepdim,
                   const OptionalType& dtype, const char* op) {
  if (is_integral(self.dtype()))
    fail(op, "(): Expected a floating point or complex tensor as input. Got ", name_of(self.dtype()));
  if (dtype && (!is_differentiable(*dtype) || is_complex(*dtype) != self.is_complex()))
    fail(op, "(): dtype should be ", self.is_complex() ? "complex" : "floating point", " like the input's ",
         name_of(self.dtype()), ", but got ", name_of(*dtype));
  const DType type = dtype.value_or(self.dtype());
  const Layout l = layout(self, dim, keepdim, op);
  Tensor out = make(into, l.shape, real_dtype(type));
  if ((ord < 0 || std::isinf(ord)) && self.numel() == 0) {
    for (int64_t d = 0; d < self.dim(); ++d)
      if ((l.mask >> d & 1) && self.size(d) == 0)
        fail(op, "(): cannot compute the ", ord,
             " norm on an empty tensor because the operation does not have an identity; the shape is ",
             self.sizes());
  }
  on<&find_norm>(Out(out), self, l.mask, ord, type);
  return out;
}

}  // namespace adjoint::kernels

namespace adjoint {

using launch::routine_of;
template <class... X>
static bool is_one_of(const launch::Routine& routine, const X&... known) {
  return ((&routine == &known) || ...);
}

bool folds_in_pieces(const launch::Routine& routine) {
  using namespace kernels;
  return is_one_of(routine, routine_of<&add_elements, Out, Tensor, uint64_t, Fold, double>,
                   routine_of<&find_extreme, Out, Tensor, uint64_t, bool>);
}

bool folds_rows(const launch::Routine& routine) {
  using namespace kernels;
  return folds_in_pieces(routine) ||
         is_one_of(routine, routine_of<&multiply_elements, Out, Tensor, uint64_t>,
                   routine_of<&find_moments, Out, Out, Tensor, uint64_t, double, bool>,
                   routine_of<&locate, Out, Out, Tensor, uint64_t, bool>,
                   routine_of<&count_truth, Out, Tensor, uint64_t, bool>,
                   routine_of<&count_elements, Out, Tensor, uint64_t>,
                   routine_of<&add_exponentials, Out, Tensor, uint64_t>,
                   routine_of<&find_norm, Out, Tensor, uint64_t, double, DType>);
}

}  // namespace adjoint
