#include "bind/tensor_members.h"

#include "autograd/many.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "bind/batching.h"
#include "bind/buffer.h"
#include "bind/computing.h"
#include "bind/convert.h"
#include "bind/indexing.h"
#include "bind/node_object.h"
#include "bind/object.h"
#include "bind/overrides.h"
#include "bind/replay.h"
#include "bind/replay_numbers.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "tensor/device.h"
#include "tensor/sparse.h"
#include "transforms/interpreter.h"

namespace adjoint::bind {

namespace {

// --- attributes -----------------------------------------------------------------------------------

PyObject* get_shape(PyObject* s, void*) { return size_from(unwrap(s).sizes()); }
PyObject* get_dtype(PyObject* s, void*) { return Py_NewRef(dtype_object(unwrap(s).dtype())); }
PyObject* get_ndim(PyObject* s, void*) { return PyLong_FromLongLong(unwrap(s).dim()); }
PyObject* get_requires_grad(PyObject* s, void*) { return PyBool_FromLong(unwrap(s).requires_grad()); }
int set_requires(PyObject* s, PyObject* v, void*) {
  return guard_set([&] {
    if (!v) fail("Deleting requires_grad is not allowed: set it to False");
    if (!PyBool_Check(v)) fail("requires_grad must be a bool");
    // Of a result it cannot be set at all, not even to what it is.
    set_requires_grad(unwrap(s), v == Py_True && is_leaf(unwrap(s)));
  });
}
PyObject* get_is_leaf(PyObject* s, void*) {
  return guard([&] { return PyBool_FromLong(is_leaf(unwrap(s))); });
}
PyObject* get_retains_grad(PyObject* s, void*) {
  return PyBool_FromLong(unwrap(s)->is(TensorImpl::kRetainsGrad));
}
PyObject* get_output_nr(PyObject* s, void*) {
  return guard([&] {
    if (const Node* const node = history(unwrap(s))) graph_in_recorders(*node);
    return PyLong_FromLong(unwrap(s)->output_nr);
  });
}
PyObject* get_version(PyObject* s, void*) {
  return guard([&] {
    if (unwrap(s)->is(TensorImpl::kInference)) fail("Inference tensors do not track version counter.");
    tell_recorders("it asks for the version of a tensor");
    return PyLong_FromUnsignedLong(version_of_both(unwrap(s)));
  });
}
PyObject* get_base(PyObject* s, void*) {
  if (unwrap(s)->is(TensorImpl::kView)) tell_recorders("it asks for what a tensor is a view of");
  return wrap(base_of(unwrap(s)));
}
PyObject* get_itemsize(PyObject* s, void*) { return PyLong_FromLongLong(unwrap(s).itemsize()); }
PyObject* get_nbytes(PyObject* s, void*) {
  return PyLong_FromLongLong(unwrap(s).itemsize() * unwrap(s).numel());
}
PyObject* get_grad_fn(PyObject* s, void*) {
  return guard([&] {
    const Tensor& t = unwrap(s);
    Node* const node = history(t);
    if (node) graph_in_recorders(*node);
    // What has taken the place of a replayed call's node is where hooks are to be set.
    return node ? wrap_node(resolved({Ref<Node>::share(node), t->output_nr}).node) : Py_NewRef(Py_None);
  });
}
// A storage of its own over the same bytes, so that writes through it are not counted.
PyObject* get_data(PyObject* s, void*) {
  return guard([&] {
    const Tensor& t = unwrap(s);
    if (is_batched(t)) return wrap(detach(t));
    Ref<Storage> storage = recounted_storage(Ref<Storage>::share(t->storage), 0, {});
    storage->checked = true;
    const Tensor data = over(std::move(storage), t.dtype(), t.sizes(), t.strides(), t.offset());
    data->flags |= t->flags & TensorImpl::kInference;
    return wrap(data);
  });
}
int set_data(PyObject* s, PyObject* v, void*) {
  return guard_set([&] {
    if (!v) fail("Deleting tensor data is not allowed. Delete the tensor, or set its data to another tensor");
    if (!is_tensor(v)) fail<TypeError>("Variable data has to be a tensor, but got ", Py_TYPE(v)->tp_name);
    const Tensor& t = unwrap(s);
    const Tensor& from = unwrap(v);
    const Replacing replacing(t);
    if (is_batched(t) || is_batched(from))
      fail<NotImplemented>(
          "vmap: mutating directly with `.data` under vmap transform is not allowed: it or what it is set to "
          "is mapped over; use copy_()");
    if (t.requires_grad() && !is_differentiable(from.dtype()))
      fail("data set to a tensor that requires gradients must be floating point or complex dtype");
    // Writes are counted on from where the tensor's own count stands, together with those to its views, if it
    // has any.
    Ref<Storage> storage = Ref<Storage>::share(from->storage);
    if (!t->is(TensorImpl::kInference)) {
      Storage* old = t->storage;
      const bool views =
          counter_of(*old) || (old->viewed() && old->refcount.load(std::memory_order_relaxed) > 1);
      storage = recounted_storage(std::move(storage), t.version(),
                                  views ? Ref<Storage>::share(old) : Ref<Storage>());
      remember_before_data(*storage, *t.get());
    }
    if (device_of(t) != device_of(from) || is_sparse(t) != is_sparse(from))
      fail(
          "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
          "tensor type: one is on ",
          name_of(device_of(t)), " and the other on ", name_of(device_of(from)),
          is_sparse(t) == is_sparse(from) ? "" : ", and one of them is sparse");
    tell_replaced(t, "set_data", from);
    t->replace_storage(std::move(storage), from->data, from.dtype(), from.sizes(), from.strides().data());
  });
}
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_device_number(PyObject* s, void*) {
  return PyLong_FromLong(static_cast<long>(device_of(unwrap(s))));
}
PyObject* get_layout_number(PyObject* s, void*) {
  return guard([&] {
    return PyLong_FromLong(is_sparse(unwrap(s)) ? 1 + static_cast<long>(sparse_parts(unwrap(s)).layout) : 0);
  });
}
template <SparseLayout layout>
PyObject* get_is_sparse(PyObject* s, void*) {
  return guard(
      [&] { return PyBool_FromLong(is_sparse(unwrap(s)) && sparse_parts(unwrap(s)).layout == layout); });
}
PyObject* get_is_meta(PyObject* s, void*) { return PyBool_FromLong(is_meta(unwrap(s))); }

PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"shape", get_shape, nullptr, "Sizes of the dimensions.", nullptr},
    {"dtype", get_dtype, nullptr, "Type of the elements.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"requires_grad", get_requires_grad, set_requires,
     "Whether gradients with respect to this tensor are wanted.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded operation made this tensor.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether this non-leaf tensor keeps its gradient.", nullptr},
    {"grad", get_grad, set_grad, "The gradient that has been accumulated, or None.", nullptr},
    {"grad_dtype", get_grad_dtype, set_grad_dtype,
     "The dtype that gradients of this leaf are converted to: its own by default, None for any.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that made this tensor, or None for a leaf.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which result of grad_fn this is.", nullptr},
    {"data", get_data, set_data, "The same values without history.", nullptr},
    {"_base", get_base, nullptr, "The tensor that this one is a view of, or None.", nullptr},
    {"_version", get_version, nullptr, "How often the storage was written in place.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"is_cuda", get_false, nullptr, nullptr, nullptr},
    {"is_sparse", get_is_sparse<SparseLayout::Coo>, nullptr, "Whether the layout is sparse_coo.", nullptr},
    {"is_quantized", get_false, nullptr, nullptr, nullptr},
    {"is_sparse_csr", get_is_sparse<SparseLayout::Csr>, nullptr, "Whether the layout is sparse_csr.",
     nullptr},
    {"is_nested", get_false, nullptr, nullptr, nullptr},
    {"is_mkldnn", get_false, nullptr, nullptr, nullptr},
    {"is_ipu", get_false, nullptr, nullptr, nullptr},
    {"is_maia", get_false, nullptr, nullptr, nullptr},
    {"is_mps", get_false, nullptr, nullptr, nullptr},
    {"is_mtia", get_false, nullptr, nullptr, nullptr},
    {"is_vulkan", get_false, nullptr, nullptr, nullptr},
    {"is_xla", get_false, nullptr, nullptr, nullptr},
    {"is_xpu", get_false, nullptr, nullptr, nullptr},
    {"is_meta", get_is_meta, nullptr, "Whether there are no elements, only a shape and a dtype.", nullptr},
    {"_device_number", get_device_number, nullptr, nullptr, nullptr},
    {"_layout_number", get_layout_number, nullptr, nullptr, nullptr},
    {}};

// Subclasses and modes may answer for each: these read and set an attribute of `getset` where they do not.
PyObject* get_member(PyObject* s, void* member) {
  const auto& m = *static_cast<const PyGetSetDef*>(member);
  if (may_be_overridden(s) && overridden(&s, 1)) return ask_attribute(m.name, "__get__", &s, 1);
  return m.get(s, nullptr);
}
int set_member(PyObject* s, PyObject* v, void* member) {
  const auto& m = *static_cast<const PyGetSetDef*>(member);
  PyObject* const args[] = {s, v};
  if (!v || !overridden(args, 2)) return m.set(s, v, nullptr);
  PyObject* r = ask_attribute(m.name, "__set__", args, 2);
  Py_XDECREF(r);
  return r ? 0 : -1;
}

// --- methods --------------------------------------------------------------------------------------

PyObject* m_dim(PyObject* s, PyObject*) { return PyLong_FromLongLong(unwrap(s).dim()); }
PyObject* m_numel(PyObject* s, PyObject*) { return PyLong_FromLongLong(unwrap(s).numel()); }
PyObject* m_element_size(PyObject* s, PyObject*) { return PyLong_FromLongLong(unwrap(s).itemsize()); }
/// Refuse a sparse tensor where torch says of it that there is no memory to point to.
void need_elements(const Tensor& t) {
  if (is_sparse(t))
    fail("Cannot access data pointer of Tensor that doesn't have storage: its layout is ",
         name_of(sparse_parts(t).layout), "; use .to_dense(), or .values()");
}
PyObject* m_data_ptr(PyObject* s, PyObject*) {
  return guard([&] {
    need_elements(unwrap(s));
    tell_read(unwrap(s), "data_ptr");
    refuse_memory(unwrap(s), "data_ptr");
    return PyLong_FromVoidPtr(unwrap(s).numel() && !is_meta(unwrap(s)) ? unwrap(s).bytes() : nullptr);
  });
}
PyObject* m_storage_offset(PyObject* s, PyObject*) {
  tell_recorders("it asks where in its storage a tensor begins");
  return PyLong_FromLongLong(unwrap(s).offset());
}
PyObject* m_is_contiguous(PyObject* s, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  if (!nargs && !names) return PyBool_FromLong(lies_in_order(unwrap(s)));
  if (nargs + (names ? PyTuple_GET_SIZE(names) : 0) != 1 ||
      (names && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "memory_format") != 0))
    return PyErr_Format(PyExc_TypeError, "is_contiguous() takes one argument, memory_format");
  PyObject* module = PyImport_ImportModule("adjoint._tensor.memory_format");
  PyObject* result = module ? PyObject_CallMethod(module, "is_laid", "OO", s, args[0]) : nullptr;
  Py_XDECREF(module);
  return result;
}
PyObject* m_is_floating(PyObject* s, PyObject*) { return PyBool_FromLong(unwrap(s).is_floating()); }
PyObject* m_is_complex(PyObject* s, PyObject*) { return PyBool_FromLong(unwrap(s).is_complex()); }
PyObject* m_item(PyObject* s, PyObject*) {
  return guard([&] {
    const Scalar v = item(unwrap(s), "item");
    if (thread_state.watched) [[unlikely]]
      if (PyObject* number = number_of_reading(v)) return number;
    return from_scalar(v);
  });
}
PyObject* m_detach(PyObject* s, PyObject*) {
  return guard([&] { return wrap(detach(unwrap(s))); });
}
PyObject* m_retain_grad(PyObject* s, PyObject*) {
  return guard([&] {
    retain_grad(unwrap(s));
    Py_RETURN_NONE;
  });
}
PyObject* m_is_view(PyObject* s, PyObject*) { return PyBool_FromLong(unwrap(s)->is(TensorImpl::kView)); }
PyObject* m_is_inference(PyObject* s, PyObject*) {
  return PyBool_FromLong(unwrap(s)->is(TensorImpl::kInference));
}
PyObject* m_storage(PyObject* s, PyObject*) {
  return guard([&] {
    refuse_memory(unwrap(s), "storage");
    const Storage& storage = *unwrap(s)->storage;
    return Py_BuildValue("(NnO)", PyLong_FromVoidPtr(storage.data), static_cast<Py_ssize_t>(storage.nbytes),
                         storage.readonly ? Py_True : Py_False);
  });
}
PyObject* m_bump(PyObject* s, PyObject*) {
  count_write(unwrap(s), "_bump_version");
  Py_RETURN_NONE;
}

