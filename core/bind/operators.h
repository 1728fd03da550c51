// Operators as Python callables, made from the table.
//
// One object serves as function and as method: `adjoint.sin` is `Tensor.sin`. Arguments are read by the kinds
// and the signature in the table; element-wise calls on tensors take a shorter way.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <vector>

#include "bind/computing.h"
#include "bind/object.h"
#include "dispatch/forms.h"

namespace adjoint::bind {

/// Elements from which releasing Python's lock pays for all that is not element-wise: products, sorting and
/// their like do more for each element than what `kUnlockFrom` is meant for.
inline constexpr int64_t kUnlockStructuredFrom = 8192;

/// Number and comparison slots of the Tensor type (slots.cpp).
void add_operator_slots(std::vector<PyType_Slot>& slots);
/// The callables: functions into the module, methods into the type.
bool add_operators(PyObject* module);
/// The named tuples of operators with several results, by public name; a new dict, null after an error.
PyObject* return_types();

/// The callable of a row of the table, borrowed: in place null, where it has no such form (a row of a
/// composition, or a private one); and the row of a callable, null for other objects.
PyObject* operator_object(const Operator& op, CallForm form = CallForm::Function);
const Operator* operator_of(PyObject* o);
struct Alternate;
/// The ways to call a callable, the plain one of its first row first.
const std::vector<Alternate>& alternates_of(PyObject* callable);

/// The callable of a row that came after those of the families; a new reference.
PyObject* add_operator(const Operator& op);
/// Read what Python gives for the results of a call. `who` must do what: "an interpreter must supply".
void read_results(const Operator& op, nanobind::handle given, Results& results, const char* who);

/// A tensor from an operand that is a tensor or a number; undefined if it is neither.
Tensor operand(PyObject* o, DType like);

}  // namespace adjoint::bind
