// Tensors from Python's data, and tensors of one value, a range or nothing yet.
#include <algorithm>
#include <cmath>

#include "autograd/meta.h"
#include "bind/buffer.h"
#include "bind/caster.h"
#include "kernels/copy.h"
#include "kernels/slices.h"
#include "runtime/parallel.h"
#include "tensor/number.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

// --- Nested sequences ------------------------------------------------------------------------------------------------

bool is_sequence(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o) || (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o)); }

struct Shape {
  Dims sizes;
  bool any = false;
  DType dtype = DType::Bool;
  bool numbers = false;  // holds bare Python numbers

  void meet(DType d) {
    dtype = any ? promote(dtype, d) : d;
    any = true;
  }
};

void measure(PyObject* o, Shape& shape, size_t depth) {
  if (is_tensor(o) || (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !is_sequence(o))) {
    const Tensor t = is_tensor(o) ? unwrap(o) : tensor_from_buffer(o, false);
    shape.meet(t.dtype());
    if (shape.sizes.size() == depth && depth + t.sizes().size() >= depth)
      for (int64_t s : t.sizes()) shape.sizes.push_back(s);
    return;
  }
  if (is_sequence(o)) {
    if (depth >= kMaxDims) fail<ValueError>("tensor(): too many dimensions: the data is nested deeper than ", kMaxDims, " levels (does a list contain itself?)");
    nb::object fast = nb::steal(PySequence_Fast(o, "tensor(): expected a sequence"));
    if (!fast.is_valid()) throw PythonError{};
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.ptr());
    if (shape.sizes.size() == depth) shape.sizes.push_back(n);
    if (n == 0) return;
    for (Py_ssize_t i = 0; i < n; ++i) measure(PySequence_Fast_GET_ITEM(fast.ptr(), i), shape, depth + 1);
    return;
  }
  const auto s = as_scalar(o);
  if (!s) {
    if (PyUnicode_Check(o)) fail<TypeError>("tensor(): new(): invalid data type 'str'");
    fail("Could not infer dtype of ", Py_TYPE(o)->tp_name, ": tensor() takes numbers, sequences of numbers, tensors and arrays");
  }
  shape.meet(number_dtype(o, *s));
}

[[noreturn]] void ragged(int64_t expected, int64_t found, size_t depth) {
  fail<ValueError>("expected sequence of length ", expected, " at dim ", depth, " (got ", found, "): the data is ragged");
}

void fill(PyObject* o, const Tensor& to, char* at, size_t depth) {
  const auto sizes = to.sizes(), strides = to.strides();
  if (is_tensor(o) || (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !is_sequence(o))) {
    const Tensor t = is_tensor(o) ? unwrap(o) : tensor_from_buffer(o, false);
    if (!same(t.sizes(), sizes.subspan(depth)))
      fail<ValueError>("tensor(): an element has shape ", to_string(t.sizes()), " where ", to_string(sizes.subspan(depth)), " is expected");
    copy_into(over(Ref<Storage>::share(to->storage), to.dtype(), sizes.subspan(depth), strides.subspan(depth), (at - to->storage->data) / to.itemsize()), t);
    return;
  }
  if (depth == sizes.size()) {
    if (is_sequence(o)) fail<ValueError>("expected a number at dim ", depth, " but found a sequence: the data is ragged");
    const auto s = as_scalar(o);
    if (!s) fail<TypeError>("tensor(): expected a number, but found ", Py_TYPE(o)->tp_name);
    // Floating-point numbers round, to infinity where they must.
    if (is_integral(to.dtype()) || s->is_complex()) refuse_overflow(*s, is_complex(to.dtype()) ? DType::Complex128 : to.dtype(), "tensor");
    write_element(at, to.dtype(), *s);
    return;
  }
  if (!is_sequence(o)) fail<ValueError>("expected a sequence of length ", sizes[depth], " at dim ", depth, " but found ", Py_TYPE(o)->tp_name, ": the data is ragged");
  nb::object fast = nb::steal(PySequence_Fast(o, ""));
  if (!fast.is_valid()) throw PythonError{};
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.ptr());
  if (n != sizes[depth]) ragged(sizes[depth], n, depth);
  const int64_t step = strides[depth] * to.itemsize();
  for (Py_ssize_t i = 0; i < n; ++i) fill(PySequence_Fast_GET_ITEM(fast.ptr(), i), to, at + i * step, depth + 1);
}

