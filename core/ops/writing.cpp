// Writing elements. Everything is checked before the first byte is written.
#include "ops/writing.h"

#include <atomic>

#include "autograd/views.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/indexing.h"
#include "kernels/slices.h"
#include "ops/arithmetic.h"
#include "ops/batched_indices.h"
#include "ops/comparison.h"
#include "ops/rearranging.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "runtime/warning.h"
#include "tensor/device.h"
#include "tensor/number.h"

namespace adjoint {

namespace {

Tensor zero_like(const Tensor& t) { return scalar_tensor(Scalar(0), t.dtype()); }

/// Values that may lie in the memory that is about to be written.
Tensor unaliased(const Tensor& values, const Tensor& from) {
  return may_share_memory(values, from) ? copy_of(values) : values;
}

Tensor scattered(Into into, const Tensor& self, int64_t dim, const Tensor& index, const Tensor* src,
                 const Scalar* value, Text reduce, const char* op) {
  if (!reduce.empty() && reduce != "add" && reduce != "multiply")
    fail(op, "(): reduce argument must be either add or multiply, but got '", reduce, "'");
  if (value) refuse_overflow(*value, self.dtype(), op);
  const int d = wrap_dim(dim, self.dim(), op);
  const Tensor where = scatter_index(self, d, index, src, op), out = into.empty(self.sizes(), self.dtype());
  const Scattering how = reduce == "add"        ? Scattering::Add
                         : reduce == "multiply" ? Scattering::Multiply
                                                : Scattering::Write;
  scatter_into(out, self, d, where, src ? *src : Tensor(), value ? *value : Scalar(0), how, op);
  return out;
}

}  // namespace

void warn_of_lost_parts(DType from, DType to) {
  static std::atomic<bool> said = false;
  if (is_complex(from) && !is_complex(to) && to != DType::Bool && !said.exchange(true))
    runtime::warn("Casting complex values to real discards the imaginary part");
}

void need_copy_fits(IntList to, IntList from) {
  if (const Dims wide = broadcast_shapes(to, from, "copy_"); !same(wide.span(), to))
    fail("copy_(): output with shape ", to_string(to), " doesn't match the broadcast shape ",
         to_string(wide.span()));
}

Tensor Copy::forward(const Tensor& self, const Tensor& src) {
  need_copy_fits(self.sizes(), src.sizes());
  const Tensor wide = fitted(src, self.sizes(), "copy_");
  warn_of_lost_parts(src.dtype(), self.dtype());
  if (self.get() != src.get()) copy_into(self, unaliased(wide, self));
  return self;
}
Tensor overwritten(const Tensor& g) { return zeros(g.sizes(), g.dtype()); }
Tensor Copy::source(const Tensor& g, IntList sizes) { return sum_to_value(g, sizes); }

Tensor Fill::forward(const Tensor& self, const Tensor& value) {
  if (value.dim() != 0)
    fail("fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions");
  refuse_overflow(value, rounding_dtype(self.dtype()), "fill_");
  copy_into(self, value);
  return self;
}
Tensor Fill::source(const Tensor& g) { return call<Sum>(g, OptionalInts(), false, OptionalType()); }

Tensor ZeroAll::forward(const Tensor& self) {
  copy_into(self, zero_like(self));
  return self;
}

Tensor ZeroBasic::forward(const Tensor& self, IndexSpec spec) {
  const Tensor out = copy_of(self);
  copy_into(view_of(out, picked_part(whole(out), spec)), zero_like(out));
  return out;
}

Tensor SetBasic::forward(const Tensor& self, const Tensor& value, IndexSpec spec) {
  const Tensor part = view_of(self, picked_part(whole(self), spec));
  refuse_overlap(part, "_set_basic");
  warn_of_lost_parts(value.dtype(), self.dtype());
  copy_into(part, unaliased(fitted(value, part.sizes(), ""), self));
  return self;
}
Tensor SetBasic::source(const Tensor& g, IntList sizes, IntList spec) {
  return sum_to_value(call<BasicIndex>(g, spec), sizes);
}

Tensor ZeroIndex::forward(const Tensor& self, OptionalTensorList indices) {
  const Tensor out = copy_of(self);
  put_at(out, zero_like(out), indices, false);
  return out;
}

Tensor IndexPut::forward(const Tensor& self, const Tensor& values, OptionalTensorList indices,
                         bool accumulate) {
  put_at(self, values, indices, accumulate);
  return self;
}
Tensor IndexPut::source(const Tensor& g, IntList sizes, const Tensors& indices) {
  return sum_to_value(call<Index>(g, TensorList(indices)), sizes);
}

// --- Into copies ----------------------------------------------------------------------------------

Tensor kept_by_scatter(const Tensor& g, int64_t dim, const Tensor& index,
                       const std::optional<std::string>& reduce) {
  if (!reduce) return call<ScatterValue>(g, dim, index, Scalar(0), std::optional<Text>());
  if (*reduce == "add") return g;
  fail<NotImplemented>("the derivative of '_scatter' with reduce='", *reduce,
                       "' is that of '_scatter_multiply'");
}

Tensor scatter_source(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index) {
  const Tensor picked_up = call<Gather>(g, dim, index, false);
  if (same(picked_up.sizes(), sizes)) return picked_up;
  // The rest of the source was not used.
  Dims pad;
  for (size_t i = sizes.size(); i-- > 0;) {
    pad.push_back(0);
    pad.push_back(sizes[i] - picked_up.sizes()[i]);
  }
  return call<ConstantPad>(picked_up, pad.span(), Scalar(0));
}

Tensor Scatter::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src,
                        std::optional<Text> reduce) {
  return scattered(into, self, dim, index, &src, nullptr, reduce.value_or(Text()), "scatter");
}
Tensor ScatterValue::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, Scalar value,
                             std::optional<Text> reduce) {
  return scattered(into, self, dim, index, nullptr, &value, reduce.value_or(Text()), "scatter");
}
Tensor ScatterMultiply::forward(Into into, const Tensor& self, Dim dim, const Tensor& index,
                                const Tensor& src) {
  return scattered(into, self, dim, index, &src, nullptr, "multiply", "scatter");
}
Tensor ScatterMultiplyValue::forward(Into into, const Tensor& self, Dim dim, const Tensor& index,
                                     Scalar value) {
  return scattered(into, self, dim, index, nullptr, &value, "multiply", "scatter");
}
Tensor ScatterMultiply::self_gradient(const Tensor& g, int64_t dim, const Tensor& index, const Tensor& src) {
  return call<ScatterMultiply>(g, dim, index, Recorded(src).conj().tensor);
}
// g times the element of self times the other factors that go to the same place. Those are the product of all
// that are not zero, over the factor itself; with a zero among them, only the zero itself has any left.
Tensor ScatterMultiply::source_gradient(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                                        const Tensor& src) {
  const Recorded zero(call<Equal>(src, zero_like(src))), one(wrap_number(Scalar(1), src.dtype())),
      none(wrap_number(Scalar(0), src.dtype()));
  if (recording() && src.requires_grad() && !is_meta(src) &&
      item(call<Any>(zero.tensor, OptionalInts(), false)).as_int())
    fail<NotImplemented>(
        "Double backward is unsupported for src where it has zeros: the second derivative of 'scatter' with "
        "reduce='multiply' is not implemented where an element of src is 0");
  const Recorded factors = select(zero, one, src);
  const Tensor ones = full(self.sizes(), Scalar(1), self.dtype()), marks = call<To>(zero.tensor, src.dtype());
  const Recorded product(call<ScatterMultiply>(ones, dim, index, factors.tensor));
  const Tensor zeros_there = call<ScatterAdd>(zeros(self.sizes(), self.dtype()), dim, index, marks);
  const auto at_source = [&](const Tensor& t) {
    return Recorded(scatter_source(t, src.sizes(), dim, index));
  };
  const Recorded all = at_source((Recorded(g) * (Recorded(self) * product).conj()).tensor) / factors.conj();
  return select(at_source(zeros_there) == Recorded(marks), all, none).tensor;
}
Tensor ScatterExtreme::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src,
                               bool largest) {
  if (!(types & types::bit(self.dtype())))
    fail("scatter_reduce(): the largest and the smallest of ", name_of(self.dtype()),
         " are not defined: expected real numbers");
  const int d = wrap_dim(dim, self.dim(), "scatter");
  const Tensor where = scatter_index(self, d, index, &src, "scatter"),
               out = into.empty(self.sizes(), self.dtype());
  scatter_into(out, self, d, where, src, Scalar(0), largest ? Scattering::Largest : Scattering::Smallest,
               "scatter");
  return out;
}
// Equal elements share.
Tensor ScatterExtreme::share(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& src, const Tensor& result, bool of_self) {
  const Tensor there = scatter_source(result, src.sizes(), dim, index);
  const Tensor self_is = call<Equal>(self, result), src_is = call<Equal>(src, there);
  const Tensor count =
      call<ScatterAdd>(call<To>(self_is, g.dtype()), dim, index, call<To>(src_is, g.dtype()));
  const Recorded each = Recorded(g) / Recorded(count), none(zero_like(g));
  if (of_self) return select(Recorded(self_is), each, none).tensor;
  return select(Recorded(src_is), Recorded(scatter_source(each.tensor, src.sizes(), dim, index)), none)
      .tensor;
}
Tensor ScatterAdd::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src) {
  return scattered(into, self, dim, index, &src, nullptr, "add", name);
}

