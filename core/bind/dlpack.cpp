// DLPack: memory passed between array libraries without copying.
//
// The structures below are the protocol's binary interface: version 1, and the unversioned one from before
// it. A capsule is named for what it holds; its consumer renames it ("used_…") and from then on owes the call
// of the deleter. Start reading at `to_dlpack`.
#include <memory>

#include "bind/buffer.h"
#include "bind/caster.h"
#include "for_size.h"
#include "tensor/device.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

struct DLDevice {
  int32_t type;
  int32_t id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null means row-major
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLManagedVersioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr int32_t kCpu = 1, kCudaHost = 3;
enum Code : uint8_t { kInt, kUInt, kFloat, kOpaque, kBFloat, kComplex, kBool };

template <class M>
inline constexpr bool is_versioned = std::is_same_v<M, DLManagedVersioned>;
template <class M>
inline constexpr const char* kName = is_versioned<M> ? "dltensor_versioned" : "dltensor";
template <class M>
inline constexpr const char* kUsed = is_versioned<M> ? "used_dltensor_versioned" : "used_dltensor";

DLDataType type_of(DType d) {
  const uint8_t code = d == DType::Bool       ? kBool
                       : d == DType::UInt8    ? kUInt
                       : d == DType::BFloat16 ? kBFloat
                       : is_integral(d)       ? kInt
                       : is_complex(d)        ? kComplex
                                              : kFloat;
  return {code, static_cast<uint8_t>(8 * itemsize(d)), 1};
}

DType dtype_of(DLDataType t) {
  if (t.lanes == 1)
    for (int d = 0; d < kDTypes; ++d) {
      const DLDataType known = type_of(static_cast<DType>(d));
      if (known.code == t.code && known.bits == t.bits) return static_cast<DType>(d);
    }
  fail<TypeError>("from_dlpack(): elements of code ", static_cast<int>(t.code), " with ",
                  static_cast<int>(t.bits), " bits and ", t.lanes, " lanes have no counterpart here");
}

/// What is handed out: the structure, the memory that it keeps alive, and its shape.
template <class M>
struct Exported {
  M managed{};
  std::optional<Loan> loan;
  Dims sizes, strides;
};

template <class M>
PyObject* export_as(const Tensor& t, bool copied) {
  auto e = std::make_unique<Exported<M>>();
  e->sizes = Dims(t.sizes());
  e->strides = Dims(t.strides());
  DLTensor& d = e->managed.tensor;
  refuse_memory(t, "__dlpack__");
  if (device_of(t) != Device::CPU) {
    PyErr_Format(PyExc_BufferError, "Cannot pack tensors on %s", name_of(device_of(t)).c_str());
    throw PythonError{};
  }
  e->loan.emplace(t);
  d.data = t.bytes();
  d.device = {kCpu, 0};
  d.ndim = static_cast<int32_t>(t.dim());
  d.dtype = type_of(t.dtype());
  d.shape = e->sizes.data();
  d.strides = e->strides.data();
  e->managed.context = e.get();
  // Consumers may call it from any thread; the count of loans is under the interpreter's lock.
  e->managed.deleter = [](M* m) {
    if (!Py_IsInitialized()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    delete static_cast<Exported<M>*>(m->context);
    PyGILState_Release(state);
  };
  if constexpr (is_versioned<M>) {
    e->managed.major = 1;
    e->managed.minor = 0;
    e->managed.flags = (t->storage->readonly ? kReadOnly : 0) | (copied ? kCopied : 0);
  }
  // A capsule that nobody consumed frees what it holds.
  PyObject* capsule = PyCapsule_New(&e->managed, kName<M>, [](PyObject* c) {
    if (!PyCapsule_IsValid(c, kName<M>)) return;
    auto* m = static_cast<M*>(PyCapsule_GetPointer(c, kName<M>));
    m->deleter(m);
  });
  if (!capsule) throw PythonError{};
  (void)e.release();
  return capsule;
}

template <class M>
Tensor import_as(PyObject* capsule) {
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, kName<M>));
  if (!m) throw PythonError{};
  bool readonly = false;
  if constexpr (is_versioned<M>) {
    if (m->major != 1)
      fail<ValueError>("from_dlpack(): version ", m->major, ".", m->minor,
                       " of the protocol is not supported, only 1.x");
    readonly = m->flags & kReadOnly;
  }
  const DLTensor& d = m->tensor;
  if (d.device.type != kCpu && d.device.type != kCudaHost)
    fail<ValueError>("from_dlpack(): the memory is on device type ", d.device.type,
                     "; only the CPU (type 1) is supported. Copy it there first");
  const DType dtype = dtype_of(d.dtype);
  if (d.ndim < 0 || d.ndim > kMaxDims)
    fail<ValueError>("from_dlpack(): the capsule has ", d.ndim, " dimensions, and a tensor has 0 to ",
                     kMaxDims);
  if (d.ndim && !d.shape) fail<ValueError>("from_dlpack(): the capsule has dimensions and no sizes of them");
  const Dims sizes(IntList(d.shape, static_cast<size_t>(d.ndim)));
  count_of(sizes.span(), "from_dlpack");
  Dims strides = contiguous_strides(sizes.span());
  for (int i = 0; i < d.ndim && d.strides; ++i) {
    strides[static_cast<size_t>(i)] = d.strides[i];
    if (d.strides[i] < 0)
      fail<ValueError>("from_dlpack(): negative strides are not supported; copy the array first");
  }
  const auto nbytes = static_cast<size_t>(
      stretch_of(sizes.span(), strides.span(), 0, itemsize(dtype), "from_dlpack").high * itemsize(dtype));
  if (nbytes && !d.data)
    fail<ValueError>("from_dlpack(): the capsule has elements of ", nbytes,
                     " bytes and no memory (its address is 0)");
  Ref<Storage> storage = external_storage(
      static_cast<char*>(d.data) + d.byte_offset, nbytes,
      [](void* context) {
        auto* managed = static_cast<M*>(context);
        if (!managed->deleter || !python_is_there()) return;
        const Locked python;
        managed->deleter(managed);
      },
      m);
  storage->readonly = readonly;
  if (PyCapsule_SetName(capsule, kUsed<M>) < 0) throw PythonError{};
  const Tensor t =
      over(std::move(storage), dtype, {sizes.data(), sizes.size()}, {strides.data(), strides.size()}, 0);
  t->flags |= thread_state.flags_of_new & TensorImpl::kInference;
  return given(t, "from_dlpack");
}

}  // namespace

