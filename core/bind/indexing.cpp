// Reading Python's keys: a basic index becomes the spec of one view, tensors and masks a list for advanced
// indexing.
//
// A key is first flattened into entries (`read_key`), with the ellipsis filled in. The basic entries make a
// spec; where a tensor stands, the spec keeps the whole dimension, and the tensor's place in the view that
// results is remembered. So x[1:3, index, None] is one view and then one advanced index over it.
#include "bind/indexing.h"

#include <memory>
#include <vector>

#include "as_torch.h"
#include "bind/computing.h"
#include "bind/convert.h"
#include "bind/object.h"
#include "bind/operators.h"
#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "ops/indexing.h"
#include "ops/shape.h"
#include "ops/writing.h"
#include "tensor/number.h"
#include "transforms/interpreter.h"

namespace adjoint::bind {

namespace {

struct Key {
  Dims spec;
  bool basic = false;  // the spec does something
  Tensors indices;     // per dimension of the view
  bool advanced = false;
};

struct Release {
  void operator()(PyObject* o) const { Py_DECREF(o); }
};
/// A new reference, owned; throws where there is none.
using Object = std::unique_ptr<PyObject, Release>;
Object owned_object(PyObject* o) {
  if (!o) throw PythonError{};
  return Object(o);
}

int64_t bounded(PyObject* o) { return as_int(o, "a slice index"); }

void push(Dims& spec, Pick kind, int64_t start, int64_t step, int64_t length) {
  spec.push_back(static_cast<int64_t>(kind));
  spec.push_back(start);
  spec.push_back(step);
  spec.push_back(length);
}

/// Dimensions that an entry of the key consumes.
int64_t consumed(PyObject* e, const Tensor& t) {
  if (e == Py_None || e == Py_Ellipsis || PyBool_Check(e)) return 0;
  if (t.defined() && t.dtype() == DType::Bool) return t.dim();
  return 1;
}

/// A list, a range or another sequence that is neither text nor an array.
bool is_sequence(PyObject* e) {
  if (PyList_CheckExact(e) || PyTuple_Check(e)) return true;
  return PySequence_Check(e) && !is_tensor(e) && !PyUnicode_Check(e) && !PyObject_CheckBuffer(e) &&
         !PyObject_HasAttrString(e, "__array__");
}

void warn(const char* what) {
  if (PyErr_WarnEx(PyExc_UserWarning, what, 1) < 0) throw PythonError{};
}

/// Whether a sequence stands for a tuple: one that holds more than numbers does, unless it is long.
bool stands_for_tuple(PyObject* key) {
  if (PyTuple_Check(key) || PyRange_Check(key) || !is_sequence(key)) return false;
  const Py_ssize_t n = PySequence_Size(key);
  if (n < 0) throw PythonError{};
  if (n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const Object item = owned_object(PySequence_GetItem(key, i));
    PyObject* e = item.get();
    if (e == Py_None || e == Py_Ellipsis || PySlice_Check(e) || is_tensor(e) || is_sequence(e)) {
      warn(
          "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead "
          "of x[seq], or x[tensor(seq)] for an index array");
      return true;
    }
  }
  return false;
}

Tensor entry_tensor(PyObject* e) {
  if (is_tensor(e)) return unwrap(e);
  Object list;
  if (is_sequence(e)) {
    if (!PyList_Check(e) && !PyTuple_Check(e)) {
      list = owned_object(PySequence_List(e));
      e = list.get();
    }
  } else if (!PyObject_CheckBuffer(e) && (PyIndex_Check(e) || !PyObject_HasAttrString(e, "__array__"))) {
    return {};
  }
  Tensor t = as_tensor_like(e, DType::Int64);
  if (t.numel() == 0 && !is_integral(t.dtype())) t = given(empty(t.sizes(), DType::Int64), "index");
  return t;
}

/// Bytes as a mask.
Tensor mask_of_bytes(const Tensor& t) {
  if (!t.defined() || t.dtype() != DType::UInt8) return t;
  if (t.dim() > 0 && for_torch().warns_of_old_ways)
    warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
  return copy_of(t, DType::Bool);
}

Key read_key(const Tensor& self, PyObject* key) {
  std::vector<PyObject*> entries;
  Object tuple;
  if (stands_for_tuple(key)) {
    tuple = owned_object(PySequence_Tuple(key));
    key = tuple.get();
  }
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) entries.push_back(PyTuple_GET_ITEM(key, i));
  } else {
    entries.push_back(key);
  }
  Tensors tensors(entries.size());
  int64_t used = 0;
  int ellipses = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    PyObject* e = entries[i];
    if (!PyLong_CheckExact(e) && e != Py_None && e != Py_Ellipsis && !PySlice_Check(e) && !PyBool_Check(e))
      tensors[i] = mask_of_bytes(entry_tensor(e));
    ellipses += e == Py_Ellipsis;
    used += consumed(e, tensors[i]);
  }
  if (ellipses > 1) fail<IndexError>("an index can only have a single ellipsis ('...')");
  if (used > self.dim())
    fail<IndexError>("too many indices for tensor of dimension ", self.dim(), " (found ", used, ")");
  Key k;
  int64_t d = 0;  // dimension of self
  auto keep = [&] {
    push(k.spec, Pick::Slice, 0, 1, self.size(d++));
    k.indices.emplace_back();
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    PyObject* e = entries[i];
    if (e == Py_None) {
      push(k.spec, Pick::NewAxis, 0, 1, 1);
      k.indices.emplace_back();
      k.basic = true;
    } else if (e == Py_Ellipsis) {
      for (int64_t rest = self.dim() - used; rest > 0; --rest) keep();
    } else if (PyBool_Check(e)) {
      // A mask without dimensions: a new axis, all or nothing of it.
      push(k.spec, Pick::NewAxis, 0, 1, 1);
      const int64_t n[] = {e == Py_True ? 1 : 0};
      k.indices.push_back(zeros(n, DType::Int64));
      k.basic = k.advanced = true;
    } else if (PySlice_Check(e)) {
      auto* s = reinterpret_cast<PySliceObject*>(e);
      const int64_t size = self.size(d++);
      const int64_t step = s->step == Py_None ? 1 : bounded(s->step);
      if (step == 0) fail<ValueError>("slice step cannot be zero");
      if (step < 0)
        fail<ValueError>("step must be greater than zero, but it is ", step, "; flip() reverses a dimension");
      auto clip = [&](PyObject* o, int64_t otherwise) {
        if (o == Py_None) return otherwise;
        Py_ssize_t v = 0;
        if (!_PyEval_SliceIndex(o, &v)) throw PythonError{};
        int64_t w = v;
        if (w < 0) w = std::max<int64_t>(0, w + size);
        return std::min(w, size);
      };
      const int64_t start = clip(s->start, 0), stop = clip(s->stop, size);
      const int64_t length = stop > start ? (stop - start + step - 1) / step : 0;
      push(k.spec, Pick::Slice, start, step, length);
      k.indices.emplace_back();
      k.basic = k.basic || length != size;
    } else if (tensors[i].defined()) {
      const Tensor& t = tensors[i];
      if (t.dim() == 0 && t.dtype() != DType::Bool && is_integral(t.dtype()) &&
          !t->is(TensorImpl::kBatched)) {
        push(k.spec, Pick::Integer, item(t, "index").as_int(), 1, 1);
        ++d;
        k.basic = true;
      } else if (t.dim() == 0 && t.dtype() == DType::Bool) {
        push(k.spec, Pick::NewAxis, 0, 1, 1);
        const int64_t n[] = {item(t, "index").as_int() ? 1 : 0};
        k.indices.push_back(zeros(n, DType::Int64));
        k.basic = k.advanced = true;
      } else {
        const int64_t dims = consumed(e, t);
        for (int64_t j = 0; j < dims; ++j) push(k.spec, Pick::Slice, 0, 1, self.size(d++));
        k.indices.push_back(t);
        k.advanced = true;
      }
    } else if (PyIndex_Check(e)) {
      const int64_t at = as_int(e, "index");
      const int64_t size = self.size(d);
      if (at < -size || at >= size)
        fail<IndexError>("index ", at, " is out of bounds for dimension ", d, " with size ", size);
      push(k.spec, Pick::Integer, at, 1, 1);
      ++d;
      k.basic = true;
    } else {
      fail<IndexError>(
          "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
          "(got ",
          Py_TYPE(e)->tp_name, ")");
    }
  }
  while (!k.indices.empty() && !k.indices.back().defined()) k.indices.pop_back();
  return k;
}

