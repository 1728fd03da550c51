// Recording and replaying for Python: see adjoint/jit. Start reading at `bind_replay`.
#include "bind/caster.h"
#include "for_size.h"
#include "replay/program.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using namespace replay;

/// A finished recording, and where the program's tensors lie in it.
struct Recording {
  Trace trace;
  std::vector<Place> inputs, outputs;
};

std::vector<Place> places_of(Tracer& tracer, nb::handle tensors) {
  std::vector<Place> places;
  for (nb::handle t : nb::iter(tensors)) places.push_back(is_tensor(t.ptr()) ? tracer.place(unwrap(t.ptr())) : Place{});
  return places;
}

struct Recorder {
  Ref<Tracer> tracer;
  bool open = true;
  explicit Recorder(Ref<Tracer> t) : tracer(std::move(t)) { push(Ref<Observer>(tracer)); }
  ~Recorder() {
    if (open) pop(tracer.get());
  }
  Recorder(const Recorder&) = delete;
};

std::string line() { return where_now ? where_now() : std::string(); }

/// Why calls cannot be followed or replaced as this thread is; null where they can.
const char* reason_of_thread() {
  const ThreadState& s = thread_state;
  if (s.interpreter) return "a mode or autocast is on";
  if (s.observer) return "something else looks on";
  if (s.dual_level) return "forward mode is on";
  if (s.batch_level) return "it runs inside of vmap()";
  if (s.saved_hooks) return "hooks for saved tensors are on";
  if (s.device != Device::CPU || s.default_device != Device::CPU) return "the default device is not the CPU";
  if (s.holomorphic) return "gradients are holomorphic";
  if (s.parallel_backward) return "backward passes run in several threads";
  return nullptr;
}

nb::object run(Program& program, nb::handle given) {
  PyObject* const list = given.ptr();
  const auto n = static_cast<size_t>(PyList_GET_SIZE(list));
  Tensors inputs(n), outputs(program.output_is_input().size());
  for (size_t i = 0; i < n; ++i)
    if (PyObject* o = PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i)); is_tensor(o)) inputs[i] = unwrap(o);
  Program::Outcome outcome;
  {
    const Unlocked unlocked(program.work() >= kUnlockFrom);
    outcome = program.run(inputs, outputs);
  }
  if (outcome != Program::Outcome::Done) return nb::bool_(outcome == Program::Outcome::Busy);
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int32_t k = program.output_is_input()[i];
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i),
                     k >= 0 ? Py_NewRef(PyList_GET_ITEM(list, k)) : wrap(outputs[i]));
  }
  return made;
}

nb::dict statistics(const Program& program) {
  const Program::Statistics s = program.statistics();
  nb::dict d;
  d["operations"] = s.operations;
  d["loops"] = s.loops;
  d["moves"] = s.moves;
  d["rows"] = s.rows;
  d["guards"] = s.guards;
  d["dropped"] = s.dropped;
  d["constants"] = s.constants;
  d["arena_bytes"] = s.arena_bytes;
  d["bytes"] = s.bytes;
  return d;
}

}  // namespace

void bind_replay(nb::module_& m) {
  nb::class_<Recording>(m, "_Recording", "What a call did to elements.")
      .def_prop_ro("refused", [](const Recording& r) { return r.trace.refused; })
      .def("difference",
           [](const Recording& r, const Recording& other) {
             const std::string d = r.trace.difference(other.trace);
             return !d.empty() ? d
                    : r.inputs != other.inputs || r.outputs != other.outputs
                        ? std::string("other tensors are taken or returned")
                        : std::string();
           })
      .def_prop_ro("steps", [](const Recording& r) { return r.trace.steps.size(); })
      .def_prop_ro("bytes", [](const Recording& r) { return r.trace.bytes_held(); });
  nb::class_<Recorder>(m, "_Recorder", "Looks on at the calls of this thread.")
      .def("refuse", [](Recorder& r, const std::string& why) { r.tracer->refuse(why); })
      .def("close",
           [](Recorder& r) {
             if (r.open && !pop(r.tracer.get())) r.tracer->refuse("a context was left open");
             r.open = false;
           })
      .def("finish",
           [](Recorder& r, nb::handle inputs, nb::handle outputs) {
             Recording made;
             made.inputs = places_of(*r.tracer, inputs);
             made.outputs = places_of(*r.tracer, outputs);
             made.trace = std::move(r.tracer->trace);
             return made;
           });
  nb::class_<Program>(m, "_Program", "A recording that runs again.")
      .def("__init__",
           [](Program* p, const Recording& r) { new (p) Program(r.trace, r.inputs, r.outputs); })
      .def("run", &run)
      .def("statistics", &statistics)
      .def("__str__", &Program::text);
  m.def("_record", [] { return new Recorder(Ref<Tracer>::steal(new Tracer(&line))); },
        nb::rv_policy::take_ownership, "Begin to record the calls of this thread.");
  m.def("_reason_not_to_replay", &reason_of_thread);
}

}  // namespace adjoint::bind
