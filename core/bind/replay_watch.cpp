// Which code ran, and which C functions it called: a profile hook of one thread. See _replay/_watch.py. Start
// reading at `told`.
#include <Python.h>
//
#include <frameobject.h>

#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "bind/caster.h"
#include "bind/object.h"
#include "bind/replay.h"
#include "bind/words.h"
#include "for_size.h"
#include "runtime/system.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// What is raised in a run that is only tried.
PyObject* ended_type = nullptr;

/// What is known of functions, for all runs.
struct Rules {
  /// Types whose methods, and modules whose functions, do nothing but what their results say; names of
  /// others.
  nb::object pure_types, pure_modules, impure_names;
  /// What code in the folders of the library and of the standard library may call besides.
  nb::object inner_names, library_names;
  std::vector<std::string> inner_folders;
  /// C functions that only compute, and stand in tables of types and modules, which are there for good.
  mutable std::unordered_set<PyMethodDef*> pure;
};

/// Code that is known to run, with the globals that it ran with: nothing is noted of it again. Others hold
/// both, since the collector is to find them.
struct Known {
  struct Code {
    std::vector<PyObject*> globals;
    /// Whether it is not the library's; the last run that it was seen in.
    bool others = false;
    uint64_t run = 0;
  };
  std::unordered_map<PyObject*, Code> codes;
  /// Of (address of code, of globals, whether it is the library's).
  explicit Known(nb::list all) {
    codes.reserve(2 * nb::len(all));
    const auto address = [](nb::handle n) { return reinterpret_cast<PyObject*>(nb::cast<uintptr_t>(n)); };
    for (nb::handle each : all) {
      Code& c = codes[address(each[0])];
      c.globals.push_back(address(each[1]));
      c.others = !nb::cast<bool>(each[2]);
    }
  }
};

/// What a run was seen to do.
class Watch {
 public:
  Watch(const Rules& r, Known* k) : rules(r), known(k) {
    static uint64_t runs = 0;
    run = ++runs;
  }
  const Rules& rules;
  Known* const known;
  uint64_t run;                                     // its number
  std::unordered_map<PyObject*, nb::object> codes;  // with the globals that they ran with
  std::vector<nb::object> order;
  /// What was known and is not the library's.
  std::vector<std::pair<PyObject*, PyObject*>> others;
  struct Call {
    std::string name;
    nb::object code;
    int line;
  };
  std::vector<Call> impure;
  std::unordered_set<PyMethodDef*> judged;
  std::set<std::pair<PyMethodDef*, PyObject*>> named;
  std::vector<nb::object> held;
  /// What the program has asked the collector to tell (`gc.callbacks`), while that runs: it comes whenever it
  /// does, and is no part of the function.
  PyFrameObject* beside = nullptr;
  /// Where a run is only tried: the code that may run. Whatever else is about to happen ends it.
  nb::object only;

  void called(PyFrameObject* frame) {
    nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    PyObject* const key = code.ptr();
    if (key == last_) return;
    last_ = key;
    bool is_known = false;
    if (known)
      if (const auto found = known->codes.find(key); found != known->codes.end()) {
        Known::Code& c = found->second;
        if (c.run == run) return;
        c.run = run;
        is_known = true;
        const nb::object globals = nb::steal(globals_of(frame));
        if (std::ranges::find(c.globals, globals.ptr()) != c.globals.end()) {
          if (c.others) others.emplace_back(key, globals.ptr());
          return;
        }
      }
    if (!is_known && is_of_the_collector(key)) {
      beside = frame;
      last_ = nullptr;
      return;
    }
    auto [at, is_new] = codes.try_emplace(key);
    if (!is_new) return;
    order.push_back(std::move(code));
    if (only.is_valid() && !is_known &&
        PySet_Contains(only.ptr(), nb::steal(PyLong_FromVoidPtr(key)).ptr()) != 1)
      end();
    at->second = nb::steal(globals_of(frame));
  }

