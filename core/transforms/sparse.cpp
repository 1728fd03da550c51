#include "transforms/sparse.h"

#include <algorithm>

#include "autograd/views.h"
#include "dispatch/elementwise.h"
#include "dispatch/named.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/rearranging.h"
#include "ops/shape.h"
#include "ops/sparse.h"
#include "ops/writing.h"
#include "transforms/transformed.h"

namespace adjoint {

bool (*sparse_form)(const Operator&, std::span<const Value>, bool, Results&) = nullptr;

namespace {

/// What gradients need wherever they go: sums, copies, other types.
bool done_here(const Operator& op, std::span<const Value> v, Tensor& result) {
  if (v.empty() || !v[0].present || op.kinds[0]->form != Form::Tensor) return false;
  const Tensor& self = *v[0].tensor;
  if (op.elementwise == &info_of<Add>()) {
    result = add_sparse(self, *argument_of<Add, "other">(v.data()).tensor);
    return result.defined();
  }
  if (&op == row_of<Copy>) {
    const Tensor& src = *argument_of<Copy, "src">(v.data()).tensor;
    if (!is_sparse(self) || !is_sparse(src))
      fail("copy_() between dense and sparse Tensors is not implemented! Found self of layout ",
           is_sparse(self) ? "sparse" : "torch.strided", " and src of layout ",
           is_sparse(src) ? "sparse" : "torch.strided", "; use src.to_dense(), or src.to_sparse()");
    become_sparse(self, src, "copy_");
    result = self;
    return true;
  }
  if (!is_sparse(self)) return false;
  if (&op == row_of<Clone>) {
    SparseParts p = sparse_parts(self);
    p.indices = call<Clone>(p.indices);
    if (p.others.defined()) p.others = call<Clone>(p.others);
    result = sparse_with(sparse_tensor(std::move(p), self.sizes()), call<Clone>(sparse_values(self)));
    return true;
  }
  if (&op == row_of<To>)
    result = sparse_with(self, call<To>(sparse_values(self), argument_of<To, "dtype">(v.data()).type));
  else if (&op == row_of<Attach>)
    result =
        sparse_with(self, call<Attach>(sparse_values(self), *argument_of<Attach, "other">(v.data()).tensor));
  return result.defined();
}

}  // namespace

void call_sparse(const Operator& op, std::span<const Value> arguments, Results& results) {
  if (done_here(op, arguments, results.one)) return;
  if (sparse_form && sparse_form(op, arguments, op.writes, results)) {
    if (op.writes) results.one = *arguments[0].tensor;
    return;
  }
  const std::string_view name = *op.overloads ? op.overloads : op.name;
  std::string known_as = op.writes ? name_of_write(op.name) : std::string(name.substr(name[0] == '_'));
  if (op.writes) known_as.resize(known_as.size() - 2);
  refuse_sparse(*find_tensor(op, arguments.data(), [](const Tensor& t) { return is_sparse(t); }),
                known_as.c_str());
}

bool written_sparse(const Call& call, Results& results) {
  const bool inplace = call.form == CallForm::InPlace;
  const Tensor& out = inplace ? *call.arguments[0].tensor : call.out[0];
  if (!is_sparse(out) &&
      !find_tensor(call.op, call.arguments.data(), [](const Tensor& t) { return is_sparse(t); }))
    return false;
  results.one = out;
  Results r;
  if (inplace && sparse_form && sparse_form(call.op, call.arguments, true, r)) return true;
  if (inplace && thread_state.grad && out.requires_grad())
    call_aside(call, r);
  else
    call.op.boxed(call.arguments.data(), r);
  if (is_sparse(out) && is_sparse(r.one))
    become_sparse(out, r.one, call.op.elementwise->name);
  else
    write_transformed(out, r.one);
  return true;
}

void become_sparse(const Tensor& self, const Tensor& given, const char* op) {
  if (!same(self.sizes(), given.sizes()))
    fail(op, "(): a sparse tensor of shape ", self.sizes(), " cannot become one of shape ", given.sizes());
  Tensor result = given.dtype() == self.dtype() ? given : call<To>(given, self.dtype());
  if (sparse_parts(result).layout != sparse_parts(self).layout)
    fail(op, "(): a tensor of layout ", name_of(sparse_parts(self).layout), " cannot become one of layout ",
         name_of(sparse_parts(result).layout));
  const bool recorded = thread_state.grad && result.requires_grad();
  check_writable(
      self, op,
      recorded || (thread_state.grad && self.requires_grad()));  // history ends where the result has none
  if (recorded && !history(result)) result = sparse_with(result, sparse_values(result));  // a leaf
  write(self, op, [&] { set_sparse_parts(self, sparse_parts(result)); });
  Tensor written = self;
  if (recorded)
    write_history(written, Ref<Node>::share(result->grad_fn), result->output_nr);
  else if (thread_state.grad && self.requires_grad())
    forget_history(self);
}

void become_sparse_view(const Tensor& self, const Tensor& view, const char* op) {
  const bool recorded = thread_state.grad && view.requires_grad();
  check_writable(self, op, recorded);
  const Tensor kept = view;  // the storage that it stands on from now on
  write(self, op, [&] {
    self->replace_storage(Ref<Storage>::share(kept->storage), kept->data, kept.dtype(), kept.sizes(),
                          kept.strides().data());
  });
  Tensor written = self;
  if (recorded && history(kept)) write_history(written, Ref<Node>::share(kept->grad_fn), kept->output_nr);
}

}  // namespace adjoint
