// Every element-wise operator of the table: its derivative against finite differences, its recorded
// derivative against finite differences of the first, in real and complex numbers; in-place, strided,
// broadcast, empty and half-precision inputs against plain ones. Nothing here names an operator;
// test_elementwise_edges.cpp does.
#include <set>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "check.h"
#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "numbers.h"

using namespace adjoint;
using namespace numbers;

namespace {

struct Draw {
  uint64_t state = 0x9e3779b97f4a7c15;
  double operator()(double low, double high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * static_cast<double>(state >> 11) * 0x1p-53;
  }
};
Draw draw;

struct Case {
  const Operator& op;
  const ElementwiseInfo& info;
  DType type;
  std::vector<double> parameters;
  std::vector<Numbers> inputs;

  static constexpr int64_t n = 6;
  Case(const Operator& o, DType t) : op(o), info(*o.elementwise), type(t), parameters(defaults(o, t)) {
    for (int i = 0; i < info.arity; ++i) {
      Numbers v;
      for (int k = 0; k < n; ++k) {
        const double re = draw(info.samples.low, info.samples.high),
                     im = draw(info.samples.low, info.samples.high);
        v.push_back(i == info.condition ? Complex<double>(k % 2)
                                        : Complex<double>(re, is_complex(t) ? im : 0));
      }
      inputs.push_back(v);
    }
    // A value to fill with is one number.
    if (info.keeps_type) inputs.back().resize(1);
  }
  std::vector<Tensor> tensors(const std::vector<Numbers>& values) const {
    std::vector<Tensor> in;
    for (int i = 0; i < info.arity; ++i) {
      const int64_t size = static_cast<int64_t>(values[i].size());
      in.push_back(make(values[i], i == info.condition ? DType::Bool : type,
                        size == 1 && n != 1 ? IntList{} : IntList{&size, 1}));
    }
    return in;
  }
  Tensor run(const std::vector<Tensor>& in) const {
    return call_elementwise(info, in.data(), parameters.data());
  }
};

double inner(const Numbers& v, const Numbers& y) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += v[i].re * y[i].re + v[i].im * y[i].im;
  return sum;
}
Numbers cotangent(const Tensor& y) {
  Numbers v;
  for (int64_t i = 0; i < y.numel(); ++i) v.push_back({draw(-1, 1), y.is_complex() ? draw(-1, 1) : 0.0});
  return v;
}

/// ∂f/∂a + i ∂f/∂b by central differences, for every element of input k.
template <class F>
Numbers numeric(F f, std::vector<Numbers> at, size_t k, bool complex, double eps) {
  Numbers slope;
  for (auto& x : at[k]) {
    const Complex<double> x0 = x;
    auto along = [&](Complex<double> step) {
      x = x0 + step;
      const double up = f(at);
      x = x0 - step;
      const double down = f(at);
      x = x0;
      return (up - down) / (2 * eps);
    };
    slope.push_back({along(Complex<double>(eps)), complex ? along(Complex<double>(0, eps)) : 0.0});
  }
  return slope;
}

bool agree(const Numbers& a, const Numbers& b, double tolerance) {
  double scale = 1, error = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    scale = std::max({scale, std::abs(b[i].re), std::abs(b[i].im)});
    error = std::max({error, std::abs(a[i].re - b[i].re), std::abs(a[i].im - b[i].im)});
    if (std::isnan(a[i].re) || std::isnan(a[i].im)) return false;
  }
  return a.size() == b.size() && error <= tolerance * scale;
}
void expect(bool ok, const Case& c, const char* what, const Numbers& got = {}, const Numbers& want = {}) {
  if (check::that(ok, (std::string(c.op.name) + " " + name_of(c.type) + ": " + what).c_str(), __FILE__,
                  __LINE__))
    return;
  for (size_t i = 0; i < got.size() && i < want.size(); ++i)
    std::fprintf(stderr, "    got %g%+gi, want %g%+gi\n", got[i].re, got[i].im, want[i].re, want[i].im);
}

