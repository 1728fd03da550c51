// The little arithmetic that gradients need on their way: adding two, and fitting one to the shape and type
// it belongs to. The engine calls these, and knows no operator itself.
#pragma once

#include <span>

#include "autograd/node.h"

namespace adjoint {

/// a + b, recorded when recording is on.
Tensor add_gradients(const Tensor& a, const Tensor& b);
/// a += b without history.
void add_in_place(const Tensor& a, const Tensor& b);
/// The same for each of `many` in turn, to the last bit, but with one walk over a's memory where they lie
/// alike.
void add_in_place(const Tensor& a, std::span<const Tensor> many);
/// A gradient that `.grad` may keep: `g` itself, moved from, when nobody else holds it and it lies like the
/// leaf, else a copy.
Tensor own_gradient(Tensor& g, const Tensor& leaf);
/// Write a gradient, which is not recorded, to a tensor like it.
void write_gradient(const Tensor& home, const Tensor& g);
/// `g` summed to `info`'s shape and cast to its type; RuntimeError naming `from` where that cannot be.
Tensor fit_gradient(Tensor g, const ResultInfo& info, const Node& from, size_t index);
/// Gradients that a program gives: seeds, and what hooks and rules of its own return. `on_device` refuses one
/// that is elsewhere than what it is the gradient of; `entering_gradient` fits it, too.
Tensor on_device(Tensor g, const ResultInfo& info, const Node& from, size_t index);
Tensor entering_gradient(Tensor g, const ResultInfo& info, const Node& from, size_t index);
/// `g`, which the rule of `of` made of `cotangents`, recording nodes with numbers from `since` on: recorded
/// as a function also of those inputs in `mask` (bits by edge) that it is not recorded as a function of. What
/// happens to be constant in an input, such as the slope of relu, can so be differentiated again, to zero.
void keep_history(Tensor& g, const Gradients& cotangents, Node& of, uint64_t since, uint64_t mask);
/// The complex conjugate; a real tensor as it is. Recorded.
Tensor conjugate_of(Tensor g);
/// A gradient of what was copied from one device to another, on the first.
Tensor moved_to(Tensor g, Device device);
/// A zero in the shape and type of `t`, one element in memory.
Tensor expanded_zero(const Tensor& t);
/// A tensor of ones like the result: the implicit cotangent.
Tensor ones_like_result(const Tensor& t);

/// Where a view lies in its base.
struct ViewPart {
  Dims base_sizes, base_strides, sizes, strides;
  DType base_dtype, dtype;
  int64_t bytes;  // from the base's first element to the view's
  ViewPart(const Tensor& base, const Tensor& view);
};
/// The view again, of a tensor that is laid out like the base. Recorded.
Tensor replay_view(const Tensor& base, const ViewPart& part);
/// A copy of `g` that is laid out like the base. Recorded.
Tensor laid_out_like_base(const Tensor& g, const ViewPart& part);
/// Both halves of the gradient of a write through a view, where nothing is recorded and base and view lie
/// plainly: `g` with zeros at the part, and what was there. False where they do not. `g` itself is written
/// where `may_take` it and nobody else has it.
bool cut_part(const Tensor& g, const ViewPart& part, bool may_take, Tensor* rest, Tensor* slice);
/// A copy of its own. Recorded.
Tensor owned(const Tensor& t);
/// Write zeros. Recorded.
void write_zeros(const Tensor& t);
/// The elements in row-major order: the tensor itself or a copy.
Tensor contents_in_order(const Tensor& t);
bool has_nan(const Tensor& t);

}  // namespace adjoint