Tensor from_data(PyObject* data, std::optional<DType> dtype) {
  if (is_tensor(data)) return copy_of(unwrap(data), dtype.value_or(unwrap(data).dtype()));
  if (const auto s = as_scalar(data)) {
    const DType d = dtype ? *dtype : number_dtype(data, *s);
    const Tensor t = empty_scalar(d);
    fill(data, t, t.bytes(), 0);
    return t;
  }
  if (PyObject_CheckBuffer(data) && !PyBytes_Check(data)) {
    const Tensor t = tensor_from_buffer(data, false);
    return copy_of(t, dtype.value_or(t.dtype()));
  }
  if (!is_sequence(data) && PyObject_HasAttrString(data, "__array__")) {
    nb::object a = nb::steal(PyObject_CallMethod(data, "__array__", nullptr));
    if (!a.is_valid()) throw PythonError{};
    return from_data(a.ptr(), dtype);
  }
  Shape shape;
  measure(data, shape, 0);
  const DType d = dtype ? *dtype : shape.any ? shape.dtype : default_dtype();
  const Tensor t = empty({shape.sizes.data(), shape.sizes.size()}, d);
  if (t.numel() || !shape.sizes.empty()) fill(data, t, t.bytes(), 0);
  return t;
}

nb::object tensor(nb::handle data, std::optional<DType> dtype, bool requires_grad) {
  Tensor t = from_data(data.ptr(), dtype);
  if (requires_grad) set_requires_grad(t, true);
  return nb::steal(wrap(std::move(t)));
}

IntList view(const Dims& d) { return {d.data(), d.size()}; }

// Sizes as they stand in a call: spelt out, or as one sequence.
Dims sizes_of(nb::handle size, const char* op) {
  PyObject* o = size.ptr();
  if (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) == 1 && !is_int(PyTuple_GET_ITEM(o, 0)) && PySequence_Check(PyTuple_GET_ITEM(o, 0)))
    o = PyTuple_GET_ITEM(o, 0);
  if (!is_int(o) && (!PySequence_Check(o) || PyUnicode_Check(o)))
    fail<TypeError>(op, "(): argument 'size' must be a tuple of ints, not ", Py_TYPE(o)->tp_name);
  Dims dims = as_dims(o, (std::string(op) + "(): argument 'size'").c_str());
  for (int64_t d : dims)
    if (d < 0) fail("Trying to create tensor with negative dimension ", d, ": ", to_string({dims.data(), dims.size()}), " in ", op, "()");
  return dims;
}

DType type_of(nb::handle d, DType otherwise, const char* op) {
  if (d.is_none()) return otherwise;
  const auto dtype = as_dtype(d.ptr());
  if (!dtype) fail<TypeError>(op, "(): argument 'dtype' must be a dtype such as adjoint.float32, not ", Py_TYPE(d.ptr())->tp_name);
  return *dtype;
}

Scalar number(nb::handle value, const char* op) {
  if (is_tensor(value.ptr())) return item(unwrap(value.ptr()));
  const auto s = as_scalar(value.ptr());
  if (!s) fail<TypeError>(op, "(): argument 'fill_value' must be a number, not ", Py_TYPE(value.ptr())->tp_name);
  return *s;
}

// `fresh`, row-major, with its dimensions laid out in the order in which those of `t` are.
Tensor in_order_of(const Tensor& t, Tensor fresh) {
  if (!t.is_contiguous()) fresh->set_geometry(Dims(t.sizes()), strides_along({&t, 1}, t.sizes()).data());
  return fresh;
}

Tensor with(Tensor t, bool requires_grad) {
  if (requires_grad) set_requires_grad(t, true);
  return t;
}

int64_t steps(double start, double end, double step, const char* op) {
  if (step == 0) fail(op, "(): step must be nonzero");
  if (!std::isfinite(start) || !std::isfinite(end) || std::isnan(step)) fail(op, "(): unsupported range: ", start, " -> ", end);
  if ((step > 0 && end < start) || (step < 0 && end > start)) fail(op, "(): upper bound and lower bound inconsistent with step sign: start ", start, ", end ", end, ", step ", step);
  const double n = std::ceil((end - start) / step);
  if (n > 9e18) fail(op, "(): invalid size, possible overflow");
  return static_cast<int64_t>(n);
}

template <class F> Tensor generate(int64_t n, DType dtype, F&& value) {
  const int64_t sizes[] = {n};
  const Tensor t = empty(sizes, dtype);
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* p = t.data<T>();
    runtime::parallel_for(0, n, 16384, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) p[i] = convert<T>(value(i));
    });
  });
  return t;
}

}  // namespace

Tensor from_python(PyObject* data, std::optional<DType> dtype) { return from_data(data, dtype); }

Tensor as_tensor_like(PyObject* value, DType like) {
  if (is_tensor(value)) return unwrap(value);
  if (const auto s = as_scalar(value)) return wrap_number(*s, like);
  return from_data(value, {});
}

