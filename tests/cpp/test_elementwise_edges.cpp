// Where element-wise operators are delicate: slopes at kinks and at infinity, zero divisors, integer powers,
// wrapping, operands that are refused. Start reading at `slopes` and `values`; what is true of every operator
// is tested in test_elementwise.cpp.
#include <cstring>
#include <limits>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "check.h"
#include "numbers.h"

using namespace adjoint;
using namespace numbers;

namespace {

const Operator& find(const char* name) {
  for (const Operator* op : operators())
    if (!std::strcmp(op->name, name)) return *op;
  fail("no operator ", name);
}
constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

Tensor vector(std::initializer_list<double> values, DType type = DType::Float64) {
  Numbers v;
  for (double x : values) v.push_back(Complex<double>(x));
  const int64_t n = static_cast<int64_t>(v.size());
  return make(v, type, {&n, 1});
}
Tensor run(const char* name, std::vector<Tensor> in, std::vector<double> parameters = {}) {
  const Operator& op = find(name);
  if (parameters.empty()) parameters = defaults(op);
  return call_elementwise(*op.elementwise, in.data(), parameters.data());
}
/// Value and gradient of each input, recorded or not, for a cotangent of ones.
void slopes(const char* name, std::vector<Tensor> in, std::vector<std::vector<double>> want,
            std::vector<double> parameters = {}) {
  for (bool recorded : {false, true}) {
    for (Tensor& t : in) {
      t = detach(t);
      set_requires_grad(t, true);
    }
    const Tensor ys[] = {run(name, in, parameters)};
    const Tensor v[] = {full(ys[0].sizes(), Scalar(1.0), ys[0].dtype())};
    const Tensors g = backward(ys, v, in, {.create_graph = recorded, .accumulate = false}, false);
    for (size_t i = 0; i < want.size(); ++i) {
      Numbers w;
      for (double x : want[i]) w.push_back(Complex<double>(x));
      if (!check::that(same_numbers(read(g[i]), w),
                       (std::string(name) + (recorded ? " recorded" : "") + " slope at a kink").c_str(),
                       __FILE__, __LINE__))
        for (auto& x : read(g[i])) std::fprintf(stderr, "    %g\n", x.re);
    }
  }
}
void values(const char* name, std::vector<Tensor> in, std::vector<double> want,
            std::vector<double> parameters = {}) {
  const Numbers got = read(run(name, std::move(in), std::move(parameters)));
  Numbers w;
  for (double x : want) w.push_back(Complex<double>(x));
  if (!check::that(same_numbers(got, w), (std::string(name) + " values").c_str(), __FILE__, __LINE__))
    for (auto& x : got) std::fprintf(stderr, "    %.17g\n", x.re);
}

void edges() {
  slopes("abs", {vector({-1, 0, 2})}, {{-1, 0, 1}});
  slopes("sign", {vector({-1, 0, 2})}, {{0, 0, 0}});
  slopes("floor", {vector({-1.5, 0, 2})}, {{0, 0, 0}});
  slopes("relu", {vector({-1, 0, 2})}, {{0, 0, 1}});
  slopes("relu6", {vector({-1, 0, 3, 6, 7})}, {{0, 0, 1, 0, 0}});
  slopes("hardtanh", {vector({-1, 0, 1})}, {{0, 1, 0}});
  slopes("hardswish", {vector({-4, -3, 0, 3, 4})}, {{0, 0, 0.5, 1, 1}});
  slopes("clamp", {vector({-2, -1, 0, 1, 2}), vector({-1}), vector({1})}, {{0, 1, 1, 1, 0}, {1}, {1}});
  slopes("clamp", {vector({-2, -1, 0, 1, nan}), vector({-1}), vector({nan})}, {{0, 0, 0, 0, 0}});
  slopes("clamp_min", {vector({-2, -1, 0, 1, 2}), vector({-1})}, {{0, 1, 1, 1, 1}, {1}});
  slopes("clamp_max", {vector({-2, -1, 0, 1, 2}), vector({1})}, {{1, 1, 1, 1, 0}, {1}});
  slopes("maximum", {vector({1, 2, 3}), vector({2, 2, 2})}, {{0, 0.5, 1}, {1, 0.5, 0}});
  slopes("minimum", {vector({1, 2, 3}), vector({2, 2, 2})}, {{1, 0.5, 0}, {0, 0.5, 1}});
  slopes("fmax", {vector({nan, 1, 2}), vector({1, nan, 2})}, {{0, 1, 1}, {1, 0, 0}});
  slopes("nan_to_num", {vector({nan, inf, -inf, 1})}, {{0, 0, 0, 1}});
  slopes("hypot", {vector({0, 3}), vector({0, 4})}, {{0, 0.6}, {0, 0.8}});
  slopes("xlogy", {vector({0, 0}), vector({0, 2})}, {{0, std::log(2.0)}, {0, 0}});
  slopes("logaddexp", {vector({inf, -inf, 1}), vector({inf, -inf, 1})}, {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}});
  slopes("pow", {vector({0, 0, 2, -2, inf}), vector({0, 2, 0, 2, 0})},
         {{0, 0, 0, -4, 0}, {0, 0, std::log(2.0), nan, inf}});
  slopes("elu", {vector({-1000, 1000})}, {{0, 1}});
  slopes("softplus", {vector({-1000, 1000})}, {{0, 1}});
  slopes("celu", {vector({-1000, 1000})}, {{0, 1}});
  slopes("logit", {vector({0.01, 0.5, 0.99})}, {{0, 4, 0}}, {0.1});
  for (double p : {0.0, 1.0, 2.0, 3.0, 0.5, -1.0, 2.5}) {  // a bare exponent
    const Tensor x = vector({0.3, 1.7, 2}), e = wrap_number(Scalar(p), DType::Float64);
    for (bool recorded : {false, true}) {
      Tensor leaf = detach(x);
      set_requires_grad(leaf, true);
      const Tensor ys[] = {run("pow", {leaf, e})}, leaves[] = {leaf};
      const Tensor v[] = {full(ys[0].sizes(), Scalar(1.0), DType::Float64)};
      const Numbers y = read(ys[0]),
                    g = read(
                        backward(ys, v, leaves, {.create_graph = recorded, .accumulate = false}, false)[0]);
      for (int i = 0; i < 3; ++i) {
        const double at = read(x)[i].re;
        CHECK(check::close(y[i].re, std::pow(at, p), 1e-14));
        CHECK(check::close(g[i].re, p == 0 ? 0 : p * std::pow(at, p - 1), 1e-14));
      }
    }
  }
  for (double p : {2.0, 0.3, 0.0}) {  // a bare base
    const Tensor x = vector({0.3, 1.7, -2}), base = wrap_number(Scalar(p), DType::Float64);
    for (bool recorded : {false, true}) {
      Tensor leaf = detach(x);
      set_requires_grad(leaf, true);
      const Tensor ys[] = {run("pow", {base, leaf})}, leaves[] = {leaf};
      const Tensor v[] = {full(ys[0].sizes(), Scalar(1.0), DType::Float64)};
      const Numbers g =
          read(backward(ys, v, leaves, {.create_graph = recorded, .accumulate = false}, false)[0]);
      for (int i = 0; i < 3; ++i) {
        const double at = read(x)[i].re, want = p == 0 ? (at < 0 ? -inf : 0) : std::pow(p, at) * std::log(p);
        CHECK(g[i].re == want || check::close(g[i].re, want, 1e-14));
      }
    }
  }
  {  // |0| and sgn(0) in the complex plane
    Tensor z = make({Complex<double>(0)}, DType::Complex128, {});
    for (const char* name : {"abs", "sgn", "angle"})
      for (bool recorded : {false, true}) {
        Tensor leaf = detach(z);
        set_requires_grad(leaf, true);
        const Tensor ys[] = {run(name, {leaf})}, leaves[] = {leaf};
        const Tensor v[] = {full(ys[0].sizes(), Scalar(1.0), ys[0].dtype())};
        const Numbers g =
            read(backward(ys, v, leaves, {.create_graph = recorded, .accumulate = false}, false)[0]);
        check::that(g[0].re == 0 && g[0].im == 0, name, __FILE__, __LINE__);
      }
  }