  void calls(PyFrameObject* frame, PyObject* f) {
    if (!PyCFunction_Check(f)) return;
    PyMethodDef* const definition = reinterpret_cast<PyCFunctionObject*>(f)->m_ml;
    PyObject* const self = reinterpret_cast<PyCFunctionObject*>(f)->m_self;
    PyObject* const module = reinterpret_cast<PyCFunctionObject*>(f)->m_module;
    if (rules.pure.contains(definition) || judged.contains(definition)) return;
    bool for_good = false;
    if (is_pure(definition, self, module, for_good)) {
      (for_good ? rules.pure : judged).insert(definition);
      return;
    }
    nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const bool of_the_house = is_inner(code);
    const nb::str name(definition->ml_name);
    if (of_the_house && has(rules.inner_names, name.ptr())) return;
    if (has(rules.library_names, name.ptr()) && file_of(code).starts_with(rules.inner_folders[0])) return;
    if (impure.size() >= 100 || !named.emplace(definition, code.ptr()).second) return;
    // The line of the program that led there.
    nb::object at = nb::borrow(reinterpret_cast<PyObject*>(frame)), own = at;
    while (at.is_valid() && is_inner(code_of(at)))
      at =
          nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(at.ptr()))));
    if (!at.is_valid()) at = own;
    impure.push_back({name_of(definition, self, module), code_of(at),
                      PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(at.ptr()))});
    held.push_back(code);
    if (only.is_valid()) end();
  }

 private:
  [[noreturn]] static void end() {
    PyErr_SetString(ended_type, "a run that was only tried took another way");
    throw PythonError{};
  }
  static PyObject* globals_of(PyFrameObject* frame) {
#if PY_VERSION_HEX < 0x030B0000
    return Py_NewRef(frame->f_globals);
#else
    return PyFrame_GetGlobals(frame);
#endif
  }
  static bool is_of_the_collector(PyObject* code) {
    // Not imported: code may run without an `__import__`; and who has a callback has imported it.
    const nb::object gc = nb::steal(PyImport_GetModule(nb::str("gc").ptr()));
    if (!gc.is_valid()) {
      PyErr_Clear();
      return false;
    }
    for (nb::handle f : nb::object(gc.attr("callbacks"))) {
      PyObject* const of = PyMethod_Check(f.ptr()) ? PyMethod_GET_FUNCTION(f.ptr()) : f.ptr();
      if (PyFunction_Check(of) && PyFunction_GET_CODE(of) == code) return true;
    }
    return false;
  }
  bool has(const nb::object& set, PyObject* o) const {
    const int in = PySet_Contains(set.ptr(), o);
    if (in < 0) PyErr_Clear();
    return in == 1;
  }
  static nb::object code_of(const nb::object& frame) {
    return nb::steal(
        reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
  }
  /// Whether it is code of the library or of the standard library.
  static std::string file_of(const nb::object& code) {
    return words(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
  }
  bool is_inner(const nb::object& code) const {
    const std::string name = file_of(code);
    if (name.find("site-packages") != std::string::npos && !name.starts_with(rules.inner_folders[0]))
      return false;
    for (const std::string& folder : rules.inner_folders)
      if (name.starts_with(folder)) return true;
    return false;
  }
  bool is_pure(PyMethodDef* definition, PyObject* self, PyObject* module, bool& for_good) const {
    if (!self || PyModule_Check(self)) {
      nb::object name = module && PyUnicode_Check(module) ? nb::borrow(module)
                        : self                            ? nb::steal(PyModule_GetNameObject(self))
                                                          : nb::object();
      if (!name.is_valid()) {
        PyErr_Clear();
        return false;
      }
      if (!has(rules.pure_modules, name.ptr())) return false;
      for_good = self != nullptr;
      return !has(rules.impure_names, nb::str(definition->ml_name).ptr());
    }
    PyTypeObject* type = PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
    if (PyType_Check(self) && has(rules.pure_types, self)) return true;
    // By the class that brings the method.
    for (; type; type = type->tp_base) {
      bool owns = false;
      for (PyMethodDef* own = type->tp_methods; own && own->ml_name && !owns; ++own) owns = own == definition;
      if (has(rules.pure_types, reinterpret_cast<PyObject*>(type))) {
        for_good = owns;
        return true;
      }
      if (type == &PyBaseObject_Type) break;
      if (owns) return false;
    }
    return PyType_Check(self) || type == &PyBaseObject_Type;
  }
  static std::string name_of(PyMethodDef* definition, PyObject* self, PyObject* module) {
    std::string name = definition->ml_name;
    if (!self || PyModule_Check(self)) {
      const char* of = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
      if (!of) PyErr_Clear();
      return of && std::string_view(of) != "builtins" && std::string_view(of) != "io" &&
                     std::string_view(of) != "_io"
                 ? std::string(of) + "." + name
                 : name;
    }
    return std::string(
               (PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self))->tp_name) +
           "." + name;
  }
  PyObject* last_ = nullptr;
};

/// How many of this thread's runs are watched, and of scopes in which nothing is.
thread_local int watches = 0;
thread_local int unseen = 0;

/// What Python has as the hook's object while a run is watched: the watch, and the hook that was there
/// before.
struct Holder {
  PyObject_HEAD Watch* watch;
  Py_tracefunc before;
  PyObject* before_object;
};
PyTypeObject* holder_type = nullptr;

int told(PyObject* o, PyFrameObject* frame, int what, PyObject* arg) {
  auto* const holder = reinterpret_cast<Holder*>(o);
  if (holder->watch && holder->watch->beside) {
    if (what == PyTrace_RETURN && frame == holder->watch->beside) holder->watch->beside = nullptr;
  } else if (holder->watch && !unseen) {
    try {
      if (what == PyTrace_CALL)
        holder->watch->called(frame);
      else if (what == PyTrace_C_CALL)
        holder->watch->calls(frame, arg);
    } catch (...) {
      raise();
      return -1;
    }
  }
  return holder->before ? holder->before(holder->before_object, frame, what, arg) : 0;
}

