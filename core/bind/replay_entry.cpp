// The way into a replayed function: a walk over what the function reads, the program, and what it leaves in
// Python's state, without any code of Python's between. Start reading at `entered`.
#include <algorithm>

#include "autograd/meta.h"
#include "bind/computing.h"
#include "bind/replay.h"
#include "bind/replay_stores.h"
#include "runtime/interrupt.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// A trace as calls meet it: what `Trace` of _replay/traces.py stands on.
struct Kept {
  int mode;
  nb::object layout;
  std::shared_ptr<replay::Replay> replay;
  /// What it gives and stores, of outputs and then of the numbers that Python gets.
  paths::Form result;
  std::vector<paths::Store> stores;
  std::vector<uint32_t> returned;
  /// The state of the generator matters to a node; it is only replayed where that is checked.
  bool draws, checked;
  /// The nodes that hooks refer to which it sets on its results: see `Trace.set_hooks`. Null: it sets none.
  nb::object hooks_refer_to = nb::none();
  /// When it was replayed last, in calls of its function; how often since then it was rolled back.
  int64_t used = 0, undone = 0;

  paths::Layout& reads() const { return nb::cast<paths::Layout&>(layout); }
};

/// What `Jitted` stands on: its traces, in the order in which they are asked. Its method `_call` is for all
/// calls that none fits.
struct Entry {
  nb::object function;
  std::vector<nb::object> traces;
  int64_t calls = 0, replayed = 0, undone = 0, missed = 0, eager_calls = 0;
  /// It is called directly: it was given up, or replaying is switched off.
  bool eager = false;
};

Kept& kept(const nb::object& trace) { return *nb::inst_ptr<Kept>(trace); }

/// What a node of the call needs, should a pass ask for what was not recorded: see `Trace.again`.
nb::object again(const nb::object& trace, const paths::Walk& walk, PyObject* function, PyObject* args,
                 PyObject* kwargs) {
  // An argument that is written would hold its own node, and one that is a result those of the calls before.
  // The node knows the tensors.
  const bool writes = kept(trace).replay->changes_histories();
  const auto goes = [&](PyObject* o) {
    return is_tensor(o) && (writes || unwrap(o)->grad_fn) && !reinterpret_cast<TensorObject*>(o)->dict;
  };
  nb::object given = nb::borrow(args), named = nb::borrow(kwargs);
  const std::span<PyObject* const> all(reinterpret_cast<PyTupleObject*>(args)->ob_item,
                                       static_cast<size_t>(PyTuple_GET_SIZE(args)));
  if (std::ranges::any_of(all, goes)) {
    given = nb::steal(PyTuple_New(PyTuple_GET_SIZE(args)));
    for (size_t i = 0; i < all.size(); ++i)
      PyTuple_SET_ITEM(given.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(goes(all[i]) ? Py_None : all[i]));
  }
  PyObject *key, *o;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &key, &o);)
    if (goes(o)) {
      if (named.is(kwargs)) named = nb::steal(PyDict_Copy(kwargs));
      PyDict_SetItem(named.ptr(), key, Py_None);
    }
  static PyObject* const method = PyUnicode_InternFromString("again");
  nb::list held, numbers;
  nb::object state = nb::none();
  walk.hold(held.ptr());
  for (const Scalar& n : walk.numbers()) numbers.append(nb::steal(from_scalar(n)));
  if (kept(trace).draws) state = trace.attr("state_of_draws")();
  return nb::make_tuple(nb::steal(PyObject_GetAttr(trace.ptr(), method)), nb::borrow(function), given, named,
                        held, numbers, state);
}

