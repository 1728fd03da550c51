// Operators that Python declares: rows of the table whose parts are Python functions. See
// src/adjoint/library/_primitive.py, which reads a declaration, and dispatch/declared.h, which makes a row of
// it. Start reading at `PythonOperator`.
#include "autograd/arithmetic.h"
#include "bind/arguments.h"
#include "bind/buffer.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "bind/operators.h"
#include "bind/python_rule.h"
#include "bind/replay.h"
#include "dispatch/batched_call.h"
#include "dispatch/declared.h"
#include "for_size.h"
#include "ops/shape.h"
#include "runtime/interrupt.h"
#include "runtime/random.h"
#include "transforms/batching.h"
#include "transforms/forward.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

class PythonOperator final : public DeclaredOperator {
 public:
  struct Functions {
    std::shared_ptr<PyObject> forward;
    Rule joint, jvp;
    std::vector<Rule> rules;  // per parameter
    std::shared_ptr<PyObject> batch;
    /// Says why the function may do more than compute.
    std::shared_ptr<PyObject> impure;
  };
  PythonOperator(Declaration d, Functions f) : DeclaredOperator(std::move(d)), f_(std::move(f)) {
    each_parameter(order, [&](const ParameterText& p) {
      if (p.keyword_only) names_.emplace_back(p.name());
    });
  }

  void forward(std::span<const Value> arguments, Results& to) const override {
    const InPython python;
    // Of a run that is recorded: what only computes need not be looked at, and runs again in a replay.
    std::optional<Unwatched> unseen;
    if (is_watched() && impure().empty()) unseen.emplace();
    const bool asks = thread_state.observer && !declaration.pure;
    const auto state = [&] {
      return asks ? runtime::default_generator().state() : runtime::Generator::State();
    };
    const runtime::Generator::State before = state();
    nb::object r = called(f_.forward, {}, [&](size_t i) { return argument(i, arguments[i]); });
    if (state() != before)
      tell_recorders("the function of an operator that is declared in Python draws random numbers");
    read_results(*this, r, to, text("the function of '", name, "' must return").c_str());
    // What the function keeps, or made a view of, gets no history here. `counted` are the owners that are
    // known.
    const auto each = [&](Tensor& t, PyObject* o, Py_ssize_t counted) {
      if (!t.defined()) return;
      refuse_shared(t, arguments);
      if (is_held_by_nobody_else(*t->storage)) {
        t->storage->checked = false;
        t->flags |= thread_state.flags_of_new & TensorImpl::kInference;  // it is as new as any
        t->storage->made_in = thread_state.made_in;
        t->storage->version.store(0, std::memory_order_relaxed);
      }
      if (Py_REFCNT(o) > counted || t->is(TensorImpl::kView) || t->is(TensorImpl::kRequiresGrad))
        t = alias(t);
    };
    if (to.kind == Results::Kind::One) {
      each(to.one, is_tensor(r.ptr()) ? r.ptr() : Py_None, 1);
    } else {
      for (size_t i = 0; i < to.many.size(); ++i) {
        const nb::object o = nb::steal(PySequence_GetItem(r.ptr(), static_cast<Py_ssize_t>(i)));
        each(to.many[i], o.ptr(), 2);
      }
    }
  }

  std::string impure() const override {
    if (declaration.pure) return "";
    if (declaration.ordered) return "its effects are seen by others";
    const InPython python;
    const Unwatched unseen;
    const NoInterpretation aside;
    const nb::object why = nb::steal(PyObject_CallNoArgs(f_.impure.get()));
    if (!why.is_valid()) throw nb::python_error();
    return nb::cast<std::string>(why);
  }

  std::vector<nb::object> rules_of_program() const {
    std::vector<nb::object> all;
    if (declaration.pure) return all;
    if (f_.joint) all.push_back(nb::borrow(f_.joint.function.get()));
    for (const Rule& rule : f_.rules)
      if (rule) all.push_back(nb::borrow(rule.function.get()));
    return all;
  }