PyObject* one_of(PyObject* args, IntList values, const char* op, bool as_size) {
  PyObject* d = nullptr;
  if (!PyArg_UnpackTuple(args, op, 0, 1, &d)) return nullptr;
  if (!d || d == Py_None) return as_size ? size_from(values) : tuple_from(values);
  return guard([&] {
    const int64_t dim = as_int(d, "dim");
    if (values.empty())
      fail<IndexError>(op, "(): Dimension specified as ", dim, " but tensor has no dimensions");
    return PyLong_FromLongLong(
        values[static_cast<size_t>(wrap_dim(dim, static_cast<int64_t>(values.size()), op))]);
  });
}
PyObject* kw_one_of(PyObject* args, PyObject* kwargs, IntList values, const char* op, bool as_size) {
  if (!kwargs || !PyDict_Size(kwargs)) return one_of(args, values, op, as_size);
  PyObject* d = PyDict_GetItemString(kwargs, "dim");
  if (!d || PyDict_Size(kwargs) != 1 || PyTuple_GET_SIZE(args))
    return PyErr_Format(PyExc_TypeError, "%s() takes one argument, dim", op);
  PyObject* packed = PyTuple_Pack(1, d);
  PyObject* r = one_of(packed, values, op, as_size);
  Py_DECREF(packed);
  return r;
}
PyObject* m_size(PyObject* s, PyObject* args, PyObject* kw) {
  return kw_one_of(args, kw, unwrap(s).sizes(), "size", true);
}
PyObject* m_stride(PyObject* s, PyObject* args, PyObject* kw) {
  if (is_sparse(unwrap(s)))
    return kw_one_of(args, kw, Dims(unwrap(s).sizes().size(), 0).span(), "stride", false);
  return kw_one_of(args, kw, unwrap(s).strides(), "stride", false);
}

