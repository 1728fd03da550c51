// The module adjoint._C: types, operators, and what is bound by hand. Each part is one file of this room.
#include "bind/buffer.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "bind/operators.h"
#include "bind/overrides.h"
#include "bind/replay.h"
#include "dispatch/forms.h"
#include "dispatch/rule_node.h"
#include "for_size.h"
#include "kernels/loops.h"
#include "ops/writing.h"
#include "runtime/allocator.h"
#include "runtime/blas.h"
#include "runtime/interrupt.h"
#include "runtime/parallel.h"
#include "runtime/warning.h"

namespace nb = nanobind;

#if defined(__clang__)
#define ADJOINT_COMPILER "Clang " __clang_version__
#else
#define ADJOINT_COMPILER "GCC " __VERSION__
#endif

namespace adjoint::bind {

namespace {

nb::list table() {
  nb::list rows;
  for (const Operator* op : operators()) {
    nb::dict row;
    row["name"] = op->name;
    row["family"] = op->family;
    row["signature"] = std::string(op->name) + "(" + op->signature + ")";
    row["doc"] = op->doc;
    row["aliases"] = op->aliases;
    row["kind"] = op->elementwise ? "elementwise" : "structured";
    row["returns"] = op->returns;
    row["differentiable"] = op->differentiable;
    row["view"] = op->view;
    row["writes"] = op->writes;
    row["function"] = op->function;
    row["method"] = op->method;
    row["module"] = op->module;
    row["python"] = op->python;
    row["several"] = op->several;
    row["overloads"] = op->overloads;
    row["sparse"] = op->takes_sparse;
    nb::list kinds, meanings, names;
    for (const ArgKind* k : op->kinds) {
      kinds.append(std::string(k->annotation) + (k->optional ? " | None" : ""));
      meanings.append(text_of(k->meaning).name);
    }
    each_parameter(op->order, [&](const ParameterText& p) { names.append(std::string(p.name())); });
    nb::list written;
    for (size_t i = 0; i < op->kinds.size(); ++i)
      if ((op->writes && i == 0) || op->writes_lists >> i & 1) written.append(names[i]);
    row["written"] = written;
    // The parameters by which it has a derivative that is not zero throughout; None for a composition, which
    // has the derivatives of its parts.
    nb::list gradients;
    for (size_t i = 0; i < op->kinds.size(); ++i) {
      const ElementwiseInfo* e = op->elementwise;
      if (e ? i < static_cast<size_t>(e->arity) && e->rules[i] > RuleKind::Zero
            : op->rules && op->rules->ruled >> i & (op->tensors | op->lists) >> i & 1)
        gradients.append(names[i]);
    }
    row["gradients"] = op->composite ? nb::none() : nb::object(gradients);
    row["kinds"] = kinds;
    row["meanings"] = meanings;
    row["arguments"] = names;
    row["out_converts"] = op->out_converts;
    row["inplace"] = op->inplace && op->name[0] != '_';
    if (const ElementwiseInfo* e = op->elementwise) {
      row["arity"] = e->arity;
      row["parameters"] = e->parameters;
      row["samples"] = nb::make_tuple(e->samples.low, e->samples.high);
      row["out"] = true;
      row["condition"] = e->condition;
      row["result"] = std::array{"same", "bool", "real", "complex"}[static_cast<size_t>(e->result)];
      row["promotes_integers"] = e->promotes_integers;
      nb::list types;
      for (int d = 0; d < kDTypes; ++d)
        if (e->types >> d & 1 || (e->promotes_integers && is_integral(static_cast<DType>(d))) ||
            (e->promotes_bool && d == index_of(DType::Bool)))
          types.append(kDTypeNames[d]);
      row["types"] = types;
    } else {
      row["arity"] = static_cast<int>(op->kinds.size());
      nb::list samples, types;
      for (std::string_view rest = op->samples; !rest.empty();) samples.append(std::string(cut(rest, '\n')));
      for (int d = 0; d < kDTypes; ++d)
        if (op->types >> d & 1) types.append(kDTypeNames[d]);
      row["samples"] = samples;
      row["out"] = false;
      row["makes_in_out"] = op->makes_in_out;
      row["types"] = types;
    }
    rows.append(row);
  }
  return rows;
}

}  // namespace

void bind_runtime(nb::module_& m) {
  m.def("operators", &table, "The operator table: a dict per operator.");
  m.def(
      "_results_copied", [] { return results_copied.load(); },
      "How often a result was copied to an out=, so far.");
  m.def(
      "_return_types", [] { return nb::steal<nb::dict>(return_types()); },
      "The types of several results with names, by operator.");
  m.def(
      "get_num_threads",
      [] {
        tell_recorders("it asks for the number of threads");
        return runtime::get_num_threads();
      },
      "Threads that one operation may use: what `set_num_threads` said, else the smallest of the "
      "environment\n"
      "variables ADJOINT_NUM_THREADS and OMP_NUM_THREADS, of the processors that the process may run on, "
      "and\n"
      "of its control groups' quotas.\n"
      "\n"
      "Returns\n"
      "-------\n"
      "int\n"
      "\n"
      "Examples\n"
      "--------\n"
      ">>> import adjoint as ad\n"
      ">>> ad.get_num_threads() >= 1\n"
      "True");
  m.def(
      "set_num_threads",
      [](int n) {
        if (n < 1) fail<ValueError>("set_num_threads(): expected at least one thread, but got ", n);
        tell_recorders("it sets the number of threads");
        runtime::set_num_threads(n);
      },
      nb::arg("n"),
      "Set how many threads one operation may use.\n"
      "\n"
      "Parameters\n"
      "----------\n"
      "n : int\n"
      "    At least 1.\n"
      "\n"
      "Returns\n"
      "-------\n"
      "None\n"
      "\n"
      "Examples\n"
      "--------\n"
      ">>> import adjoint as ad\n"
      ">>> before = ad.get_num_threads()\n"
      ">>> ad.set_num_threads(1)\n"
      ">>> ad.get_num_threads()\n"
      "1\n"
      ">>> ad.set_num_threads(before)");
  m.def(
      "set_default_dtype", [](DType d) { set_default_dtype(d); }, nb::arg("d"),
      "Set the dtype of tensors made from Python floats.\n\nParameters\n----------\n"
      "d : dtype\n    A floating-point dtype; float32 at first.\n\nReturns\n-------\nNone\n"
      "\nExamples\n--------\n>>> import adjoint as ad\n"
      ">>> ad.set_default_dtype(ad.float64)\n>>> ad.tensor(1.0).dtype\nadjoint.float64\n"
      ">>> ad.set_default_dtype(ad.float32)");
  m.def(
      "get_default_dtype", [] { return default_dtype(); },
      "The dtype of tensors made from Python floats.\n\nReturns\n-------\ndtype\n\n"
      "Examples\n--------\n>>> import adjoint as ad\n>>> ad.get_default_dtype()\n"
      "adjoint.float32");
  m.def(
      "instruction_set", [] { return std::string(instruction_set()); },
      "The instruction set that loops were chosen for.");
  m.def(
      "memory_statistics",
      [] {
        tell_recorders("it asks how much memory is used");
        const runtime::MemoryStatistics s = runtime::memory_statistics();
        nb::dict d;
        d["allocated_bytes"] = s.allocated_bytes;
        d["peak_allocated_bytes"] = s.peak_allocated_bytes;
        d["reserved_bytes"] = s.reserved_bytes;
        d["peak_reserved_bytes"] = s.peak_reserved_bytes;
        d["allocation_count"] = s.allocation_count;
        d["cached_bytes"] = s.cached_bytes;
        return d;
      },
      "Bytes of tensors and graphs: allocated, reserved, cached, and their peaks.\n"
      "\n"
      "Returns\n"
      "-------\n"
      "dict of int\n"
      "    `allocated_bytes`, `reserved_bytes`, `cached_bytes`, `peak_allocated_bytes`, "
      "`peak_reserved_bytes` and\n"
      "    `allocation_count`.\n"
      "\n"
      "Examples\n"
      "--------\n"
      ">>> import adjoint as ad\n"
      ">>> before = ad.memory_statistics()[\"allocated_bytes\"]\n"
      ">>> x = ad.ones(1000)\n"
      ">>> ad.memory_statistics()[\"allocated_bytes\"] - before >= 4000\n"
      "True");
  m.def("reset_peak_memory_statistics", &runtime::reset_peak_memory_statistics,
        "Let the peaks of `memory_statistics` start at what is in use now.\n\nReturns\n"
        "-------\nNone\n\nExamples\n--------\n>>> import adjoint as ad\n"
        ">>> ad.reset_peak_memory_statistics()");
  m.def("empty_cache", &runtime::empty_cache,
        "Give cached blocks back to the system.\n\nReturns\n-------\nNone\n\nExamples\n"
        "--------\n>>> import adjoint as ad\n>>> ad.empty_cache()");
  m.def("set_memory_limit", &runtime::set_memory_limit, nb::arg("bytes"),
        "Refuse allocations beyond a number of bytes.\n\nParameters\n----------\nbytes : int\n"
        "    The limit; 0 means none.\n\nReturns\n-------\nNone\n\nExamples\n--------\n"
        ">>> import adjoint as ad\n>>> ad.set_memory_limit(0)");
  m.def("set_blas_path", &runtime::blas::set_blas_path, nb::arg("path"));
  m.def("_blas_name", &runtime::blas::blas_name, "The file of the BLAS in use, or 'built-in'.");
  m.def("_compiler", [] { return ADJOINT_COMPILER; }, "What the core was compiled by.");
  m.def(
      "_dtype", [](DType d) { return d; }, nb::arg("dtype"),
      "A dtype, or what Python's bool, int, float or complex stands for.");
  m.def(
      "promote_types", [](DType a, DType b) { return promote(a, b); }, nb::arg("type1"), nb::arg("type2"),
      "The smallest dtype that both convert to.\n\nParameters\n----------\ntype1 : dtype\n"
      "    The one dtype.\ntype2 : dtype\n    The other.\n\nReturns\n-------\ndtype\n\n"
      "Examples\n--------\n>>> import adjoint as ad\n"
      ">>> ad.promote_types(ad.int64, ad.float16)\nadjoint.float16");
  m.def("_warn_of_lost_parts", &warn_of_lost_parts, nb::arg("from_"), nb::arg("to"));
  m.def(
      "can_cast", [](DType a, DType b) { return can_cast(a, b); }, nb::arg("from_"), nb::arg("to"),
      "Whether a conversion keeps the kind of number: complex numbers do not become real, nor floats "
      "integers.\n"
      "\nParameters\n----------\nfrom_ : dtype\n    The dtype before.\nto : dtype\n"
      "    The dtype after.\n\nReturns\n-------\nbool\n\nExamples\n--------\n"
      ">>> import adjoint as ad\n>>> ad.can_cast(ad.float32, ad.int64)\nFalse");
}

}  // namespace adjoint::bind

