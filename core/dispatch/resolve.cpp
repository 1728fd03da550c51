// What an element-wise call comes to, by torch's rules: the type to compute in, the shape, whether it is
// recorded.
#include <algorithm>

#include "dispatch/elementwise.h"
#include "transforms/batching.h"

namespace adjoint {

namespace {

[[noreturn, gnu::cold]] void refuse_type(const ElementwiseInfo& op, DType type) {
  if (type == DType::Bool)
    fail(op.name, "(): not supported on a bool tensor; convert it first, for example with .to(int64)");
  refuse_dtype(type, op.name, "; convert the input first, for example with .to(float32)");
}

bool any_requires_grad(const ElementwiseInfo& op, const Tensor* in) {
  return std::any_of(in, in + op.arity, [](const Tensor& t) { return t.requires_grad(); });
}

}  // namespace

std::string input_name(const ElementwiseInfo& op, int i) {
  std::string_view names = op.inputs;
  for (; i > 0; --i) names.remove_prefix(names.find(',') + 2);
  return std::string(names.substr(0, names.find_first_of(",=")));
}

[[gnu::hot]] DType promoted(const ElementwiseInfo& op, const Tensor* in) {
  if (op.keeps_type) return in[0].dtype();
  // Strongest type among tensors with dimensions, tensors without, bare numbers.
  DType best[3];
  bool any[3] = {};
  for (int i = 0; i < op.arity; ++i) {
    if (i == op.condition) continue;
    const Tensor& t = in[i];
    const int rank = t.is_wrapped() ? 2 : t.dim() == 0 ? 1 : 0;
    DType d = t.dtype();
    // Alone, a number is what it is: a rule may take one that was saved.
    if (rank == 2 && d == DType::Float64 && op.arity > 1) d = default_dtype();
    if (rank == 2 && d == DType::Complex128 && op.arity > 1) d = complex_dtype(default_dtype());
    best[rank] = any[rank] ? promote(best[rank], d) : d;
    any[rank] = true;
  }
  DType type = DType::Bool;
  bool have = false;
  for (int rank = 0; rank < 3; ++rank) {
    if (!any[rank]) continue;
    if (!have)
      type = best[rank];
    else if (category(best[rank]) > category(type))
      type = category(best[rank]) == Category::Complex
                 ? (is_floating(type) ? complex_dtype(type) : best[rank])
                 : best[rank];
    have = true;
  }
  if (type == DType::Bool && op.promotes_bool) return DType::Int64;
  return is_integral(type) && op.promotes_integers ? default_dtype() : type;
}

[[gnu::hot]] Resolved resolve(const ElementwiseInfo& op, const Tensor* in, bool inplace, Dims& shape) {
  Resolved r{};
  for (int i = 0; i < op.arity; ++i) r.flags |= in[i]->flags;
  r.type = promoted(op, in);
  if (op.check && !stands_for_batch(r.flags)) op.check(in, r.type);
  if (!(op.types >> index_of(r.type) & 1)) refuse_type(op, r.type);
  if (op.condition >= 0 && in[op.condition].dtype() != DType::Bool &&
      (in[op.condition].dtype() != DType::UInt8 || op.keeps_type))
    fail(op.name, "(): expected ", input_name(op, op.condition),
         " to be a boolean tensor, but got a tensor with dtype ", name_of(in[op.condition].dtype()),
         ": it only supports boolean masks");
  r.result_type = result_dtype(op, r.type);
  shape = Dims(in[0].sizes());
  for (int i = 1; i < op.arity; ++i)
    if (!same(in[i].sizes(), shape.span())) shape = broadcast_shapes(shape.span(), in[i].sizes(), op.name);
  r.sizes = shape.span();
  // An answer has no history, but written in place it takes away that of what it overwrites.
  r.tracked = thread_state.grad && (op.result != ResultType::Bool || inplace) && is_differentiable(r.type) &&
              any_requires_grad(op, in);
  return r;
}

[[gnu::hot]] bool resolve_straight(const ElementwiseInfo& op, const Tensor* in, Resolved& r) {
  const TensorImpl* lead = op.arity == 1   ? resolve_straight<1>(op, in, r)
                           : op.arity == 2 ? resolve_straight<2>(op, in, r)
                                           : resolve_straight<3>(op, in, r);
  if (lead) r.sizes = lead->sizes();
  return lead;
}

}  // namespace adjoint
