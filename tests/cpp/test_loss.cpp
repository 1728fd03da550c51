// Softmax, layer normalisation, losses and embedding: values against their formulas, derivatives against
// finite differences, layouts, threads. Start at `main`.
#include "check.h"
#include "dispatch/operator.h"
#include "gradient_check.h"
#include "ops/arithmetic.h"
#include "ops/loss.h"
#include "ops/normalization.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "runtime/parallel.h"

using namespace adjoint;
using check::derivatives_agree;
using check::filled;

namespace {

double at(const Tensor& t, int64_t i) {
  const Tensor d = dense(t);
  return read_element(d.bytes() + i * d.itemsize(), d.dtype()).as_double();
}
Tensor classes(const std::vector<int64_t>& values, const std::vector<int64_t>& shape) {
  Tensor t = empty(IntList(shape.data(), shape.size()), DType::Int64);
  for (size_t i = 0; i < values.size(); ++i) t.data<int64_t>()[i] = values[i];
  return t;
}
/// The same values with the dimensions lying in the opposite order.
Tensor reversed_layout(const Tensor& t) {
  Dims sizes(t.sizes()), strides(t.sizes().size());
  int64_t step = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    strides[i] = step;
    step *= sizes[i];
  }
  Tensor out = empty(t.sizes(), t.dtype());
  out->set_geometry(sizes, strides.data());
  copy_into(out, t);
  return out;
}
double largest_difference(const Tensor& a, const Tensor& b) {
  double worst = same(a.sizes(), b.sizes()) ? 0 : HUGE_VAL;
  for (int64_t i = 0; worst < HUGE_VAL && i < a.numel(); ++i)
    worst = std::max(worst, std::abs(at(a, i) - at(b, i)));
  return worst;
}

void softmax() {
  for (const auto& shape : {std::vector<int64_t>{7}, {3, 40}, {5, 3, 4}, {2, 100, 33}, {3, 1, 2}})
    for (DType type : {DType::Float64, DType::Float32})
      for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
        for (bool turned : {false, true}) {
          Tensor x = filled(IntList(shape.data(), shape.size()), type, 3, 4);
          if (turned) x = reversed_layout(x);
          const OptionalInts d(IntList(&dim, 1));
          const Tensor lse = call<LogSumExp>(x, d, true);
          const Tensor expected = call<Sub>(x, lse);
          const double tolerance = type == DType::Float64 ? 1e-13 : 1e-5;
          CHECK(largest_difference(call<LogSoftmax>(x, dim, OptionalType()), expected) < tolerance);
          const Tensor p = call<Softmax>(x, dim, OptionalType());
          CHECK(check::close(at(call<Sum>(p, OptionalInts(), false, OptionalType()), 0),
                             static_cast<double>(x.numel() / x.size(dim)), 1e-5));
          CHECK(std::abs(at(p, 1) - std::exp(at(expected, 1))) < tolerance);
          const Tensor g = filled(IntList(shape.data(), shape.size()), type, 9);
          for (bool log : {false, true}) {
            const Tensor y = log ? expected : p;
            CHECK(largest_difference(kernels::softmax_backward(g, y, dim, log),
                                     kernels::softmax_backward(g, dense(y), dim, log)) < tolerance);
          }
        }
  const int64_t s[] = {2, 3, 2};
  const Tensor x = filled(IntList(s, 3), DType::Float64, 4, 2);
  for (int64_t d = 0; d < 3; ++d) {
    CHECK(derivatives_agree([&](const Tensors& t) { return call<Softmax>(t[0], d, OptionalType()); }, {x}));
    CHECK(
        derivatives_agree([&](const Tensors& t) { return call<LogSoftmax>(t[0], d, OptionalType()); }, {x}));
  }
  CHECK_THROWS(Error, call<Softmax>(classes({1, 2}, {2}), int64_t{0}, OptionalType()));
}