namespace {

// A new tensor like self and the plan of the slices along a dimension, for self without dimensions too.
struct AlongDimension {
  AlongDimension(Into into, const Tensor& self, int64_t dim, const Tensor& index, const char* op,
                 bool wrap = false)
      : d(wrap_dim(dim, self.dim(), op)),
        out(into.empty(self.sizes(), self.dtype())),
        line(out),
        plan(make(index, op, wrap)) {}
  IndexPlan make(const Tensor& index, const char* op, bool wrap) {
    if (out.dim() == 0) {
      const int64_t one[] = {1};
      line = alias(out, one, one, out.offset());
    }
    return along_dimension(line, d, index, op, wrap);
  }
  int d;
  Tensor out, line;
  IndexPlan plan;
};

void need_source(const AlongDimension& s, const Tensor& source, const char* op) {
  if (source.dtype() != s.out.dtype())
    fail(op, "(): self (", name_of(s.out.dtype()), ") and source (", name_of(source.dtype()),
         ") expected to have the same dtype");
  const bool fits = product(source.sizes()) == product(s.plan.shape.span()) &&
                    !(source.dim() && s.out.dim() && !same(source.sizes(), s.plan.shape.span()));
  if (fits) return;
  if (std::string_view(op) == IndexAdd::name)
    fail(
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape "
        "= ",
        s.out.sizes(), " source.shape = ", source.sizes(), "; the index selects slices of shape ",
        to_string(s.plan.shape.span()));
  fail<IndexError>(op, "(): source has shape ", source.sizes(), " but the index selects slices of shape ",
                   to_string(s.plan.shape.span()));
}

}  // namespace

