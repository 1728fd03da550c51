#include "bind/operators.h"

#include <structmember.h>

#include <array>
#include <map>
#include <memory>

#include "as_torch.h"
#include "autograd/views.h"
#include "bind/arguments.h"
#include "bind/overrides.h"
#include "bind/words.h"

namespace adjoint::bind {

namespace {

enum class Style : uint8_t { Plain, InPlace };

/// What one name stands for: rows of the table, of which the arguments choose one, and a function in Python
/// for arguments that fit none of them.
struct Overloads {
  std::vector<const Operator*> rows;
  PyObject* composition = nullptr;  // owned

  const std::vector<Alternate>& alternates() const {
    if (alternates_.empty()) [[unlikely]]
      fill();
    return alternates_;
  }

 private:
  [[gnu::noinline]] void fill() const {
    for (const Operator* row : rows)
      for (const Signature& s : signatures_of(*row).all)
        alternates_.emplace_back(s, signatures_of(*row).defaults);
  }
  mutable std::vector<Alternate> alternates_;
};

/// The callable. As an attribute of a type it is a method descriptor, so that calls pass no bound object
/// around.
struct OperatorObject {
  PyObject_HEAD vectorcallfunc call;
  const Operator* op;  // the first row
  Overloads* overloads;
  Style style;
  PyObject* name;
};
PyTypeObject* operator_type = nullptr;
std::map<const Operator*, PyTypeObject*> result_types;
/// The callable of each row, under its first name, and that of its form in place; owned.
std::map<const Operator*, PyObject*> callables, callables_in_place;
/// What each public name stands for; never destroyed.
std::map<std::string, Overloads>& overloads_by_name() {
  static auto& all = *new std::map<std::string, Overloads>;
  return all;
}

/// The public name of a row; empty where it has none.
std::string_view public_name(const Operator& op) {
  return *op.overloads ? op.overloads : *op.name == '_' ? "" : op.name;
}

/// The type of several results that have names: adjoint.return_types.sort. Rows of one function that return
/// the same share it.
PyTypeObject* result_type(const Operator& op) {
  PyTypeObject*& type = result_types[&op];
  if (type) return type;
  for (const auto& [row, made] : result_types)
    if (made && !public_name(op).empty() && public_name(*row) == public_name(op) &&
        std::string_view(row->returns) == op.returns)
      return type = made;
  // "values, indices"
  auto* names = new std::vector<std::string>;
  for (std::string_view rest = op.returns; !rest.empty();) {
    const size_t comma = rest.find(',');
    names->emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(rest.find_first_not_of(' ', comma + 1));
  }
  auto* fields = new std::vector<PyStructSequence_Field>;
  for (auto& f : *names) fields->push_back({f.c_str(), nullptr});
  fields->push_back({nullptr, nullptr});
  auto* known_as =
      new std::string(public_name(op).empty() ? "adjoint.return_type"
                                              : "adjoint.return_types." + std::string(public_name(op)));
  PyStructSequence_Desc desc{known_as->c_str(), "Several results of one operator, by name.", fields->data(),
                             static_cast<int>(names->size())};
  return type = PyStructSequence_NewType(&desc);
}

PyObject* wrap_all(Tensors& ts, const Operator& op) {
  const auto n = static_cast<Py_ssize_t>(ts.size());
  PyObject* tuple;
  if (*op.returns) {
    PyTypeObject* type = result_type(op);
    tuple = type ? PyStructSequence_New(type) : nullptr;
    for (Py_ssize_t i = 0; tuple && i < n; ++i) PyStructSequence_SetItem(tuple, i, wrap(std::move(ts[i])));
    return tuple;
  }
  tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; ++i) PyTuple_SET_ITEM(tuple, i, wrap(std::move(ts[i])));
  return tuple;
}

PyObject* wrap_results(Results& r, const Operator& op) {
  return r.kind == Results::Kind::One ? wrap(std::move(r.one)) : wrap_all(r.many, op);
}

/// What is given as out=: a tensor, or a tuple of them for several results.
Tensors tensors_of(PyObject* out, const Operator& op) {
  Tensors all;
  const auto take = [&](PyObject* o) {
    if (!is_tensor(o))
      fail<TypeError>(op.name, "(): argument 'out' must be Tensor, not ", Py_TYPE(o)->tp_name);
    all.push_back(unwrap(o));
  };
  if (!op.several) {
    take(out);
    return all;
  }
  const Py_ssize_t n = PyTuple_Check(out) || PyList_Check(out) ? PySequence_Fast_GET_SIZE(out) : -1;
  if (n < 0 || (op.results && n != static_cast<Py_ssize_t>(op.results)))
    fail<TypeError>(op.name, "(): out must be a tuple of ", op.results, " Tensors");
  for (Py_ssize_t i = 0; i < n; ++i) take(PySequence_Fast_GET_ITEM(out, i));
  return all;
}

/// The compositions that run in this thread, the innermost first. One may use its own operator; where it
/// hands on what it was given, and that fits no row, it would come back to itself for ever.
struct Running {
  const Overloads* overloads;
  PyObject* first;
  const Running* outer;
};
thread_local const Running* running = nullptr;

bool comes_back(const Overloads* overloads, PyObject* first) {
  for (const Running* r = running; r; r = r->outer)
    if (r->overloads == overloads && r->first == first) return true;
  return false;
}

PyObject* call_composition(OperatorObject* o, const Given& g) {
  const Running here{o->overloads, g.nargs ? g.args[0] : nullptr, running};
  running = &here;
  PyObject* r =
      PyObject_Vectorcall(o->overloads->composition, g.args, static_cast<size_t>(g.nargs), g.kwnames);
  running = here.outer;
  if (!r) throw PythonError{};
  if (o->style == Style::Plain) return r;
  const nanobind::object owned = nanobind::steal(r);
  become_result(unwrap(g.args[0]), unwrap(r), o->op->name);
  return Py_NewRef(g.args[0]);
}

/// What users know the callable as: a row that serves a function of the package has that one's name after an
/// underscore.
std::string name_of_call(OperatorObject* o) {
  const char* name = PyUnicode_AsUTF8(o->name);
  if (*name != '_' || o->style == Style::InPlace || *o->op->overloads) return name;
  if (!o->op->writes) return name + 1;
  std::string write = name_of_write(name);
  write.resize(write.size() - 2);
  return write;
}

/// "(Tensor, int, dim=str)"
std::string types_of(const Given& g) {
  std::string s = "(";
  for (Py_ssize_t i = 0; i < g.nargs + g.keywords(); ++i) {
    if (i) s += ", ";
    if (i >= g.nargs) (s += words(PyTuple_GET_ITEM(g.kwnames, i - g.nargs))) += "=";
    s += Py_TYPE(g.args[i])->tp_name;
  }
  return s + ")";
}

[[noreturn]] [[gnu::cold]] void refuse(OperatorObject* o, const Given& g) {
  const std::vector<Alternate>& all = o->overloads->alternates();
  std::string forms;
  int counted = 0;
  for (const Alternate& a : all) {
    if (a.signature->old) continue;
    Match m;
    Refusal why;
    a.match(g, m, why);
    const std::string reason = a.explain(why, g);
    const bool sentence = why.why == Refusal::Why::Type;
    forms += text("\n * (", a.text(), "): ", reason);
    if (++counted == 1 && all.size() == 1)
      fail<TypeError>(name_of_call(o), sentence ? "(): " : "() ", reason);
  }
  fail<TypeError>(name_of_call(o), "() received an invalid combination of arguments - got ", types_of(g),
                  ", but expected one of:", forms);
}

/// torch warns once of an order that it wants to give up.
[[gnu::cold]] void warn_of_order(OperatorObject* o, const Alternate& a) {
  a.warned = true;
  const Alternate* plain = &a;
  while (plain->signature->old) --plain;  // of the same row: it stands before
  const std::string message =
      text("This overload of ", name_of_call(o), " is deprecated:\n\t", name_of_call(o), "(", a.text(),
           ")\nConsider using one of the following signatures instead:\n\t", name_of_call(o), "(",
           plain->text(), ")");
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) throw PythonError{};
}