  // Values.
  const DType l = DType::Int64, b = DType::UInt8;
  values("floor_divide", {vector({7, -7, 7, -7}, l), vector({2, 2, -2, -2}, l)}, {3, -4, -4, 3});
  values("_trunc_divide", {vector({7, -7, 7, -7}, l), vector({2, 2, -2, -2}, l)}, {3, -3, -3, 3});
  values("remainder", {vector({7, -7, 7, -7}, l), vector({2, 2, -2, -2}, l)}, {1, 1, -1, -1});
  values("fmod", {vector({7, -7, 7, -7}, l), vector({2, 2, -2, -2}, l)}, {1, -1, 1, -1});
  values("floor_divide", {vector({7, 250}, b), vector({2, 7}, b)}, {3, 35});
  values("floor_divide", {vector({7.5, -7.5, 1, -1, 0}), vector({2, 2, 0, 0, 0})}, {3, -4, inf, -inf, nan});
  values("pow", {vector({-3, 2, 0, 1, -1, -1, 5}, l), vector({3, 10, 0, -2, -3, -4, -1}, l)},
         {-27, 1024, 1, 1, -1, 1, 0});
  values("pow", {vector({3, 2}, b), vector({6, 8}, b)}, {729 % 256, 0});
  values("neg", {vector({1, 0}, b)}, {255, 0});
  values("abs", {vector({-128}, DType::Int8)}, {-128});
  values("clamp", {vector({1, 5, 9}, l), vector({2}, l), vector({7}, l)}, {2, 5, 7});
  values("clamp_min", {vector({1, 5, 9}, l), vector({2}, l)}, {2, 5, 9});
  values("clamp", {vector({1, 5, 200}, b), vector({2}, b), vector({7}, b)}, {2, 5, 7});
  values("clamp", {vector({0, 5, nan}), vector({3}), vector({1})}, {1, 1, nan});
  CHECK(
      run("clamp", {vector({1, 5, 9}, l), wrap_number(Scalar(2.5), l), wrap_number(Scalar(7), l)}).dtype() ==
      default_dtype());
  values("nan_to_num", {vector({nan, inf, -inf, 1.5})}, {0, std::numeric_limits<double>::max(), -9, 1.5},
         {0, std::numeric_limits<double>::max(), -9});
  values("nan_to_num", {vector({inf, nan})}, {nan, 0}, {0, nan, -9});
  values("bitwise_left_shift", {vector({1, 2, 3, -1}, l), vector({-1, 64, 2, 1}, l)}, {0, 0, 12, -2});
  values("bitwise_right_shift", {vector({-1, 2, -5, 5}, l), vector({-1, 64, 1, 1}, l)}, {-1, 0, -3, 2});
  values("bitwise_not", {vector({5, 0}, b)}, {250, 255});
  values("addcmul", {vector({1, 2}, l), vector({1, 2}, l), vector({1, 2}, l)}, {3, 10}, {2});
  values("masked_fill",
         {vector({1, 2}, l), vector({1, 0}, DType::Bool), scalar_tensor(Scalar(2.5), DType::Float64)},
         {2, 2});
  values("heaviside", {vector({-1, 0, 2, nan}), vector({5, 5, 5, 5})}, {0, 5, 1, nan});
  values("fmin", {vector({nan, 1, nan}), vector({1, nan, nan})}, {1, 1, nan});
  values("logaddexp", {vector({inf, -inf, 1000}), vector({inf, -inf, 1000})},
         {inf, -inf, 1000 + std::log(2.0)});
  values("_round_decimals", {vector({1.25, -1.375, 1234})}, {1.2, -1.4, 1234}, {1});
  values("_round_decimals", {vector({1250, -1350, 1234})}, {1200, -1400, 1200}, {-2});
  values("angle", {vector({-1, 0, 2, nan})}, {3.14159265358979323846, 0, 0, nan});
  values("sgn", {vector({-3, 0, 9}, l)}, {-1, 0, 1});
  // ψ'(1) = π²/6, ψ''(1) = -2 ζ(3), ψ'(-1/2) = π²/2 + 4, and a large order.
  CHECK(check::close(read(run("_polygamma", {vector({1})}, {1}))[0].re, 1.6449340668482264365, 1e-15));
  CHECK(check::close(read(run("_polygamma", {vector({1})}, {2}))[0].re, -2.4041138063191885708, 1e-15));
  CHECK(check::close(read(run("_polygamma", {vector({-0.5})}, {1}))[0].re, 8.9348022005446793094, 1e-15));
  CHECK(check::close(read(run("_polygamma", {vector({0.25})}, {5}))[0].re, 120 * (4096 + 0.2853), 1e-3));
  CHECK(check::close(read(run("_polygamma", {vector({1})}, {31}))[0].re, 8.2228386560924632e33, 1e-14));