void bind_creation(nb::module_& m) {
  m.def("tensor", &tensor, nb::arg("data").none(), nb::arg("dtype").none() = nb::none(), nb::arg("requires_grad") = false);
  m.def("_from_buffer", [](nb::handle o) {
    Tensor t = tensor_from_buffer(o.ptr(), false);
    if (!t.defined()) fail<TypeError>("expected an object that supports the buffer protocol, but found ", Py_TYPE(o.ptr())->tp_name);
    return t;
  });
  m.def("_is_readonly", [](const Tensor& t) { return t->storage->readonly; });
  m.def("_empty", [](nb::handle size, nb::handle d, bool g) { return with(empty(view(sizes_of(size, "empty")), type_of(d, default_dtype(), "empty")), g); },
        nb::arg("size"), nb::arg("dtype").none() = nb::none(), nb::arg("requires_grad") = false);
  m.def("_zeros", [](nb::handle size, nb::handle d, bool g) { return with(zeros(view(sizes_of(size, "zeros")), type_of(d, default_dtype(), "zeros")), g); },
        nb::arg("size"), nb::arg("dtype").none() = nb::none(), nb::arg("requires_grad") = false);
  m.def("_full", [](nb::handle size, nb::handle value, nb::handle d, bool g) {
    const Scalar v = number(value, "full");
    const DType dtype = type_of(d, v.dtype(), "full");
    refuse_overflow(v, rounding_dtype(dtype), "full");
    return with(full(view(sizes_of(size, "full")), v, dtype), g);
  }, nb::arg("size"), nb::arg("fill_value"), nb::arg("dtype").none() = nb::none(), nb::arg("requires_grad") = false);
  m.def("_empty_like", [](const Tensor& t, nb::handle d, bool g) {
    const DType dtype = type_of(d, t.dtype(), "empty_like");
    return with(in_order_of(t, empty(t.sizes(), dtype)), g);
  }, nb::arg("input"), nb::arg("dtype").none() = nb::none(), nb::arg("requires_grad") = false);
  m.def("_full_like", [](const Tensor& t, nb::handle value, nb::handle d, bool g) {
    const DType dtype = type_of(d, t.dtype(), "full_like");
    const Scalar v = number(value, "full_like");
    refuse_overflow(v, rounding_dtype(dtype), "full_like");
    return with(in_order_of(t, full(t.sizes(), v, dtype)), g);
  }, nb::arg("input"), nb::arg("fill_value"), nb::arg("dtype").none() = nb::none(), nb::arg("requires_grad") = false);
  m.def("_reinterpret", [](const Tensor& t, DType dtype) {
    // One-dimensional bytes as elements of another type.
    const int64_t size = itemsize(dtype), sizes[] = {t.numel() / size}, strides[] = {1};
    if (reinterpret_cast<uintptr_t>(t.bytes()) % static_cast<size_t>(std::min<int64_t>(size, 8)))
      fail<ValueError>("frombuffer(): the memory at this offset is not aligned to ", name_of(dtype), "; copy the bytes first");
    return over(Ref<Storage>::share(t->storage), dtype, sizes, strides, 0);
  });
  m.def("_arange", [](const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> d, bool g) {
    const bool whole = start.is_integral() && end.is_integral() && step.is_integral();
    const DType dtype = d.value_or(whole ? DType::Int64 : default_dtype());
    if (whole) {
      __extension__ using Wide = __int128;  // the distance of two numbers may take 65 bits
      const Wide a = start.as_int(), s = step.as_int(), e = end.as_int();
      if (s == 0 || (s > 0 ? e < a : e > a)) (void)steps(start.as_double(), end.as_double(), step.as_double(), "arange");
      const Wide n = (e - a + s + (s > 0 ? -1 : 1)) / s;
      if (n > INT64_MAX) fail("arange(): invalid size, possible overflow");
      return with(generate(static_cast<int64_t>(n), dtype, [&](int64_t i) { return static_cast<int64_t>(a + i * s); }), g);
    }
    const double a = start.as_double(), s = step.as_double();
    return with(generate(steps(a, end.as_double(), s, "arange"), dtype, [&](int64_t i) { return a + static_cast<double>(i) * s; }), g);
  });
  m.def("_linspace", [](double start, double end, int64_t n, std::optional<DType> d, bool g) {
    if (n < 0) fail("linspace(): number of steps must be non-negative, but got ", n);
    const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
    // From both ends, so that the last element is the end exactly.
    return with(generate(n, d.value_or(default_dtype()), [&](int64_t i) {
      return i < n / 2 || n == 1 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(n - 1 - i); }), g);
  });
  m.def("_logspace", [](double start, double end, int64_t n, double base, std::optional<DType> d, bool g) {
    if (n < 0) fail("logspace(): number of steps must be non-negative, but got ", n);
    const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
    return with(generate(n, d.value_or(default_dtype()), [&](int64_t i) { return std::pow(base, start + step * static_cast<double>(i)); }), g);
  });
  m.def("_eye", [](int64_t n, int64_t k, std::optional<DType> d, bool g) {
    if (n < 0 || k < 0) fail("eye(): n and m must be greater or equal to 0, but got ", n, " and ", k);
    const int64_t sizes[] = {n, k};
    Tensor t = zeros(sizes, d.value_or(default_dtype()));
    for (int64_t i = 0; i < std::min(n, k); ++i) write_element(t.bytes() + (i * k + i) * t.itemsize(), t.dtype(), Scalar(1));
    return with(std::move(t), g);
  });
}

}  // namespace adjoint::bind
