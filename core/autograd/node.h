// A node of the graph: the derivative of one recorded call.
//
// A node keeps edges to the nodes that made its call's inputs, and what its rule needs. It is immutable but
// for `release`, which frees what was saved; passes in several threads meet there, and `ReadLock` keeps them
// apart. Gradients arrive one per result of the call (`inputs`), and leave one per input of the call
// (`edges`). Nodes form a graph without cycles, freed by counting; `Node::destroy` keeps a list instead of
// recursing, so that a chain of any length can go.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "state.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace adjoint {

class Node;

/// Who owns a leaf's accumulator owns the leaf: the two have one count, the leaf's.
inline void share_count(Node* node) noexcept;
inline void release_count(Node* node) noexcept;

/// Where a gradient goes next: to input `input_nr` of `node`. No node: nowhere.
struct Edge {
  Ref<Node> node;
  uint32_t input_nr = 0;
  explicit operator bool() const { return bool(node); }
};

/// What a gradient must look like when it arrives: the result's type and shape.
class ResultInfo {
 public:
  ResultInfo() = default;
  /// Make it that of `t`.
  void describe(const Tensor& t) {
    if (t.dim() > 4 || ndim_ > 4) [[unlikely]]
      return describe_many(t);
    dtype_ = t.dtype();
    device_ = device_of(t);
    ndim_ = static_cast<uint8_t>(t.dim());
    const int64_t* from = t.sizes().data();
    for (int i = 0; i < ndim_; ++i) inline_[i] = from[i];
  }
  ResultInfo(ResultInfo&& o) noexcept;
  ResultInfo& operator=(ResultInfo&& o) noexcept;
  ~ResultInfo() {
    if (ndim_ > 4) delete[] heap_;
  }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  IntList sizes() const { return {ndim_ > 4 ? heap_ : inline_, ndim_}; }
  /// For the node: the type that its rule computes in. It stands here because there is room.
  DType computed = DType::Float32;
  /// For the end of a leaf: it takes gradients of any type.
  bool any_type = false;
  /// Gradients are to have another type than the tensor.
  void set_dtype(DType type) { dtype_ = type; }
  bool fits(const Tensor& g) const { return g.dtype() == dtype_ && same(g.sizes(), sizes()); }

 private:
  void describe_many(const Tensor& t);
  DType dtype_ = DType::Float32;
  Device device_ = Device::CPU;
  uint8_t ndim_ = 0;
  union {
    int64_t inline_[4];
    int64_t* heap_;
  };
};

/// A handful of tensors, some undefined; inline while there are few.
class Gradients {
 public:
  explicit Gradients(size_t n = 0) { resize(n); }
  Gradients(Gradients&&) = default;
  Gradients& operator=(Gradients&&) = default;
  void resize(size_t n) {
    size_ = static_cast<uint32_t>(n);
    if (n > kInline) more_.resize(n);
  }
  size_t size() const { return size_; }
  Tensor& operator[](size_t i) { return size_ > kInline ? more_[i] : inline_[i]; }
  const Tensor& operator[](size_t i) const { return size_ > kInline ? more_[i] : inline_[i]; }
  Tensor* begin() { return size_ > kInline ? more_.data() : inline_; }
  Tensor* end() { return begin() + size_; }
  const Tensor* begin() const { return size_ > kInline ? more_.data() : inline_; }
  const Tensor* end() const { return begin() + size_; }

 private:
  static constexpr size_t kInline = 3;
  uint32_t size_ = 0;
  Tensor inline_[kInline];
  std::vector<Tensor> more_;
};

using GradientHook = std::function<Tensor(const Tensor&)>;

class SavedTensor;
struct PackedTensor;

/// What few nodes have: hooks, tensors that retain their gradient, saved tensors that hooks packed, a source
/// line.
struct NodeExtras {
  struct TensorHook {
    uint64_t id;
    uint32_t input_nr;
    GradientHook hook;
  };
  runtime::SmallLock mutex;
  std::vector<TensorHook> tensor_hooks;
  /// Not owned: a tensor that retains its gradient takes itself out when it dies.
  std::vector<std::pair<uint32_t, TensorImpl*>> retainers;
  std::vector<std::pair<uint64_t, std::function<void(Gradients&)>>> prehooks;
  std::vector<std::pair<uint64_t, std::function<void(Gradients& out, const Gradients& in)>>> posthooks;
  std::vector<std::pair<const SavedTensor*, std::shared_ptr<PackedTensor>>> packed;
  /// Where the program recorded this node, if that is switched on.
  std::string trace;
  /// The node that recorded this one as it ran, and where that was recorded.
  std::string induced_by, induced_trace;
  /// What another language keeps with the node.
  std::shared_ptr<void> metadata;
};

/// Recording lines: whether nodes and writes note where the program is.
extern std::atomic<bool> recording_lines;
/// What to note; set by the bindings.
extern std::string (*where_now)();

/// What `_saved_*` shows of a node.
struct SavedValue {
  std::string name;
  /// Where it is saved; null for values that are not.
  SavedTensor* slot = nullptr;
  /// Which result of the node it is, if it is one.
  uint32_t output_nr = 0;
  Tensor tensor = {};
  std::string text = {};  // for values that are not tensors
};

class Node {
 public:
  static constexpr uint64_t kFirst = ~uint64_t{0};