  // Refused, and nothing written.
  const Tensor x = vector({1, 2, 3}, l);
  for (const char* name : {"floor_divide", "_trunc_divide", "remainder", "fmod"}) {
    CHECK_THROWS(Error, run(name, {x, vector({1, 0, 1}, l)}));
    CHECK_THROWS(Error, run(name, {x, wrap_number(Scalar(0), l)}));
    // 256 is 0 as a byte.
    CHECK_THROWS(Error, run(name, {vector({1, 2}, b), scalar_tensor(Scalar(256), l)}));
    const Tensor in[] = {x, vector({1, 0, 1}, l)};
    CHECK_THROWS(Error, call_elementwise(*find(name).elementwise, in, nullptr, &x, true));
    const int64_t none[] = {0};
    CHECK(run(name, {empty(none, l), wrap_number(Scalar(1), l)}).numel() == 0);
  }
  CHECK(same_numbers(read(x), read(vector({1, 2, 3}, l))) && x.version() == 0);
  CHECK_THROWS(Error, run("sub", {vector({1}, DType::Bool), vector({1}, l)}));
  // A bound that is left out: another operator; both: refused.
  Value v[3];
  Results results;
  v[0].present = true;
  v[0].tensor = &x;
  CHECK_THROWS(Error, find("clamp").boxed(v, results));
  const Tensor most = scalar_tensor(Scalar(2), x.dtype());
  v[2].present = true;
  v[2].tensor = &most;
  find("clamp").boxed(v, results);
  CHECK(same_numbers(read(results.one), read(run("clamp_max", {x, most}))));
  CHECK_THROWS(Error, run("leaky_relu", {x}));
  CHECK_THROWS(Error, run("pow", {x, wrap_number(Scalar(-1), l)}));
  CHECK_THROWS(Error, run("complex", {vector({1}), vector({1}, DType::Float32)}));
  CHECK_THROWS(Error, run("complex", {x, x}));
  CHECK_THROWS(Error, run("masked_fill", {vector({1}), vector({1}, DType::Bool), vector({1})}));
  CHECK_THROWS(Error,
               run("masked_fill", {vector({1}), vector({1}), scalar_tensor(Scalar(1.0), DType::Float64)}));
  CHECK_THROWS(Error, run("masked_fill", {vector({1}), vector({1}, DType::Bool),
                                          scalar_tensor(Scalar(Complex<double>(0, 1)), DType::Complex128)}));
  CHECK_THROWS(Error, run("bitwise_and", {vector({1}), vector({1})}));
  // The identity gives the tensor itself.
  const Tensor r = vector({1});
  CHECK(run("conj", {r}).get() == r.get() && run("positive", {x}).get() == x.get());
}

}  // namespace

int main() {
  edges();
  return check::result();
}
