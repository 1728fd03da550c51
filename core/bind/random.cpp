// Generators and random fills.
#include <cmath>
#include <nanobind/stl/pair.h>

#include "autograd/views.h"
#include "bind/caster.h"
#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "ops/writing.h"
#include "runtime/random.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using runtime::Generator;

Generator& chosen(Generator* g) { return g ? *g : runtime::default_generator(); }

// Random numbers do not depend on what was there before.
void write_untracked(const Tensor& t, const char* op) {
  check_writable(t, op, false);
  if (thread_state.grad && t.requires_grad()) call<ZeroAll>(t);
}

// Fill a tensor by a function that fills contiguous memory; other layouts go through a copy. What is `fresh` is made by this,
// not written.
template <class F> void fill(const Tensor& t, const char* op, bool fresh, F&& f) {
  write_untracked(t, op);
  const runtime::Uninterrupted whole;
  const Tensor to = t.is_contiguous() ? t : empty(t.sizes(), t.dtype());
  switch (t.dtype()) {
    case DType::Float32: f(to.data<float>(), to.numel()); break;
    case DType::Float64: f(to.data<double>(), to.numel()); break;
    default: {
      const Tensor wide = empty(t.sizes(), DType::Float32);
      f(wide.data<float>(), wide.numel());
      copy_into(to, wide);
    }
  }
  if (to.get() != t.get()) copy_into(t, to);
  if (!fresh) wrote(t, "random");
}

void need_floating(const Tensor& t, const char* op) {
  if (!t.is_floating()) fail("\"", op, "\" not implemented for '", name_of(t.dtype()), "': expected a floating-point tensor");
}

}  // namespace