bool plain_integer(PyObject* key, const Tensor& self) { return PyLong_CheckExact(key) && self.dim() > 0; }

}  // namespace

PyObject* tensor_getitem(const Tensor& self, PyObject* key) {
  if (PyLong_CheckExact(key)) {
    if (self.dim() == 0)
      fail<IndexError>(
          "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a "
          "number");
    const int64_t spec[] = {static_cast<int64_t>(Pick::Integer), as_int(key, "index"), 1, 1};
    return wrap(call<BasicIndex>(self, IntList(spec)));
  }
  Key k = read_key(self, key);
  if (!k.advanced) return wrap(call<BasicIndex>(self, k.spec.span()));
  const Tensor part = k.basic ? call<BasicIndex>(self, k.spec.span()) : self;
  Tensor result;
  {
    const Computing c(part.numel() >= kUnlockFrom, [&](auto&& add) {
      add(part.get());
      for (const Tensor& t : k.indices)
        if (t.defined()) add(t.get());
    });
    result = call<Index>(part, TensorList(k.indices));
  }
  return wrap(std::move(result));
}

/// Whether a write is that of one number where a mask is true, whose type is converted.
bool fills_by_mask(const Tensors& indices, const Tensor& value) {
  int masks = 0, others = 0;
  for (const Tensor& t : indices)
    if (t.defined()) ++(t.dtype() == DType::Bool ? masks : others);
  return masks == 1 && others == 0 && value.numel() == 1;
}

