// Mixed precision: an interpreter that gives operators their arguments in the type that suits them.
//
// Products and convolutions get them in a type of 16 bits, which is what makes them quick; losses and the
// like in float32, because they need its range; all others as they come. Which callable is of which kind is
// said once, by `set_precision`, from Python (amp/_kinds.py), where compositions are too. Start reading at
// `Autocast::call`.
#pragma once

#include <deque>
#include <vector>

#include "transforms/interpreter.h"

namespace adjoint {

/// What an operator gets its arguments in: as they come, the lower type, float32, the widest of them.
enum class Precision : uint8_t { Own, Lower, Float32, Widest };

/// What is set in a thread.
struct AutocastSettings {
  bool enabled = false, cache = true;
  DType type = DType::BFloat16;
  /// The backward pass in which that was set: in others nothing is converted, since their calls follow the
  /// forward pass.
  uint64_t pass = 0;
};

class Autocast final : public Interpreter {
 public:
  AutocastSettings settings;

  void call(const Call& call, Results& results) override;
  Ref<Interpreter> for_thread() const override;
  /// Whether calls are converted here and now.
  bool active() const;
  Tensor converted(const Tensor& t, Precision precision);
  /// Leaves are converted once, until they are written.
  void forget() { leaves_.clear(); }

 private:
  struct Copy {
    Tensor of, is;
    uint32_t version;
    bool recorded;
  };
  std::vector<Copy> leaves_;
};

/// The one that stands in this thread; null where none does.
inline Autocast* autocast_here() { return thread_state.autocast; }
/// Put one into this thread, or take it out.
void set_autocast(bool present);

void set_precision(const Operator& op, Precision precision);

}  // namespace adjoint