  Tensor vjp(RuleNode& node, int parameter, Gradients& in) const override {
    const InPython python;
    const nb::object r = run(f_.rules[static_cast<size_t>(parameter)], node, 1u << parameter, in);
    return on_their_devices(tensors_from(r, 1, name, "vjp", "gradient"), node, parameter).front();
  }

  Tensors joint_vjp(RuleNode& node, uint32_t wanted, Gradients& in) const override {
    const InPython python;
    return on_their_devices(tensors_from(run(f_.joint, node, wanted, in), node.edges().size(), name, "vjp",
                                         "tensor among the arguments"),
                            node);
  }

  Tensors jvp(const DualCall& call) const override {
    const InPython python;
    const auto of = [&](size_t p, const Tensors& tensors) {
      const size_t first = call.first[p], n = call.first[p + 1] - first;
      if (kinds[p]->form == Form::Tensors) return tuple_of(std::span(tensors).subspan(first, n));
      return n ? wrap(tensors[first]) : Py_NewRef(Py_None);
    };
    Tensors tangents = call.tangents;
    for (size_t i = 0; i < tangents.size(); ++i)
      if (const Tensor& x = call.primals[i];
          !tangents[i].defined() && x.defined() && is_differentiable(x.dtype()))
        tangents[i] = expanded_zero(x);
    const nb::object r = f_.jvp.run([&](const Source& s) -> PyObject* {
      const auto p = static_cast<size_t>(s.parameter);
      switch (s.kind) {
        case Source::Given: {
          nb::list all;
          for (size_t i = 0; i < kinds.size(); ++i)
            if (is_of_tensors(i)) all.append(nb::steal(of(i, tangents)));
          return nb::len(all) == 1 ? nb::object(all[0]).release().ptr() : PyList_AsTuple(all.ptr());
        }
        case Source::Argument:
          return is_of_tensors(p) ? of(p, call.primals) : to_python(*kinds[p], call.arguments[p]);
        case Source::Result:
          return several ? tuple_of(call.results) : wrap(call.results.front());
        case Source::Shape:
          return size_from(call.primals[call.first[p]].sizes());
        case Source::Needs:
          break;
      }
      return flags([&](size_t i) {
        for (size_t k = call.first[i]; k < call.first[i + 1]; ++k)
          if (call.tangents[k].defined()) return true;
        return false;
      });
    });
    Tensors given = tensors_from(r, call.results.size(), name, "jvp", "result");
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i].defined() && call.results[i].defined())
        need_alike(call.results[i], given[i], text(": the jvp of '", name, "' gave it for result ", i));
    return given;
  }

  void compute_batch(BatchedCall& c) const override {
    const InPython python;
    const auto samples = [&](size_t i) -> PyObject* {
      if (!c.given[i].present || !is_of_tensors(i)) return argument(i, c.given[i]);
      if (kinds[i]->form == Form::Tensor) return wrap(c.samples(*c.given[i].tensor));
      Tensors list;
      for (const Tensor& t : c.given[i].tensors()) list.push_back(c.samples(t));
      return tuple_of(list);
    };
    const auto dim = [&](const Tensor& t) {
      return t.defined() && c.batched(t) ? nb::object(nb::int_(0)) : nb::none();
    };
    nb::list dims;
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (!c.given[i].present || !is_of_tensors(i))
        dims.append(nb::none());
      else if (kinds[i]->form == Form::Tensor)
        dims.append(dim(*c.given[i].tensor));
      else {
        nb::list of_list;
        for (const Tensor& t : c.given[i].tensors()) of_list.append(dim(t));
        dims.append(nb::tuple(of_list));
      }
    }
    static const char* const randomness[] = {"error", "different", "same"};
    const nb::object info = nb::module_::import_("adjoint.func._batched_functions")
                                .attr("VmapInfo")(c.size, randomness[static_cast<int>(c.level.randomness)]);
    const nb::object r = called(f_.batch, {info, nb::tuple(dims)}, samples);
    if (!PyTuple_Check(r.ptr()) || nb::len(r) != 2)
      fail("the batch rule of '", name,
           "' must return a tuple of the results and of the dimensions in which they have the batch, but it "
           "returned ",
           Py_TYPE(r.ptr())->tp_name);
    const nb::object out = r[nb::int_(0)], out_dims = r[nb::int_(1)];
    read_results(*this, out, c.results, text("the batch rule of '", name, "' must return").c_str());
    const auto place = [&](Tensor& t, nb::handle at) {
      if (!t.defined()) return;
      if (at.is_none()) {
        t = c.in_front(t);
        return;
      }
      int64_t from = nb::cast<int64_t>(at);
      if (const int64_t rank = t.dim(); from < -rank || from >= rank || t.size(from) != c.size)
        fail("the batch rule of '", name, "' says that the batch of ", c.size, " is dimension ", from,
             " of a result of shape ", t.sizes());
      const int64_t front = 0;
      if (from < 0) from += t.dim();
      if (from) t = ::adjoint::call<MoveDim>(t, IntList(&from, 1), IntList(&front, 1));
    };
    if (c.results.kind == Results::Kind::One)
      return place(c.results.one,
                   PyTuple_Check(out_dims.ptr()) ? nb::object(out_dims[nb::int_(0)]) : out_dims);
    const bool each = PyTuple_Check(out_dims.ptr()) || PyList_Check(out_dims.ptr());
    if (each && nb::len(out_dims) != c.results.many.size())
      fail("the batch rule of '", name, "' returned ", c.results.many.size(), " results and ",
           nb::len(out_dims), " dimensions");
    for (size_t i = 0; i < c.results.many.size(); ++i)
      place(c.results.many[i], each ? nb::object(out_dims[nb::int_(i)]) : out_dims);
  }

 private:
  /// The gradients of all tensors, or that of one parameter.
  static Tensors on_their_devices(Tensors gradients, RuleNode& node, int parameter = -1) {
    const auto edges = node.edges();
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Edge& edge = edges[parameter < 0 ? i : node.edge_of(parameter)];
      if (gradients[i].defined() && edge)
        gradients[i] = on_device(std::move(gradients[i]), edge.node->result(edge.input_nr), node, i);
    }
    return gradients;
  }
  bool is_of_tensors(size_t i) const {
    return kinds[i]->form == Form::Tensor || kinds[i]->form == Form::Tensors;
  }

  PyObject* argument(size_t i, const Value& v) const {
    // Numbers too are tensors to a function that takes tensors.
    if (kinds[i]->form == Form::Tensor && v.present)
      return wrap(v.tensor->is_wrapped() ? owned(*v.tensor) : *v.tensor);
    return to_python(*kinds[i], v);
  }

  /// The result of a function of this operator's arguments, which come after others.
  template <class F>
  nb::object called(const std::shared_ptr<PyObject>& f, std::initializer_list<nb::object> before,
                    F&& argument) const {
    nb::list args;
    nb::dict kwargs;
    for (const nb::object& o : before) args.append(o);
    const size_t placed = kinds.size() - names_.size();
    for (size_t i = 0; i < kinds.size(); ++i) {
      const nb::object o = nb::steal(argument(i));
      if (!o.is_valid()) throw nb::python_error();
      if (i < placed)
        args.append(o);
      else
        kwargs[names_[i - placed].c_str()] = o;
    }
    nb::object r = nb::steal(PyObject_Call(f.get(), nb::tuple(args).ptr(), kwargs.ptr()));
    if (r.is_valid()) return r;
    // An error is met again by whoever runs a replayed call by itself; an interrupt comes once.
    if (PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
    throw runtime::Interrupted{std::make_exception_ptr(nb::python_error())};
  }

  /// A bool for each argument that is a tensor or a list of them.
  template <class F>
  PyObject* flags(F&& of) const {
    nb::list all;
    for (size_t i = 0; i < kinds.size(); ++i)
      if (is_of_tensors(i)) all.append(nb::bool_(of(i)));
    return PyList_AsTuple(all.ptr());
  }

  nb::object run(const Rule& rule, RuleNode& node, uint32_t wanted, Gradients& in) const {
    return rule.run([&](const Source& s) -> PyObject* {
      const auto p = static_cast<size_t>(s.parameter);
      switch (s.kind) {
        case Source::Given: {
          Tensors all;
          for (uint32_t i = 0; i < node.num_inputs; ++i) {
            const ResultInfo& result = node.result(i);
            all.push_back(in[i].defined() || !is_differentiable(result.dtype())
                              ? in[i]
                              : zeros(result.sizes(), result.dtype()));
          }
          return several ? tuple_of(all) : wrap(all.front());
        }
        case Source::Argument:
          if (kinds[p]->form == Form::Tensor) return wrap(node.input(s.parameter));
          if (kinds[p]->form == Form::Tensors) return tuple_of(node.list());
          return to_python(*kinds[p], kept(node)[p]);
        case Source::Result: {
          Tensors all;
          for (uint32_t i = 0; i < node.num_inputs; ++i) all.push_back(node.output(static_cast<int>(i)));
          return several ? tuple_of(all) : wrap(all.front());
        }
        case Source::Shape:
          return size_from(node.shape(s.parameter));
        case Source::Needs:
          break;
      }
      return flags([&](size_t i) { return wanted >> i & 1; });
    });
  }

  /// A result has memory of its own: versions and views are kept by the door, which knows nothing of others.
  void refuse_shared(const Tensor& t, std::span<const Value> arguments) const {
    each_tensor(*this, arguments.data(), [&](const Tensor& given, int i) {
      if (given->storage != t->storage || !t.numel()) return;
      std::string argument;
      each_parameter(order, [&, at = 0](const ParameterText& p) mutable {
        if (at++ == i) argument = p.name();
      });
      fail(name,
           ": The output of this custom operator (1) must not also be an input to this custom operator and "
           "(2) may not alias any inputs to this custom operator or other returns. A result shares the "
           "memory of its argument '",
           argument, "': return a clone() of it");
    });
  }

  const Functions f_;
  std::vector<std::string> names_;  // of arguments that have to be named
};

