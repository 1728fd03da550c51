// What adjoint.func.vmap needs of the core: levels, and tensors that stand for a batch. Start reading at
// `bind_batching`.
#include "transforms/batching.h"

#include <nanobind/stl/map.h>

#include "bind/batching.h"
#include "bind/caster.h"
#include "dispatch/batched_call.h"
#include "for_size.h"
#include "ops/shape.h"
#include "transforms/tangents.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

PyObject* per_sample_error = nullptr;

Tensor moved(const Tensor& t, int64_t from, int64_t to) {
  return call<MoveDim>(t, IntList(&from, 1), IntList(&to, 1));
}

BatchLevel& level_of(uint64_t number) {
  if (BatchLevel* level = open_batch_level(number)) return *level;
  fail("this vmap() does not run in this thread");
}

Tensor batched_along(const Tensor& t, int64_t dim, const BatchLevel& level) {
  const auto one = [&](const Tensor& x) { return batched(moved(x, dim, 0), level.number); };
  // Nodes that save samples keep their tangents, which those of derivatives are made of.
  return may_have_tangents(t) && !t.requires_grad() ? through_tangents(t, one) : one(t);
}
Tensor unbatched_along(const Tensor& t, int64_t dim, const BatchLevel& level) {
  const auto one = [&](const Tensor& x) {
    const Tensor all = unbatched(x, level);
    return dim ? moved(all, 0, dim) : all;
  };
  return may_have_tangents(t) ? through_tangents(t, one) : one(t);
}

/// The dimension that a leaf has a number for, counted from the front, of `rank`; -1 where it is not as it
/// should be.
int64_t plain_dim(PyObject* dim, int64_t rank) {
  if (!PyLong_CheckExact(dim)) return -1;
  int overflow = 0;
  const int64_t d = PyLong_AsLongLongAndOverflow(dim, &overflow);
  return overflow || d < -rank || d >= rank ? -1 : d < 0 ? d + rank : d;
}

/// How many samples there are along these dimensions, None for leaves that are not mapped over; -1 where
/// anything is not as it should be, which the caller then tells. Dimensions are counted from the front
/// afterwards.
int64_t samples_along(nb::list leaves, nb::list dims) {
  int64_t samples = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const nb::handle dim = dims[i], leaf = leaves[i];
    if (dim.is_none()) continue;
    if (!is_tensor(leaf.ptr())) return -1;
    const Tensor& t = unwrap(leaf.ptr());
    const int64_t d = plain_dim(dim.ptr(), t.dim());
    if (d < 0 || (samples >= 0 && t.size(d) != samples)) return -1;
    samples = t.size(d);
    dims[i] = d;
  }
  return samples;
}

nb::object described(const BatchLevel* level) {
  if (!level) return nb::none();
  static const char* const names[] = {"error", "different", "same"};
  return nb::make_tuple(level->number, level->size, names[static_cast<int>(level->randomness)], level->strict,
                        level->records.load(), level->wrote_outside.load());
}

}  // namespace

void set_per_sample_error(const PerSample& e) {
  const nb::object error = nb::steal(PyObject_CallFunction(per_sample_error, "s", e.what()));
  if (!error.is_valid()) return;
  error.attr("level") = e.level;
  error.attr("operator") = e.op;
  PyErr_SetObject(per_sample_error, error.ptr());
}

bool requires_grad_at_any_level(const Tensor& t) {
  return holds_at_any_level(t, [](const Tensor& at) { return at.requires_grad(); });
}

bool lies_in_order(const Tensor& t) {
  if (!is_batched(t)) return t.is_contiguous();
  int64_t expected = 1;
  for (size_t i = t.sizes().size(); i-- > 0;) {
    if (t.sizes()[i] != 1 && t.strides()[i] != expected) return t.numel() == 0;
    expected *= t.sizes()[i];
  }
  return true;
}