  std::atomic<uint32_t> refcount{1};
  /// Number of results of the recorded call.
  uint16_t num_inputs = 1;
  /// Who reads what was saved: see ReadLock.
  std::atomic<uint16_t> readers{0};
  uint64_t sequence;
  std::atomic<NodeExtras*> extras_{nullptr};
  ResultInfo info;
  std::unique_ptr<ResultInfo[]> more_info;

  explicit Node(uint64_t sequence_number) : sequence(sequence_number) {}
  Node() : sequence(thread_state.sequence++) {
    if (recording_lines.load(std::memory_order_relaxed)) [[unlikely]]
      note_line();
  }
  virtual ~Node() { delete extras_.load(std::memory_order_relaxed); }
  Node(const Node&) = delete;

  /// As torch writes it: MulBackward0.
  virtual std::string name() const = 0;
  virtual std::span<Edge> edges() { return {}; }
  /// One gradient per input of the call from one per result; undefined means none.
  virtual void apply(Gradients& in, Gradients& out) = 0;
  /// Free what was saved, once it is not needed any more.
  virtual void release() {}
  virtual std::vector<SavedValue> saved() { return {}; }
  /// The object of another language that this node stands for; null for nodes of the core.
  virtual void* object() { return nullptr; }
  /// Whether the rule wants to run when no gradient arrived.
  virtual bool wants_undefined() const { return false; }
  /// Whether its rule has effects that others see in their order: they run in one order, also where several
  /// threads share a pass.
  virtual bool ordered() const { return false; }

  /// Asked for once, when recorded: something is saved, which a pass will free.
  void saves_something() { readers.store(1, std::memory_order_relaxed); }
  [[noreturn]] void refuse_released() const;
  void note_line();
  void release_packed();
  /// Where the program recorded this node; empty where that was not noted.
  std::string line() const;

  const ResultInfo& result(uint32_t i) const { return i == 0 ? info : more_info[i - 1]; }
  void set_result(uint32_t i, const Tensor& t) { (i == 0 ? info : more_info[i - 1]).describe(t); }
  void set_results(uint16_t n) {
    num_inputs = n;
    if (n > 1) more_info = std::make_unique<ResultInfo[]>(n - 1);
  }
  NodeExtras* extras() const { return extras_.load(std::memory_order_acquire); }
  NodeExtras& make_extras();

  static void destroy(Node* node) noexcept;
  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes);
};

/// The end of a leaf's part of the graph: it lies in the leaf's meta and lives as long as the leaf.
class LeafNode : public Node {
 public:
  explicit LeafNode(TensorImpl* of) : Node(kFirst), leaf(of) {}
  TensorImpl* const leaf;
  /// The one that it took the place of, when the leaf got other memory.
  std::unique_ptr<LeafNode> former;
};

inline void share_count(Node* node) noexcept {
  if (node->sequence == Node::kFirst)
    runtime::share_count(static_cast<LeafNode*>(node)->leaf);
  else
    runtime::share_count<Node>(node);
}
/// One reader of what a node saved. A pass that will free it claims it on entering: from then on other passes
/// are refused as they are after it, and the last reader to leave frees. Nobody waits. A node that saves
/// nothing is free to all. In `Node::readers`, bit 0 says that something is saved, bit 1 that it is claimed,
/// the rest counts readers.
class ReadLock {
 public:
  enum Purpose { Look, Keep, Free };
  ReadLock(Node& node, Purpose purpose) : node_(node) {
    uint16_t seen = node.readers.load(std::memory_order_relaxed);
    if (!(seen & kSaves)) return;
    for (;;) {
      if (seen & kClaimed && (purpose != Look || seen < kOne)) node.refuse_released();
      const auto entered = static_cast<uint16_t>((seen + kOne) | (purpose == Free ? kClaimed : 0));
      if (node.readers.compare_exchange_weak(seen, entered, std::memory_order_acquire,
                                             std::memory_order_relaxed))
        break;
    }
    inside_ = kOne;
    // Given back with the place if the pass fails here.
    if (purpose == Free) inside_ += kClaimed;
  }
  ReadLock(const ReadLock&) = delete;
  ~ReadLock() {
    if (inside_) leave(inside_);
  }
  /// The rule has run: what was claimed may go.
  void done() {
    if (inside_) leave(kOne);
    inside_ = 0;
  }

 private:
  static constexpr uint16_t kSaves = 1, kClaimed = 2, kOne = 4;
  void leave(uint16_t taken) {
    const auto left =
        static_cast<uint16_t>(node_.readers.fetch_sub(taken, std::memory_order_acq_rel) - taken);
    if (left != (kSaves | kClaimed)) return;
    node_.release();
    if (node_.extras()) [[unlikely]]
      node_.release_packed();
  }

  Node& node_;
  uint16_t inside_ = 0;
};

inline void release_count(Node* node) noexcept {
  if (node->sequence == Node::kFirst)
    runtime::release_count(static_cast<LeafNode*>(node)->leaf);
  else
    runtime::release_count<Node>(node);
}

/// "MulBackward0" from "mul", "Log1PBackward0" from "log1p", "SumBackward1" from "sum.1": form 1 of the
/// function; "CopySlices" from "=CopySlices".
std::string backward_name(const char* op);

}  // namespace adjoint