/// The alternate that fits best: the first that takes the arguments as they are, else the first that can
/// convert them. Null if none.
const Alternate* choose(OperatorObject* o, const Given& g, Match& chosen) {
  const Alternate* best = nullptr;
  Refusal refusal;
  const std::vector<Alternate>& all = o->overloads->alternates();
  for (const Alternate& a : all) {
    if (!best) {
      const Fit fit = a.match(g, chosen, refusal);
      if (fit == Fit::Exact) return &a;
      if (fit == Fit::Converted) best = &a;
    } else {
      Match other;
      if (a.match(g, other, refusal) != Fit::Exact) continue;
      chosen = other;
      return &a;
    }
  }
  return best;
}

[[gnu::hot]] PyObject* run(OperatorObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  // What the package calls among itself has been answered where it was called.
  if (overridden(args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0)) &&
      *PyUnicode_AsUTF8(o->name) != '_')
    return ask(reinterpret_cast<PyObject*>(o), args, nargs, kwnames);
  if (o->style == Style::InPlace && (nargs == 0 || !is_tensor(args[0])))
    fail<TypeError>(name_of_call(o), "(): argument 'self' (position 1) must be Tensor, not ",
                    nargs == 0 ? "missing" : Py_TYPE(args[0])->tp_name, ": it is what is written");
  static PyObject* const out_name = PyUnicode_InternFromString("out");
  Given given{args, nargs, kwnames};
  PyObject* out = nullptr;
  for (Py_ssize_t i = 0; i < given.keywords(); ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    if (name != out_name && (PyUnicode_CHECK_INTERNED(name) || PyUnicode_Compare(name, out_name) != 0))
      continue;
    given.out = i;
    out = args[nargs + i] == Py_None ? nullptr : args[nargs + i];
  }
  Arguments arguments;
  const Alternate* alternate = &o->overloads->alternates().front();
  if (!arguments.read(*alternate, given)) [[unlikely]] {
    Match match;
    alternate = choose(o, given, match);
    if (!alternate) {
      if (o->overloads->composition && !comes_back(o->overloads, nargs ? args[0] : nullptr))
        return call_composition(o, given);
      refuse(o, given);
    }
    arguments.read(*alternate, match);
  }
  if (alternate->signature->old) [[unlikely]]
    if (const ForTorch torch = for_torch();
        torch.warns_of_old_ways && (!alternate->warned || torch.warns_always))
      warn_of_order(o, *alternate);
  const Operator& op = alternate->op();
  const Value* v = arguments.values();
  // What makes a view may give the object another tensor: under Python's lock.
  const bool unlock =
      arguments.elements() >= (op.elementwise ? kUnlockFrom : kUnlockStructuredFrom) && !op.view;
  const auto operands = [&](auto&& add) { each_tensor(op, v, [&](const Tensor& t, int) { add(t.get()); }); };
  Results r;
  if (o->style == Style::InPlace) {
    std::optional<Replacing> replacing;
    if (op.view) replacing.emplace(*v[0].tensor);  // it may get another shape
    {
      const Computing c(unlock, operands);
      perform({op, CallForm::InPlace, {v, op.kinds.size()}, {}}, r);
    }
    return Py_NewRef(args[0]);
  }
  if (out) {
    Tensors written = tensors_of(out, op);
    {
      const Computing c(unlock, operands);
      perform({op, CallForm::Out, {v, op.kinds.size()}, written}, r);
    }
    return op.several ? wrap_all(written, op) : Py_NewRef(out);
  }
  {
    const Computing c(unlock, operands);
    op.boxed(v, r);
  }
  return wrap_results(r, op);
}