int tensor_setitem(const Tensor& self, PyObject* key, PyObject* value) {
  Key k;
  if (plain_integer(key, self)) {
    push(k.spec, Pick::Integer, as_int(key, "index"), 1, 1);
    const int64_t size = self.size(0), at = k.spec[1];
    if (at < -size || at >= size)
      fail<IndexError>("index ", at, " is out of bounds for dimension 0 with size ", size);
  } else {
    k = read_key(self, key);
  }
  Tensor v = as_tensor_like(value, self.dtype());
  if (k.advanced && is_complex(v.dtype()) && !is_complex(self.dtype()) && !v.is_wrapped())
    fail("value cannot be converted to type ", name_of(self.dtype()),
         " without overflow: it is complex; take .real first");
  if (k.advanced && v.dtype() != self.dtype() && is_tensor(value) && !fills_by_mask(k.indices, v))
    fail("Index put requires the source and destination dtypes match, got ", type_name_of(self.dtype()),
         " for the destination and ", type_name_of(v.dtype()), " for the source; convert it with .to(",
         name_of(self.dtype()), ")");
  refuse_overflow(v, rounding_dtype(self.dtype()), "__setitem__");
  if (!k.advanced) {
    call<SetBasic>(self, v, k.spec.span());
    return 0;
  }
  if (!k.basic) {
    call<IndexPut>(self, v, TensorList(k.indices), false);
    return 0;
  }
  // Through a copy of the part: read, write by index, put back. The write is recorded as one on self.
  Tensor part = call<BasicIndex>(self, k.spec.span());
  part = call<Clone>(part);
  call<IndexPut>(part, v, TensorList(k.indices), false);
  call<SetBasic>(self, part, k.spec.span());
  return 0;
}

}  // namespace adjoint::bind