/// Whether a trace can be run; else the function is told why not, and has it no longer.
bool is_planned(PyObject* self, Entry& entry, const nb::object& trace) {
  static PyObject* const method = PyUnicode_InternFromString("_unplanned");
  replay::Replay& replay = *kept(trace).replay;
  if (replay.is_planned()) [[likely]]
    return true;
  std::string why = "what depends on nothing came out otherwise";
  try {
    replay.plan();
    return true;
  } catch (const runtime::Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  std::erase_if(entry.traces, [&](const nb::object& o) { return o.is(trace); });
  const nb::str words(why.c_str());
  PyObject* const given[] = {self, trace.ptr(), words.ptr()};
  if (!nb::steal(PyObject_VectorcallMethod(method, given, 3, nullptr)).is_valid()) throw nb::python_error();
  return false;
}

/// What a replay made, outputs and then numbers: owned, in place while it is little.
struct Made {
  runtime::SmallVector<TensorImpl*, 4> outputs;
  runtime::SmallVector<PyObject*, 8> objects;

  Made() = default;
  Made(const Made&) = delete;
  ~Made() {
    for (TensorImpl* t : outputs) Tensor::steal(t);
    for (PyObject* o : objects) Py_XDECREF(o);
  }
  std::span<Tensor> tensors() { return {reinterpret_cast<Tensor*>(outputs.data()), outputs.size()}; }
  std::span<PyObject* const> all() const { return {objects.data(), objects.size()}; }
};

/// Replay a call that was walked; false where it has to be made by itself, with nothing changed but, with
/// `drops`, gradients that the function replaces, which went where it lets go of them.
bool run(const nb::object& trace, paths::Walk& walk, PyObject* function, PyObject* args, PyObject* kwargs,
         Made& made, bool drops) {
  const Kept& t = kept(trace);
  const std::shared_ptr<replay::Replay> replay = t.replay;
  const bool records = replay->has_passes() && t.mode & 1;
  nb::object call;
  if (records) call = again(trace, walk, function, args, kwargs);
  const auto share = [&](size_t shares) {
    return records ? again_in_python(call, shares) : std::shared_ptr<const replay::Again>();
  };
  std::vector<Scalar> numbers = walk.numbers();
  made.outputs.resize(replay->outputs());
  const std::span<Tensor> outputs = made.tensors();
  // Borrowed while Python's lock is held, else owned.
  runtime::SmallVector<TensorImpl*, 16> borrowed(walk.count());
  for (size_t k = 0; k < borrowed.size(); ++k) borrowed[k] = walk.tensor(k);
  const TensorList inputs(reinterpret_cast<const Tensor*>(borrowed.data()), borrowed.size());
  replay::Program::Outcome outcome;
  Tensors owned;
  const auto let_go = [&](uint32_t k) {
    const InPython python;
    const auto at = std::ranges::find(replay->recording().replaced, k, &replay::Replaced::gradient);
    const Tensor& leaf = inputs[at->leaf];
    if (gradient(leaf).get() == inputs[k].get()) set_gradient(leaf, {});
    if (!owned.empty()) owned[k].reset();
    walk.drop(k);
  };
  const replay::Program::Drop drop = let_go;
  if (replay->program().work() >= kUnlockFrom) {
    owned.assign(inputs.begin(), inputs.end());
    const Computing computing(true, [&](auto&& add) {
      for (const Tensor& t : owned) add(t.get());
    });
    outcome = replay->run(owned, outputs, share, numbers, drops ? &drop : nullptr);
  } else {
    outcome = replay->run(inputs, outputs, share, numbers, drops ? &drop : nullptr);
  }
  if (outcome != replay::Program::Outcome::Done) return false;
  const std::vector<int32_t>& same = replay->program().output_is_input();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool recorded_here = records && outputs[i].defined() && outputs[i]->grad_fn;
    PyObject* const o = same[i] >= 0 ? walk.take(static_cast<size_t>(same[i])) : wrap(std::move(outputs[i]));
    made.objects.push_back(o);
    if (!o) throw nb::python_error();
    // Its history holds the arguments, which may hold it.
    if (recorded_here && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
  }
  for (const uint32_t n : t.returned) made.objects.push_back(from_scalar(numbers.at(n)));
  return true;
}

/// Store what was made, and give what the call gives.
nb::object finish(const nb::object& trace, paths::Walk& walk, std::span<PyObject* const> made) {
  const Kept& t = kept(trace);
  for (const paths::Store& store : t.stores) {
    const auto holder = static_cast<size_t>(store.holder);
    // What the call found there, wherever another store puts something else now.
    if (store.where == paths::Where::Grad)
      store(nb::steal(walk.take(holder)).ptr(), made);
    else
      store(walk.object(holder), made);
  }
  if (!t.hooks_refer_to.is_none()) {
    nb::list all, objects;
    for (PyObject* o : made) all.append(nb::handle(o));
    for (nb::handle n : t.hooks_refer_to) objects.append(nb::handle(walk.object(nb::cast<size_t>(n))));
    trace.attr("set_hooks")(all, objects);
  }
  return t.result.build(made);
}

PyObject* entered(PyObject* self, PyObject* args, PyObject* kwargs) {
  static PyObject* const slow = PyUnicode_InternFromString("_call");
  static PyObject* const none = PyDict_New();
  Entry& entry = *nb::inst_ptr<Entry>(self);
  ++entry.calls;
  if (entry.eager) {
    ++entry.eager_calls;
    const nb::object function = entry.function;
    return PyObject_Call(function.ptr(), args, kwargs);
  }
  if (!kwargs) kwargs = none;
  return guard([&]() -> PyObject* {
    nb::object undone;  // those that fit, in which a decision comes out otherwise
    if (!entry.traces.empty() && !reason_not_to_replay()) {
      const int mode = mode_of_replay();
      const nb::object function = entry.function;
      // What runs meanwhile may put other traces there.
      for (size_t i = 0; i < entry.traces.size(); ++i) {
        const nb::object trace = entry.traces[i];
        Kept& t = kept(trace);
        if (t.mode != mode || t.checked) continue;
        paths::Layout& reads = t.reads();
        paths::Walk walk(reads);
        reads.why.clear();
        if (!walk.call(function.ptr(), args, kwargs)) continue;
        t.used = entry.calls;
        if (!is_planned(self, entry, trace)) {
          --i;
          continue;
        }
        Made made;
        if (!run(trace, walk, function.ptr(), args, kwargs, made, true)) {
          ++entry.undone;
          ++t.undone;
          if (!undone.is_valid()) undone = nb::list();
          if (PyList_Append(undone.ptr(), trace.ptr()) < 0) throw nb::python_error();
          continue;
        }
        t.undone = entry.missed = 0;
        ++entry.replayed;
        // It is asked first from now on.
        if (undone.is_valid()) {
          for (nb::handle other : undone) nb::inst_ptr<Kept>(other)->undone = 0;
          const auto at =
              std::ranges::find_if(entry.traces, [&](const nb::object& o) { return o.is(trace); });
          if (at != entry.traces.end()) std::rotate(entry.traces.begin(), at, at + 1);
        }
        return finish(trace, walk, made.all()).release().ptr();
      }
    }
    const nb::object method = nb::steal(PyObject_GetAttr(self, slow));
    if (!method.is_valid()) throw nb::python_error();
    PyObject* const given[] = {undone.is_valid() ? undone.ptr() : Py_None, args, kwargs};
    return PyObject_Vectorcall(method.ptr(), given, 3, nullptr);
  });
}

int visit(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Entry& entry = *nb::inst_ptr<Entry>(self);
  Py_VISIT(entry.function.ptr());
  for (const nb::object& trace : entry.traces) Py_VISIT(trace.ptr());
  return 0;
}
int clear(PyObject* self) {
  Entry& entry = *nb::inst_ptr<Entry>(self);
  std::vector<nb::object> traces;
  entry.traces.swap(traces);
  nb::object(std::exchange(entry.function, nb::none())).reset();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(entered)},
                       {Py_tp_traverse, reinterpret_cast<void*>(visit)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {0, nullptr}};

int visit_kept(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Kept& t = *nb::inst_ptr<Kept>(self);
  Py_VISIT(t.layout.ptr());
  if (const int stop = t.result.visit(visit, arg)) return stop;
  for (const paths::Store& store : t.stores)
    if (const int stop = store.form.visit(visit, arg)) return stop;
  return 0;
}
int clear_kept(PyObject* self) {
  Kept& t = *nb::inst_ptr<Kept>(self);
  const auto result = std::exchange(t.result, {});
  const auto stores = std::exchange(t.stores, {});
  return 0;
}

PyType_Slot slots_of_kept[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_kept)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_kept)},
                               {0, nullptr}};