[[gnu::hot]] PyObject* operator_call(PyObject* self, PyObject* const* args, size_t nargsf,
                                     PyObject* kwnames) {
  auto* o = reinterpret_cast<OperatorObject*>(self);
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  try {
    const ElementwiseInfo* info = o->op->elementwise;
    // The short way: an element-wise operator on nothing but tensors.
    if (info && !kwnames && o->style == Style::Plain && nargs == info->arity && info->parameters == 0 &&
        nargs <= 2 && is_plain(args[0]) && (nargs == 1 || is_plain(args[1])) && !any_mode()) {
      if (const Tensor& only = unwrap(args[0]); nargs == 1 && only->numel < kUnlockFrom)
        return wrap(call_elementwise(*info, &only, nullptr));
      Borrowed<2> in;
      in[0] = unwrap(args[0]).get();
      in[1] = unwrap(args[nargs - 1]).get();
      if (in[0]->numel < kUnlockFrom && in[1]->numel < kUnlockFrom)
        return wrap(call_elementwise(*info, in, nullptr));
      Tensor result;
      {
        const Computing c(true, [&](auto&& add) { add(in[0]), add(in[1]); });
        result = call_elementwise(*info, in, nullptr);
      }
      return wrap(std::move(result));
    }
    return run(o, args, nargs, kwnames);
  } catch (...) {
    return raise();
  }
}