void layer_norm() {
  const int64_t s[] = {3, 2, 4}, n4[] = {4}, n24[] = {2, 4};
  const Tensor x = filled(IntList(s, 3), DType::Float64, 1, 2, 0.5);
  for (bool two : {false, true}) {
    const IntList shape = two ? IntList(n24, 2) : IntList(n4, 1);
    const Tensor w = filled(shape, DType::Float64, 2, 1, 1), b = filled(shape, DType::Float64, 3);
    auto norm = [shape](const Tensor& t, const Tensor& u, const Tensor& v) {
      return call<LayerNorm>(t, shape, OptionalTensor(u), OptionalTensor(v), 1e-2);
    };
    CHECK(derivatives_agree([&](const Tensors& t) { return norm(t[0], t[1], t[2]); }, {x, w, b}));
    CHECK(derivatives_agree([&](const Tensors& t) { return norm(t[0], Tensor(), t[1]); }, {x, b}));
    CHECK(derivatives_agree([&](const Tensors& t) { return norm(t[0], t[1], Tensor()); }, {x, w}));
    CHECK(derivatives_agree([&](const Tensors& t) { return norm(t[0], Tensor(), Tensor()); }, {x}));
    CHECK_THROWS(Error, norm(x, b, filled(IntList(s, 3), DType::Float64, 1)));
  }
  // Long rows and columns, turned layouts, any number of threads.
  const int64_t large[] = {130, 70}, n70[] = {70};
  for (DType type : {DType::Float32, DType::Float64}) {
    const Tensor y = filled(IntList(large, 2), type, 4, 1, 100), g = filled(IntList(large, 2), type, 5);
    const Tensor w = filled(IntList(n70, 1), type, 6, 1, 1), b = filled(IntList(n70, 1), type, 7);
    const double tolerance = type == DType::Float32 ? 2e-3 : 1e-10;
    const Tensor expected = kernels::layer_norm(y, IntList(n70, 1), w, b, 1e-5, "layer_norm");
    const int64_t one = 1;
    const Tensor centred = call<Sub>(y, call<Mean>(y, OptionalInts(IntList(&one, 1)), true, OptionalType()));
    CHECK(std::abs(at(expected, 75) -
                   (at(centred, 75) /
                        std::sqrt(at(call<Var>(y, OptionalInts(IntList(&one, 1)), 0.0, false), 1) + 1e-5) *
                        at(w, 5) +
                    at(b, 5))) < tolerance);
    CHECK(largest_difference(
              kernels::layer_norm(reversed_layout(y), IntList(n70, 1), w, b, 1e-5, "layer_norm"), expected) <
          tolerance);
    constexpr kernels::WantedOfNorm all{true, true, true};
    const auto [gx, gw, gb] = kernels::layer_norm_backward(g, y, w, 1, 1e-5, all);
    for (int threads : {1, 2, 3}) {
      runtime::set_num_threads(threads);
      const auto [tx, tw, tb] = kernels::layer_norm_backward(g, reversed_layout(y), w, 1, 1e-5, all);
      CHECK(largest_difference(tx, gx) < tolerance && largest_difference(tw, gw) < tolerance &&
            largest_difference(tb, gb) < tolerance);
      const auto [sx, sw, sb] = kernels::layer_norm_backward(g, y, w, 1, 1e-5, all);
      CHECK(largest_difference(sx, gx) == 0 && largest_difference(sw, gw) == 0 &&
            largest_difference(sb, gb) == 0);
    }
    runtime::set_num_threads(1);
  }
}

