// The steps of the optimisers: lists of tensors in, one call of a row (ops/optimizer.h) for all that it can
// update.
#include "bind/caster.h"
#include "bind/convert.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "kernels/cpu/optimizer.h"
#include "ops/optimizer.h"
#include "tensor/device.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

const Tensor* at(PyObject* list, size_t i) {
  PyObject* o = static_cast<Py_ssize_t>(i) < PyList_GET_SIZE(list)
                    ? PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i))
                    : nullptr;
  return o && is_tensor(o) ? &unwrap(o) : nullptr;
}

/// A float, or a number that is tracked.
struct Number {
  double value;
  Number(nb::handle o) : value(as_double(o.ptr(), "an option")) {}
  operator double() const { return value; }
};

/// The parameters that one call updates, with what belongs to them, and the positions of the others: of
/// another type than the kernels know, on another device than the first, with a state of another shape, or
/// under a transform.
struct Step {
  static constexpr size_t kMost = 6;
  const GradMode unrecorded{false};
  Tensors lists[kMost];  // as the row takes them
  nb::list rest;

  Step(std::initializer_list<nb::list> given, bool steps_last) {
    const nb::list& params = *given.begin();
    const size_t n = nb::len(params);
    if (nb::len(given.begin()[1]) != n)
      fail<ValueError>("got ", n, " parameters but ", nb::len(given.begin()[1]), " gradients");
    bool any[kMost];
    size_t count = 0;
    for (const nb::list& list : given) {
      any[count] = nb::len(list) != 0;
      if (any[count]) lists[count].reserve(n);
      ++count;
    }
    for (size_t i = 0; i < n; ++i) {
      const Tensor* of[kMost] = {};
      bool ok = true;
      for (size_t k = 0; k < count; ++k) {
        if (!any[k]) continue;
        of[k] = at(given.begin()[k].ptr(), i);
        if (of[k]) continue;
        if (k < 2) fail<TypeError>("entry ", i, " of the parameters or gradients is not a Tensor");
        ok = false;
      }
      const Tensor& p = *of[0];
      ok = ok && (p.dtype() == DType::Float32 || p.dtype() == DType::Float64) &&
           (lists[0].empty() || device_of(p) == device_of(lists[0][0]));
      for (size_t k = 0; k < count && ok; ++k) {
        if (!of[k]) continue;
        const Tensor& t = *of[k];
        ok = !(t->flags & TensorImpl::kCarries);
        if (k + 1 == count && steps_last)
          ok = ok && t.numel() == 1 && t.dtype() == DType::Float32;
        else
          ok = ok && t.dtype() == p.dtype() && same(t.sizes(), p.sizes()) && device_of(t) == device_of(p);
      }
      if (!ok) {
        rest.append(i);
        continue;
      }
      for (size_t k = 0; k < count; ++k)
        if (of[k]) lists[k].push_back(*of[k]);
    }
  }
};

}  // namespace

void bind_optimizers(nb::module_& m) {
  m.def("sgd_step", [](nb::list params, nb::list grads, nb::list buffers, nb::handle lr, nb::handle momentum,
                       nb::handle dampening, nb::handle weight_decay, bool nesterov, bool maximize) {
    const Step s({params, grads, buffers}, false);
    if (!s.lists[0].empty())
      call_all<SgdStep>(TensorList(s.lists[0]), TensorList(s.lists[1]), TensorList(s.lists[2]), Number(lr),
                        Number(momentum), Number(dampening), Number(weight_decay), nesterov, maximize);
    return s.rest;
  });
  m.def("adam_step", [](nb::list params, nb::list grads, nb::list m1, nb::list m2, nb::list most,
                        nb::list steps, nb::handle lr, nb::handle beta1, nb::handle beta2, nb::handle eps,
                        nb::handle weight_decay, bool decoupled, bool maximize) {
    const Step s({params, grads, m1, m2, most, steps}, true);
    if (!s.lists[0].empty())
      call_all<AdamStep>(TensorList(s.lists[0]), TensorList(s.lists[1]), TensorList(s.lists[2]),
                         TensorList(s.lists[3]), TensorList(s.lists[4]), TensorList(s.lists[5]), Number(lr),
                         Number(beta1), Number(beta2), Number(eps), Number(weight_decay), decoupled,
                         maximize);
    return s.rest;
  });
  m.def("rmsprop_step", [](nb::list params, nb::list grads, nb::list squares, nb::list means,
                           nb::list buffers, nb::list steps, nb::handle lr, nb::handle alpha, nb::handle eps,
                           nb::handle weight_decay, nb::handle momentum, bool maximize) {
    const Step s({params, grads, squares, means, buffers, steps}, true);
    if (!s.lists[0].empty())
      call_all<RmspropStep>(TensorList(s.lists[0]), TensorList(s.lists[1]), TensorList(s.lists[2]),
                            TensorList(s.lists[3]), TensorList(s.lists[4]), TensorList(s.lists[5]),
                            Number(lr), Number(alpha), Number(eps), Number(weight_decay), Number(momentum),
                            maximize);
    return s.rest;
  });
  m.def("program_step",
        [](nb::list params, nb::list grads, nb::list firsts, nb::list seconds, nb::list thirds,
           nb::list steps, const std::vector<int64_t>& program, nb::list numbers_of_program) {
          std::vector<double> numbers;
          for (nb::handle n : numbers_of_program) numbers.push_back(Number(n));
          const Step s({params, grads, firsts, seconds, thirds, steps}, true);
          if (!s.lists[0].empty())
            call_all<ProgramStep>(TensorList(s.lists[0]), TensorList(s.lists[1]), TensorList(s.lists[2]),
                                  TensorList(s.lists[3]), TensorList(s.lists[4]), TensorList(s.lists[5]),
                                  IntList(program), FloatList(numbers));
          return s.rest;
        });
  nb::list operations;
  for (const char* name : kernels::kStepOperations) operations.append(name);
  m.attr("step_operations") = nb::tuple(operations);
}

}  // namespace adjoint::bind
