// backward and grad: what they take is checked here, before the engine runs.
#include "as_torch.h"
#include "autograd/arithmetic.h"
#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/views.h"

namespace adjoint {

namespace {

/// The cotangent of a root, checked, or the implied one.
Tensor seed_of(const GraphEnd& root, const Edge& edge, Tensor g, size_t i) {
  const ResultInfo& info = edge.node->result(edge.input_nr);
  if (!g.defined()) {
    if (product(info.sizes()) != 1)
      fail("grad can be implicitly created only for scalar outputs: this one has shape ", info.sizes(),
           "; pass a gradient of that shape, or reduce it first, for example with .sum()");
    if (is_complex(info.dtype()) && !thread_state.holomorphic)
      fail(
          "grad can be implicitly created only for real scalar outputs but got ", name_of(info.dtype()),
          ". Its gradient can mean two things: pass a gradient, or differentiate a real function of the "
          "result such as .abs() or .real, to get the direction in which that grows; or, for a holomorphic "
          "function, write adjoint.autograd.complex_convention('holomorphic') to get its complex derivative");
    Tensor one =
        root.tensor.defined() ? ones_like_result(root.tensor) : full(info.sizes(), Scalar(1), info.dtype());
    if (!info.fits(one)) [[unlikely]]
      one = fit_gradient(std::move(one), info, *edge.node, i);
    return one;
  }
  if (!same(g.sizes(), info.sizes())) {
    const char* const size = for_torch().size_name;
    fail("Mismatch in shape: grad_output[", i, "] has a shape of ", size, '(', g.sizes(), ") and output[", i,
         "] has a shape of ", size, '(', info.sizes(), ").");
  }
  if (g.is_complex() != is_complex(info.dtype()))
    fail(
        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
        "dtype: grad_output[",
        i, "] has a dtype of ", name_of(g.dtype()), " and output[", i, "] has a dtype of ",
        name_of(info.dtype()), ".");
  if (device_of(g) != info.device() && (g.dim() != 0 || is_meta(g)))
    fail("invalid gradient at index ", i, " - expected device ", name_of(info.device()), " but got ",
         name_of(device_of(g)),
         ": a gradient is on the device of what it is the gradient of; move it with .to()");
  return entering_gradient(std::move(g), info, *edge.node, i);
}

std::string described(const GraphEnd& end, size_t i) {
  return end.tensor.defined() ? text("input ", i, ", of shape ", to_string(end.tensor.sizes()))
                              : text("input ", i, ", an edge to ", end.edge.node->name());
}

}  // namespace

[[gnu::hot]] Tensors backward(std::span<const GraphEnd> given, TensorList cotangents,
                              std::span<const GraphEnd> inputs, const BackwardOptions& options,
                              bool allow_unused) {
  if (!cotangents.empty() && cotangents.size() != given.size())
    fail("got ", given.size(), " tensors and ", cotangents.size(),
         " gradients: give one gradient per tensor, or None");
  const auto edge_of = [](const GraphEnd& end) {
    return end.tensor.defined() ? gradient_edge(end.tensor) : end.edge;
  };
  std::vector<Edge> roots(given.size()), ends(inputs.size());
  Tensors seeds(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const Tensor& t = given[i].tensor;
    if (t.defined() && !t.requires_grad())
      fail("element ", i,
           " of tensors does not require grad and does not have a grad_fn: nothing in its history asked for "
           "a gradient. Its shape is ",
           t.sizes(), ". Set requires_grad=True on an input before computing it");
    roots[i] = edge_of(given[i]);
    seeds[i] = seed_of(given[i], roots[i], cotangents.empty() ? Tensor() : cotangents[i], i);
    if (thread_state.holomorphic) [[unlikely]]
      seeds[i] = conjugate_of(std::move(seeds[i]));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].tensor.defined() && !inputs[i].tensor.requires_grad())
      fail("One of the differentiated Tensors does not require grad: ", described(inputs[i], i));
    // A leaf is where the graph left it: it may have got data of another shape since.
    const Tensor& t = inputs[i].tensor;
    const AutogradMeta* m = t.defined() && !t->grad_fn && !is_stale(t) ? meta_of(t) : nullptr;
    LeafNode* leaf = m ? m->accumulator.load(std::memory_order_acquire) : nullptr;
    ends[i] = leaf ? Edge{Ref<Node>::share(leaf), 0} : edge_of(inputs[i]);
    if (!options.accumulate) continue;
    // The gradient of what is no leaf stays with the tensor; that of an edge without one arrives, and is
    // lost.
    if (inputs[i].tensor.defined()) retain_grad(inputs[i].tensor);
  }
  Tensors captured = run_backward(roots, std::move(seeds), ends, options);
  if (thread_state.holomorphic) [[unlikely]] {
    GradMode mode(options.create_graph);
    for (Tensor& g : captured) g = conjugate_of(std::move(g));
  }
  if (options.accumulate) return {};
  if (!allow_unused)
    for (size_t i = 0; i < captured.size(); ++i)
      if (!captured[i].defined())
        fail(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior. It is ",
            described(inputs[i], i), ". (The differentiated Tensor at index ", i,
            " appears to not have been used in the graph. Set allow_unused=True if this is the desired "
            "behavior.)");
  return captured;
}

Tensors backward(TensorList tensors, TensorList cotangents, TensorList inputs, const BackwardOptions& options,
                 bool allow_unused) {
  std::vector<GraphEnd> roots, ends;
  for (const Tensor& t : tensors) roots.push_back({t, {}});
  for (const Tensor& t : inputs) ends.push_back({t, {}});
  return backward(roots, cotangents, ends, options, allow_unused);
}

}  // namespace adjoint