void class_losses() {
  const int64_t flat[] = {5, 3}, image[] = {2, 3, 2, 2}, three[] = {3};
  const Tensor x = filled(IntList(flat, 2), DType::Float64, 1, 2),
               z = filled(IntList(image, 4), DType::Float64, 2, 2);
  const Tensor t = classes({2, 0, 1, 2, 2}, {5}), u = classes({0, 1, 2, 2, 1, 1, 0, 2}, {2, 2, 2});
  const Tensor w = filled(IntList(three, 1), DType::Float64, 5, 0.5, 1);
  for (const char* reduction : {"mean", "sum", "none"})
    for (bool weighted : {false, true})
      for (int64_t ignore : {-100, 2})
        for (double smoothing : {0.0, 0.2}) {
          const OptionalTensor weight = weighted ? OptionalTensor(w) : OptionalTensor();
          auto loss = [&](const Tensor& a, const Tensor& target) {
            return call<CrossEntropy>(a, target, weight, Text(reduction), ignore, smoothing);
          };
          CHECK(derivatives_agree([&](const Tensors& in) { return loss(in[0], t); }, {x}));
          CHECK(derivatives_agree([&](const Tensors& in) { return loss(in[0], u); }, {z}));
          CHECK(largest_difference(loss(reversed_layout(x), t), loss(x, t)) < 1e-13);
          CHECK(largest_difference(loss(reversed_layout(z), u), loss(z, u)) < 1e-13);
          const Tensor g = filled(loss(x, t).sizes(), DType::Float64, 4);
          const kernels::ClassLoss options{kernels::reduce_of(reduction, ""), ignore, smoothing};
          CHECK(largest_difference(kernels::class_loss_backward(g, reversed_layout(x), t, weight, options),
                                   kernels::class_loss_backward(g, x, t, weight, options)) < 1e-13);
          if (smoothing > 0) continue;
          // Without smoothing it is nll of log_softmax.
          const Tensor logp = call<LogSoftmax>(x, int64_t{1}, OptionalType());
          CHECK(largest_difference(call<NllLoss>(logp, t, weight, Text(reduction), ignore), loss(x, t)) <
                1e-13);
          CHECK(derivatives_agree(
              [&](const Tensors& in) {
                return call<NllLoss>(call<Square>(in[0]), t, weight, Text(reduction), ignore);
              },
              {x}));
        }
  // Probabilities: those of one class each give the loss of the class.
  Tensor hot = zeros(IntList(flat, 2), DType::Float64);
  for (int64_t i = 0; i < 5; ++i) hot.data<double>()[i * 3 + t.data<int64_t>()[i]] = 1;
  for (const char* reduction : {"mean", "sum", "none"})
    for (double smoothing : {0.0, 0.2}) {
      auto loss = [&](const Tensor& a, const Tensor& target) {
        return call<CrossEntropy>(a, target, OptionalTensor(), Text(reduction), int64_t{-100}, smoothing);
      };
      CHECK(largest_difference(loss(x, hot), loss(x, t)) < 1e-13);
      CHECK(derivatives_agree([&](const Tensors& in) { return loss(in[0], in[1]); },
                              {x, filled(IntList(flat, 2), DType::Float64, 8, 0.3, 0.5)}));
    }
  CHECK_THROWS(IndexError, call<CrossEntropy>(x, classes({0, 1, 3, 0, 0}, {5}), OptionalTensor(),
                                              Text("mean"), int64_t{-100}, 0.0));
  CHECK_THROWS(ValueError,
               call<CrossEntropy>(x, classes({0}, {1}), OptionalTensor(), Text("mean"), int64_t{-100}, 0.0));
  CHECK_THROWS(ValueError, call<CrossEntropy>(x, t, OptionalTensor(), Text("average"), int64_t{-100}, 0.0));
}

void other_losses() {
  const int64_t s[] = {3, 4}, four[] = {4}, table[] = {6, 3};
  const Tensor x = filled(IntList(s, 2), DType::Float64, 1, 3),
               y = filled(IntList(s, 2), DType::Float64, 2, 0.5, 0.5);
  const Tensor w = filled(IntList(four, 1), DType::Float64, 3, 0.5, 1),
               p = filled(IntList(four, 1), DType::Float64, 4, 0.5, 1);
  for (const char* reduction : {"mean", "sum", "none"}) {
    CHECK(derivatives_agree([&](const Tensors& t) { return call<MseLoss>(t[0], t[1], Text(reduction)); },
                            {x, y}));
    CHECK(derivatives_agree([&](const Tensors& t) { return call<MseLoss>(t[0], t[1], Text(reduction)); },
                            {x, w}));
    CHECK(derivatives_agree(
        [&](const Tensors& t) {
          return call<BceWithLogits>(t[0], t[1], OptionalTensor(t[2]), OptionalTensor(t[3]), Text(reduction));
        },
        {x, y, w, p}));
    CHECK(derivatives_agree(
        [&](const Tensors& t) {
          return call<BceWithLogits>(t[0], t[1], OptionalTensor(), OptionalTensor(), Text(reduction));
        },
        {x, y}));
  }
  double expected = 0;
  for (int64_t i = 0; i < 12; ++i) expected += (at(x, i) - at(y, i)) * (at(x, i) - at(y, i)) / 12;
  CHECK(check::close(at(call<MseLoss>(x, y, Text("mean")), 0), expected, 1e-13));
  const Tensor rows = filled(IntList(table, 2), DType::Float64, 6);
  const Tensor indices = classes({0, 5, 5, 2, 1, 5}, {2, 3});
  for (int64_t padding : {-1, 5})
    CHECK(padding == 5 || derivatives_agree(
                              [&](const Tensors& t) {
                                return call<Square>(call<Embedding>(t[0], indices, padding, false, false));
                              },
                              {rows}));
  const Tensor g = kernels::embedding_backward(
      filled(call<Embedding>(rows, indices, int64_t{-1}, false, false).sizes(), DType::Float64, 1), indices,
      6, 5);
  CHECK(at(g, 15) == 0 && at(g, 0) != 0);
  CHECK_THROWS(IndexError, call<Embedding>(rows, classes({6}, {1}), int64_t{-1}, false, false));
}

}  // namespace

int main() {
  softmax();
  layer_norm();
  class_losses();
  other_losses();
  return check::result();
}
