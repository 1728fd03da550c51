#include "autograd/engine.h"

#include <algorithm>

#include "autograd/arithmetic.h"
#include "autograd/meta.h"

namespace adjoint {

void (*poll_interrupt)() = nullptr;

namespace {

/// What one pass knows of one node.
struct Task {
  Node* node;
  uint32_t dependencies = 0;
  bool needed = true;
  /// First capture at this node, an index into Pass::captures_, or -1.
  int32_t capture = -1;
  Gradients gradients;
  explicit Task(Node* n) : node(n) {}
};

/// From node to task: open addressing over pointers.
class TaskIndex {
 public:
  TaskIndex() : slots_(64), mask_(63) {}
  /// The slot of `node`: its task number, or ~0u for a new one, to be set by the caller.
  uint32_t& operator[](Node* node) {
    if (used_ * 2 >= slots_.size()) grow();
    size_t i = hash(node) & mask_;
    while (slots_[i].node != node) {
      if (!slots_[i].node) {
        slots_[i].node = node;
        ++used_;
        break;
      }
      i = (i + 1) & mask_;
    }
    return slots_[i].task;
  }

 private:
  struct Slot {
    Node* node = nullptr;
    uint32_t task = ~0u;
  };
  static size_t hash(Node* n) { return (reinterpret_cast<uintptr_t>(n) * 0x9e3779b97f4a7c15ull) >> 20; }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& s : old) {
      if (!s.node) continue;
      size_t i = hash(s.node) & mask_;
      while (slots_[i].node) i = (i + 1) & mask_;
      slots_[i] = s;
    }
  }
  std::vector<Slot> slots_;
  size_t mask_;
  size_t used_ = 0;
};

