// Recording and replaying for Python: see adjoint/_replay. Start reading at `bind_replay`.
#include "bind/replay.h"

#include <frameobject.h>

#include <cstring>
#include <unordered_map>

#include "autograd/meta.h"
#include "autograd/views.h"
#include "bind/computing.h"
#include "bind/convert.h"
#include "bind/node_object.h"
#include "bind/overrides.h"
#include "bind/replay_numbers.h"
#include "bind/words.h"
#include "for_size.h"
#include "tensor/sparse.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using namespace replay;

std::vector<Place> places_of(Tracer& tracer, nb::handle tensors) {
  std::vector<Place> places;
  for (nb::handle t : nb::iter(tensors))
    places.push_back(is_tensor(t.ptr()) ? tracer.place(unwrap(t.ptr())) : Place{});
  return places;
}

/// Of views, where what they are views of lies.
std::vector<Place> bases_of(Tracer& tracer, nb::handle tensors) {
  std::vector<Place> places;
  for (nb::handle t : nb::iter(tensors)) {
    const Tensor base = is_tensor(t.ptr()) ? base_of(unwrap(t.ptr())) : Tensor();
    places.push_back(base.defined() ? tracer.place(base) : Place{});
  }
  return places;
}

std::vector<Relation> relations_of(nb::handle inputs, nb::handle outputs) {
  std::unordered_map<const TensorImpl*, int32_t> before, made;
  int32_t n = 0;
  for (nb::handle t : nb::iter(inputs)) {
    if (is_tensor(t.ptr())) before.emplace(unwrap(t.ptr()).get(), n);
    ++n;
  }
  n = 0;
  for (nb::handle t : nb::iter(outputs)) made.emplace(unwrap(t.ptr()).get(), n++);
  const auto find = [](const auto& all, const TensorImpl* t) {
    const auto at = all.find(t);
    return at == all.end() ? -1 : at->second;
  };
  std::vector<Relation> relations;
  for (nb::handle o : nb::iter(outputs)) {
    const Tensor t = unwrap(o.ptr());
    Relation r{find(before, t.get())};
    if (r.same < 0 && t->is(TensorImpl::kView)) {
      const Tensor base = base_of(t);
      r.base_input = find(before, base.get());
      r.base_output = r.base_input < 0 ? find(made, base.get()) : -1;
      r.flags = t->flags & TensorImpl::kSpecialView;
    }
    relations.push_back(r);
  }
  return relations;
}

/// A recording, which replays of it share.
struct Held {
  std::shared_ptr<Recording> recording;
  Recording* operator->() const { return recording.get(); }
};

struct Recorder {
  Ref<Tracer> tracer;
  bool open = true;
  std::string refused;  // when it was opened last
  explicit Recorder(Ref<Tracer> t) : tracer(std::move(t)) { push(Ref<Observer>(tracer)); }
  ~Recorder() {
    if (!open) return;
    stop_tracking();
    pop(tracer.get());
  }
  Recorder(const Recorder&) = delete;
};

/// The line of the program that runs: of the innermost frame outside of the library, whose folder this is.
std::string& library() {
  static std::string& folder = *new std::string;
  return folder;
}
std::string line() {
  const InPython python;
  nb::object frame = nb::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame.is_valid() && !frame.is_none()) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const std::string file = words(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
    if (!file.starts_with(library())) return text("line ", PyFrame_GetLineNumber(at), " of ", file);
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return "";
}

/// It goes with the node, wherever that goes.
struct AgainInPython final : Again {
  AgainInPython(PyObject* c, size_t s) : call(c), shares(s) {
    for (size_t i = 0; i < shares; ++i) Py_INCREF(call);
  }
  ~AgainInPython() override {
    if (!python_is_there()) return;
    const Locked python;
    for (size_t i = 0; i < shares; ++i) Py_DECREF(call);
  }
  AgainInPython(const AgainInPython&) = delete;
  PyObject* const call;
  const size_t shares;  // how often it is owned

