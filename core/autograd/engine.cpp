#include "autograd/engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autograd/arithmetic.h"
#include "autograd/crew.h"
#include "autograd/many.h"
#include "autograd/meta.h"
#include "autograd/reached.h"
#include "autograd/task_index.h"
#include "runtime/interrupt.h"
#include "runtime/memory_at_rest.h"
#include "runtime/parallel.h"
#include "runtime/workers.h"
#include "tensor/device.h"
#include "transforms/thread_modes.h"

namespace adjoint {

std::atomic<bool> detecting_anomalies{false}, checking_nan{true};
void (*report_anomaly)(const Node&) = nullptr;

namespace {

class Pass;
thread_local Pass* running = nullptr;
/// The node that runs in this thread, where anomalies are looked for or it has hooks.
thread_local const Node* executing = nullptr;
std::atomic<uint64_t> passes{0};

class Pass {
 public:
  const uint64_t id = ++passes;
  bool selective() const { return selective_; }
  bool accumulates() const { return options_.accumulate; }
  bool frees() const { return !options_.retain_graph; }
  bool shared() const { return crew_; }
  /// The node whose rule runs, in a pass of one thread.
  Node* current() const { return crew_ ? nullptr : current_.load(std::memory_order_relaxed); }
  void at_end(std::function<void()> callback) {
    std::lock_guard lock(callbacks_mutex_);
    callbacks_.push_back(std::move(callback));
  }

  /// Whether it will come to a node, which may be gone: its address and sequence number.
  bool runs(const Node* node, uint64_t sequence) {
    const uint32_t t = index_.find(node);
    return t != ~0u && tasks_[t].node->sequence == sequence && visited_[t] && tasks_[t].needed;
  }
  /// Where an edge leads in this pass: it may have come to the node before that was replaced.
  const Edge& target(const Edge& edge) const {
    const Edge* e = &edge;
    while (many_ && is_replaced(*e->node) && index_.find(e->node.get()) == ~0u)
      e = &many_in_one.load(std::memory_order_relaxed)->replacement(*e->node, e->input_nr);
    return *e;
  }

  /// Whether a result of a node is asked for itself.
  bool captures(const Node& node, uint32_t input_nr) {
    const uint32_t t = index_.find(&node);
    if (t == ~0u || !tasks_[t].wanted) return false;
    for (int32_t c = tasks_[t].capture; c >= 0; c = captures_[c].next)
      if (captures_[c].input_nr == input_nr) return true;
    return options_.accumulate;
  }

  /// The nodes that it runs, first to last, as if it had not begun.
  std::vector<Ref<Node>> order() {
    const auto visited = [this](uint32_t t) { return visited_[t]; };
    const auto next = [this](const Edge& e) { return index_.find(target(e).node.get()); };
    return order_of(tasks_, visited, next);
  }

  Pass(const BackwardOptions& options, std::span<const Edge> inputs)
      : options_(options), captured_(inputs.size()) {
    tasks_.reserve(12);  // a block that the allocator keeps at hand: most passes are short
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      const Edge& input = target(inputs[i]);
      Task& t = tasks_[task_of(input.node.get())];
      t.wanted = true;
      // Where gradients accumulate, leaves take theirs when they run, and other inputs retain them.
      if (options.accumulate) continue;
      captures_.push_back({input.input_nr, static_cast<uint32_t>(i), t.capture});
      t.capture = static_cast<int32_t>(captures_.size()) - 1;
    }
    selective_ = !inputs.empty();
  }

  Reached reached;

