// Forward mode through Functions written in Python: their `jvp`, called once for each level, from the
// outermost.
//
// `forward` runs with tangents out of sight. Then `jvp` gets the tangents of the arguments of one level,
// zeros for those that have none and None for those that cannot have any, and returns those of the results;
// what it reads of saved tensors has the tangents of outer levels, so that levels nest, and history, so that
// its results can be differentiated. Start reading at `find_tangents`.
#include "autograd/views.h"
#include "bind/context.h"
#include "for_size.h"
#include "ops/shape.h"
#include "transforms/forward.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

Tensors tensors_of(PyObject* const* args, Py_ssize_t nargs) {
  Tensors tensors(static_cast<size_t>(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i)
    if (is_tensor(args[i])) tensors[static_cast<size_t>(i)] = unwrap(args[i]);
  return tensors;
}

bool among(PyObject* tuple, PyObject* o) {
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i)
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  return false;
}

/// Whether both are the same elements of the same memory: a write may have given the program another tensor
/// there.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a->storage == b->storage && a->data == b->data && same(a.sizes(), b.sizes()) &&
         same(a.strides(), b.strides());
}

/// Whether jvp returned a view of the tangent that it was given, or that itself where it is a view. Batches
/// keep their own account.
bool is_view_of(const Tensor& returned, const Tensor& given) {
  return returned->storage == given->storage && returned->is(TensorImpl::kView);
}

/// Call jvp at one level; returns its results as a tuple.
nb::object call_jvp(PyObject* context, PyObject* const* args, Py_ssize_t nargs, const Tensors& tangents,
                    PyObject* results, bool single) {
  Context* ctx = context_of(context);
  nb::object arguments = checked(PyTuple_New(nargs + 1));
  PyTuple_SET_ITEM(arguments.ptr(), 0, Py_NewRef(context));
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    Tensor t = tangents[static_cast<size_t>(i)];
    if (!t.defined() && is_tensor(args[i]) && ctx->materialize &&
        is_differentiable(unwrap(args[i]).dtype())) {
      const DeviceScope there(device_of(unwrap(args[i])));
      t = zeros(unwrap(args[i]).sizes(), unwrap(args[i]).dtype());
    }
    PyTuple_SET_ITEM(arguments.ptr(), i + 1, wrap(std::move(t)));
  }
  // What is kept for backward is not for jvp.
  if (!ctx->for_forward) ctx->for_forward = Py_NewRef(names.empty);
  const InPython python;
  nb::object jvp = checked(PyObject_GetAttr(ctx->function, names.jvp));
  nb::object given = checked(PyObject_CallObject(jvp.ptr(), arguments.ptr()));
  if (!PyTuple_Check(given.ptr())) given = nb::make_tuple(given);
  const Py_ssize_t expected = single ? 1 : PyTuple_GET_SIZE(results);
  if (PyTuple_GET_SIZE(given.ptr()) != expected)
    fail("Function's jvp returned an invalid number of forward gradients (expected ", expected, " but got ",
         PyTuple_GET_SIZE(given.ptr()), ")");
  return given;
}

}  // namespace

bool any_dual(PyObject* const* args, Py_ssize_t nargs) {
  for (Py_ssize_t i = 0; i < nargs; ++i)
    if (is_tensor(args[i]) && is_dual(unwrap(args[i]))) return true;
  return false;
}

std::vector<Tensors> tangents_before(PyObject* const* args, Py_ssize_t nargs) {
  const Tensors tensors = tensors_of(args, nargs);
  std::vector<Tensors> all;
  uint64_t number = 0;
  for (Ref<DualLevel> level; (level = next_level(tensors, number)); number = level->number) {
    Tensors& tangents = all.emplace_back(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined() && is_differentiable(tensors[i].dtype()))
        tangents[i] = tangent_of(tensors[i], *level);
  }
  return all;
}

void find_tangents(PyObject* context, PyObject* const* args, Py_ssize_t nargs,
                   const std::vector<Tensors>& before, PyObject* results, bool single) {
  Context* ctx = context_of(context);
  const Tensors inputs = tensors_of(args, nargs);
  const Py_ssize_t count = PyTuple_GET_SIZE(results);
  const auto takes_tangent = [&](PyObject* o) {
    return is_tensor(o) && is_differentiable(unwrap(o).dtype()) && !among(ctx->non_differentiable, o);
  };
  bool any = false;
  for (Py_ssize_t i = 0; i < count; ++i) any |= takes_tangent(PyTuple_GET_ITEM(results, i));
  if (!any) return;
  uint64_t number = 0;
  size_t at = 0;
  for (Ref<DualLevel> level; at < before.size() && (level = next_level(inputs, number));
       number = level->number) {
    Tensors tangents = before[at++];
    // The tangent of what forward wrote is written by jvp: never that which the program gave.
    for (size_t i = 0; i < tangents.size(); ++i)
      if (tangents[i].defined() && among(ctx->dirty, args[i]))
        tangents[i] = settled_tangent(inputs[i], *level);
    std::vector<uint32_t> versions;
    for (const Tensor& t : tangents)
      versions.push_back(t.defined() && !t->is(TensorImpl::kInference) ? t.version() : 0);
    const nb::object given = [&] {
      const WithoutLevels outer(level->number);
      return call_jvp(context, args, nargs, tangents, results, single);
    }();
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject *o = PyTuple_GET_ITEM(results, i), *g = PyTuple_GET_ITEM(given.ptr(), i);
      if (g == Py_None) continue;
      if (!is_tensor(g))
        fail("expected Variable or None (got ", Py_TYPE(g)->tp_name, ") for grad output ", i, ".");
      if (!takes_tangent(o)) {
        if (!is_tensor(o)) continue;
        fail("Function's jvp returned a gradient at position ", i,
             ", but the corresponding forward output is not a differentiable Tensor. You should return None "
             "at that position instead: it is ",
             name_of(unwrap(o).dtype()), ", of shape ", unwrap(o).sizes(),
             is_differentiable(unwrap(o).dtype()) ? ", and marked so" : "");
      }
      const Tensor &result = unwrap(o), &tangent = unwrap(g);
      need_alike(result, tangent, text(". It is that of result ", i, " of jvp."));
      if (!is_differentiable(tangent.dtype()) || (tangent.is_complex() && !result.is_complex()))
        fail("jvp returned a tangent of ", name_of(tangent.dtype()), " for result ", i, ", which is of ",
             name_of(result.dtype()));
      bool own = false;
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (!inputs[k].defined() || inputs[k]->storage != result->storage || !tangents[k].defined()) continue;
        own = true;
        if (among(ctx->dirty, o)) {
          if (!same_elements(tangents[k], tangent) ||
              (!tangent->is(TensorImpl::kInference) && tangents[k].version() == versions[k]))
            fail(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the "
                "forward is modifying an input inplace, then the jvp function must modify the corresponding "
                "gradient inplace.");
        } else if (!is_view_of(tangent, tangents[k])) {
          fail(
              "A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
              "returning a view",
              !tangent->is(TensorImpl::kView) ? "."
                                              : " of the given grad input: the jvp is not returning a view "
                                                "of the same base as the given grad input.");
        }
      }
      set_tangent(
          result, *level,
          without_tangents(tangent.dtype() == result.dtype() ? tangent : call<To>(tangent, result.dtype()),
                           level->number),
          own);
    }
  }
}

}  // namespace adjoint::bind