void free_holder(PyObject* o) {
  auto* const holder = reinterpret_cast<Holder*>(o);
  Py_XDECREF(holder->before_object);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

/// A run that is watched. The hook is that of the thread which starts it.
class Watched {
 public:
  Watched(nb::object rules, nb::object only, nb::object known)
      : rules_(std::move(rules)),
        known_(std::move(known)),
        watch_(nb::cast<Rules&>(rules_), known_.is_none() ? nullptr : nb::cast<Known*>(known_)) {
    if (!only.is_none()) watch_.only = std::move(only);
  }
  ~Watched() {
    if (holder_) reinterpret_cast<Holder*>(holder_.ptr())->watch = nullptr;
  }

  void start() {
    if (holder_) fail("this is being watched");
    PyThreadState* const thread = PyThreadState_Get();
    PyObject* o = holder_type->tp_alloc(holder_type, 0);
    if (!o) throw nb::python_error();
    holder_ = nb::steal(o);
    auto* const holder = reinterpret_cast<Holder*>(o);
    holder->watch = &watch_;
    holder->before = thread->c_profilefunc;
    holder->before_object = Py_XNewRef(thread->c_profileobj);
    PyEval_SetProfile(&told, o);
    ++watches;
  }
  void stop() {
    if (!holder_) return;
    --watches;
    auto* const holder = reinterpret_cast<Holder*>(holder_.ptr());
    holder->watch = nullptr;
    PyThreadState* const thread = PyThreadState_Get();
    // Where the program set another hook meanwhile, that stays.
    if (thread->c_profileobj == holder_.ptr())
      PyEval_SetProfile(holder->before, holder->before_object);
    else
      replaced_ = true;
    holder_ = nb::object();
  }

  nb::list codes() const {
    nb::list r;
    for (const nb::object& code : watch_.order) r.append(nb::make_tuple(code, watch_.codes.at(code.ptr())));
    return r;
  }
  nb::list others() const {
    nb::list r;
    for (const auto& [code, globals] : watch_.others)
      r.append(nb::make_tuple(nb::borrow(code), nb::borrow(globals)));
    return r;
  }
  nb::list impure() const {
    nb::list r;
    for (const Watch::Call& c : watch_.impure)
      r.append(nb::make_tuple(c.name, c.code.attr("co_filename"), c.line));
    return r;
  }
  bool replaced() const { return replaced_; }

 private:
  nb::object rules_, known_;
  Watch watch_;
  nb::object holder_;
  bool replaced_ = false;
};

}  // namespace

bool is_watched() { return watches > 0; }
Unwatched::Unwatched() { ++unseen; }
Unwatched::~Unwatched() { --unseen; }

void bind_replay_watch(nb::module_& m) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&free_holder)}, {0, nullptr}};
  PyType_Spec spec = {"adjoint._C._Hook", sizeof(Holder), 0, Py_TPFLAGS_DEFAULT, slots};
  holder_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!holder_type) throw nb::python_error();
  ended_type = PyErr_NewException("adjoint._C._Ended", PyExc_BaseException, nullptr);
  if (!ended_type) throw nb::python_error();
  m.attr("_Ended") = nb::borrow(ended_type);
  nb::class_<Rules>(m, "_Rules", "Which functions are pure: see _replay/_watch.py.")
      .def("__init__", [](Rules* rules, nb::object types, nb::object modules, nb::object names,
                          nb::object inner, nb::object library, nb::list folders) {
        new (rules) Rules{types, modules, names, inner, library, {}, {}};
        for (nb::handle folder : folders) rules->inner_folders.push_back(words(folder.ptr()));
      });
  // At its end signals arrive that came within it.
  struct WithoutSignals {
    std::optional<runtime::system::WithoutSignals> now;
  };
  nb::class_<WithoutSignals>(m, "_WithoutSignals")
      .def(nb::init<>())
      .def("begin", [](WithoutSignals& w) { w.now.emplace(); })
      .def("end", [](WithoutSignals& w) { w.now.reset(); });
  nb::class_<Known>(m, "_Known", "Code that is known to run.").def(nb::init<nb::list>());
  nb::class_<Watched>(m, "_Watched", "A profile hook: see _replay/_watch.py.")
      .def(nb::init<nb::object, nb::object, nb::object>(), nb::arg("rules"), nb::arg("only").none(),
           nb::arg("known").none())
      .def("start", &Watched::start)
      .def("stop", &Watched::stop)
      .def_prop_ro("codes", &Watched::codes)
      .def_prop_ro("others", &Watched::others)
      .def_prop_ro("impure", &Watched::impure)
      .def_prop_ro("replaced", &Watched::replaced);
}

}  // namespace adjoint::bind