  Tensors run(std::span<const Edge> roots, Tensors cotangents) {
    reached.roots = roots;
    for (const Edge& root : roots)
      if (root) many_ ? discover<true>(target(root).node.get()) : discover<false>(root.node.get());
    const int threads =
        thread_state.parallel_backward && !options_.create_graph ? runtime::get_num_threads() : 1;
    if (threads > 1) put_in_order();
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i]) continue;
      const Edge& root = target(roots[i]);
      const uint32_t t = index_[root.node.get()];
      add(tasks_[t], root.input_nr, std::move(cotangents[i]));
      if (tasks_[t].dependencies == 0 && !queued(t)) push(t);
    }
    GradMode mode(options_.create_graph);
    // Nodes and hooks know one convention.
    holomorphic_ = thread_state.holomorphic;
    struct Running {
      Pass* outer;
      bool holomorphic;
      ~Running() {
        running = outer;
        thread_state.holomorphic = holomorphic;
      }
    } scope{std::exchange(running, this), std::exchange(thread_state.holomorphic, false)};
    if (threads > 1) run_in(threads);
    many_ ? run_ready<true>() : run_ready<false>();
    // They may add more.
    for (size_t i = 0; i < callbacks_.size(); ++i) {
      const auto callback = std::move(callbacks_[i]);
      callback();
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
      if (tasks_.size() == tasks_.capacity()) tasks_.reserve(4 * tasks_.size());  // gradients move one by one
      tasks_.emplace_back(node);
      visited_.push_back(false);
    }
    return slot;
  }

  // Depth first without recursion: counts each node's dependencies, and with given inputs, which nodes lead
  // to one.
  template <bool kMany>
  [[gnu::hot]] void discover(Node* root) {
    struct Frame {
      uint32_t task;
      uint32_t edge;
    };
    std::vector<Frame> stack;
    auto enter = [&](uint32_t t) {
      visited_[t] = true;
      tasks_[t].needed = !selective_ || tasks_[t].wanted;
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
        // A task is needed if one that it leads to is: the parent looks at this edge now.
        if (!stack.empty() && tasks_[done].needed) tasks_[stack.back().task].needed = true;
        continue;
      }
      const Edge& edge = edges[top.edge++];
      Node* next = edge.node.get();
      if (!next) continue;
      if constexpr (kMany) next = target(edge).node.get();
      const uint32_t parent = top.task;
      const uint32_t t = task_of(next);
      ++tasks_[t].dependencies;
      if (!visited_[t])
        enter(t);
      else if (tasks_[t].needed)
        tasks_[parent].needed = true;
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

  /// Nobody else sees this sum: it may be added to in place.
  static bool is_ours(const Tensor& sum) {
    return !thread_state.grad && !(sum->flags & TensorImpl::kTransformed) && sum.unique() &&
           sum->storage->refcount.load(std::memory_order_acquire) == 1 && sum.is_contiguous() &&
           sum->storage->kind != Storage::Kind::External;
  }

  void add(Task& task, uint32_t input_nr, Tensor g) {
    if (task.gradients.size() == 0) task.gradients.resize(task.node->num_inputs);
    Tensor& slot = task.gradients[input_nr];
    if (!slot.defined()) {
      slot = std::move(g);
    } else if (is_ours(slot) && !(g->flags & TensorImpl::kTransformed)) {
      add_in_place(slot, g);
    } else {
      slot = add_gradients(slot, g);
    }
  }

  /// Adds up what several threads brought. Many gradients for one place (a weight that is used at each step)
  /// are added in one go.
  void add(Task& task, std::vector<Crew::Arrival> arrivals) {
    Tensors run;
    for (size_t i = 0; i < arrivals.size();) {
      const uint32_t input_nr = arrivals[i].input_nr;
      add(task, input_nr, std::move(arrivals[i++].gradient));
      if (const Tensor& sum = task.gradients[input_nr]; is_ours(sum)) {
        for (run.clear(); i < arrivals.size() && arrivals[i].input_nr == input_nr &&
                          !(arrivals[i].gradient->flags & TensorImpl::kTransformed);
             ++i)
          run.push_back(std::move(arrivals[i].gradient));
        add_in_place(sum, run);
      }
    }
  }

  void run_tensor_hooks(Node& node, Gradients& in) {
    if (node.sequence == Node::kFirst)
      run_leaf_hooks(static_cast<LeafNode&>(node), in[0]);
    else if (NodeExtras* const extras = node.extras())
      run_hooks_of_results(node, *extras, in, holomorphic_);
  }

  // Not `computes`: the hooks alone, for a node beyond which nothing is asked for.
  void apply_with_hooks(Node& node, Gradients& in, Gradients& out, bool computes) {
    NodeExtras* extras = node.extras();
    const bool anomalies = detecting_anomalies.load(std::memory_order_relaxed);
    if (extras)
      for (auto& hook : runtime::copied(extras->mutex, extras->prehooks)) hook.second(in);
    const auto posthooks =
        extras ? runtime::copied(extras->mutex, extras->posthooks) : decltype(extras->posthooks)();
    Gradients given(posthooks.empty() ? 0 : in.size());
    for (size_t i = 0; i < given.size(); ++i) given[i] = in[i];
    struct Executing {
      const Node* before;
      ~Executing() { executing = before; }
    } scope{std::exchange(executing, &node)};
    try {
      // Hooks may have taken every gradient away.
      if (computes && (any_defined(in) || node.wants_undefined())) apply(node, in, out);
    } catch (...) {
      if (anomalies && report_anomaly) report_anomaly(node);
      throw;
    }
    if (anomalies && checking_nan.load(std::memory_order_relaxed)) refuse_nan(node, out);
    for (auto& hook : posthooks) hook.second(out, given);
    if (NodeExtras* e = node.extras()) run_late_hooks(*e, out, posthooks.size(), in.size());
  }
  static bool any_defined(const Gradients& in) {
    return std::any_of(in.begin(), in.end(), [](const Tensor& t) { return t.defined(); });
  }
  /// The flags of what arrived.
  static unsigned flags_of(const Gradients& in) {
    unsigned flags = 0;
    for (const Tensor& t : in)
      if (t.defined()) flags |= t->flags;
    return flags;
  }
  [[gnu::cold, gnu::noinline]] static void apply_elsewhere(Node& node, Gradients& in, Gradients& out) {
    const std::string name = node.name();
    DeviceOfCall where(name.c_str());
    for (const Tensor& t : in)
      if (t.defined()) where.add(t);
    const DeviceScope scope(where.device());
    node.apply(in, out);
  }
  void apply(Node& node, Gradients& in, Gradients& out) {
    current_.store(&node, std::memory_order_relaxed);
    if (flags_of(in) & TensorImpl::kElsewhere) [[unlikely]]
      apply_elsewhere(node, in, out);
    else
      node.apply(in, out);
    current_.store(nullptr, std::memory_order_relaxed);
  }
  template <bool kMany>
  void run_ready() {
    uint32_t count = 0;
    while (!ready_.empty()) {
      if ((++count & 1023) == 0) runtime::check_interrupt();
      step<kMany>(pop());
    }
  }

  template <bool kMany>
  [[gnu::hot]] void step(uint32_t number) {
    MemoryInUse::pause();
    Node& node = *tasks_[number].node;
    Gradients in = std::move(tasks_[number].gradients);
    if (in.size() == 0) in.resize(node.num_inputs);
    if (reached.parted.load(std::memory_order_relaxed) && !any_defined(in) && !reached.has(node)) [[unlikely]]
      tasks_[number].needed = false;
    if (tasks_[number].needed) [[likely]]
      run_tensor_hooks(node, in);
    for (int32_t c = tasks_[number].capture; c >= 0; c = captures_[c].next)
      captured_[captures_[c].result] = in[captures_[c].input_nr];
    if (holomorphic_ && node.sequence == Node::kFirst) [[unlikely]]
      in[0] = conjugate_of(std::move(in[0]));
    const auto edges = node.edges();
    const bool wanted = tasks_[number].needed && (options_.accumulate || !edges.empty() || selective_);
    Gradients out(edges.size());
    if (selective_ && ends_here(number)) {
      if (options_.accumulate && has_hooks(node)) apply_with_hooks(node, in, out, false);
    } else if (wanted && (any_defined(in) || node.wants_undefined() || has_hooks(node))) {
      ReadLock reading(node, options_.retain_graph ? ReadLock::Keep : ReadLock::Free);
      if (node.extras() || detecting_anomalies.load(std::memory_order_relaxed)) [[unlikely]]
        apply_with_hooks(node, in, out, true);
      else {
        apply(node, in, out);
        if (node.extras()) [[unlikely]]
          run_late_hooks(*node.extras(), out, 0, in.size());
      }
      reading.done();
    }
    in = Gradients();
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i]) continue;
      const Edge& edge = kMany ? target(edges[i]) : edges[i];
      Node* const next = edge.node.get();
      const uint32_t t = index_.find(next);
      Task& task = tasks_[t];
      Tensor g;
      if (out[i].defined() && task.needed) {
        const ResultInfo& info = next->result(edge.input_nr);
        g = std::move(out[i]);
        if (!info.fits(g)) g = fit_gradient(std::move(g), info, node, i);
      }
      if (crew_) [[unlikely]] {
        crew_->arrive(t, task.dependencies,
                      {node.sequence, static_cast<uint32_t>(i), edge.input_nr, std::move(g)});
        continue;
      }
      if (g.defined()) add(task, edge.input_nr, std::move(g));
      if (--task.dependencies == 0) push(t);
    }
    if (!after_.empty() && after_[number] != ~0u) [[unlikely]]
      crew_->arrive(after_[number], tasks_[after_[number]].dependencies, {});
  }

  // Several threads in one pass (autograd/crew.h). Thread number 0 is the caller's: it looks for interrupts,
  // too.
  void work(size_t number) {
    crew_->work(
        number,
        [this](uint32_t t) {
          add(tasks_[t], crew_->arrived(t));
          many_ ? step<true>(t) : step<false>(t);
        },
        [number] {
          MemoryInUse::pause();
          if (number == 0) runtime::check_interrupt();
        });
  }

  /// What has to run in one order waits for what one thread would run before it.
  void put_in_order() {
    const auto ordered = [](const Task& t) { return t.needed && t.node->ordered(); };
    if (std::ranges::count_if(tasks_, ordered) < 2) return;
    after_.resize(tasks_.size(), ~0u);
    uint32_t last = ~0u;
    for (const Ref<Node>& node : order()) {
      if (!node->ordered()) continue;
      const uint32_t t = index_.find(node.get());
      if (last != ~0u) after_[last] = t, ++tasks_[t].dependencies;
      last = t;
    }
  }

  void run_in(int threads) {
    Crew crew(tasks_.size(), threads);
    crew_ = &crew;
    std::ranges::sort(ready_, [this](uint32_t a, uint32_t b) { return later(a, b); });
    for (uint32_t t : ready_) crew.push(t);
    ready_.clear();
    const ThreadModes modes;
    std::optional<MemoryInUse::Away> waiting;
    runtime::share(runtime::Helping::Passes, threads - 1, [&](int number) {
      if (number == 0) {
        work(0);
        waiting.emplace();  // for the others
        return;
      }
      const ThreadModes::Here here(modes);
      const MemoryInUse memory(true, MemoryInUse::Pass);
      Pass* const outer = std::exchange(running, this);
      work(static_cast<size_t>(number));
      running = outer;
    });
    crew_ = nullptr;
    crew.rethrow();
  }

  // An input's own rule need not run when nothing beyond it is asked for.
  bool ends_here(uint32_t number) {
    if (!tasks_[number].wanted) return false;
    const auto edges = tasks_[number].node->edges();
    if (edges.empty()) return !options_.accumulate;
    for (const Edge& e : edges)
      if (e && tasks_[index_.find(target(e).node.get())].needed) return false;
    return true;
  }

  /// Whether it may come to nodes that stand for many: it is counted then.
  struct ByMany {
    const bool is = many_in_one.load(std::memory_order_acquire);
    ByMany() {
      if (is) [[unlikely]]
        passes_by_many.fetch_add(1);
    }
    ByMany(const ByMany&) = delete;
    ~ByMany() {
      if (is) [[unlikely]]
        passes_by_many.fetch_sub(1);
    }
  } counted_;
  const bool many_ = counted_.is;
  BackwardOptions options_;
  bool selective_ = false, holomorphic_ = false;
  TaskIndex index_;
  std::vector<Task> tasks_;
  std::vector<bool> visited_;
  std::vector<Capture> captures_;
  std::vector<uint32_t> ready_;
  /// Of a pass that threads share: the task that waits for each, besides those that its edges lead to.
  std::vector<uint32_t> after_;
  Tensors captured_;
  Crew* crew_ = nullptr;
  /// Of a pass in one thread; those of a crew write it too, and nobody reads it then.
  std::atomic<Node*> current_{nullptr};
  std::mutex callbacks_mutex_;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace

