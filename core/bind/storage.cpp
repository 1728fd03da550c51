// What copying and pickling need: a tensor's memory as bytes, and a tensor over given bytes.
#include <set>

#include "autograd/node.h"
#include "autograd/views.h"
#include "bind/caster.h"
#include "bind/computing.h"
#include "bind/operators.h"
#include "dispatch/forms.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "tensor/device.h"
#include "tensor/number.h"
#include "tensor/sparse.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"
#include "transforms/sparse.h"
#include "transforms/tangents.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

Tensor bytes_over(const Tensor& t, int64_t offset, int64_t count) {
  if (is_sparse(t)) refuse_sparse(t, "storage");
  const int64_t sizes[] = {count}, strides[] = {1};
  return over(Ref<Storage>::share(t->storage), DType::UInt8, sizes, strides, offset);
}

// The same tensor as an object of a subclass; the old object stands for an alias from now on.
nb::object retype(nb::handle type, nb::handle object) {
  if (!PyType_Check(type.ptr()) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), tensor_type))
    fail<TypeError>("as_subclass(): expected a subclass of Tensor");
  auto* old = reinterpret_cast<TensorObject*>(object.ptr());
  Tensor moved = Tensor::steal(old->impl);
  old->impl = alias(moved).detach();
  old->impl->wrapper = old;
  moved->wrapper = nullptr;
  return nb::steal(wrap_as(reinterpret_cast<PyTypeObject*>(type.ptr()), std::move(moved)));
}

void resize_storage(const Tensor& t, int64_t bytes) {
  const Replacing replacing(t);
  Storage& old = *t->storage;
  if (bytes < 0) fail("resize_(): a storage cannot have ", bytes, " bytes");
  if (owner_of_bytes(&old)->loans)
    fail(
        "Trying to resize storage that is not resizable: an array, a buffer or a capsule (of numpy(), "
        "memoryview() or __dlpack__()) shows its ",
        old.nbytes, " bytes and would point to memory that is gone. Delete it first, or clone() the tensor");
  if (old.readonly || old.kind == Storage::Kind::External)
    fail(
        "Trying to resize storage that is not resizable: its memory belongs to somebody else, such as an "
        "array. clone() the tensor first");
  const size_t wanted = runtime::checked_bytes(bytes, 1);
  tell_replaced(t, "resize_");
  if (old.resize(wanted)) return;
  // It has to move, and nobody else may point to it.
  if (old.refcount.load(std::memory_order_acquire) != 1)
    fail("resize_(): the storage has ", old.capacity, " bytes and would have to move for ", bytes,
         " of them, but other tensors share it. Resize it before they are made, or clone() what is to grow");
  const DeviceScope scope(old.device);
  const int64_t sizes[] = {bytes};
  const Tensor longer = empty(sizes, DType::UInt8);
  on<&lengthen>(Out(longer), bytes_over(t, 0, static_cast<int64_t>(old.nbytes)));
  Ref<Storage> moved = Ref<Storage>::share(longer->storage);
  moved->version.store(old.version.load() + 1);
  char* const first = moved->data + (t->data - old.data);
  t->replace_storage(std::move(moved), first, t.dtype(), t.sizes(), t.strides().data());
}

// A name that stays: the storage remembers who wrote it.
const char* lasting(const std::string& name) {
  static auto& names = *new std::set<std::string>;
  return names.insert(name).first->c_str();
}

}  // namespace