class Pass {
 public:
  Pass(const BackwardOptions& options, std::span<const Edge> inputs) : options_(options), captured_(inputs.size()) {
    tasks_.reserve(64);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      Task& t = tasks_[task_of(inputs[i].node.get())];
      captures_.push_back({inputs[i].input_nr, static_cast<uint32_t>(i), t.capture});
      t.capture = static_cast<int32_t>(captures_.size()) - 1;
    }
    selective_ = !inputs.empty();
  }

  Tensors run(std::span<const Edge> roots, Tensors cotangents) {
    for (const Edge& root : roots)
      if (root) discover(root.node.get());
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i]) continue;
      const uint32_t t = index_[roots[i].node.get()];
      add(tasks_[t], roots[i].input_nr, std::move(cotangents[i]));
      if (tasks_[t].dependencies == 0 && !queued(t)) push(t);
    }
    GradMode mode(options_.create_graph);
    uint32_t count = 0;
    while (!ready_.empty()) {
      if ((++count & 1023) == 0 && poll_interrupt) poll_interrupt();
      step(pop());
    }
    return std::move(captured_);
  }

 private:
  struct Capture {
    uint32_t input_nr;
    uint32_t result;
    int32_t next;
  };

  uint32_t task_of(Node* node) {
    uint32_t& slot = index_[node];
    if (slot == ~0u) {
      slot = static_cast<uint32_t>(tasks_.size());
      tasks_.emplace_back(node);
      visited_.push_back(false);
    }
    return slot;
  }

  // Depth first without recursion: counts each node's dependencies, and with given inputs, which nodes lead to one.
  void discover(Node* root) {
    struct Frame {
      uint32_t task;
      uint32_t edge;
    };
    std::vector<Frame> stack;
    auto enter = [&](uint32_t t) {
      visited_[t] = true;
      tasks_[t].needed = !selective_ || tasks_[t].capture >= 0;
      stack.push_back({t, 0});
    };
    const uint32_t first = task_of(root);
    if (visited_[first]) return;
    enter(first);
    while (!stack.empty()) {
      Frame& top = stack.back();
      const auto edges = tasks_[top.task].node->edges();
      if (top.edge == edges.size()) {
        const uint32_t done = top.task;
        stack.pop_back();
        // Told to the parent through its last edge.
        if (!stack.empty() && tasks_[done].needed) tasks_[stack.back().task].needed = true;
        continue;
      }
      Node* next = edges[top.edge++].node.get();
      if (!next) continue;
      const uint32_t parent = top.task;
      const uint32_t t = task_of(next);
      ++tasks_[t].dependencies;
      if (!visited_[t]) enter(t);
      else if (tasks_[t].needed) tasks_[parent].needed = true;
    }
  }

  bool queued(uint32_t t) const { return std::find(ready_.begin(), ready_.end(), t) != ready_.end(); }
  bool later(uint32_t a, uint32_t b) const { return tasks_[a].node->sequence < tasks_[b].node->sequence; }
  void push(uint32_t t) {
    ready_.push_back(t);
    if (ready_.size() > 1)
      std::push_heap(ready_.begin(), ready_.end(), [this](uint32_t a, uint32_t b) { return later(a, b); });
  }
  uint32_t pop() {
    if (ready_.size() > 1)
      std::pop_heap(ready_.begin(), ready_.end(), [this](uint32_t a, uint32_t b) { return later(a, b); });
    const uint32_t t = ready_.back();
    ready_.pop_back();
    return t;
  }

  void add(Task& task, uint32_t input_nr, Tensor g) {
    if (task.gradients.size() == 0) task.gradients.resize(task.node->num_inputs);
    Tensor& slot = task.gradients[input_nr];
    if (!slot.defined()) {
      slot = std::move(g);
    } else if (!thread_state.grad && slot.unique() && slot->storage->refcount.load(std::memory_order_acquire) == 1 &&
               slot.is_contiguous() && slot->storage->kind != Storage::Kind::External) {
      add_in_place(slot, g);
    } else {
      slot = add_gradients(slot, g);
    }
  }

  template <class Hooks> static Hooks copied(NodeExtras& extras, const Hooks& hooks) {
    std::lock_guard lock(extras.mutex);
    return hooks;
  }

  void run_tensor_hooks(Node& node, Gradients& in) {
    NodeExtras* extras = node.extras();
    if (!extras) return;
    // Copies run: a hook may add and remove hooks, itself among them, and so may other threads.
    for (auto& h : copied(*extras, extras->tensor_hooks)) {
      Tensor& g = in[h.input_nr];
      if (!g.defined()) continue;
      if (Tensor changed = h.hook(g); changed.defined()) g = fit_gradient(std::move(changed), node.result(h.input_nr), node, h.input_nr);
    }
    for (auto& hook : copied(*extras, extras->prehooks)) hook.second(in);
    // A tensor that retains its gradient takes itself out before it dies: under the lock, those listed are alive. What
    // is replaced goes after the lock, since it may be the last owner of anything.
    Tensors replaced;
    std::lock_guard alive(extras->mutex);
    for (auto [input_nr, impl] : extras->retainers) {
      if (!in[input_nr].defined()) continue;
      AutogradMeta& m = *impl->meta.load(std::memory_order_acquire);
      std::lock_guard lock(m.lock);
      replaced.push_back(m.grad);
      m.grad = m.grad.defined() ? add_gradients(m.grad, in[input_nr]) : in[input_nr];
    }
  }

  void step(uint32_t number) {
    Node& node = *tasks_[number].node;
    Gradients in = std::move(tasks_[number].gradients);
    if (in.size() == 0) in.resize(node.num_inputs);
    run_tensor_hooks(node, in);
    for (int32_t c = tasks_[number].capture; c >= 0; c = captures_[c].next)
      captured_[captures_[c].result] = in[captures_[c].input_nr];
    const auto edges = node.edges();
    const bool wanted = tasks_[number].needed && (options_.accumulate || !edges.empty() || selective_);
    const bool defined = std::any_of(in.begin(), in.end(), [](const Tensor& t) { return t.defined(); });
    Gradients out(edges.size());
    if (wanted && !(selective_ && only_captured(number)) && (defined || node.wants_undefined())) {
      Reading reading(node, options_.retain_graph ? Reading::Keep : Reading::Free);
      NodeExtras* extras = node.extras();
      if (const auto posthooks = extras ? copied(*extras, extras->posthooks) : decltype(extras->posthooks)(); !posthooks.empty()) {
        Gradients copy(in.size());
        for (size_t i = 0; i < in.size(); ++i) copy[i] = in[i];
        node.apply(in, out);
        for (auto& hook : posthooks) hook.second(out, copy);
      } else {
        node.apply(in, out);
      }
      reading.done();
    }
    in = Gradients();
    for (size_t i = 0; i < edges.size(); ++i) {
      Node* next = edges[i].node.get();
      if (!next) continue;
      const uint32_t t = index_[next];
      Task& task = tasks_[t];
      if (out[i].defined() && task.needed) {
        const ResultInfo& info = next->result(edges[i].input_nr);
        Tensor g = std::move(out[i]);
        if (!info.fits(g)) g = fit_gradient(std::move(g), info, node, i);
        add(task, edges[i].input_nr, std::move(g));
      }
      if (--task.dependencies == 0) push(t);
    }
  }

  // An input's own node need not run when nothing beyond it is asked for.
  bool only_captured(uint32_t number) {
    if (tasks_[number].capture < 0) return false;
    const auto edges = tasks_[number].node->edges();
    if (edges.empty()) return !options_.accumulate;
    for (const Edge& e : edges)
      if (e && tasks_[index_[e.node.get()]].needed) return false;
    return true;
  }

  BackwardOptions options_;
  bool selective_ = false;
  TaskIndex index_;
  std::vector<Task> tasks_;
  std::vector<bool> visited_;
  std::vector<Capture> captures_;
  std::vector<uint32_t> ready_;
  Tensors captured_;
};

}  // namespace

