// Recording and replaying for Python: see adjoint/_replay. Start reading at `bind_replay`.
#include "bind/replay.h"

#include <frameobject.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "bind/computing.h"
#include "bind/convert.h"
#include "bind/node_object.h"
#include "bind/overrides.h"
#include "bind/replay_numbers.h"
#include "bind/words.h"
#include "for_size.h"
#include "runtime/random.h"
#include "tensor/sparse.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using namespace replay;

std::vector<Place> places_of(Tracer& tracer, nb::list tensors) {
  std::vector<Place> places;
  places.reserve(nb::len(tensors));
  for (nb::handle t : tensors) places.push_back(is_tensor(t.ptr()) ? tracer.place(unwrap(t.ptr())) : Place{});
  return places;
}

/// Of views, where what they are views of lies.
std::vector<Place> bases_of(Tracer& tracer, nb::list tensors) {
  std::vector<Place> places;
  places.reserve(nb::len(tensors));
  for (nb::handle t : tensors) {
    const Tensor base = is_tensor(t.ptr()) ? base_of(unwrap(t.ptr())) : Tensor();
    places.push_back(base.defined() ? tracer.place(base) : Place{});
  }
  return places;
}

std::vector<Relation> relations_of(nb::list inputs, nb::list outputs) {
  // Their first places, by address.
  using Numbered = std::vector<std::pair<const void*, int32_t>>;
  const auto numbered = [](nb::list tensors, auto&& of) {
    Numbered all;
    all.reserve(nb::len(tensors));
    int32_t n = 0;
    for (nb::handle t : tensors) {
      if (is_tensor(t.ptr())) all.emplace_back(of(unwrap(t.ptr())), n);
      ++n;
    }
    std::ranges::sort(all);
    return all;
  };
  const auto itself = [](const Tensor& t) { return t.get(); };
  const auto counter = [](const Tensor& t) { return t->storage; };
  const Numbered before = numbered(inputs, itself), made = numbered(outputs, itself);
  const Numbered counts = numbered(inputs, counter), counts_made = numbered(outputs, counter);
  const auto find = [](const Numbered& all, const void* t) {
    const auto at = std::ranges::lower_bound(all, std::pair(t, int32_t{0}));
    return at == all.end() || at->first != t ? -1 : at->second;
  };
  std::vector<Relation> relations;
  relations.reserve(nb::len(outputs));
  for (nb::handle o : outputs) {
    const Tensor t = unwrap(o.ptr());
    Relation r{find(before, t.get())};
    if (r.same < 0 && t->is(TensorImpl::kView)) {
      const Tensor base = base_of(t);
      r.base_input = find(before, base.get());
      r.base_output = r.base_input < 0 ? find(made, base.get()) : -1;
      r.flags = t->flags & TensorImpl::kSpecialView;
    }
    r.flags |= t->flags & TensorImpl::kInference;
    if (r.same < 0) r.count_of_input = find(counts, t->storage);
    if (r.same < 0 && r.count_of_input < 0 && owner_of_bytes(t->storage) != t->storage) {
      r.count_of_output = find(counts_made, t->storage);
      r.version = t.version();
    }
    relations.push_back(r);
  }
  return relations;
}

/// How many writes each input counted; of those that count together, the first.
std::vector<uint32_t> counts_of(const Tracer& tracer, nb::handle inputs) {
  std::vector<uint32_t> counts;
  std::unordered_set<const Storage*> seen;
  for (nb::handle t : nb::iter(inputs)) {
    const Storage* const s = is_tensor(t.ptr()) ? unwrap(t.ptr())->storage : nullptr;
    counts.push_back(s && seen.insert(s).second ? tracer.counted(s) : 0);
  }
  return counts;
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
  const uint64_t first_node = thread_state.sequence;
  explicit Recorder(Ref<Tracer> t) : tracer(std::move(t)) {
    tracer->hooks_before = hooks_set;
    tracer->first_node = first_node;
    push(Ref<Observer>(tracer));
  }
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
  if (detecting_anomalies.load(std::memory_order_relaxed)) return "anomalies are looked for";
  if (any_mode()) return "a mode of __torch_function__ is on";
  if (s.interpreter) return "a mode or autocast is on";
  if (s.observer) return "something else looks on";
  if (s.dual_level) return "forward mode is on";
  if (s.batch_level) return "it runs inside of vmap()";
  if (s.saved_hooks) return "hooks for saved tensors are on";
  if (s.default_device != Device::CPU) return "the default device is not the CPU";
  if (s.holomorphic) return "gradients are holomorphic";
  if (s.parallel_backward) return "backward passes run in several threads";
  return nullptr;
}

