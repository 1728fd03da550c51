// Tensors from Python's data.
#include "ops/creation.h"

#include <algorithm>

#include "as_torch.h"
#include "autograd/engine.h"
#include "autograd/meta.h"
#include "bind/buffer.h"
#include "bind/caster.h"
#include "bind/operators.h"
#include "dispatch/forms.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "ops/shape.h"
#include "runtime/device.h"
#include "runtime/random.h"
#include "tensor/device.h"
#include "tensor/number.h"
#include "tensor/sparse.h"
#include "transforms/interpreter.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

// --- Nested sequences -----------------------------------------------------------------------------

bool is_sequence(PyObject* o) {
  return PyList_Check(o) || PyTuple_Check(o) ||
         (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o));
}

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
    if (depth >= kMaxDims)
      fail<ValueError>("tensor(): too many dimensions: the data is nested deeper than ", kMaxDims,
                       " levels (does a list contain itself?)");
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
    fail("Could not infer dtype of ", Py_TYPE(o)->tp_name,
         ": tensor() takes numbers, sequences of numbers, tensors and arrays");
  }
  shape.meet(number_dtype(o, *s));
}

[[noreturn]] void ragged(int64_t expected, int64_t found, size_t depth) {
  fail<ValueError>("expected sequence of length ", expected, " at dim ", depth, " (got ", found,
                   "): the data is ragged");
}

void fill(PyObject* o, const Tensor& to, char* at, size_t depth) {
  const auto sizes = to.sizes(), strides = to.strides();
  if (is_tensor(o) || (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !is_sequence(o))) {
    const Tensor t = is_tensor(o) ? unwrap(o) : tensor_from_buffer(o, false);
    if (!same(t.sizes(), sizes.subspan(depth)))
      fail<ValueError>("tensor(): an element has shape ", t.sizes(), " where ",
                       to_string(sizes.subspan(depth)), " is expected");
    if (is_tensor(o)) tell_read(t, "tensor");
    const NoInterpretation part_of_it;
    copy_into(over(Ref<Storage>::share(to->storage), to.dtype(), sizes.subspan(depth), strides.subspan(depth),
                   (at - to->storage->data) / to.itemsize()),
              t);
    return;
  }
  if (depth == sizes.size()) {
    if (is_sequence(o))
      fail<ValueError>("expected a number at dim ", depth, " but found a sequence: the data is ragged");
    const auto s = as_scalar(o);
    if (!s) fail<TypeError>("tensor(): expected a number, but found ", Py_TYPE(o)->tp_name);
    if (s->is_complex() && s->as_complex().im != 0 && !is_complex(to.dtype()) && to.dtype() != DType::Bool)
      fail<TypeError>(is_integral(to.dtype()) ? "'complex' object cannot be interpreted as an integer"
                                              : "must be real number, not complex",
                      ": tensor() was given ", to_string(*s), " for elements of ", name_of(to.dtype()),
                      "; take .real of it first");
    // Floating-point numbers round, to infinity where they must.
    if (is_integral(to.dtype()) || s->is_complex())
      refuse_overflow(*s, is_complex(to.dtype()) ? DType::Complex128 : to.dtype(), "tensor");
    write_element(at, to.dtype(), *s);
    return;
  }
  if (!is_sequence(o))
    fail<ValueError>("expected a sequence of length ", sizes[depth], " at dim ", depth, " but found ",
                     Py_TYPE(o)->tp_name, ": the data is ragged");
  nb::object fast = nb::steal(PySequence_Fast(o, ""));
  if (!fast.is_valid()) throw PythonError{};
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.ptr());
  if (n != sizes[depth]) ragged(sizes[depth], n, depth);
  const int64_t step = strides[depth] * to.itemsize();
  for (Py_ssize_t i = 0; i < n; ++i)
    fill(PySequence_Fast_GET_ITEM(fast.ptr(), i), to, at + i * step, depth + 1);
}

/// What the program gave as a number, or as sequences of them.
Tensor filled(const Tensor& t, PyObject* data) {
  if (t.numel() || t.dim()) fill(data, t, t.bytes(), 0);
  return given(t, "tensor");
}

Tensor from_data(PyObject* data, std::optional<DType> dtype) {
  if (is_tensor(data) && is_sparse(unwrap(data))) {
    const Tensor t = call<Clone>(detach(unwrap(data)));
    return dtype && *dtype != t.dtype() ? call<To>(t, *dtype) : t;
  }
  if (is_tensor(data) && device_of(unwrap(data)) != Device::CPU) {
    const DeviceScope scope(device_of(unwrap(data)));
    return copy_of(unwrap(data), dtype.value_or(unwrap(data).dtype()));
  }
  if (is_tensor(data)) return copy_of(unwrap(data), dtype.value_or(unwrap(data).dtype()));
  if (const auto s = as_scalar(data)) {
    return filled(empty_scalar(dtype ? *dtype : number_dtype(data, *s)), data);
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
  return filled(empty({shape.sizes.data(), shape.sizes.size()}, d), data);
}

nb::object tensor(nb::handle data, std::optional<DType> dtype, bool requires_grad) {
  Tensor t = from_data(data.ptr(), dtype);
  if (thread_state.default_device != Device::CPU && device_of(t) == Device::CPU) [[unlikely]] {
    const DeviceScope scope(thread_state.default_device);
    t = copy_of(t);
  }
  return nb::steal(wrap(made(std::move(t), requires_grad)));
}

}  // namespace

