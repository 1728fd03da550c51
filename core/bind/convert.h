// From Python objects to the core's values and back: numbers, shapes, types.
#pragma once

#include <Python.h>

#include <optional>

#include "tensor/tensor.h"

namespace adjoint::bind {

/// A Python number (or NumPy scalar) as a Scalar; none for anything else. No error is set.
std::optional<Scalar> as_scalar(PyObject* o);
/// An integer by __index__; throws TypeError naming `what`.
int64_t as_int(PyObject* o, const char* what);
double as_double(PyObject* o, const char* what);
/// An int or a sequence of ints.
Dims as_dims(PyObject* o, const char* what);
bool is_int(PyObject* o);

PyObject* from_scalar(const Scalar& s);
/// A Size: a tuple of ints that prints as torch's.
PyObject* size_from(IntList sizes);
PyTypeObject* size_type_object();
PyObject* tuple_from(IntList values);

/// The dtype objects, one per DType; borrowed.
PyObject* dtype_object(DType d);
bool is_dtype(PyObject* o);
/// The type of a tensor made from a number: a NumPy scalar keeps its own.
DType number_dtype(PyObject* o, const Scalar& value);
/// A dtype object, or one of Python's bool, int, float, complex: bool, int64, float64, complex128.
std::optional<DType> as_dtype(PyObject* o);

bool add_value_types(PyObject* module);

/// The exception set in Python, thrown through C++.
struct PythonError {};

}  // namespace adjoint::bind