PyObject* m_requires_grad_(PyObject* s, PyObject* args, PyObject* kw) {
  static const char* names[] = {"requires_grad", nullptr};
  int on = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kw, "|p", const_cast<char**>(names), &on)) return nullptr;
  return guard([&] {
    const Tensor& t = unwrap(s);
    set_requires_grad(t, on);
    return Py_NewRef(s);
  });
}

PyObject* list_from(const char* data, DType dtype, IntList sizes, IntList strides) {
  if (sizes.empty()) return from_scalar(read_element(data, dtype));
  PyObject* list = PyList_New(sizes[0]);
  const int64_t step = strides[0] * itemsize(dtype);
  for (int64_t i = 0; list && i < sizes[0]; ++i) {
    PyObject* e = (i & 0xffff) == 0xffff && PyErr_CheckSignals() < 0
                      ? nullptr
                      : list_from(data + i * step, dtype, sizes.subspan(1), strides.subspan(1));
    if (!e) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, i, e);
  }
  return list;
}
PyObject* m_tolist(PyObject* s, PyObject*) {
  return guard([&] {
    const Tensor& t = unwrap(s);
    need_elements(t);
    tell_read(t, "tolist");
    refuse_memory(t, "tolist");
    if (is_meta(t)) refuse_meta(t.dim() ? "copy" : "item");
    const Tensor here = device_of(t) == Device::CPU ? t : copy_of(t);
    return list_from(here.bytes(), here.dtype(), here.sizes(), here.strides());
  });
}

