// Mixed precision, for the bindings: compositions get their arguments as operators do. See
// transforms/autocast.h.
#pragma once

#include "bind/object.h"

namespace nanobind {
class module_;
}

namespace adjoint::bind {

/// Call a function with its arguments converted, if autocast is on; what it calls itself is not converted
/// again.
PyObject* call_converted(PyObject* function, int precision, PyObject* const* args, size_t nargsf,
                         PyObject* kwnames);

void bind_autocast(nanobind::module_& m);

}  // namespace adjoint::bind
