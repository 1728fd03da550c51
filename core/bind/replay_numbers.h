// Numbers of Python that are tracked while a function is recorded. See replay_numbers.cpp.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "tensor/tensor.h"

namespace adjoint::replay {
class Tracer;
}

namespace adjoint::bind {

extern PyTypeObject *tracked_float, *tracked_int;
inline bool is_tracked(PyObject* o) { return Py_TYPE(o) == tracked_float || Py_TYPE(o) == tracked_int; }

/// The value of a tracked number, which goes on to the core.
Scalar given_on(PyObject* o);
/// The element that was just read, tracked; null, without an error, where nobody tracks it.
PyObject* number_of_reading(const Scalar& value);

/// From here on numbers are tracked by this tracer: objects for these.
nanobind::list track(const Ref<replay::Tracer>& tracer, nanobind::list numbers);
void stop_tracking();

}  // namespace adjoint::bind