[[gnu::hot]] Tensors run_backward(std::span<const Edge> roots, Tensors cotangents,
                                  std::span<const Edge> inputs, const BackwardOptions& options) {
  runtime::release_rested_memory();
  if (const ManyInOne* const many = many_in_one.load(std::memory_order_acquire)) [[unlikely]]
    many->replace(roots, inputs, options.create_graph);
  return Pass(options, inputs).run(roots, std::move(cotangents));
}

const Node* current_node() { return executing; }
uint64_t current_pass() { return running ? running->id : 0; }
bool current_pass_accumulates() { return running && running->accumulates(); }
bool current_pass_captures(const Node& node, uint32_t input_nr) {
  return running && running->captures(node, input_nr);
}
bool current_pass_frees() { return running && running->frees(); }
bool current_pass_is_shared() { return running && running->shared(); }
Ref<Node> current_node_of_pass() {
  return running && running->current() ? Ref<Node>::share(running->current()) : Ref<Node>();
}
std::vector<Ref<Node>> order_of_pass() {
  if (!running) fail("_current_graph_task_execution_order: should only be called during the backward pass");
  return running->order();
}
void current_pass_is_parted() {
  if (running) running->reached.parted.store(true, std::memory_order_relaxed);
}
bool current_pass_is_selective() { return running && running->selective(); }
bool current_pass_runs(const Node* node, uint64_t sequence) {
  if (!running) fail("_will_engine_execute_node: no backward pass is running in this thread");
  return running->runs(node, sequence);
}
const Edge& current_pass_target(const Edge& edge) { return running ? running->target(edge) : resolved(edge); }
void at_end_of_pass(std::function<void()> callback) {
  if (!running) fail("Final callbacks can only be installed during backward pass.");
  running->at_end(std::move(callback));
}

}  // namespace adjoint