void bind_batching(nb::module_& m) {
  per_sample_error = PyErr_NewExceptionWithDoc(
      "adjoint.func.DataDependentError",
      "What a function does with the values of single samples, and vmap() cannot do for all at once.",
      PyExc_RuntimeError, nullptr);
  m.attr("_DataDependentError") = nb::borrow(per_sample_error);
  m.def(
      "_enter_batching",
      [](int64_t size, int randomness, bool strict) {
        return enter_batch_level(size, static_cast<Randomness>(randomness), strict).number;
      },
      "Begin a vmap() in this thread; returns the number of its level.");
  m.def(
      "_leave_batching", [](uint64_t number) { leave_batch_level(level_of(number)); },
      "End it, and those inside of it.");
  m.def(
      "_batching", [] { return described(thread_state.batch_level); },
      "The innermost vmap() of this thread: number, batch size, randomness, whether it is strict, whether "
      "what it computes is recorded outside, whether it wrote memory from outside. None where there is "
      "none.");
  m.def("_batching_level", [](uint64_t number) { return described(open_batch_level(number)); });
  m.def("_samples_along", &samples_along);
  m.def(
      "_batched_each",
      [](nb::list leaves, nb::list dims, uint64_t number) {
        const BatchLevel& level = level_of(number);
        nb::list all;
        for (size_t i = 0; i < dims.size(); ++i)
          if (dims[i].is_none())
            all.append(leaves[i]);
          else
            all.append(batched_along(unwrap(nb::handle(leaves[i]).ptr()), nb::cast<int64_t>(dims[i]), level));
        return all;
      },
      "Leaves, of which those with a dimension stand for each slice along it.");
  m.def(
      "_unbatched_each",
      [](nb::list leaves, nb::list dims, uint64_t number) -> nb::object {
        const BatchLevel& level = level_of(number);
        nb::list all;
        for (size_t i = 0; i < dims.size(); ++i) {
          const nb::handle leaf = leaves[i];
          const int64_t d =
              is_tensor(leaf.ptr()) ? plain_dim(nb::handle(dims[i]).ptr(), unwrap(leaf.ptr()).dim() + 1) : -1;
          if (d < 0) return nb::none();
          all.append(unbatched_along(unwrap(leaf.ptr()), d, level));
        }
        return all;
      },
      "All samples of each leaf, along a new dimension; None where a leaf or a dimension is not as it should "
      "be.");
  m.def(
      "_batched",
      [](const Tensor& t, int64_t dim, uint64_t number) { return batched_along(t, dim, level_of(number)); },
      "The tensor that stands for each slice along a dimension.");
  m.def(
      "_unbatched",
      [](const Tensor& t, int64_t dim, uint64_t number) { return unbatched_along(t, dim, level_of(number)); },
      "All samples of a tensor, along a new dimension.");
  m.def(
      "_is_batched",
      [](const Tensor& t, uint64_t number) {
        return is_batched(t) && (!number || batch_level_of(t) == number);
      },
      nb::arg(), nb::arg("level") = 0);
  m.def(
      "_batch_of",
      [](const Tensor& t) -> nb::object {
        if (!is_batched(t)) return nb::none();
        return nb::make_tuple(samples_of(t), batch_level_of(t));
      },
      "All samples, the batch in front, and the number of the level; None for a tensor that is not batched.");
  m.def("_requires_grad_anywhere", &requires_grad_at_any_level,
        "Whether a tensor needs a gradient, or the samples do that it stands for.");
  m.def(
      "_without_own_history", [](const Tensor& t) { return alias(t); },
      "The same samples with their history, but none of its own.");
  m.def(
      "_records_outside", &records_outside,
      "Whether what is computed inside of the vmap()s of this thread has a history outside of one of them.");
  m.def(
      "_renew_samples", [](const Tensor& t, const Tensor& samples) { meta_of(t)->samples = samples; },
      "Let a batched tensor stand for its samples as they are after a write, which may have made another "
      "tensor of them.");
  m.def("_apply_past_batching", &apply_past_batching);
  m.def("_batch_for_draws",
        [](const Tensor& t, const std::string& op) { return batch_for_draws(t, op.c_str()); });
  m.def(
      "_whole", [](const Tensor& t) { return batching::all_samples(t); },
      "All that a tensor stands for: all samples where a vmap() maps over it, else itself. For checks of "
      "values.");
  m.def(
      "_refuse_batched",
      [](const Tensor& t, const std::string& op) {
        if (is_batched(t)) refuse_values(t, Asked::Shape, op.c_str());
      },
      "Let a vmap() go on sample by sample, where a tensor is batched.");
  m.def(
      "_batching_depth",
      [](uint64_t number) {
        int depth = 0;
        for (const BatchLevel* level = open_batch_level(number); level; level = level->outer) ++depth;
        return depth;
      },
      "How many vmap()s of this thread there are around and with the one of that number; 0 where that is "
      "closed.");
  m.def("_batching_loops", &batching_loops);
  m.def("_forget_batching_loops", &forget_batching_loops);
  m.def("_note_batching_loop", [](const std::string& name) { note_batching_loop(name.c_str()); });
}

}  // namespace adjoint::bind
