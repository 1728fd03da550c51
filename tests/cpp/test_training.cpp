// The core used as a C++ library, through adjoint.h alone: a network is trained, differentiated twice,
// refused where it was written to, and leaves no memory behind. Start at `main`.
#include "adjoint.h"
#include "check.h"
#include "gradient_check.h"

using namespace adjoint;
using check::filled;

namespace {

double number(const Tensor& t) { return item(t).as_double(); }
double at(const Tensor& t, int64_t i) {
  return read_element(t.bytes() + i * t.itemsize(), t.dtype()).as_double();
}
Tensor total(const Tensor& t) { return op<Sum>(t, {}, false, {}); }
size_t in_use() { return runtime::memory_statistics().allocated_bytes; }

/// The message of the error that `f` raises; empty without one.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}
bool says(const std::string& message, const char* phrase) {
  return message.find(phrase) != std::string::npos;
}

// --- A network
// -------------------------------------------------------------------------------------------------

struct Network {
  Tensors parameters;
  Network(int64_t in, int64_t hidden, int64_t classes, DType dtype)
      : parameters{filled(dims(hidden, in), dtype, 1), filled(dims(hidden), dtype, 2, 0.1),
                   filled(dims(classes, hidden), dtype, 3, 0.5), filled(dims(classes), dtype, 4, 0.1)} {
    for (const Tensor& p : parameters) parameter(p);
  }
  static Tensor logits(const Tensor& x, const Tensors& p) {
    const Tensor h = call<Tanh>(op<Linear>(x, p[0], p[1]));
    return op<Linear>(h, p[2], p[3]);
  }
};

Tensor cross_entropy(const Tensor& logits, const Tensor& classes) {
  return op<CrossEntropy>(logits, classes, {}, "mean", -100, 0.0);
}

/// Points on three rings, which no straight lines part.
void rings(int64_t n, DType dtype, Tensor& x, Tensor& classes) {
  x = empty(dims(n, 2), dtype);
  classes = empty(dims(n), DType::Int64);
  for (int64_t i = 0; i < n; ++i) {
    const double radius = 0.4 + static_cast<double>(i % 3), angle = 2.4 * static_cast<double>(i);
    write_element(x.bytes() + 2 * i * x.itemsize(), dtype, Scalar(radius * std::cos(angle)));
    write_element(x.bytes() + (2 * i + 1) * x.itemsize(), dtype, Scalar(radius * std::sin(angle)));
    classes.data<int64_t>()[i] = i % 3;
  }
}

void training() {
  Tensor x, classes;
  rings(90, DType::Float32, x, classes);
  Network net(2, 24, 3, DType::Float32);
  double first = 0, last = 0;
  for (int step = 0; step < 400; ++step) {
    const Tensor loss = cross_entropy(net.logits(x, net.parameters), classes);
    last = number(loss);
    if (step == 0) first = last;
    backward(loss);
    const GradMode off(false);
    for (const Tensor& p : net.parameters) {
      const uint32_t version = p.version();
      call<Copy>(p, call<Sub>(p, call<Mul>(gradient(p), 0.5)));
      CHECK(p.version() == version + 1 && is_leaf(p) && p.requires_grad());
      set_gradient(p, {});
    }
  }
  std::printf("loss %.3f -> %.4f\n", first, last);
  CHECK(first > 0.9);
  CHECK(last < 0.12);
}

void differences() {
  Tensor x, classes;
  rings(6, DType::Float64, x, classes);
  const Network net(2, 3, 3, DType::Float64);
  Tensors inputs = net.parameters;
  inputs.push_back(x);
  CHECK(check::derivatives_agree(
      [&](const Tensors& in) { return cross_entropy(Network::logits(in[4], in), classes); }, inputs, 1e-5));
}

void double_backward() {
  const Tensor x = parameter(filled(dims(5), DType::Float64, 3));
  // x^3 sin(x): its first and second derivatives by hand.
  const Recorded formula = Recorded(call<Mul>(call<Mul>(x, x), x)) * Recorded(call<Sin>(x));
  const Tensor g = grad(total(formula.tensor), {&x, 1}, {.create_graph = true})[0];
  const Tensor h = grad(total(g), {&x, 1})[0];
  for (int64_t i = 0; i < 5; ++i) {
    const double v = at(x, i), s = std::sin(v), c = std::cos(v);
    CHECK(check::close(at(g, i), 3 * v * v * s + v * v * v * c, 1e-12, 1e-14));
    CHECK(check::close(at(h, i), 6 * v * s + 6 * v * v * c - v * v * v * s, 1e-12, 1e-14));
  }
  CHECK(!gradient(x).defined());  // grad() captures and adds nothing
}

// --- Refusals
// -------------------------------------------------------------------------------------------------

void refusals() {
  const Tensor x = parameter(filled(dims(4), DType::Float64, 1));
  const char* written = "has been modified by an inplace operation";
  {  // a result that its rule needs
    const Tensor y = call<Tanh>(x), loss = total(y);
    {
      const GradMode off(false);
      call<Fill>(y, scalar_tensor(Scalar(0.0), DType::Float64));
    }
    CHECK(says(error_of([&] { backward(loss); }), written));
  }
  {  // an input that its rule needs
    const Tensor w = filled(dims(4), DType::Float64, 2), loss = total(call<Mul>(x, w));
    call<Fill>(w, scalar_tensor(Scalar(0.0), DType::Float64));
    CHECK(says(error_of([&] { backward(loss); }), written));
  }
  {  // an input that no rule needs may be written
    const Tensor w = filled(dims(4), DType::Float64, 2), loss = total(call<Add>(x, w));
    call<Fill>(w, scalar_tensor(Scalar(0.0), DType::Float64));
    CHECK(error_of([&] { backward(loss); }).empty());
  }
  CHECK(says(error_of([&] { call<Fill>(x, scalar_tensor(Scalar(0.0), DType::Float64)); }),
             "a leaf Variable that requires grad"));
  const Tensor y = total(call<Square>(x));
  backward(y);
  CHECK(says(error_of([&] { backward(y); }), "a second time"));
  CHECK(says(error_of([&] { backward(call<Square>(x)); }),
             "grad can be implicitly created only for scalar outputs"));
  const Tensor unused = parameter(filled(dims(2), DType::Float64, 2));
  CHECK(says(error_of([&] { grad(total(call<Square>(x)), {&unused, 1}); }),
             "to not have been used in the graph"));
  CHECK(
      says(error_of([&] { backward(total(filled(dims(2), DType::Float64, 1))); }), "does not require grad"));
}

// --- Memory
// -------------------------------------------------------------------------------------------------

void long_chain() {
  constexpr int length = 1'000'000;
  const size_t before = in_use();
  {
    const Tensor x = parameter(scalar_tensor(Scalar(0.75), DType::Float64));
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = i % 2 ? call<Mul>(y, 0.5) : call<Mul>(y, 2.0);
    CHECK(in_use() - before < size_t{length} * 512);
    backward(y);
    CHECK(number(gradient(x)) == 1);
  }
  CHECK(in_use() == before);
  {  // freed without having run
    const Tensor x = parameter(scalar_tensor(Scalar(0.75), DType::Float64));
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = call<Sin>(y);
  }
  CHECK(in_use() == before);
}

/// What ten layers over `x` keep for the backward pass, beyond the result.
template <class Layer>
size_t kept(const Layer& layer, const Tensor& x, const Tensor& w) {
  const size_t before = in_use();
  Tensor h = x;
  for (int i = 0; i < 10; ++i) h = layer(h, w);
  return in_use() - before - static_cast<size_t>(h.numel() * h.itemsize());
}

void frozen_layers() {
  auto fresh = [](int seed, bool wants) {
    const Tensor t = filled(dims(100, 100), DType::Float32, seed, 0.1);
    return wants ? parameter(t) : t;
  };
  const size_t one = 100 * 100 * 4;
  auto mul = [](const Tensor& h, const Tensor& w) { return call<Mul>(h, w); };
  auto linear = [](const Tensor& h, const Tensor& w) { return op<Linear>(h, w, {}); };
  auto matmul = [](const Tensor& h, const Tensor& w) { return call<Matmul>(h, w); };
  auto check_layer = [&](auto layer) {
    CHECK(kept(layer, fresh(1, false), fresh(2, false)) < one);  // nothing is recorded
    CHECK(kept(layer, fresh(1, true), fresh(2, false)) < one);   // a frozen layer keeps no activations
    CHECK(kept(layer, fresh(1, false), fresh(2, true)) >= 9 * one);
  };
  check_layer(mul);
  check_layer(linear);
  check_layer(matmul);
}

void dropped_graphs() {
  Tensor x, classes;
  rings(60, DType::Float32, x, classes);
  const Network net(2, 40, 3, DType::Float32);
  auto loss = [&] { return cross_entropy(net.logits(x, net.parameters), classes); };
  backward(loss());
  for (const Tensor& p : net.parameters) set_gradient(p, {});
  const auto before = runtime::memory_statistics();
  auto clean = [&] {
    const auto now = runtime::memory_statistics();
    return now.allocated_bytes == before.allocated_bytes && now.allocation_count == before.allocation_count;
  };
  loss();
  CHECK(clean());  // never run
  {
    const Tensor y = loss();
    CHECK(!clean());
    backward(y, {}, {.retain_graph = true});
    backward(y);
    CHECK(gradient(net.parameters[0]).defined());
    for (const Tensor& p : net.parameters) set_gradient(p, {});
  }
  CHECK(clean());  // run, with the graph kept, then not
  {
    const Tensors gs = grad(loss(), net.parameters, {.create_graph = true});
    Tensor norm = scalar_tensor(Scalar(0.0), DType::Float32);
    for (const Tensor& g : gs) norm = call<Add>(norm, total(call<Square>(g)));
    CHECK(grad(norm, net.parameters).size() == 4);
  }
  CHECK(clean());  // differentiated twice
  {
    const Tensor y = loss();
    const Tensor h = call<Square>(y);
    register_hook(h, [](const Tensor&) -> Tensor { throw Error("no further"); });
    CHECK(error_of([&] { backward(h); }) == "no further");
  }
  CHECK(clean());  // given up half-way
}

// --- Hooks and writes
// -------------------------------------------------------------------------------------------------

void hooks() {
  const Tensor x = parameter(filled(dims(3), DType::Float64, 1));
  std::string order;
  {
    const Tensor y = call<Mul>(x, 3.0), z = total(y);
    retain_grad(y);
    register_hook(y, [&](const Tensor& g) {
      order += 'y';
      return call<Mul>(g, 10.0);
    });
    register_hook(x, [&](const Tensor&) {
      order += 'x';
      return Tensor();
    });
    register_post_accumulate_hook(x,
                                  [&](const Tensor& leaf) { order += gradient(leaf).defined() ? 'a' : '-'; });
    y->grad_fn->make_extras().prehooks.emplace_back(
        1, [&](Gradients& in) { order += in.size() == 1 ? 'b' : '-'; });
    y->grad_fn->make_extras().posthooks.emplace_back(
        1, [&](Gradients& out, const Gradients&) { order += out[0].defined() ? 'p' : '-'; });
    backward(z);
    CHECK(order == "ybpxa");
    CHECK(at(gradient(x), 0) == 30 && at(gradient(y), 2) == 10);
  }
  // A hook may remove itself and add others while it runs.
  const Tensor leaf = parameter(filled(dims(3), DType::Float64, 1)), inner = call<Mul>(leaf, 1.0);
  for (const Tensor& t : {leaf, inner}) {
    auto count = std::make_shared<int>(0);
    auto id = std::make_shared<uint64_t>(0);
    *id = register_hook(t, [t = t.get(), id, count](const Tensor&) {
      const Tensor self = Tensor::share(t);
      remove_hook(self, *id);
      for (int i = 0; i < 20; ++i)
        register_hook(self, [count](const Tensor&) {
          ++*count;
          return Tensor();
        });
      return Tensor();
    });
    backward(total(call<Square>(inner)), {}, {.retain_graph = true});
    CHECK(*count == 0);
    backward(total(call<Square>(inner)), {}, {.retain_graph = true});
    CHECK(*count == 20);
  }
}

void writes() {
  const Tensor x = parameter(filled(dims(3), DType::Float64, 1));
  // A tensor that retains its gradient moves on when it is written: it retains that of its last value.
  {
    const Tensor y = call<Mul>(x, 2.0);
    retain_grad(y);
    const Tensor in[] = {y, scalar_tensor(Scalar(5.0), DType::Float64)};
    call_elementwise(info_of<Mul>(), in, nullptr, &y, true);
    const Tensor z = total(call<Mul>(y, 3.0));
    backward(z, {}, {.retain_graph = true});
    CHECK(at(gradient(y), 1) == 3 && at(gradient(x), 1) == 30);
  }
  // One that died in the meantime retains nothing.
  set_gradient(x, {});
  Tensor z;
  {
    const Tensor y = call<Mul>(x, 2.0);
    retain_grad(y);
    const Tensor in[] = {y, scalar_tensor(Scalar(5.0), DType::Float64)};
    z = total(call_elementwise(info_of<Mul>(), in, nullptr, &y, true));
  }
  backward(z);
  CHECK(at(gradient(x), 1) == 10);
}

}  // namespace

int main() {
  training();
  differences();
  double_backward();
  refusals();
  long_chain();
  frozen_layers();
  dropped_graphs();
  hooks();
  writes();
  return check::result();
}
