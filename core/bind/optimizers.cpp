// The steps of the optimisers: lists of tensors in, one call for all of them.
#include "for_size.h"
#include "bind/caster.h"
#include "runtime/interrupt.h"
#include "kernels/cpu/optimizer.h"
#include "tensor/access.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using kernels::OptimizerSlot;

const Tensor* at(nb::handle list, size_t i) {
  if (PyList_Size(list.ptr()) == 0) return nullptr;
  PyObject* o = PyList_GetItem(list.ptr(), static_cast<Py_ssize_t>(i));
  return o && is_tensor(o) ? &unwrap(o) : nullptr;
}

/// Slots of the parameters that the core can update; the positions of the others.
struct Slots {
  const runtime::Uninterrupted whole;  // a step is made for all parameters or for none
  std::vector<OptimizerSlot> slots;
  std::vector<TensorImpl*> written;
  nb::list rest;

  Slots(nb::list params, nb::list grads, std::initializer_list<nb::handle> states, nb::handle steps) {
    const size_t n = nb::len(params);
    if (nb::len(grads) != n) fail<ValueError>("got ", n, " parameters but ", nb::len(grads), " gradients");
    slots.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      const Tensor* p = at(params, i);
      const Tensor* g = at(grads, i);
      if (!p || !g) fail<TypeError>("entry ", i, " of the parameters or gradients is not a Tensor");
      OptimizerSlot slot{};
      bool ok = !(((*p)->flags | (*g)->flags) & TensorImpl::kElsewhere) && (p->dtype() == DType::Float32 || p->dtype() == DType::Float64) && p->is_contiguous() && !(*p)->storage->readonly;
      auto like = [&](const Tensor& t) { return t.dtype() == p->dtype() && t.is_contiguous() && same(t.sizes(), p->sizes()); };
      ok = ok && like(*g);
      int k = 0;
      const size_t first_written = written.size();
      written.push_back(p->get());
      for (nb::handle list : states) {
        if (nb::len(list)) {
          const Tensor* s = at(list, i);
          if (s && like(*s)) {
            slot.state[k] = s->bytes();
            written.push_back(s->get());
          } else {
            ok = false;
          }
        }
        ++k;
      }
      if (steps.is_valid()) {
        const Tensor* s = at(steps, i);
        if (s && s->numel() == 1 && s->dtype() == DType::Float32) {
          slot.step = s->data<float>();
          written.push_back(s->get());
        } else {
          ok = false;
        }
      }
      if (!ok) {
        written.resize(first_written);
        rest.append(i);
        continue;
      }
      slot.parameter = p->bytes();
      slot.gradient = g->bytes();
      slot.size = p->numel();
      slot.type = p->dtype() == DType::Float32 ? kernels::SlotType::Float32 : kernels::SlotType::Float64;
      slots.push_back(slot);
    }
  }
  nb::list done() {
    for (TensorImpl* t : written) t->storage->bump();
    return rest;
  }
};

}  // namespace

void bind_optimizers(nb::module_& m) {
  m.def("sgd_step", [](nb::list params, nb::list grads, nb::list buffers, double lr, double momentum, double dampening, double weight_decay,
                       bool nesterov, bool maximize) {
    Slots s(params, grads, {buffers}, nb::handle());
    kernels::sgd_step(s.slots, {lr, momentum, dampening, weight_decay, nesterov, maximize});
    return s.done();
  });
  m.def("adam_step", [](nb::list params, nb::list grads, nb::list m1, nb::list m2, nb::list most, nb::list steps, double lr, double beta1,
                        double beta2, double eps, double weight_decay, bool decoupled, bool maximize) {
    Slots s(params, grads, {m1, m2, most}, steps);
    kernels::adam_step(s.slots, {lr, beta1, beta2, eps, weight_decay, decoupled, maximize});
    return s.done();
  });
  m.def("rmsprop_step", [](nb::list params, nb::list grads, nb::list squares, nb::list means, nb::list buffers, nb::list steps, double lr,
                           double alpha, double eps, double weight_decay, double momentum, bool maximize) {
    Slots s(params, grads, {squares, means, buffers}, steps);
    kernels::rmsprop_step(s.slots, {lr, alpha, eps, weight_decay, momentum, maximize});
    return s.done();
  });
}

}  // namespace adjoint::bind