void derivatives(const Case& c) {
  std::vector<int> inputs;
  for (int i = 0; i < c.info.arity; ++i)
    if (i != c.info.condition && c.info.rules[i] != RuleKind::Missing) inputs.push_back(i);
  if (static_cast<int>(inputs.size()) != c.info.arity - (c.info.condition >= 0)) {
    // No closed form by the first input; the tests in Python have what there is by the second.
    static constexpr std::string_view kWithout[] = {"igamma", "igammac", "_gamma_density", "_zeta",
                                                    "_dirichlet_slope"};
    return expect(std::ranges::find(kWithout, c.op.name) != std::end(kWithout), c,
                  "has a rule for every input");
  }

  /// The gradients of the inputs for a cotangent; recorded ones keep their history.
  auto gradients = [&](std::vector<Tensor>& in, const Tensor& v, bool recorded) {
    for (int i : inputs) set_requires_grad(in[i], true);
    const Tensor y = c.run(in);
    Tensors leaves;
    for (int i : inputs) leaves.push_back(in[i]);
    const Tensor ys[] = {y}, vs[] = {v};
    return backward(ys, vs, leaves, {.retain_graph = recorded, .create_graph = recorded, .accumulate = false},
                    false);
  };

  Tensor y;
  {
    GradMode off(false);
    y = c.run(c.tensors(c.inputs));
  }
  const Numbers v = cotangent(y);
  const int64_t size = y.numel();
  auto cotangent_tensor = [&](const Numbers& values) { return make(values, y.dtype(), {&size, 1}); };

  // First order.
  auto in = c.tensors(c.inputs);
  const Tensors first = gradients(in, cotangent_tensor(v), false);
  auto loss = [&](const std::vector<Numbers>& at) {
    GradMode off(false);
    return inner(v, read(c.run(c.tensors(at))));
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Numbers want = numeric(loss, c.inputs, inputs[k], is_complex(c.type), 1e-6);
    expect(first[k].dtype() == c.type && agree(read(first[k]), want, 2e-8), c, "derivative", read(first[k]),
           want);
  }

  // Second order: the recorded gradient, in inputs and cotangent.
  in = c.tensors(c.inputs);
  Tensor vt = cotangent_tensor(v);
  set_requires_grad(vt, true);
  const Tensors second = gradients(in, vt, true);
  std::vector<Numbers> weights;
  Tensors roots, cotangents;
  for (size_t k = 0; k < inputs.size(); ++k) {
    expect(agree(read(second[k]), read(first[k]), 1e-13), c, "recorded rule gives the fused one's value",
           read(second[k]), read(first[k]));
    weights.push_back(cotangent(second[k]));
    if (!second[k].requires_grad()) continue;
    roots.push_back(second[k]);
    cotangents.push_back(make(weights.back(), second[k].dtype(), second[k].sizes()));
  }
  auto moved = c.inputs;
  moved.push_back(v);
  auto gradient_loss = [&](const std::vector<Numbers>& at) {
    auto x = c.tensors(at);
    const Tensors g = gradients(x, cotangent_tensor(at.back()), false);
    double sum = 0;
    for (size_t k = 0; k < g.size(); ++k) sum += inner(weights[k], read(g[k]));
    return sum;
  };
  std::vector<size_t> places(inputs.begin(), inputs.end());
  places.push_back(moved.size() - 1);
  Tensors leaves;
  for (int i : inputs) leaves.push_back(in[i]);
  leaves.push_back(vt);
  const Tensors found = roots.empty() ? Tensors(leaves.size())
                                      : backward(roots, cotangents, leaves, {.accumulate = false}, true);
  for (size_t k = 0; k < leaves.size(); ++k) {
    const Numbers want = numeric(gradient_loss, moved, places[k], is_complex(leaves[k].dtype()), 1e-6);
    const Numbers got = found[k].defined() ? read(found[k]) : Numbers(want.size());
    expect(agree(got, want, 1e-7), c, "second derivative", got, want);
  }
}

/// The same values whatever way the elements lie, and in place.
void layouts(const Case& c) {
  GradMode off(false);
  const auto in = c.tensors(c.inputs);
  const Tensor plain = c.run(in);
  const Numbers want = read(plain);
  // Vector and scalar code may round differently.
  const bool exact = is_integral(plain.dtype());
  auto equal = [&](const Tensor& t) {
    return exact ? same_numbers(read(t), want)
                 : agree(read(t), want, c.type == DType::Float32 ? 1e-6 : 1e-14);
  };

  auto strided = in;
  for (Tensor& t : strided) {
    if (t.dim() == 0) continue;
    const int64_t shape[] = {Case::n, 2}, one[] = {Case::n}, step[] = {2};
    Tensor wide = zeros(shape, t.dtype());
    strided[&t - strided.data()] = alias(wide, one, step, 1);
    copy_into(strided[&t - strided.data()], in[&t - strided.data()]);
  }
  expect(equal(c.run(strided)), c, "strided");

  // Each element alone, without dimensions.
  Numbers single;
  for (int64_t k = 0; k < Case::n; ++k) {
    std::vector<Tensor> one;
    for (size_t i = 0; i < in.size(); ++i) {
      const Numbers v = read(in[i]);
      one.push_back(make({v.size() == 1 ? v[0] : v[k]}, in[i].dtype(), {}));
    }
    const Tensor y = c.run(one);
    check::that(y.dim() == 0, c.op.name, __FILE__, __LINE__);
    single.push_back(read(y)[0]);
  }
  expect(exact ? same_numbers(single, want) : agree(single, want, c.type == DType::Float32 ? 1e-6 : 1e-14), c,
         "zero-dimensional", single, want);

  const int64_t none[] = {0, 3};
  std::vector<Tensor> nothing;
  for (const Tensor& t : in) nothing.push_back(t.dim() == 0 ? t : empty(none, t.dtype()));
  expect(same(c.run(nothing).sizes(), none), c, "empty");

  if (c.info.inplace && plain.dtype() == c.type) {
    auto copy = in;
    copy[0] = copy_of(in[0]);
    const uint32_t version = copy[0].version();
    const Tensor out = call_elementwise(c.info, copy.data(), c.parameters.data(), &copy[0], true);
    expect(equal(out) && out.get() == copy[0].get() && out.version() == version + 1, c, "in place");
  }
  Tensor out = empty(plain.sizes(), plain.dtype());
  call_elementwise(c.info, in.data(), c.parameters.data(), &out, false);
  expect(equal(out), c, "out=");
}