/// The types of arguments that a declaration may name.
const std::pair<const char*, const ArgKind*> kKinds[] = {{"Tensor", &kind_of<Tensor>},
                                                         {"Tensor?", &kind_of<OptionalTensor>},
                                                         {"Tensor[]", &kind_of<TensorList>},
                                                         {"Tensor?[]", &kind_of<OptionalTensorList>},
                                                         {"Scalar", &kind_of<Scalar>},
                                                         {"Scalar?", &kind_of<std::optional<Scalar>>},
                                                         {"int", &kind_of<int64_t>},
                                                         {"int?", &kind_of<std::optional<int64_t>>},
                                                         {"Dim", &kind_of<Dim>},
                                                         {"Dim?", &kind_of<std::optional<Dim>>},
                                                         {"float", &kind_of<double>},
                                                         {"float?", &kind_of<std::optional<double>>},
                                                         {"bool", &kind_of<bool>},
                                                         {"bool?", &kind_of<std::optional<bool>>},
                                                         {"dtype", &kind_of<DType>},
                                                         {"dtype?", &kind_of<std::optional<DType>>},
                                                         {"str", &kind_of<Text>},
                                                         {"str?", &kind_of<std::optional<Text>>},
                                                         {"int[]", &kind_of<IntList>},
                                                         {"int[]?", &kind_of<std::optional<IntList>>},
                                                         {"Dims", &kind_of<DimList>},
                                                         {"Dims?", &kind_of<std::optional<DimList>>},
                                                         {"Sizes", &kind_of<Sizes>},
                                                         {"float[]", &kind_of<FloatList>},
                                                         {"float[]?", &kind_of<std::optional<FloatList>>}};