int mode_of_replay() {
  const ThreadState& s = thread_state;
  return int{s.grad} | int{s.inference} << 1 | static_cast<int>(default_dtype()) << 2 |
         int{s.inference && s.grad_asked} << 20;
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
void graph_in_recorders(const Node& node) {
  each_tracer([&](Tracer& t) {
    if (node.sequence < t.first_node) t.refuse("it looks at the graph of a tensor that existed before");
  });
}
void hook_in_recorders() {
  each_tracer([](Tracer& t) {
    // A run that is only tried, with objects for numbers: nobody could undo this, and it is not replayed.
    if (!t.trace.numbers.empty()) fail("jit: a hook is set while numbers are followed");
    t.hooked();
  });
}
void hook_runs_in_recorders(uint64_t number, PyObject* function) {
  const bool seen = PyFunction_Check(function) ||
                    (PyMethod_Check(function) && PyFunction_Check(PyMethod_GET_FUNCTION(function)));
  each_tracer([&](Tracer& t) {
    const bool before = number <= t.hooks_before;
    if (!seen)
      t.refuse("a backward pass within it runs a hook that is no plain function");
    else if (before && !t.known_hooks.contains(number))
      t.refuse("a backward pass within it runs a hook of a tensor that it does not reach");
    t.ran_hooks = t.ran_hooks || before;
  });
}
std::atomic<uint64_t> hooks_set{0};
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
      .def(
          "own_generators",
          [](const Recorder& r, nb::list known) -> nb::object {
            std::vector<runtime::Generator*> all;
            for (nb::handle g : known) all.push_back(nb::cast<runtime::Generator*>(g));
            for (runtime::Generator* const g : r.tracer->trace.generators)
              if (std::ranges::find(all, g) == all.end()) return nb::none();
            return nb::bool_(!r.tracer->trace.generators.empty());
          },
          "Whether calls were given generators to draw from; None where one is not among the known.")
      .def_ro("first_node", &Recorder::first_node, "The number that the next node had when it began.")
      .def_prop_ro("steps", [](const Recorder& r) { return r.tracer->trace.steps.size(); })
      .def("know_hooks",
           [](Recorder& r, std::vector<uint64_t> numbers) {
             r.tracer->known_hooks.insert(numbers.begin(), numbers.end());
           })
      .def_prop_ro("ran_hooks", [](const Recorder& r) { return r.tracer->ran_hooks; })
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
      .def("finish", [](Recorder& r, nb::list inputs, nb::list outputs, uint32_t forward, nb::list groups,
                        nb::list spent, std::vector<uint32_t> retained, bool asks, nb::list replaced) {
        auto made = std::make_shared<Recording>();
        made->relations = relations_of(inputs, outputs);
        for (nb::handle s : spent)
          made->spent.push_back({nb::cast<uint32_t>(s[0]), nb::cast<std::string>(s[1]),
                                 nb::cast<std::string>(s[2]), nb::cast<std::vector<uint32_t>>(s[3])});
        made->inputs = places_of(*r.tracer, inputs);
        made->counts = counts_of(*r.tracer, inputs);
        made->outputs = places_of(*r.tracer, outputs);
        made->forward = forward;
        for (nb::handle pair : replaced) {
          const auto leaf = nb::cast<uint32_t>(pair[0]), gradient = nb::cast<uint32_t>(pair[1]);
          const int64_t step = r.tracer->gradient_replaced(unwrap(nb::object(inputs[leaf]).ptr()));
          if (step >= 0) made->replaced.push_back({leaf, gradient, step});
        }
        made->retained = std::move(retained);
        made->asks = asks;
        Cut* const cut = groups.size() ? cut_of(nb::object(groups[0])) : nullptr;
        for (uint32_t g = 0; cut && g < cut->groups.size(); ++g) {
          const nb::object part = groups[g + 1];
          Group group = cut->group(g, nb::cast<std::vector<uint32_t>>(part[0]));
          for (nb::handle pass : nb::iter(nb::object(part[1])))
            group.passes.push_back({{nb::cast<uint32_t>(pass[0]), nb::cast<uint32_t>(pass[1])},
                                    places_of(*r.tracer, nb::list(pass[2])),
                                    places_of(*r.tracer, nb::list(pass[3])),
                                    bases_of(*r.tracer, nb::list(pass[3]))});
          made->groups.push_back(std::move(group));
        }
        if (cut) cut->describe(*made);
        made->trace = std::move(r.tracer->trace);
        made->begin_at_inputs();
        return Held{std::move(made)};
      });
  nb::class_<Replayed>(m, "_Replay", "A recording that runs again.")
      .def("__init__",
           [](Replayed* p, const Held& r) {
             r.recording->trace.shrink();
             new (p) Replayed{std::make_shared<Replay>(r.recording)};
           })
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
  m.def("_reason_not_to_replay", &reason_not_to_replay);
  m.def("_mode_of_replay", &mode_of_replay);
  bind_replay_numbers(m);
  bind_replay_entry(m);
  bind_replay_graph(m);
  bind_replay_state(m);
}

}  // namespace adjoint::bind