Tensors run_backward(std::span<const Edge> roots, Tensors cotangents, std::span<const Edge> inputs,
                     const BackwardOptions& options) {
  return Pass(options, inputs).run(roots, std::move(cotangents));
}

Tensors backward(TensorList tensors, TensorList cotangents, TensorList inputs, const BackwardOptions& options,
                 bool allow_unused) {
  if (!cotangents.empty() && cotangents.size() != tensors.size())
    fail("got ", tensors.size(), " tensors and ", cotangents.size(), " gradients: give one gradient per tensor, or None");
  std::vector<Edge> roots(tensors.size());
  Tensors seeds(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (!t.requires_grad())
      fail("element ", i, " of tensors does not require grad and does not have a grad_fn: nothing in its history asked "
           "for a gradient. Set requires_grad=True on an input before computing it");
    roots[i] = gradient_edge(t);
    Tensor g = cotangents.empty() ? Tensor() : cotangents[i];
    if (!g.defined()) {
      if (t.numel() != 1)
        fail("grad can be implicitly created only for scalar outputs: this one has shape ", to_string(t.sizes()),
             "; pass a gradient of that shape, or reduce it first, for example with .sum()");
      if (t.is_complex())
        fail("grad can be implicitly created only for real scalar outputs but got ", name_of(t.dtype()),
             "; pass a gradient, or differentiate a real function of the result such as .abs() or .real");
      g = ones_like_result(t);
    } else {
      if (!same(g.sizes(), t.sizes()))
        fail("Mismatch in shape: grad_output[", i, "] has a shape of ", to_string(g.sizes()), " and output[", i,
             "] has a shape of ", to_string(t.sizes()), ".");
      if (g.is_complex() != t.is_complex())
        fail("For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
             "grad_output[", i, "] has a dtype of ", name_of(g.dtype()), " and output[", i, "] has a dtype of ",
             name_of(t.dtype()), ".");
      const ResultInfo& info = roots[i].node->result(roots[i].input_nr);
      if (!info.fits(g)) g = fit_gradient(g, info, *roots[i].node, i);
    }
    seeds[i] = std::move(g);
  }
  std::vector<Edge> ends(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad())
      fail("One of the differentiated Tensors does not require grad: input ", i, " of shape ", to_string(inputs[i].sizes()));
    ends[i] = gradient_edge(inputs[i]);
  }
  BackwardOptions o = options;
  if (!inputs.empty()) o.accumulate = false;
  Tensors captured = run_backward(roots, std::move(seeds), ends, o);
  if (options.accumulate) {
    GradMode mode(options.create_graph);
    for (size_t i = 0; i < captured.size(); ++i)
      if (captured[i].defined()) accumulate_gradient(inputs[i], std::move(captured[i]));
    return {};
  }
  if (!options.accumulate && !allow_unused)
    for (size_t i = 0; i < captured.size(); ++i)
      if (!captured[i].defined())
        fail("One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this "
             "is the desired behavior. It is input ", i, ", of shape ", to_string(inputs[i].sizes()));
  return captured;
}

}  // namespace adjoint