PyObject* to_dlpack(const Tensor& t, bool versioned, bool copied) {
  tell_read(t, "__dlpack__");
  return versioned ? export_as<DLManagedVersioned>(t, copied) : export_as<DLManaged>(t, copied);
}

Tensor from_dlpack_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName<DLManagedVersioned>)) return import_as<DLManagedVersioned>(capsule);
  if (PyCapsule_IsValid(capsule, kName<DLManaged>)) return import_as<DLManaged>(capsule);
  if (PyCapsule_CheckExact(capsule))
    fail("from_dlpack(): the capsule is named '",
         PyCapsule_GetName(capsule) ? PyCapsule_GetName(capsule) : "",
         "'; expected 'dltensor' or 'dltensor_versioned'. A capsule can be consumed only once");
  fail<TypeError>("from_dlpack(): expected an object with __dlpack__, or a capsule, but found ",
                  Py_TYPE(capsule)->tp_name);
}

void bind_dlpack(nb::module_& m) {
  m.def("_to_dlpack", [](const Tensor& t, bool versioned, bool copied) {
    return nb::steal(to_dlpack(t, versioned, copied));
  });
  m.def(
      "_from_dlpack", [](nb::handle capsule) { return from_dlpack_capsule(capsule.ptr()); },
      nb::arg("capsule").none());
}

}  // namespace adjoint::bind