/// float16 and bfloat16 are float32 rounded once.
void halves(const Operator& op) {
  for (DType half : {DType::Float16, DType::BFloat16}) {
    if (!(op.elementwise->types >> index_of(half) & 1)) continue;
    Case c(op, half);
    const auto in = c.tensors(c.inputs);
    auto wide = in;
    for (Tensor& t : wide)
      if (t.dtype() == half) t = copy_of(t, DType::Float32);
    GradMode off(false);
    const Tensor y = c.run(in), z = c.run(wide);
    expect(same_numbers(read(y), read(copy_of(z, y.dtype()))), c, "is float32 rounded", read(y), read(z));
  }
}

/// In-place on part of a graph gives the gradient that the plain form gives.
void inplace_gradient(const Case& c) {
  if (!c.info.inplace || c.info.result != ResultType::Same || c.info.keeps_type) return;
  auto run = [&](bool inplace) {
    auto in = c.tensors(c.inputs);
    Tensor leaf = in[0];
    set_requires_grad(leaf, true);
    const Tensor same_values[] = {leaf};
    Tensor x;
    for (const Operator* o : operators())
      if (!std::strcmp(o->name, "neg")) x = call_elementwise(*o->elementwise, same_values, nullptr);
    for (const Operator* o : operators())
      if (!std::strcmp(o->name, "neg")) x = call_elementwise(*o->elementwise, &x, nullptr);
    in[0] = x;
    const Tensor y = inplace ? call_elementwise(c.info, in.data(), c.parameters.data(), &x, true) : c.run(in);
    const Tensor ys[] = {y}, leaves[] = {leaf};
    const Tensor v[] = {full(y.sizes(), Scalar(1.0), y.dtype())};
    return backward(ys, v, leaves, {.accumulate = false}, false)[0];
  };
  const Tensor a = run(false), b = run(true);
  expect(agree(read(b), read(a), 1e-13), c, "in-place gradient", read(b), read(a));
}

}  // namespace

int main() {
  int covered = 0;
  std::set<std::string> names;
  for (const Operator* op : operators()) {
    check::that(names.insert(op->name).second, (std::string("one operator is called ") + op->name).c_str(),
                __FILE__, __LINE__);
    for (std::string_view rest = op->aliases; !rest.empty();) {
      const std::string alias(rest.substr(0, rest.find(',')));
      check::that(names.insert(alias).second, ("one operator is called " + alias).c_str(), __FILE__,
                  __LINE__);
      rest = rest.find(',') == rest.npos ? "" : rest.substr(rest.find(',') + 2);
    }
    if (!op->elementwise) continue;
    ++covered;
    for (DType type :
         {DType::Float32, DType::Float64, DType::Complex128, DType::Int64, DType::UInt8, DType::Bool}) {
      if (!(op->elementwise->types >> index_of(type) & 1)) continue;
      Case c(*op, type);
      if (is_integral(type))  // small whole numbers, none zero: divisors
        for (auto& input : c.inputs)
          if (&input != &c.inputs[c.info.condition < 0 ? c.inputs.size() : c.info.condition])
            for (auto& x : input)
              x = Complex<double>(type == DType::Bool ? 1 : 1 + std::floor(std::abs(x.re) * 3));
      layouts(c);
      if (type != DType::Float64 && type != DType::Complex128) continue;
      if (c.info.result == ResultType::Bool) continue;
      derivatives(c);
      if (c.info.condition == 0 || c.info.rules[0] != RuleKind::Missing) inplace_gradient(c);
    }
    halves(*op);
  }
  std::printf("%d element-wise operators\n", covered);
  CHECK(covered > 100);
  return check::result();
}