Tensor IndexAdd::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& source,
                         Scalar alpha) {
  refuse_overflow(alpha, rounding_dtype(self.dtype()), name);
  const AlongDimension s(into, self, dim, index, name);
  need_source(s, source, name);
  add_at(s.line, s.plan, Reshape::forward(scaled(source, alpha), s.plan.shape.span()), Before::Other,
         dense(self));
  return s.out;
}

Tensor IndexFill::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& value) {
  refuse_fill(name, value, self.dtype());
  const AlongDimension s(into, self, dim, index, name, true);
  copy_into(s.out, self);
  write_at(s.line, s.plan, value);
  return laid_as(s.out, self, self.dtype());
}
Tensor IndexFill::kept(const Tensor& g, int64_t dim, const Tensor& index) {
  return call<IndexFill>(g, dim, index, zero_like(g));
}
Tensor IndexFill::source(const Tensor& g, int64_t dim, const Tensor& index) {
  // Of all places but those that are kept: a slice that is named twice counts once.
  return call<Sum>(call<Sub>(g, kept(g, dim, index)), OptionalInts(), false, OptionalType());
}

Tensor slices_source(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index) {
  // A scalar is a vector of one element, which any number of indices name.
  const int64_t one[] = {1};
  const Tensor slices = call<IndexSelect>(g.dim() ? g : call<Reshape>(g, IntList(one)), dim, index);
  return same(slices.sizes(), sizes) ? slices : call<Reshape>(slices, sizes);
}

Tensor IndexCopy::forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& source) {
  const AlongDimension s(into, self, dim, index, name);
  need_source(s, source, name);
  copy_into(s.out, self);
  write_at(s.line, s.plan, Reshape::forward(source, s.plan.shape.span()));
  return s.out;
}