PyObject* operator_get(PyObject* self, PyObject* instance, PyObject*) {
  return instance ? PyMethod_New(self, instance) : Py_NewRef(self);
}
PyObject* operator_repr(PyObject* self) {
  return PyUnicode_FromFormat("<operator %U>", reinterpret_cast<OperatorObject*>(self)->name);
}
PyObject* operator_name(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<OperatorObject*>(self)->name);
}
/// Composed when it is read (adjoint/_help), of what the row says and of texts that are not loaded before.
PyObject* operator_doc(PyObject* self, void*) {
  PyObject* help = PyImport_ImportModule("adjoint._help");
  PyObject* text = help ? PyObject_CallMethod(help, "of_operator", "O", self) : nullptr;
  Py_XDECREF(help);
  return text;
}
PyObject* operator_text_signature(PyObject* self, void*) {
  return PyUnicode_FromFormat("(%s)", reinterpret_cast<OperatorObject*>(self)->op->signature.c_str());
}
PyObject* operator_reduce(PyObject* self, PyObject*) {
  return Py_NewRef(reinterpret_cast<OperatorObject*>(self)->name);
}
PyObject* operator_module(PyObject*, void*) { return PyUnicode_FromString("adjoint"); }

PyObject* operator_overload(PyObject* self, void*) {
  PyObject* f = reinterpret_cast<OperatorObject*>(self)->overloads->composition;
  return Py_NewRef(f ? f : Py_None);
}
PyObject* operator_forms(PyObject* self, void*) {
  const Overloads& all = *reinterpret_cast<OperatorObject*>(self)->overloads;
  PyObject* names = PyTuple_New(static_cast<Py_ssize_t>(all.rows.size()));
  for (size_t i = 0; names && i < all.rows.size(); ++i)
    PyTuple_SET_ITEM(names, static_cast<Py_ssize_t>(i), PyUnicode_FromString(all.rows[i]->name));
  return names;
}
PyObject* operator_keywords(PyObject* self, void*) {
  PyObject* names = PySet_New(nullptr);
  for (const Alternate& a : reinterpret_cast<OperatorObject*>(self)->overloads->alternates()) {
    for (PyObject* name : a.names)
      if (!names || PySet_Add(names, name) < 0) return nullptr;
    for (const auto& [name, parameter] : a.synonyms)
      if (PySet_Add(names, name) < 0) return nullptr;
  }
  return names;
}
int set_operator_overload(PyObject* self, PyObject* value, void*) {
  if (!value) {
    PyErr_SetString(PyExc_AttributeError, "overload cannot be deleted");
    return -1;
  }
  PyObject*& slot = reinterpret_cast<OperatorObject*>(self)->overloads->composition;
  PyObject* old = slot;
  slot = value == Py_None ? nullptr : Py_NewRef(value);
  Py_XDECREF(old);
  return 0;
}

PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, call), READONLY, nullptr}, {}};
PyMethodDef operator_methods[] = {{"__reduce__", operator_reduce, METH_NOARGS, nullptr}, {}};
PyGetSetDef operator_getset[] = {
    {"__name__", operator_name, nullptr, nullptr, nullptr},
    {"__qualname__", operator_name, nullptr, nullptr, nullptr},
    {"__doc__", operator_doc, nullptr, nullptr, nullptr},
    {"__text_signature__", operator_text_signature, nullptr, nullptr, nullptr},
    {"overload", operator_overload, set_operator_overload,
     "The function for arguments that do not fit the signature.", nullptr},
    {"forms", operator_forms, nullptr, "The rows of the table of which the arguments choose one.", nullptr},
    {"keywords", operator_keywords, nullptr, "The names by which arguments may be given, synonyms included.",
     nullptr},
    {"__module__", operator_module, nullptr, nullptr, nullptr},
    {}};
PyType_Slot operator_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(operator_get)},
                                {Py_tp_repr, reinterpret_cast<void*>(operator_repr)},
                                {Py_tp_members, operator_members},
                                {Py_tp_methods, operator_methods},
                                {Py_tp_getset, operator_getset},
                                {0, nullptr}};