  Tensors results(TensorList inputs) const override {
    const InPython python;
    const nb::object all = nb::steal(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
    for (size_t i = 0; i < inputs.size(); ++i)
      PyList_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i), wrap(inputs[i]));
    Tensors results;
    for (nb::handle t : nb::iter(asked(all))) results.push_back(unwrap(t.ptr()));
    return results;
  }
  bool holds() const override {
    const InPython python;
    return asked(nb::none()).ptr() == Py_True;
  }

 private:
  nb::object asked(const nb::object& inputs) const {
    runtime::SmallVector<PyObject*, 8> given(static_cast<size_t>(PyTuple_GET_SIZE(call)));
    given[0] = inputs.ptr();
    for (size_t i = 1; i < given.size(); ++i) given[i] = PyTuple_GET_ITEM(call, static_cast<Py_ssize_t>(i));
    const nb::object r =
        nb::steal(PyObject_Vectorcall(PyTuple_GET_ITEM(call, 0), given.data(), given.size(), nullptr));
    if (!r.is_valid()) throw nb::python_error();
    return r;
  }
};

nb::dict statistics(const std::shared_ptr<Replay>& replay) {
  const Program::Statistics s = replay->statistics();
  nb::dict d;
  d["operations"] = s.operations;
  d["loops"] = s.loops;
  d["chains"] = s.chains;
  d["chained"] = s.chained;
  d["moves"] = s.moves;
  d["prepared"] = s.prepared;
  d["rows"] = s.rows;
  d["guards"] = s.guards;
  d["dropped"] = s.dropped;
  d["constants"] = s.constants;
  d["arena_bytes"] = s.arena_bytes;
  d["bytes"] = s.bytes;
  return d;
}

/// Of the call and of each pass: nodes, as (kind, text, number, [(node, shape)]), and the rest of what
/// `Shown` says.
nb::list pictures(const Replay& replay) {
  static constexpr const char* kKinds[] = {"input",  "number",   "constant", "instruction",
                                           "blocks", "decision", "result",   "written"};
  nb::list all;
  for (const Replay::Shown& shown : replay.pictures()) {
    nb::list nodes;
    for (const Picture::Node& n : shown.picture.nodes) {
      nb::list takes;
      for (const auto& [node, shape] : n.takes) takes.append(nb::make_tuple(node, shape));
      nodes.append(nb::make_tuple(kKinds[static_cast<size_t>(n.kind)], n.text, n.number, takes));
    }
    nb::dict d;
    d["nodes"] = nodes;
    d["peak"] = shown.picture.peak;
    d["left"] = shown.picture.left;
    d["eager"] = shown.picture.eager;
    d["kept"] = shown.kept;
    d["outputs"] = shown.outputs;
    d["by"] = shown.by;
    d["timed"] = shown.timed;
    all.append(d);
  }
  return all;
}

}  // namespace

int visit_again(const Node& node, uint32_t output_nr, visitproc visit, void* arg) {
  int stop = 0;
  each_again(node, output_nr, [&](const Again& again, size_t shares) {
    for (; shares && !stop; --shares) stop = visit(static_cast<const AgainInPython&>(again).call, arg);
  });
  return stop;
}

std::shared_ptr<const Again> again_in_python(nb::handle call, size_t shares) {
  const Locked python;
  return std::make_shared<AgainInPython>(call.ptr(), shares);
}