Tensor MaskedScatter::forward(Into into, const Tensor& self, const Tensor& mask, const Tensor& source) {
  if (mask.dtype() != DType::Bool)
    fail("masked_scatter_ only supports boolean masks, but got mask with dtype ", type_name_of(mask.dtype()));
  if (self.dtype() != source.dtype())
    fail("masked_scatter: expected self and source to have same dtypes but got ", name_of(self.dtype()),
         " and ", name_of(source.dtype()));
  const Dims shape = broadcast_shapes(self.sizes(), mask.sizes(), name);
  const Tensor out = copy_of(into, Expand::forward(self, shape.span()), self.dtype());
  const Tensor where = dense(Expand::forward(mask, shape.span())), from = dense(source);
  if (is_meta(out)) return out;
  const int64_t count = count_true(where);
  if (count > from.numel())
    fail("masked_scatter: the mask holds at ", count, " places but the source has only ", from.numel(),
         " elements");
  expand_into(out, where, from, false, false);
  return out;
}
Tensor MaskedScatter::kept(const Tensor& g, IntList sizes, const Tensor& mask) {
  return sum_to_value(call<Where>(mask, zero_like(g), g), sizes);
}
Tensor MaskedScatter::source_gradient(const Tensor& g, IntList sizes, const Tensor& mask) {
  const Tensor used = call<MaskedSelect>(g, mask);
  const int64_t pad[] = {0, product(sizes) - used.numel()};
  return call<Reshape>(call<ConstantPad>(used, IntList(pad), Scalar(0)), sizes);
}

// --- On batches -----------------------------------------------------------------------------------

/// Values of each sample, in all samples: they are broadcast to what one sample has there.
static void write_samples(BatchedCall& c, const Tensor& to, const BatchedTensor& values) {
  c.give(call<Copy>(to, batching::values_of_rank(values, to.dim() - 1)));
}

void Copy::batch(BatchedCall& c, Batched<"self"> self, Batched<"src"> src) {
  need_copy_fits(self.sizes(), src.sizes());
  write_samples(c, self.samples(), src);
}

void Fill::batch(BatchedCall& c, Batched<"self"> self, Batched<"value"> value) {
  if (value.rank() != 0)
    fail("fill_() only supports a 0-dimensional value tensor, but got tensor with ", value.rank(),
         " dimension(s).");
  if (!value.batched()) return c.give(call<Fill>(self.samples(), value.tensor));
  write_samples(c, self.samples(), value);
}

void ZeroAll::batch(BatchedCall& c, Batched<"self"> self) { c.give(call<ZeroAll>(self.samples())); }

void SetBasic::batch(BatchedCall& c, Batched<"self"> self, Batched<"value"> value,
                     Argument<IntList, "spec"> spec) {
  Dims all{static_cast<int64_t>(Pick::Slice), 0, 1, c.size};
  for (int64_t s : spec.value) all.push_back(s);
  write_samples(c, call<BasicIndex>(self.samples(), all.span()), value);
}

void ZeroIndex::batch(BatchedCall& c, Batched<"self"> self, Argument<OptionalTensorList, "indices"> indices) {
  const batching::Positions p(c, self.sizes(), indices);
  c.give(call<ZeroIndex>(self.in_front(), TensorList(p.indices)));
}

void IndexPut::batch(BatchedCall& c, Batched<"self"> self, Batched<"values"> given,
                     Argument<OptionalTensorList, "indices"> indices, Argument<bool, "accumulate"> add) {
  const batching::Positions p(c, self.sizes(), indices);
  const Tensor values = p.order(batching::filled(given, p.shape(self.sizes()).span()), true);
  c.give(call<IndexPut>(self.samples(), values, TensorList(p.indices), add.value));
}

void IndexAdd::batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                     Batched<"index"> index, Batched<"source"> source, Argument<Scalar, "alpha"> alpha) {
  batching::along(c, self, dim, index, &source, nullptr, false, [&](const batching::Along& a) {
    return call<IndexAdd>(a.self, a.dim, a.index, a.other, alpha.value);
  });
}

void IndexFill::batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                      Batched<"index"> index, Batched<"value"> value) {
  batching::along(c, self, dim, index, &value, nullptr, true,
                  [](const batching::Along& a) { return call<IndexFill>(a.self, a.dim, a.index, a.other); });
}

void IndexCopy::batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                      Batched<"index"> index, Batched<"source"> source) {
  batching::along(c, self, dim, index, &source, nullptr, false,
                  [](const batching::Along& a) { return call<IndexCopy>(a.self, a.dim, a.index, a.other); });
}

}  // namespace adjoint

ADJOINT_FAMILY(Writing)
