// Generators. What is drawn from them: ops/random.h.
#include "runtime/random.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "bind/caster.h"
#include "bind/replay.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "tensor/number.h"
#include "transforms/interpreter.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using runtime::Generator;

Generator::Kind kind_of(const std::string& stream) {
  if (stream == "counter") return Generator::Kind::Counter;
  if (stream == "torch") return Generator::Kind::Torch;
  fail<ValueError>("Generator(): expected stream to be 'counter' or 'torch', but got '", stream, "'");
}
Generator& chosen(Generator* g) { return g ? *g : runtime::default_generator(); }

}  // namespace

void bind_random(nb::module_& m) {
  nb::class_<Generator>(m, "Generator",
                        "A source of random numbers with its own seed and position.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import adjoint as ad\n"
                        ">>> generator = ad.Generator().manual_seed(0)\n"
                        ">>> x = ad.rand(2, generator=generator)\n"
                        ">>> ad.equal(x, ad.rand(2, generator=generator.manual_seed(0)))\n"
                        "True")
      .def(
          "__init__",
          [](Generator* g, const nb::object& device, std::optional<std::string> stream) {
            if (!device.is_none() &&
                nb::cast<int>(nb::module_::import_("adjoint._tensor.device").attr("device_number")(device)) !=
                    0)
              fail("Generator(): numbers are drawn on the CPU alone, for tensors of the other devices too");
            new (g) Generator(Generator::default_seed, stream ? kind_of(*stream) : Generator::default_kind());
          },
          nb::arg("device") = nb::none(), nb::kw_only(), nb::arg("stream") = nb::none())
      .def_prop_ro(
          "stream", [](Generator& g) { return g.kind() == Generator::Kind::Torch ? "torch" : "counter"; },
          "Which numbers it draws: \"counter\", functions of seed and position, or \"torch\", those of "
          "torch's generator.")
      .def(
          "manual_seed",
          [](nb::object self, int64_t seed) {
            tell_recorders("it sets the seed of a generator");
            nb::cast<Generator&>(self).manual_seed(static_cast<uint64_t>(seed));
            return self;
          },
          nb::arg("seed"))
      .def_prop_ro(
          "device", [](Generator&) { return nb::module_::import_("adjoint._tensor.device").attr("cpu"); },
          "Where it draws: the CPU.")
      .def("seed",
           [](Generator& g) {
             tell_recorders("it sets the seed of a generator");
             return g.seed();
           })
      .def("initial_seed",
           [](Generator& g) {
             tell_recorders("it asks for the seed of a generator");
             return g.initial_seed();
           })
      .def("get_state",
           [](Generator& g) {
             tell_recorders("it asks for the state of a generator");
             return given(from_bytes(g.state()), "get_state");
           })
      .def(
          "set_state",
          [](nb::object self, const Tensor& t) {
            if (t.dtype() != DType::UInt8)
              fail<TypeError>("set_state(): RNG state must be a uint8 tensor, but found ",
                              name_of(t.dtype()));
            const Tensor d = dense(t);
            tell_recorders("it sets the state of a generator");
            nb::cast<Generator&>(self).set_state(bytes_of(d));
            return self;
          },
          nb::arg("new_state"));
  m.def(
      "_default_generator", []() -> Generator& { return runtime::default_generator(); },
      nb::rv_policy::reference);
  m.def(
      "_use_generator", [](Generator* g) { return runtime::use_generator(g); }, nb::arg("generator").none(),
      nb::rv_policy::reference,
      "Let this thread draw from another generator, which the caller keeps alive; returns the one before, or "
      "None.");
  m.def(
      "_fork_generator",
      [](Generator* g) {
        fork_in_recorders();
        auto fork = std::make_unique<Generator>(Generator::default_seed, chosen(g).kind());
        fork->set_state(chosen(g).state());
        return fork.release();
      },
      nb::arg("generator").none(), nb::rv_policy::take_ownership,
      "A generator that draws what this one, or the thread's, would draw next.");
  m.def(
      "_reserve",
      [](int64_t n, Generator* g) {
        const auto stream = chosen(g).reserve(static_cast<uint64_t>(std::max<int64_t>(n, 0)));
        return std::pair(static_cast<int64_t>(stream.seed), static_cast<int64_t>(stream.block));
      },
      nb::arg("n"), nb::arg("generator") = nb::none(),
      "Take n blocks of a generator: its seed, and where they begin.");
}

}  // namespace adjoint::bind