paths::Store store_of(nb::handle s) {
  paths::Store store{paths::where_of(nb::object(s[0])), nb::cast<int32_t>(s[1]), nb::object(s[2]),
                     paths::Form::of(nb::object(s[3]))};
  store.removed = nb::cast<bool>(s[4]);
  return store;
}

}  // namespace

void bind_replay_entry(nb::module_& m) {
  nb::class_<Kept>(m, "_Trace", nb::type_slots(slots_of_kept), "A trace as calls meet it.")
      .def("__init__",
           [](Kept* t, int mode, nb::object layout, const Replayed& program, nb::handle result,
              nb::list stores, std::vector<uint32_t> returned, bool draws, bool checked) {
             std::vector<paths::Store> all;
             for (nb::handle s : stores) all.push_back(store_of(s));
             new (t) Kept{mode,           std::move(layout),   program.replay, paths::Form::of(result),
                          std::move(all), std::move(returned), draws,          checked};
           })
      .def(
          "run",
          [](nb::object self, nb::object function, nb::tuple args, nb::dict kwargs) -> nb::object {
            kept(self).replay->plan();
            paths::Walk walk(kept(self).reads());
            Made made;
            if (!walk.call(function.ptr(), args.ptr(), kwargs.ptr()) ||
                !run(self, walk, function.ptr(), args.ptr(), kwargs.ptr(), made, false))
              return nb::none();
            nb::list all;
            for (PyObject* o : made.all()) all.append(nb::handle(o));
            return nb::tuple(all);
          },
          "What the call gives and stores, as tensors and numbers; None where it has to be made by itself.")
      .def_ro("mode", &Kept::mode)
      .def_ro("layout", &Kept::layout)
      .def_ro("checked", &Kept::checked)
      .def_rw("hooks_refer_to", &Kept::hooks_refer_to, nb::arg().none())
      .def_rw("used", &Kept::used)
      .def_rw("undone", &Kept::undone);
  nb::class_<Entry>(m, "_Entry", nb::type_slots(slots), "The way into a replayed function.")
      .def(nb::init<>())
      .def_rw("function", &Entry::function)
      .def_prop_rw(
          "_traces",
          [](const Entry& e) {
            nb::list all;
            for (const nb::object& t : e.traces) all.append(t);
            return all;
          },
          [](Entry& e, nb::list traces) {
            std::vector<nb::object> now;
            for (nb::handle t : traces) now.push_back(nb::borrow(t));
            // What dies with the old ones may call this function.
            e.traces.swap(now);
          })
      .def_rw("_eager", &Entry::eager)
      .def_rw("_eager_calls", &Entry::eager_calls)
      .def_rw("_calls", &Entry::calls)
      .def_rw("_missed", &Entry::missed)
      .def_rw("_replayed", &Entry::replayed)
      .def_rw("_undone", &Entry::undone);
  m.def(
      "_stands",
      [](nb::str kind, nb::object holder, nb::object key, nb::object otherwise) {
        nb::object found = paths::stands(paths::where_of(kind), holder.ptr(), key.ptr());
        return found.is_valid() ? found : otherwise;
      },
      "What stands at a place of Python's, or `otherwise`.", nb::arg("kind"), nb::arg("holder"),
      nb::arg("key").none(), nb::arg("otherwise").none());
  m.def(
      "_store",
      [](nb::str kind, nb::object holder, nb::object key, nb::object value, bool absent) {
        paths::put(paths::where_of(kind), holder.ptr(), key.ptr(), absent ? nullptr : value.ptr());
      },
      "Leave a value there, or nothing.", nb::arg("kind"), nb::arg("holder"), nb::arg("key").none(),
      nb::arg("value").none(), nb::arg("absent") = false);
}

}  // namespace adjoint::bind