// Likewise for methods and for what Python's protocols call: `ask` answers where somebody does.
/// By its address in the list of methods.
const char* name_of_method(PyCFunction method) {
  for (const PyMethodDef& m : member_methods())
    if (m.ml_meth == method) return m.ml_name;
  return "?";
}
PyObject* ask_member(PyCFunction method, PyObject* s, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* names) {
  std::vector<PyObject*> all{s};
  all.insert(all.end(), args, args + nargs + (names ? PyTuple_GET_SIZE(names) : 0));
  return ask_method(name_of_method(method), all.data(), nargs + 1, names);
}
PyObject* ask_spread(PyCFunction method, PyObject* s, PyObject* args, PyObject* kw) {
  std::vector<PyObject*> all(PySequence_Fast_ITEMS(args),
                             PySequence_Fast_ITEMS(args) + PyTuple_GET_SIZE(args));
  PyObject* names = kw ? PySequence_Tuple(kw) : nullptr;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    all.push_back(PyDict_GetItem(kw, PyTuple_GET_ITEM(names, i)));
  PyObject* r = ask_member(method, s, all.data(), PyTuple_GET_SIZE(args), names);
  Py_XDECREF(names);
  return r;
}

PyObject* m_complex(PyObject* s, PyObject*) {
  return guard([&] {
    const auto z = number_of(unwrap(s), "complex").as_complex();
    return PyComplex_FromDoubles(z.re, z.im);
  });
}

