// Attributes of a tensor that are about its own gradient: `grad`, and which dtype that has.
#include "autograd/meta.h"
#include "bind/convert.h"
#include "bind/object.h"
#include "bind/replay.h"
#include "bind/tensor_members.h"

namespace adjoint::bind {

PyObject* get_grad(PyObject* s, void*) {
  return guard([&]() -> PyObject* {
    const Tensor& t = unwrap(s);
    if (t->grad_fn && !t->is(TensorImpl::kRetainsGrad) && !gradient(t).defined()) {
      if (PyErr_WarnEx(
              PyExc_UserWarning,
              "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
              "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
              "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
              1) < 0)
        return nullptr;
    }
    return wrap(gradient(t));
  });
}
int set_grad(PyObject* s, PyObject* v, void*) {
  return guard_set([&] {
    if (!v || v == Py_None) return set_gradient(unwrap(s), {});
    if (!is_tensor(v))
      fail<TypeError>("assigned grad expected to be a Tensor or None but got grad of type ",
                      Py_TYPE(v)->tp_name);
    set_gradient(unwrap(s), unwrap(v));
  });
}
PyObject* get_grad_dtype(PyObject* s, void*) {
  return guard([&] {
    const auto type = gradient_type(unwrap(s));
    return Py_NewRef(type ? dtype_object(*type) : Py_None);
  });
}
int set_grad_dtype(PyObject* s, PyObject* v, void*) {
  return guard_set([&] {
    tell_recorders("it sets the grad_dtype of a tensor");
    if (v == Py_None) return set_gradient_type(unwrap(s), {});
    if (!v) fail("Deleting grad_dtype is not allowed: set it to the tensor's dtype");
    if (!is_dtype(v)) fail("grad_dtype must be a dtype or None, but got ", Py_TYPE(v)->tp_name);
    set_gradient_type(unwrap(s), *as_dtype(v));
  });
}

}  // namespace adjoint::bind
