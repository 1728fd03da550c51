// Tensors, shapes and types as parameters of nanobind functions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"
#include "bind/object.h"

namespace nanobind::detail {

template <>
struct type_caster<adjoint::Tensor> {
  NB_TYPE_CASTER(adjoint::Tensor, const_name("Tensor"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!adjoint::bind::is_tensor(src.ptr())) return false;
    value = adjoint::bind::unwrap(src.ptr());
    return true;
  }
  static handle from_cpp(adjoint::Tensor t, rv_policy, cleanup_list*) noexcept {
    return adjoint::bind::wrap(std::move(t));
  }
};

template <>
struct type_caster<adjoint::DType> {
  NB_TYPE_CASTER(adjoint::DType, const_name("dtype"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    const auto d = adjoint::bind::as_dtype(src.ptr());
    if (!d) return false;
    value = *d;
    return true;
  }
  static handle from_cpp(adjoint::DType d, rv_policy, cleanup_list*) noexcept {
    return Py_NewRef(adjoint::bind::dtype_object(d));
  }
};

template <>
struct type_caster<adjoint::Dims> {
  NB_TYPE_CASTER(adjoint::Dims, const_name("tuple[int, ...]"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    try {
      value = adjoint::bind::as_dims(src.ptr(), "size");
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(const adjoint::Dims& d, rv_policy, cleanup_list*) noexcept {
    return adjoint::bind::tuple_from({d.data(), d.size()});
  }
};

template <>
struct type_caster<adjoint::Scalar> {
  NB_TYPE_CASTER(adjoint::Scalar, const_name("int | float | complex"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    try {
      if (adjoint::bind::is_tensor(src.ptr())) {
        value = adjoint::item(adjoint::bind::unwrap(src.ptr()));
        return true;
      }
      const auto s = adjoint::bind::as_scalar(src.ptr());
      if (!s) return false;
      value = *s;
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(const adjoint::Scalar& s, rv_policy, cleanup_list*) noexcept {
    return adjoint::bind::from_scalar(s);
  }
};

}  // namespace nanobind::detail

namespace adjoint::bind {
void bind_autograd(nanobind::module_& m);
void bind_hooks(nanobind::module_& m);
void bind_creation(nanobind::module_& m);
void bind_random(nanobind::module_& m);
void bind_optimizers(nanobind::module_& m);
void bind_dlpack(nanobind::module_& m);
void bind_storage(nanobind::module_& m);
void bind_interpreter(nanobind::module_& m);
void bind_forward(nanobind::module_& m);
void bind_batching(nanobind::module_& m);
void bind_sparse(nanobind::module_& m);
void bind_trees(nanobind::module_& m);
void bind_replay_paths(nanobind::module_& m);
void bind_replay_watch(nanobind::module_& m);
void bind_primitive(nanobind::module_& m);
void bind_replay(nanobind::module_& m);
void bind_replay_entry(nanobind::module_& m);
void bind_replay_numbers(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);
}  // namespace adjoint::bind