void bind_storage(nb::module_& m) {
  m.def(
      "_storage_bytes",
      [](const Tensor& t) {
        refuse_memory(t, "storage");
        return bytes_over(t, 0, static_cast<int64_t>(t->storage->nbytes));
      },
      "All bytes of the storage, which is shared.");
  m.def(
      "_span",
      [](const Tensor& t) {
        refuse_memory(t, "storage");
        const Stretch reached = stretch_of(t.sizes(), t.strides(), t.offset(), t.itemsize(), "tensor");
        return bytes_over(t, t.offset() * t.itemsize(), (reached.high - reached.low) * t.itemsize());
      },
      "The bytes from the first element to the last, shared.");
  m.def(
      "_flat",
      [](nb::handle object, bool writes) -> nb::object {
        if (!is_tensor(object.ptr()) || thread_state.watched) return nb::none();
        const Tensor& t = unwrap(object.ptr());
        if (t->flags & TensorImpl::kNotAsTheyLie || !t.is_contiguous()) return nb::none();
        if (writes) {
          if (t->storage->readonly || (t.requires_grad() && !is_leaf(t) && grad_enabled())) return nb::none();
          count_write(t, "a collective");
        }
        const int64_t sizes[] = {t.numel()}, strides[] = {1};
        return nb::cast(over(Ref<Storage>::share(t->storage), t.dtype(), sizes, strides, t.offset()));
      },
      "The elements of an ordinary contiguous tensor in one dimension, outside of any graph, to be sent, or "
      "to be "
      "written, which is counted; None for others, which take longer to look at.");
  m.def(
      "_storage_uses", [](const Tensor& t) { return t->storage->refcount.load(std::memory_order_acquire); },
      "How many tensors, those that graphs have saved among them, lie on the storage.");
  m.def(
      "_belongs_elsewhere",
      [](const Tensor& t) {
        const Storage& s = *owner_of_bytes(t->storage);
        return s.readonly || s.loans || s.kind == Storage::Kind::External;
      },
      "Whether the memory is somebody else's, such as an array's, or shown by one.");
  m.def(
      "_moves_alone",
      [](const Tensor& t) {
        return t->storage->kind != Storage::Kind::External &&
               t->storage->refcount.load(std::memory_order_acquire) == 1;
      },
      "Whether no other tensor points to the storage.");
  m.def("_resize_storage", &resize_storage, "Let the storage of a tensor have so many bytes.");
  m.def("_row_major_strides", [](const Dims& size) {
    count_of(size.span(), "set_");
    return contiguous_strides(size.span());
  });
  m.def(
      "_copy_bytes",
      [](const Tensor& t) {
        const DeviceScope scope(device_of(t));
        return copy_of(t);
      },
      "A copy without history.");
  m.def(
      "_storage_id", [](const Tensor& t) { return reinterpret_cast<uintptr_t>(owner_of_bytes(t->storage)); },
      "What tells one memory from another that lives, wherever it is.");
  m.def(
      "_over",
      [](const Tensor& bytes, DType dtype, const Dims& size, const Dims& stride, int64_t offset) {
        const IntList sizes(size.data(), size.size()), strides(stride.data(), stride.size());
        if (sizes.size() != strides.size())
          fail<ValueError>("a tensor of shape ", to_string(sizes), " needs as many strides");
        for (size_t d = 0; d < sizes.size(); ++d)
          if (sizes[d] < 0 || strides[d] < 0) fail<ValueError>("sizes and strides may not be negative");
        const int64_t item = itemsize(dtype), skipped = bytes.offset() * bytes.itemsize();
        const int64_t held =
            std::max<int64_t>(0, static_cast<int64_t>(bytes->storage->nbytes) - skipped) / item;
        if (!aligned_for(bytes, dtype) || skipped % item)
          fail<ValueError>("the bytes are not aligned to elements of ", name_of(dtype), "; copy them first");
        const Stretch reached = stretch_of(sizes, strides, offset, item, "tensor");
        if (offset < 0 || (count_of(sizes, "tensor") && reached.high > held))
          fail<ValueError>("a tensor of shape ", to_string(sizes), " with strides ", to_string(strides),
                           " and offset ", offset, " does not fit into the ", held,
                           " elements that there are");
        Tensor made = over(Ref<Storage>::share(bytes->storage), dtype, sizes, strides,
                           checked_add(offset, skipped / item, "tensor"));
        made->flags |= thread_state.flags_of_new & TensorImpl::kInference;
        return made;
      },
      "A tensor over given bytes.");
  m.def("_swap", [](nb::handle a, nb::handle b) {
    std::optional<Replacing> first, second;
    if (is_tensor(a.ptr())) first.emplace(unwrap(a.ptr()));
    if (is_tensor(b.ptr())) second.emplace(unwrap(b.ptr()));
    if (first && second)
      for (nb::handle t : {a, b}) tell_replaced(unwrap(t.ptr()), "swap_tensors");
    swap_objects(a.ptr(), b.ptr());
  });
  m.def("_retype", &retype);
  m.def("_become", [](nb::object self, const Tensor& result, const std::string& name) {
    if (!is_tensor(self.ptr())) fail<TypeError>(name, "_(): expected a Tensor");
    become_result(unwrap(self.ptr()), result, lasting(name));
    return self;
  });
  m.def(
      "_need_out_type",
      [](const Tensor& result, const Tensor& out, const std::string& name, bool converts) {
        need_out_type(result.dtype(), out.dtype(), name.c_str(), converts);
      },
      "Refuse out= of a type that it may not have.");
  m.def("_become_view", [](nb::object self, const Tensor& view, const std::string& name) {
    if (!is_tensor(self.ptr())) fail<TypeError>(name, "_(): expected a Tensor");
    Tensor t = unwrap(self.ptr());
    if (is_sparse(t)) {
      become_sparse_view(t, view, lasting(name));
      return self;
    }
    const Replacing replacing(t);
    tell_replaced(t, name.c_str(), view);
    become_view(t, view, lasting(name));
    // All samples and the tangents are other views too.
    share_samples(t, view);
    if (may_have_tangents(view)) share_tangents(t, view);
    return self;
  });
  m.def(
      "_stand_on",
      [](const Tensor& t, const Tensor& from) {
        const Replacing replacing(t);
        if (!are_of_one_batch(t, from))
          fail<NotImplemented>("vmap: a tensor of shape ", t.sizes(),
                               " cannot stand on the memory of one of shape ", from.sizes(),
                               ", of which only one is mapped over; use copy_()");
        if ((may_have_tangents(t) && level_above(t, 0)) || (may_have_tangents(from) && level_above(from, 0)))
          fail(
              "cannot resize variables that has a forward grad: neither can the memory of such a tensor be "
              "replaced. This one has shape ",
              t.sizes(), "; take its primal by unpack_dual() first");
        if (is_sparse(t) != is_sparse(from)) refuse_sparse(is_sparse(t) ? t : from, "set_");
        tell_replaced(t, "set_", from);
        share_samples(t, from);
        t->replace_storage(Ref<Storage>::share(from->storage), from->data, from.dtype(), from.sizes(),
                           from.strides().data());
        renew_accumulator(t);
      },
      "Let a tensor have the memory of another, its shape and its dtype.");
  m.def(
      "_bump_version_past",
      [](const Tensor& t, uint32_t version) {
        while (t.version() <= version) count_write(t, "_bump_version");
      },
      "Count writes until the version is beyond a given one.");
  m.def("_detach_", [](const Tensor& t) {
    if (t->is(TensorImpl::kView))
      fail("Can't detach views in-place. Use detach() instead. This one has shape ", t.sizes(), ".");
    forget_in_place(t);
    if (t->wrapper) forget_tangents(t);  // the program has no other tensor for it now
  });
}

}  // namespace adjoint::bind
