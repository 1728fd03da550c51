#include "bind/buffer.h"

#include "bind/convert.h"
#include "bind/object.h"
#include "for_size.h"
#include "tensor/device.h"
#include "tensor/sparse.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"

namespace adjoint::bind {

namespace {

constexpr const char* kFormats[kDTypes] = {"?", "B", "b", "h", "i", "q", "e", nullptr, "f", "d", "Zf", "Zd"};

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (!format) return DType::UInt8;
  if (*format == '@' || *format == '=' || (*format == '<')) ++format;
  const std::string_view f = format;
  if (f == "?") return DType::Bool;
  if (f == "f") return DType::Float32;
  if (f == "d") return DType::Float64;
  if (f == "e") return DType::Float16;
  if (f == "Zf") return DType::Complex64;
  if (f == "Zd") return DType::Complex128;
  if (f == "b") return DType::Int8;
  if (f == "B") return DType::UInt8;
  if (f == "h" && itemsize == 2) return DType::Int16;
  if ((f == "i" || f == "l") && itemsize == 4) return DType::Int32;
  if ((f == "l" || f == "q" || f == "n") && itemsize == 8) return DType::Int64;
  return {};
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = unwrap(self);
  view->obj = nullptr;
  if (t.requires_grad()) {
    PyErr_SetString(PyExc_BufferError,
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    return -1;
  }
  const char* format = kFormats[index_of(t.dtype())];
  if (!format) {
    PyErr_Format(PyExc_BufferError,
                 "a tensor of type %s has no buffer format; convert it first, for example with .float()",
                 name_of(t.dtype()));
    return -1;
  }
  if (is_sparse(t)) {
    PyErr_SetString(PyExc_TypeError,
                    "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.");
    return -1;
  }
  if (device_of(t) != Device::CPU) {
    PyErr_Format(PyExc_TypeError,
                 "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                 "memory first.",
                 name_of(device_of(t)).c_str());
    return -1;
  }
  try {
    refuse_memory(t, "numpy");
  } catch (...) {
    raise();
    return -1;
  }
  if (!t.is_contiguous() && !(flags & PyBUF_STRIDES)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous; call .contiguous() first");
    return -1;
  }
  try {
    tell_read(t, "numpy");
  } catch (...) {
    raise();
    return -1;
  }
  const int n = static_cast<int>(t.dim());
  void* memory = PyMem_Malloc(sizeof(Loan) + sizeof(Py_ssize_t) * static_cast<size_t>(2 * n));
  if (!memory) {
    PyErr_NoMemory();
    return -1;
  }
  const Loan* loan = new (memory) Loan(t);
  auto* dims = reinterpret_cast<Py_ssize_t*>(static_cast<char*>(memory) + sizeof(Loan));
  for (int i = 0; i < n; ++i) {
    dims[i] = t.sizes()[i];
    dims[n + i] = t.strides()[i] * t.itemsize();
  }
  view->buf = t.bytes();
  view->obj = Py_NewRef(self);
  view->len = t.numel() * t.itemsize();
  view->itemsize = t.itemsize();
  view->readonly = t->storage->readonly;
  view->ndim = n;
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  view->shape = dims;
  view->strides = dims + n;
  view->suboffsets = nullptr;
  view->internal = const_cast<Loan*>(loan);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  static_cast<Loan*>(view->internal)->~Loan();
  PyMem_Free(view->internal);
}

namespace {

// NumPy's dates and times: arrays of them give no buffer, and scalars give their bytes as if they were
// numbers.
void refuse_dates(PyObject* o) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* dtype = PyObject_GetAttrString(o, "dtype");
  PyObject* kind = dtype ? PyObject_GetAttrString(dtype, "kind") : nullptr;
  const char* letter = kind && PyUnicode_Check(kind) ? PyUnicode_AsUTF8(kind) : nullptr;
  const bool date = letter && *letter == 'M', span = letter && *letter == 'm';
  Py_XDECREF(kind);
  Py_XDECREF(dtype);
  PyErr_Clear();
  if (!date && !span) return PyErr_Restore(type, value, trace);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  const char* name = date ? "datetime64" : "timedelta64";
  fail<TypeError>("can't convert np.",
                  std::string_view(Py_TYPE(o)->tp_name) == "numpy.ndarray" ? "ndarray" : name,
                  " of type numpy.", name,
                  ". The only supported types are: float64, float32, float16, complex64, complex128, int64, "
                  "int32, int16, int8, uint8, and bool; convert it first, for example with .astype('int64')");
}

/// Gives an array's memory back.
struct Owner {
  static void release(void* p) {
    if (!python_is_there()) return;
    const Locked python;
    PyBuffer_Release(static_cast<Py_buffer*>(p));
    delete static_cast<Py_buffer*>(p);
  }
};

}  // namespace

bool is_held_by_nobody_else(const Storage& storage) {
  if (storage.kind != Storage::Kind::External || storage.deleter != &Owner::release) return false;
  PyObject* array = static_cast<const Py_buffer*>(storage.context)->obj;
  if (!array || Py_REFCNT(array) > 1) return false;
  // An array may be a part of another.
  PyObject* base = PyObject_GetAttrString(array, "base");
  PyErr_Clear();
  Py_XDECREF(base);
  return base == Py_None;
}

Tensor tensor_from_buffer(PyObject* o, bool writable_only) {
  if (!PyObject_CheckBuffer(o)) return {};
  auto* view = new Py_buffer;
  bool readonly = false;
  if (PyObject_GetBuffer(o, view, PyBUF_RECORDS) < 0) {
    PyErr_Clear();
    if (writable_only || PyObject_GetBuffer(o, view, PyBUF_RECORDS_RO) < 0) {
      delete view;
      refuse_dates(o);
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the buffer is read-only");
      throw PythonError{};
    }
    readonly = true;
  }
  const auto dtype = dtype_of_format(view->format, view->itemsize);
  if (!view->strides || !dtype) {
    try {
      refuse_dates(o);
    } catch (...) {
      Owner::release(view);
      throw;
    }
  }
  Dims sizes, strides;
  Stretch stretch{0, 0};
  std::string problem;
  if (!dtype) {
    problem = text("can't convert a buffer of format '", view->format ? view->format : "",
                   "'. The supported types are: bool, uint8, int8, int16, int32, int64, float16, float32, "
                   "float64, complex64 and complex128.");
  } else {
    // Without strides, and without sizes, it lies in row-major order: so ctypes exports its arrays, whatever
    // was asked for.
    for (int i = 0; i < view->ndim; ++i)
      sizes.push_back(view->shape ? view->shape[i] : view->len / view->itemsize);
    if (!view->strides) strides = contiguous_strides(sizes.span());
    for (int i = 0; i < view->ndim && view->strides; ++i) {
      if (view->strides[i] < 0 && problem.empty())
        problem =
            "At least one stride in the given array is negative, and tensors with negative strides are not "
            "supported; copy the array first (array.copy())";
      if (view->strides[i] % itemsize(*dtype) && problem.empty())
        problem = "the array's strides are not multiples of its element size";
      strides.push_back(view->strides[i] / itemsize(*dtype));
    }
    if (problem.empty()) {
      try {
        // All that the elements reach: more than they are, where the strides leave gaps.
        stretch = stretch_of(sizes.span(), strides.span(), 0, itemsize(*dtype), "tensor");
      } catch (const Error& e) {
        problem = e.what();
      }
    }
    if (reinterpret_cast<uintptr_t>(view->buf) %
            static_cast<size_t>(std::min<int64_t>(itemsize(*dtype), 8)) &&
        problem.empty())
      problem = "the array's memory is not aligned to its element type; copy it first";
  }
  if (!problem.empty()) {
    const bool type = !dtype;
    Owner::release(view);
    if (type) fail<TypeError>(problem);
    fail<ValueError>(problem);
  }
  Ref<Storage> storage = external_storage(view->buf, static_cast<size_t>(stretch.high * itemsize(*dtype)),
                                          &Owner::release, view);
  storage->readonly = readonly;
  const Tensor t =
      over(std::move(storage), *dtype, {sizes.data(), sizes.size()}, {strides.data(), strides.size()}, 0);
  t->flags |= thread_state.flags_of_new & TensorImpl::kInference;
  return given(t, "from_numpy");
}

}  // namespace adjoint::bind