template <class F>
PyCFunction method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

/// A method as the type has it: F, where nobody else answers. A second name of F has another number.
template <auto F, int second>
struct Guarded;
template <PyObject* (*F)(PyObject*, PyObject*), int second>
struct Guarded<F, second> {
  static PyObject* call(PyObject* s, PyObject* none) {
    return may_be_overridden(s) && overridden(&s, 1) ? ask_member(method(call), s, nullptr, 0, nullptr)
                                                     : F(s, none);
  }
};
template <PyObject* (*F)(PyObject*, PyObject*, PyObject*), int second>
struct Guarded<F, second> {
  static PyObject* call(PyObject* s, PyObject* args, PyObject* kw) {
    return overridden(&s, 1) || overridden(PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args))
               ? ask_spread(method(call), s, args, kw)
               : F(s, args, kw);
  }
};
template <PyObject* (*F)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*), int second>
struct Guarded<F, second> {
  static PyObject* call(PyObject* s, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
    return may_be_overridden(s) && overridden(&s, 1) ? ask_member(method(call), s, args, nargs, names)
                                                     : F(s, args, nargs, names);
  }
};
template <auto F, int second = 0>
PyCFunction guarded() {
  return method(Guarded<F, second>::call);
}

}  // namespace

/// What `help` says of a method: what it gives, and an example.
#define ADJOINT_DOC(says, returns, call, prints)                                                      \
  says "\n\nReturns\n-------\n" returns "\n\nExamples\n--------\n>>> import adjoint as ad\n>>> " call \
       "\n" prints

void add_member_slots(std::vector<PyType_Slot>& slots) {
  static std::vector<PyGetSetDef> members(std::begin(getset), std::end(getset));
  for (size_t i = 0; members[i].name; ++i)
    if (getset[i].get != PyObject_GenericGetDict)
      members[i] = {getset[i].name, get_member, getset[i].set ? set_member : nullptr, getset[i].doc,
                    &getset[i]};
  slots.push_back({Py_tp_getset, members.data()});
  slots.push_back({Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)});
  slots.push_back({Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)});
  add_protocol_slots(slots);
}