PyType_Spec operator_spec = {"adjoint._C.Operator", sizeof(OperatorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             operator_slots};

PyObject* new_operator(Overloads& overloads, Style style, const std::string& name) {
  auto* o = reinterpret_cast<OperatorObject*>(operator_type->tp_alloc(operator_type, 0));
  if (!o) return nullptr;
  o->call = operator_call;
  o->op = overloads.rows.front();
  o->overloads = &overloads;
  o->style = style;
  o->name = PyUnicode_InternFromString(name.c_str());
  return reinterpret_cast<PyObject*>(o);
}

}  // namespace

PyObject* operator_object(const Operator& op, CallForm form) {
  if (form != CallForm::InPlace) {
    const auto found = callables.find(&op);
    return found == callables.end() ? nullptr : found->second;
  }
  const auto found = callables_in_place.find(&op);
  return found == callables_in_place.end() ? nullptr : found->second;
}
const Operator* operator_of(PyObject* o) {
  return PyObject_TypeCheck(o, operator_type) ? reinterpret_cast<OperatorObject*>(o)->op : nullptr;
}

const std::vector<Alternate>& alternates_of(PyObject* callable) {
  return reinterpret_cast<OperatorObject*>(callable)->overloads->alternates();
}

PyObject* add_operator(const Operator& op) {
  auto* overloads = new Overloads;  // as long as the row, for ever
  overloads->rows.push_back(&op);
  PyObject* callable = new_operator(*overloads, Style::Plain, op.name);
  if (callable) callables.try_emplace(&op, Py_NewRef(callable));
  return callable;
}

PyObject* return_types() {
  PyObject* all = PyDict_New();
  for (const Operator* op : operators()) {
    if (!*op->returns || public_name(*op).empty()) continue;
    PyTypeObject* type = result_type(*op);
    if (!type || PyDict_SetItemString(all, std::string(public_name(*op)).c_str(),
                                      reinterpret_cast<PyObject*>(type)) < 0) {
      Py_CLEAR(all);
      break;
    }
  }
  return all;
}

bool add_operators(PyObject* module) {
  operator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&operator_spec));
  if (!operator_type) return false;
  if (PyModule_AddObjectRef(module, "Operator", reinterpret_cast<PyObject*>(operator_type)) < 0) return false;
  PyObject* type_dict = tensor_type->tp_dict;
  auto add = [&](const Operator* op, Overloads& overloads, const std::string& name) {
    PyObject* plain = new_operator(overloads, Style::Plain, name);
    if (!plain) return false;
    if (name == op->name) callables.try_emplace(op, Py_NewRef(plain));
    bool ok = true;
    if (op->function) ok = ok && PyModule_AddObjectRef(module, name.c_str(), plain) == 0;
    // What the package uses among itself is no method: not in completion, nor in a subclass's way.
    if (op->method && name[0] != '_') ok = ok && PyDict_SetItemString(type_dict, name.c_str(), plain) == 0;
    Py_DECREF(plain);
    if (ok && op->inplace && name[0] != '_' && name.back() != '_') {
      PyObject* in = new_operator(overloads, Style::InPlace, name + "_");
      ok = in && PyDict_SetItemString(type_dict, (name + "_").c_str(), in) == 0;
      if (ok) callables_in_place.try_emplace(op, Py_NewRef(in));
      Py_XDECREF(in);
    }
    return ok;
  };
  // A name stands for its own row first, and then for those that say that they are a form of it.
  auto& by_name = overloads_by_name();
  for (const Operator* op : operators()) by_name[op->name].rows.push_back(op);
  for (const Operator* op : operators())
    if (*op->overloads) by_name[op->overloads].rows.push_back(op);
  for (const Operator* op : operators()) {
    if (!add(op, by_name[op->name], op->name)) return false;
    each_alias(op->aliases, [&](const std::string& name) { add(op, by_name[op->name], name); });
  }
  for (auto& [name, overloads] : by_name)
    if (*overloads.rows.front()->overloads && name != overloads.rows.front()->name &&
        !add(overloads.rows.front(), overloads, name))
      return false;
  PyType_Modified(tensor_type);
  return true;
}

}  // namespace adjoint::bind