namespace adjoint::bind {
bool add_module_members(PyObject* module);    // module_members.cpp
bool add_composition_type(PyObject* module);  // composition.cpp
}  // namespace adjoint::bind

NB_MODULE(_C, m) {
  using namespace adjoint;
  using namespace adjoint::bind;
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error&) {
      raise();
    } catch (const runtime::Interrupted&) {
      raise();
    } catch (const PythonError&) {
    } catch (const runtime::OutOfMemory&) {
      raise();
    }
  });
  PyObject* module = m.ptr();
  if (!add_value_types(module) || !add_tensor_type(module) || !add_node_type(module) ||
      !add_function_types(module) || !add_operators(module) || !add_module_members(module) ||
      !add_composition_type(module) || !add_overrides(module))
    throw nb::python_error();
  runtime::hear_warning = [](const char* message) {
    const Locked python;
    if (PyErr_WarnEx(PyExc_UserWarning, message, 1) < 0) throw PythonError{};
  };
  bind_runtime(m);
  bind_autograd(m);
  bind_hooks(m);
  bind_creation(m);
  bind_dlpack(m);
  bind_storage(m);
  bind_interpreter(m);
  bind_forward(m);
  bind_batching(m);
  bind_sparse(m);
  bind_trees(m);
  bind_replay_paths(m);
  bind_replay_watch(m);
  bind_random(m);
  bind_optimizers(m);
  bind_primitive(m);
  bind_replay(m);
}