std::vector<PyMethodDef> member_methods() {
  const int kw = METH_VARARGS | METH_KEYWORDS;
  return {
      {"dim", guarded<m_dim>(), METH_NOARGS,
       ADJOINT_DOC("Number of dimensions.", "int", "ad.zeros(2, 3).dim()", "2")},
      {"ndimension", guarded<m_dim, 1>(), METH_NOARGS,
       ADJOINT_DOC("Number of dimensions.", "int", "ad.zeros(2, 3).ndimension()", "2")},
      {"numel", guarded<m_numel>(), METH_NOARGS,
       ADJOINT_DOC("Number of elements.", "int", "ad.zeros(2, 3).numel()", "6")},
      {"nelement", guarded<m_numel, 1>(), METH_NOARGS,
       ADJOINT_DOC("Number of elements.", "int", "ad.zeros(2, 3).nelement()", "6")},
      {"element_size", guarded<m_element_size>(), METH_NOARGS,
       ADJOINT_DOC("Bytes per element.", "int", "ad.zeros(2).element_size()", "4")},
      {"data_ptr", guarded<m_data_ptr>(), METH_NOARGS,
       ADJOINT_DOC("Address of the first element.", "int",
                   "x = ad.zeros(2)\n>>> x[1:].data_ptr() - x.data_ptr()", "4")},
      {"storage_offset", guarded<m_storage_offset>(), METH_NOARGS,
       ADJOINT_DOC("Elements before the first one in the storage.", "int", "ad.zeros(3)[2:].storage_offset()",
                   "2")},
      {"is_contiguous", guarded<m_is_contiguous>(), METH_FASTCALL | METH_KEYWORDS,
       ADJOINT_DOC("Whether the elements lie in row-major order without gaps, or in that of a memory format.",
                   "bool", "ad.zeros(2, 3).t().is_contiguous()", "False")},
      {"is_floating_point", guarded<m_is_floating>(), METH_NOARGS,
       ADJOINT_DOC("Whether the dtype is a floating-point type.", "bool", "ad.zeros(2).is_floating_point()",
                   "True")},
      {"is_complex", guarded<m_is_complex>(), METH_NOARGS,
       ADJOINT_DOC("Whether the dtype is complex.", "bool", "ad.zeros(2).is_complex()", "False")},
      {"size", guarded<m_size>(), kw,
       ADJOINT_DOC("Sizes of all dimensions, or of one.", "Size, or int of one dimension",
                   "ad.zeros(2, 3).size(1)", "3")},
      {"stride", guarded<m_stride>(), kw,
       ADJOINT_DOC("Strides of all dimensions, or of one, in elements.",
                   "tuple of ints, or int of one dimension", "ad.zeros(2, 3).stride()", "(3, 1)")},
      {"item", guarded<m_item>(), METH_NOARGS,
       ADJOINT_DOC(
           "The value of a tensor of one element as a Python number; another number of elements is an error.",
           "bool, int, float or complex", "ad.tensor([1.5]).item()", "1.5")},
      {"tolist", guarded<m_tolist>(), METH_NOARGS,
       ADJOINT_DOC("The values as nested lists of Python numbers.",
                   "list, or number of a tensor without dimensions", "ad.tensor([[1, 2], [3, 4]]).tolist()",
                   "[[1, 2], [3, 4]]")},
      {"detach", guarded<m_detach>(), METH_NOARGS,
       ADJOINT_DOC("The same values without history.", "Tensor\n    A view that does not require grad.",
                   "ad.ones(2, requires_grad=True).detach().requires_grad", "False")},
      {"requires_grad_", guarded<m_requires_grad_>(), kw,
       ADJOINT_DOC("Set whether gradients are wanted: by default, they are.", "Tensor\n    `self`.",
                   "ad.ones(2).requires_grad_()", "tensor([1., 1.], requires_grad=True)")},
      {"retain_grad", guarded<m_retain_grad>(), METH_NOARGS,
       ADJOINT_DOC(
           "Let this non-leaf tensor keep its gradient.", "None",
           "y = ad.ones(2, requires_grad=True) * 2\n>>> y.retain_grad()\n>>> y.sum().backward()\n>>> y.grad",
           "tensor([1., 1.])")},
      {"is_inference", guarded<m_is_inference>(), METH_NOARGS,
       ADJOINT_DOC("Whether it was made in inference mode.", "bool", "ad.zeros(2).is_inference()", "False")},
      {"_storage", m_storage, METH_NOARGS, "Address and bytes of the storage, and whether it is read-only."},
      {"_is_view", m_is_view, METH_NOARGS, nullptr},
      {"_bump_version", m_bump, METH_NOARGS, nullptr},
      {"__complex__", guarded<m_complex>(), METH_NOARGS, nullptr},
      {"_make_subclass", method(make_subclass), kw | METH_STATIC,
       "A tensor of a subclass over the same memory."},
  };
}

}  // namespace adjoint::bind
