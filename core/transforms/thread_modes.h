// What is switched on in a thread, for others that do a part of its work: the threads of a backward pass.
//
// Interpreters and observers are not shared: each says what stands for it in another thread (`for_thread`),
// with settings as they are when the work is shared. What is switched on or off there meanwhile ends there.
#pragma once

#include "runtime/random.h"
#include "tensor/memory_in_use.h"
#include "transforms/interpreter.h"

namespace adjoint {

/// Who looks on in a thread, as counted copies for another.
struct Onlookers {
  Ref<Interpreter> interpreter;
  Ref<Observer> observer;
  /// Autocast, which the thread may be past for now; and what keeps it then.
  Autocast* autocast = nullptr;
  Ref<Interpreter> past;

  static Onlookers copy(Interpreter* interpreter, Observer* observer, Autocast* autocast);
};

/// All that is switched on in this thread, ours and foreign.
class ThreadModes {
 public:
  ThreadModes();

  /// In the other thread, for the scope of its work.
  class Here {
   public:
    explicit Here(const ThreadModes& modes);
    ~Here();
    Here(const Here&) = delete;

   private:
    Ref<Interpreter> past_;
    ForeignState* const foreign_;
    void* entered_ = nullptr;
  };

 private:
  ThreadState state_;
  Onlookers onlookers_;
  /// Which numbers the thread draws, if not those of the process.
  runtime::Generator* const generator_;
  std::shared_ptr<ForeignState> foreign_;
};

}  // namespace adjoint