const char* reason_not_to_replay() {
  const ThreadState& s = thread_state;
  if (any_mode()) return "a mode of __torch_function__ is on";
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

int mode_of_replay() {
  const ThreadState& s = thread_state;
  return int{s.grad} | int{s.inference} << 1 | static_cast<int>(default_dtype()) << 2;
}

namespace {
/// f(tracer) of those that look on in this thread.
template <class F>
void each_tracer(F&& f) {
  for (Observer* o = thread_state.observer; o; o = o->outer.get())
    if (auto* const tracer = dynamic_cast<Tracer*>(o)) f(*tracer);
}
}  // namespace

void tell_recorders(const char* what) {
  each_tracer([&](Tracer& t) { t.refuse(what); });
}
void hook_in_recorders() {
  each_tracer([](Tracer& t) { t.hooked(); });
}
void fork_in_recorders() {
  each_tracer([](Tracer& t) { t.fork(); });
}

void bind_replay(nb::module_& m) {
  nb::class_<Held>(m, "_Recording", "What a call did to elements.")
      .def_prop_ro("refused", [](const Held& r) { return r->trace.refused; })
      .def("difference", [](const Held& r, const Held& other) { return r->difference(*other.recording); })
      .def("vary",
           [](Held& r, const Held& before, const Held& tracked, nb::list there, nb::list returned) {
             std::vector<Scalar> numbers;
             for (nb::handle n : there) numbers.push_back(as_scalar(n.ptr()).value());
             std::vector<std::pair<uint32_t, Scalar>> given_back;
             for (nb::handle n : returned)
               given_back.emplace_back(nb::cast<uint32_t>(n[0]), as_scalar(nb::object(n[1]).ptr()).value());
             return r->vary(*before.recording, *tracked.recording, numbers, given_back);
           })
      .def_prop_ro("items", [](const Held& r) { return r->trace.items; })
      .def_prop_ro("steps", [](const Held& r) { return r->trace.steps.size(); })
      .def_prop_ro("draws",
                   [](const Held& r) {
                     return std::ranges::any_of(r->trace.steps,
                                                [](const Step& s) { return s.op && s.op->draws; });
                   })
      .def_prop_ro("bytes", [](const Held& r) { return r->trace.bytes_held(); });
  nb::class_<Recorder>(m, "_Recorder", "Looks on at the calls of this thread.")
      .def("refuse", [](Recorder& r, const std::string& why) { r.tracer->refuse(why); })
      .def_prop_ro("refused", [](const Recorder& r) { return r.tracer->trace.refused; })
      .def_prop_ro("steps", [](const Recorder& r) { return r.tracer->trace.steps.size(); })
      .def_prop_ro("hooked_at", [](const Recorder& r) { return r.tracer->hooked_at(); })
      .def("written_at", [](const Recorder& r, const Tensor& t) { return r.tracer->written_at(t); })
      .def(
          "track", [](Recorder& r, nb::list numbers) { return track(r.tracer, numbers); },
          "Objects in the place of these numbers, until it is closed: what Python computes with them is "
          "noted.")
      .def("open",
           [](Recorder& r) {
             push(Ref<Observer>(r.tracer));
             r.open = true;
             r.refused = r.tracer->trace.refused;
             return r.tracer->trace.steps.size();
           })
      .def(
          "forgive", [](Recorder& r) { r.tracer->trace.refused = r.refused; },
          "An error since it was opened comes of no elements.")
      .def("close",
           [](Recorder& r) {
             stop_tracking();
             if (r.open && !pop(r.tracer.get())) r.tracer->refuse("a context was left open");
             r.open = false;
             return r.tracer->trace.steps.size();
           })
      .def("finish", [](Recorder& r, nb::handle inputs, nb::handle outputs, uint32_t forward, nb::list groups,
                        nb::list spent, std::vector<uint32_t> retained, bool asks, nb::list replaced) {
        auto made = std::make_shared<Recording>();
        made->relations = relations_of(inputs, outputs);
        for (nb::handle s : spent)
          made->spent.push_back({nb::cast<uint32_t>(s[0]), nb::cast<std::string>(s[1]),
                                 nb::cast<std::string>(s[2]), nb::cast<std::vector<uint32_t>>(s[3])});
        made->inputs = places_of(*r.tracer, inputs);
        made->outputs = places_of(*r.tracer, outputs);
        made->forward = forward;
        for (nb::handle pair : replaced) {
          const auto leaf = nb::cast<uint32_t>(pair[0]), gradient = nb::cast<uint32_t>(pair[1]);
          const int64_t step = r.tracer->gradient_replaced(unwrap(nb::object(inputs[leaf]).ptr()));
          if (step >= 0) made->replaced.push_back({leaf, gradient, step});
        }
        made->retained = std::move(retained);
        made->asks = asks;
        const Cut* const cut = groups.size() ? cut_of(nb::object(groups[0])) : nullptr;
        for (uint32_t g = 0; cut && g < cut->groups.size(); ++g) {
          const nb::object part = groups[g + 1];
          Group group = cut->group(g, nb::cast<std::vector<uint32_t>>(part[0]));
          for (nb::handle pass : nb::iter(nb::object(part[1])))
            group.passes.push_back({{nb::cast<uint32_t>(pass[0]), nb::cast<uint32_t>(pass[1])},
                                    places_of(*r.tracer, nb::object(pass[2])),
                                    places_of(*r.tracer, nb::object(pass[3])),
                                    bases_of(*r.tracer, nb::object(pass[3]))});
          made->groups.push_back(std::move(group));
        }
        if (cut) made->inside = cut->inside();
        made->trace = std::move(r.tracer->trace);
        made->trace.shrink();
        made->begin_at_inputs();
        return Held{std::move(made)};
      });
  nb::class_<Replayed>(m, "_Replay", "A recording that runs again.")
      .def("__init__",
           [](Replayed* p, const Held& r) { new (p) Replayed{std::make_shared<Replay>(r.recording)}; })
      .def("plan", [](const Replayed& p) { p.replay->plan(); })
      .def_prop_ro("planned", [](const Replayed& p) { return p.replay->is_planned(); })
      .def("statistics", [](const Replayed& p) { return statistics(p.replay); })
      .def_prop_ro("writes", [](const Replayed& p) { return p.replay->writes(); })
      .def_prop_ro("differentiated",
                   [](const Replayed& p) {
                     std::vector<uint32_t> outputs;
                     for (const Group& g : p.replay->recording().groups)
                       outputs.insert(outputs.end(), g.own().begin(), g.own().end());
                     return outputs;
                   })
      .def_prop_ro("recorded", [](const Replayed& p) { return p.replay->has_passes(); })
      .def("time", [](const Replayed& p, bool on) { p.replay->time(on); })
      .def("pictures", [](const Replayed& p) { return pictures(*p.replay); })
      .def("__str__", [](const Replayed& p) {
        p.replay->plan();
        return p.replay->text();
      });
  m.def(
      "_record",
      [](nb::str folder, bool blind) {
        library() = words(folder.ptr());
        auto recorder = std::make_unique<Recorder>(Ref<Tracer>::steal(new Tracer(&line)));
        if (blind) recorder->tracer->trace.refused = "nothing is noted";
        return recorder.release();
      },
      nb::rv_policy::take_ownership, nb::arg("folder"), nb::arg("blind") = false,
      "Begin to record the calls of this thread; or only to look on, as long as nothing is to be noted.");
  m.def("_tell_recorders", [](const std::string& what) { tell_recorders(what.c_str()); });
  m.def("_version_of", &version_of_both,
        "The version of a tensor, for a check of the library's own, which a replay need not make.");
  m.def(
      "_bytes_of",
      [](nb::handle t) -> nb::object {
        const Storage* const s = owner_of_bytes(unwrap(t.ptr())->storage);
        if (s->device != Device::CPU || is_sparse(unwrap(t.ptr()))) return nb::none();
        return nb::steal(PyBytes_FromStringAndSize(s->data, static_cast<Py_ssize_t>(s->nbytes)));
      },
      "All memory under a tensor; None where it is not the processor's.");
  m.def(
      "_put_bytes",
      [](nb::handle t, nb::bytes bytes) {
        const Storage* const s = owner_of_bytes(unwrap(t.ptr())->storage);
        if (s->nbytes != bytes.size()) fail("jit: a tensor that was kept has other memory now");
        if (s->nbytes && std::memcmp(s->data, bytes.c_str(), s->nbytes) != 0)
          std::memcpy(s->data, bytes.c_str(), s->nbytes);
      },
      "Put back what `_bytes_of` gave, which no version tells.");
  m.def(
      "_bytes_reached",
      [](nb::list tensors) {
        std::unordered_map<const Storage*, size_t> all;
        for (nb::handle t : tensors)
          if (is_tensor(t.ptr())) {
            const Storage* const s = owner_of_bytes(unwrap(t.ptr())->storage);
            all[s] = s->nbytes;
          }
        size_t sum = 0;
        for (const auto& [_, n] : all) sum += n;
        return sum;
      },
      "How much memory lies under these tensors.");
  m.def("_reason_not_to_replay", &reason_not_to_replay);
  m.def("_mode_of_replay", &mode_of_replay);
  bind_replay_numbers(m);
  bind_replay_entry(m);
  bind_replay_graph(m);
}

}  // namespace adjoint::bind