Tensor from_python(PyObject* data, std::optional<DType> dtype) { return from_data(data, dtype); }

Tensor as_tensor_like(PyObject* value, DType like) {
  if (is_tensor(value)) return unwrap(value);
  if (const auto s = as_scalar(value)) return wrap_number(*s, like);
  return from_data(value, {});
}

void bind_creation(nb::module_& m) {
  m.def("tensor", &tensor, nb::arg("data").none(), nb::arg("dtype").none() = nb::none(),
        nb::arg("requires_grad") = false);
  m.def("_as_leaf", [](nb::handle t) {
    made(unwrap(t.ptr()), true);
    return nb::borrow(t);
  });
  m.def("_from_buffer", [](nb::handle o) {
    Tensor t = tensor_from_buffer(o.ptr(), false);
    if (!t.defined())
      fail<TypeError>("expected an object that supports the buffer protocol, but found ",
                      Py_TYPE(o.ptr())->tp_name);
    return t;
  });
  m.def(
      "_set_default_device",
      [](int number) {
        if (!is_device(number)) fail<ValueError>("there is no device number ", number);
        return static_cast<int>(std::exchange(thread_state.default_device, static_cast<Device>(number)));
      },
      "Where this thread makes tensors from nothing, by number; gives back where it did before.");
  m.def(
      "_default_device", [] { return static_cast<int>(thread_state.default_device); }, "Where it does now.");
  m.def(
      "_device_kinds",
      [] {
        nb::list names;
        for (unsigned kind = 0; const auto* f = runtime::functions_of(kind); ++kind)
          names.append(nb::make_tuple(f->name, f->count));
        return names;
      },
      "The kinds of devices that there are, by number, and how many of each. A device's number is that of "
      "its "
      "kind and eight times its index.");
  m.def("_device_name", [](int number) { return name_of(static_cast<Device>(number)); }, "cpu, meta, far:1");
  m.def(
      "_register_device",
      [](const nb::capsule& functions) {
        const void* table = PyCapsule_GetPointer(functions.ptr(), "adjoint.device");
        if (!table) throw nb::python_error();
        return runtime::register_device(*static_cast<const runtime::DeviceFunctions*>(table));
      },
      "Let there be another kind of devices: runtime::DeviceFunctions, in a capsule named adjoint.device.");
  m.def(
      "_register_routines",
      [](const nb::capsule& routines) {
        const void* table = PyCapsule_GetPointer(routines.ptr(), "adjoint.routines");
        if (!table) throw nb::python_error();
        register_routines(*static_cast<const DeviceRoutines*>(table));
      },
      "Let a kind of devices have routines of its own: DeviceRoutines, in a capsule named adjoint.routines.");
  m.def("_launches_on_host", &launches_on_host,
        "How many launches for other devices ran on the host, for want of a routine of their own.");
  m.def(
      "_fill_uninitialized", [](bool on) { fill_uninitialized = on; },
      "Whether empty() fills its memory: with NaN, or the largest integer.");
  m.def(
      "_serve_torch",
      [](bool on) {
        set_for_torch(kServesTorch, on);
        const auto kind = on ? runtime::Generator::Kind::Torch : runtime::Generator::Kind::Counter;
        runtime::Generator::set_default_kind(kind);
        runtime::default_generator().set_kind(kind);
      },
      "Whether programs for torch run: with its announcements and refusals, its name of sizes, and its "
      "numbers from "
      "generators that are made without a stream, and from the default one.");
  m.def("_warn_always", [](bool on) { set_for_torch(kWarnsAlways, on); });
  m.def("_fills_uninitialized", [] { return fill_uninitialized.load(); });
  m.def("_is_readonly", [](const Tensor& t) { return t->storage->readonly; });
  m.def("_reinterpret", [](const Tensor& t, DType dtype) {
    // One-dimensional bytes as elements of another type.
    if (is_sparse(t)) refuse_sparse(t, "frombuffer");
    const int64_t size = itemsize(dtype), sizes[] = {t.numel() / size}, strides[] = {1};
    if (!aligned_for(t, dtype))
      fail<ValueError>("frombuffer(): the memory at this offset is not aligned to ", name_of(dtype),
                       "; copy the bytes first");
    const Tensor other = over(Ref<Storage>::share(t->storage), dtype, sizes, strides, 0);
    other->flags |= t->flags & TensorImpl::kInference;
    return other;
  });
}

}  // namespace adjoint::bind