void bind_random(nb::module_& m) {
  nb::class_<Generator>(m, "Generator", "A source of random numbers with its own seed and position.")
      .def("__init__", [](Generator* g, const nb::object& device) {
        if (!device.is_none()) nb::module_::import_("adjoint._device").attr("check_device")(device);
        new (g) Generator();
      }, nb::arg("device") = nb::none())
      .def("manual_seed", [](nb::object self, int64_t seed) { nb::cast<Generator&>(self).manual_seed(static_cast<uint64_t>(seed)); return self; }, nb::arg("seed"))
      .def_prop_ro("device", [](Generator&) { return nb::module_::import_("adjoint._device").attr("cpu"); }, "Where it draws: the CPU.")
      .def("seed", &Generator::seed)
      .def("initial_seed", &Generator::initial_seed)
      .def("get_state", [](Generator& g) {
        const auto s = g.state();
        const int64_t sizes[] = {static_cast<int64_t>(s.size())};
        Tensor t = empty(sizes, DType::UInt8);
        std::memcpy(t.bytes(), s.data(), s.size());
        return t;
      })
      .def("set_state", [](nb::object self, const Tensor& t) {
        if (t.dtype() != DType::UInt8) fail<TypeError>("set_state(): RNG state must be a uint8 tensor, but found ", name_of(t.dtype()));
        const Tensor d = dense(t);
        nb::cast<Generator&>(self).set_state({reinterpret_cast<const std::byte*>(d.bytes()), static_cast<size_t>(d.numel())});
        return self;
      }, nb::arg("new_state"));
  m.def("_default_generator", []() -> Generator& { return runtime::default_generator(); }, nb::rv_policy::reference);
  m.def("_use_generator", [](Generator* g) { return runtime::use_generator(g); }, nb::arg("generator").none(), nb::rv_policy::reference,
        "Let this thread draw from another generator, which the caller keeps alive; returns the one before, or None.");
  m.def("_reserve", [](int64_t n, Generator* g) {
    const auto stream = chosen(g).reserve(static_cast<uint64_t>(std::max<int64_t>(n, 0)));
    return std::pair(static_cast<int64_t>(stream.seed), static_cast<int64_t>(stream.block));
  }, nb::arg("n"), nb::arg("generator") = nb::none(), "Take n blocks of a generator: its seed, and where they begin.");
  m.def("_uniform_", [](const Tensor& t, double lo, double hi, Generator* g, bool fresh) {
    need_floating(t, "uniform_");
    if (!(lo <= hi)) fail("uniform_ expects to return a [from, to) range, but found from=", lo, " > to=", hi);
    // A 16-bit number has fewer digits than the draw: the rest is cut off, so that rounding never reaches the upper bound.
    const float digits = t.dtype() == DType::Float16 ? 2048.0f : t.dtype() == DType::BFloat16 ? 256.0f : 0.0f;
    fill(t, "uniform", fresh, [&](auto* p, int64_t n) {
      using T = std::remove_pointer_t<decltype(p)>;
      if (digits == 0) return runtime::fill_uniform(chosen(g), p, n, static_cast<T>(lo), static_cast<T>(hi));
      runtime::fill_uniform(chosen(g), p, n, T(0), T(1));
      for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(lo + (hi - lo) * static_cast<double>(std::floor(p[i] * static_cast<T>(digits)) / static_cast<T>(digits)));
    });
  }, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg("fresh") = false);
  m.def("_normal_", [](const Tensor& t, double mean, double deviation, Generator* g, bool fresh) {
    if (!(deviation >= 0)) fail("normal expects std >= 0.0, but found std ", deviation);
    if (t.is_complex()) {
      // Each part carries half the variance.
      const DType real = real_dtype(t.dtype());
      Dims sizes(t.sizes()), steps(t.strides());
      for (auto& s : steps) s *= 2;
      sizes.push_back(2);
      steps.push_back(1);
      const Tensor parts = over(Ref<Storage>::share(t->storage), real, {sizes.data(), sizes.size()}, {steps.data(), steps.size()}, t.offset() * 2);
      const double d = deviation / std::sqrt(2.0);
      fill(parts, "normal", fresh, [&](auto* p, int64_t n) { using T = std::remove_pointer_t<decltype(p)>; runtime::fill_normal(chosen(g), p, n, static_cast<T>(mean), static_cast<T>(d)); });
      return;
    }
    need_floating(t, "normal_");
    fill(t, "normal", fresh, [&](auto* p, int64_t n) { using T = std::remove_pointer_t<decltype(p)>; runtime::fill_normal(chosen(g), p, n, static_cast<T>(mean), static_cast<T>(deviation)); });
  }, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg("fresh") = false);
  m.def("_exponential_", [](const Tensor& t, double rate, Generator* g, bool fresh) {
    need_floating(t, "exponential_");
    if (!(rate > 0)) fail("exponential_ expects lambda > 0.0, but found lambda=", rate);
    fill(t, "exponential", fresh, [&](auto* p, int64_t n) { using T = std::remove_pointer_t<decltype(p)>; runtime::fill_exponential(chosen(g), p, n, static_cast<T>(rate)); });
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg("fresh") = false);
  m.def("_random_", [](const Tensor& t, int64_t lo, int64_t hi, Generator* g, bool fresh) {
    if (lo >= hi) fail("random_ expects 'from' to be less than 'to', but got from=", lo, " >= to=", hi);
    write_untracked(t, "random");
    const Tensor wide = t.dtype() == DType::Int64 && t.is_contiguous() ? t : empty(t.sizes(), DType::Int64);
    runtime::fill_randint(chosen(g), wide.data<int64_t>(), wide.numel(), lo, hi);
    if (wide.get() != t.get()) copy_into(t, wide);
    if (!fresh) wrote(t, "random");
  }, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg("fresh") = false);
  m.def("_bernoulli_", [](const Tensor& t, double p, Generator* g, bool fresh) {
    if (!(p >= 0 && p <= 1)) fail("bernoulli_ expects p to be in [0, 1], but got p=", p);
    fill(t, "bernoulli", fresh, [&](auto* out, int64_t n) { runtime::fill_bernoulli(chosen(g), out, n, p); });
  }, nb::arg(), nb::arg(), nb::arg().none(), nb::arg("fresh") = false);
  m.def("_bernoulli", [](const Tensor& p, Generator* g) {
    need_floating(p, "bernoulli");
    const Tensor d = copy_of(p, p.dtype() == DType::Float64 ? DType::Float64 : DType::Float32);
    visit(d.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_floating_point_v<T>) {
        const T* q = d.data<T>();
        for (int64_t i = 0; i < d.numel(); ++i)
          if (!(q[i] >= 0 && q[i] <= 1)) fail("Expected p_in >= 0 && p_in <= 1 to be true, but element ", i, " is ", q[i]);
      }
    });
    Tensor out = empty(p.sizes(), d.dtype());
    if (d.dtype() == DType::Float64) runtime::fill_bernoulli_each(chosen(g), out.data<double>(), d.data<double>(), d.numel());
    else runtime::fill_bernoulli_each(chosen(g), out.data<float>(), d.data<float>(), d.numel());
    return p.dtype() == out.dtype() ? out : copy_of(out, p.dtype());
  }, nb::arg(), nb::arg().none());
  m.def("_randperm", [](int64_t n, DType dtype, Generator* g) {
    if (n < 0) fail("randperm(): n must be non-negative, but got ", n);
    const int64_t sizes[] = {n};
    Tensor t = empty(sizes, DType::Int64);
    runtime::random_permutation(chosen(g), t.data<int64_t>(), n);
    return dtype == DType::Int64 ? t : copy_of(t, dtype);
  }, nb::arg(), nb::arg(), nb::arg().none());
  m.def("_multinomial", [](const Tensor& w, int64_t samples, bool replacement, Generator* g) {
    need_floating(w, "multinomial");
    if (w.dim() != 1 && w.dim() != 2) fail("prob_dist must be 1 or 2 dim, but found shape ", to_string(w.sizes()));
    if (samples <= 0) fail("cannot sample n_sample <= 0 samples: got ", samples);
    const int64_t columns = w.size(-1), rows = w.dim() == 2 ? w.size(0) : 1;
    if (!replacement && samples > columns) fail("cannot sample n_sample > prob_dist.size(-1) samples without replacement: ", samples, " > ", columns);
    const Tensor d = copy_of(w, DType::Float64);
    for (int64_t r = 0; r < rows; ++r) {
      double total = 0;
      for (int64_t c = 0; c < columns; ++c) {
        const double x = d.data<double>()[r * columns + c];
        if (!(x >= 0) || std::isinf(x)) fail("probability tensor contains either `inf`, `nan` or element < 0: element ", c, " of row ", r, " is ", x);
        total += x;
      }
      if (!(total > 0)) fail("invalid multinomial distribution (sum of probabilities <= 0) in row ", r);
    }
    Dims sizes;
    if (w.dim() == 2) sizes.push_back(rows);
    sizes.push_back(samples);
    Tensor out = empty({sizes.data(), sizes.size()}, DType::Int64);
    runtime::multinomial(chosen(g), d.data<double>(), rows, columns, samples, replacement, out.data<int64_t>());
    return out;
  }, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace adjoint::bind
