// What is switched on in this thread: recording, inference mode, transforms.
//
// One small thread-local struct; the door (dispatch/) reads it once per call. Every room may look at it.
#pragma once

#include <cstdint>
#include <memory>

namespace adjoint {

struct BatchLevel;   // transforms/batching.h
struct Interpreter;  // transforms/interpreter.h
struct Observer;
class DualLevel;              // transforms/tangents.h
enum class Device : uint8_t;  // runtime/device.h
class SavedHooks;             // autograd/saved.h
class Autocast;               // transforms/autocast.h
class MemoryInUse;            // tensor/memory_in_use.h

struct ThreadState {
  bool grad = true;
  bool inference = false;
  /// What was asked for in inference mode, where nothing is recorded whatever that is.
  bool grad_asked = false;
  /// Complex gradients by the convention of holomorphic functions, at both ends of a pass the conjugates of
  /// ours.
  bool holomorphic = false;
  /// Whether independent branches of a backward pass run in several threads.
  bool parallel_backward = false;
  /// Whether a composition is differentiated: of what its gradient is a function, its fused node says.
  bool within_composition = false;
  /// What new tensors are marked with: TensorImpl::kInference in inference mode, TensorImpl::kElsewhere where
  /// `device` is not the CPU.
  uint32_t flags_of_new = 0;
  /// What new memory is marked with: the vmap() that it is made inside of, as Storage::made_in.
  uint32_t made_in = 0;
  /// Where the results of the call that runs are made, and where those are made that no tensor is an input
  /// of.
  Device device{}, default_device{};
  /// Whether anybody looks on: interpreters, observers. False in ordinary programs, and within a call that is
  /// seen as a whole.
  bool watched = false;
  /// The innermost of each; owned.
  Interpreter* interpreter = nullptr;
  Observer* observer = nullptr;
  /// The one among the interpreters that is autocast, wherever it stands and also while calls go past it.
  Autocast* autocast = nullptr;
  /// What packs tensors that are saved; null in ordinary programs.
  SavedHooks* saved_hooks = nullptr;
  /// The innermost open level of forward mode; null in ordinary programs.
  DualLevel* dual_level = nullptr;
  /// Tangents of the levels from this number to that are not looked at: a Function has a forward rule of its
  /// own.
  uint64_t dual_skip_from = 0, dual_skip_to = 0;
  /// The innermost vmap(); null in ordinary programs.
  BatchLevel* batch_level = nullptr;
  /// The innermost scope in which this thread works beside others.
  MemoryInUse* memory_in_use = nullptr;
  /// Orders nodes: later operations of a thread run backward first.
  uint64_t sequence = 0;
};

extern constinit thread_local ThreadState thread_state;

/// What another language has switched on in a thread. A thread that works for this one enters it, and leaves
/// it at its end (see transforms/thread_modes.h).
struct ForeignState {
  virtual ~ForeignState() = default;
  virtual void* enter() = 0;
  virtual void leave(void* entered) noexcept = 0;
};
/// That of this thread; may be null. Set by the bindings.
extern std::shared_ptr<ForeignState> (*foreign_state)();

inline bool grad_enabled() { return thread_state.grad; }

/// Sets recording for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(thread_state.grad) { thread_state.grad = on; }
  ~GradMode() { thread_state.grad = before_; }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace adjoint