const ArgKind* kind_named(const std::string& name) {
  for (const auto& [other, kind] : kKinds)
    if (name == other) return kind;
  fail<ValueError>("primitive(): a parameter cannot have the type '", name, "'");
}

TypeSet types_of(nb::handle names) {
  TypeSet types = 0;
  for (nb::handle name : names) types |= types::bit(nb::cast<DType>(name));
  return types;
}

uint32_t bits_of(nb::handle numbers) {
  uint32_t bits = 0;
  for (nb::handle i : numbers) bits |= 1u << nb::cast<int>(i);
  return bits;
}

/// Take a declared row out of the table. Who has its callable, or a node, keeps it.
void withdraw(std::string_view name) {
  std::erase_if(operators(), [&](const Operator* other) {
    return other->name == name && other->family == std::string_view("Declared");
  });
}

nb::object declare(nb::dict d, nb::object forward, nb::object vjp, nb::object jvp, nb::object batch,
                   nb::object impure) {
  const auto word = [&](const char* key) { return nb::cast<std::string>(d[key]); };
  Declaration row{.name = word("name"),
                  .doc = word("doc"),
                  .family = word("family"),
                  .order = word("order"),
                  .samples = word("samples"),
                  .kinds = {},
                  .needs = {}};
  for (nb::handle kind : d["kinds"]) row.kinds.push_back(kind_named(nb::cast<std::string>(kind)));
  row.types = types_of(d["types"]);
  row.several = !d["results"].is_none();
  if (row.several) row.results = nb::cast<size_t>(d["results"]);
  row.linear_terms = bits_of(d["terms"]);
  row.linear_factors = bits_of(d["factors"]);
  PythonOperator::Functions f{.forward = hold(forward.ptr()),
                              .joint = {},
                              .jvp = Rule(jvp),
                              .rules = {},
                              .batch = nullptr,
                              .impure = impure.is_none() ? nullptr : hold(impure.ptr())};
  row.has_jvp = bool(f.jvp);
  row.ordered = nb::cast<bool>(d["ordered"]);
  row.pure = impure.is_none() && !row.ordered;
  row.leading = nb::isinstance<nb::str>(batch);
  row.has_batch = !row.leading && !batch.is_none();
  if (row.has_batch) f.batch = hold(batch.ptr());
  row.joint = nb::isinstance<nb::tuple>(vjp);
  f.rules.resize(row.kinds.size());
  row.needs.resize(row.kinds.size());
  if (row.joint) f.joint = Rule(vjp);
  for (size_t i = 0; i < row.kinds.size(); ++i) {
    const Form form = row.kinds[i]->form;
    if (form != Form::Tensor && form != Form::Tensors) continue;
    if (!row.joint && !vjp.is_none() && nb::cast<nb::dict>(vjp).contains(nb::int_(i)))
      f.rules[i] = Rule(vjp[nb::int_(i)]);
    if (!row.joint && !f.rules[i]) continue;
    row.ruled = static_cast<uint16_t>(row.ruled | 1u << i);
    row.needs[i] = (row.joint ? f.joint : f.rules[i]).need(row);
  }
  // Rows stay: nodes lead to them.
  auto* op = new PythonOperator(std::move(row), std::move(f));
  signatures_of(*op);  // refuses defaults that cannot be read
  withdraw(op->name);
  add_row(op);
  return nb::steal(add_operator(*op));
}

}  // namespace

std::vector<nb::object> rules_of_program(const Node& node) {
  const auto* const rule = dynamic_cast<const RuleNode*>(&node);
  const DeclaredOperator* const op = rule ? DeclaredOperator::of(*rule) : nullptr;
  return op ? static_cast<const PythonOperator&>(*op).rules_of_program() : std::vector<nb::object>();
}

void bind_primitive(nb::module_& m) {
  m.def("_declare_operator", &declare, nb::arg("row"), nb::arg("forward"), nb::arg("vjp").none(),
        nb::arg("jvp").none(), nb::arg("batch").none(), nb::arg("impure").none(),
        "Put a row into the table whose parts are these functions; returns its callable. It takes the place "
        "of a declared row of its name.");
  m.def(
      "_withdraw_operator", [](const std::string& name) { withdraw(name); },
      "Take a declared row out of the table.");
}

}  // namespace adjoint::bind
