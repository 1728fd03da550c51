// Forward mode in Python: levels, dual tensors, and what they carry. See src/adjoint/autograd/forward_ad.py.
#include "transforms/forward.h"

#include <nanobind/stl/pair.h>

#include "bind/caster.h"
#include "for_size.h"
#include "transforms/batching.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

DualLevel& open_level(uint64_t number, const char* what) {
  DualLevel* level = open_dual_level(number);
  if (!level)
    fail(what, ": the forward AD level ", number,
         " is not open in this thread: it was closed, or another thread opened it");
  return *level;
}

}  // namespace

void bind_forward(nb::module_& m) {
  m.def(
      "_enter_dual_level", [] { return enter_dual_level().number; },
      "Open a level of forward mode in this thread; returns its number.");
  m.def(
      "_exit_dual_level",
      [](uint64_t level) {
        if (!leave_dual_level(level))
          fail(
              "Trying to exit a forward AD level that was not the last one that was created. This is not "
              "supported.");
      },
      nb::arg("level"), "Close the innermost level. All tensors lose their tangents of it.");
  m.def(
      "_current_dual_level",
      []() -> std::optional<uint64_t> {
        if (!thread_state.dual_level) return std::nullopt;
        return thread_state.dual_level->number;
      },
      "The number of the innermost level that is open in this thread, or None.");
  m.def(
      "_tangent",
      [](const Tensor& t) {
        Tensor tangent;
        uint64_t number = 0;
        for (Ref<DualLevel> level; is_differentiable(t.dtype()) && (level = level_above(t, number));
             number = level->number)
          tangent = tangent_of(t, *level);
        return tangent;
      },
      nb::arg("tensor"), "The tangent of the innermost level of which a tensor has one, or None.");
  m.def(
      "_is_differentiated",
      [](const nb::args& tensors, bool samples) {
        const auto differentiated = [](const Tensor& t) {
          return (thread_state.grad && t.requires_grad()) || is_dual(t);
        };
        for (nb::handle o : tensors) {
          if (!is_tensor(o.ptr())) continue;
          // A batch may be differentiated by what encloses vmap.
          const Tensor& t = unwrap(o.ptr());
          if (samples ? holds_at_any_level(t, differentiated) : differentiated(t)) return true;
        }
        return false;
      },
      nb::arg("tensors"), nb::arg("samples") = true,
      "Whether a call with any of these tensors is recorded, or finds tangents; and whether one with the "
      "samples does "
      "that a batch stands for.");
  m.def(
      "_is_forward_enabled", [] { return !thread_state.dual_skip_to; },
      "Whether tangents are looked at in this thread.");
  m.def(
      "_set_forward_enabled",
      [](bool on) {
        thread_state.dual_skip_from = on ? 0 : 1;
        thread_state.dual_skip_to = on ? 0 : thread_state.dual_level ? thread_state.dual_level->number : 1;
      },
      "Whether tangents of the levels that are open now are looked at.");
  m.def(
      "_make_dual",
      [](const Tensor& t, const Tensor& tangent, uint64_t level) {
        return make_dual(t, tangent, open_level(level, "make_dual()"));
      },
      nb::arg("tensor"), nb::arg("tangent"), nb::arg("level"),
      "A view of a tensor that has a tangent at an open level.");
  m.def(
      "_unpack_dual",
      [](const Tensor& t, uint64_t level) { return unpack_dual(t, open_level(level, "unpack_dual()")); },
      nb::arg("tensor"), nb::arg("level"),
      "A view of a tensor without its tangent of a level, and that tangent or None.");
}

}  // namespace adjoint::bind
