// Threads that help: made when work is first shared, kept from then on, asleep while there is none.
//
// Whoever has work that several threads can do at once calls `share`: it invites helpers, does the work
// itself meanwhile, and returns when each helper that came has left. Nobody waits for a helper to come: if
// all are busy, the caller does everything alone. So regions nest and run side by side with no more threads
// than callers and helpers, and no helper ever holds up another region. Helpers belong to the process, not to
// a region; they outlive it until the end.
//
// A helper that finds nothing looks around for some microseconds before it sleeps: the next region is often
// that near. After fork the child has no helpers, and every caller works alone.
#pragma once

#include <memory>
#include <type_traits>

namespace adjoint::runtime {

/// Work that is shared: called with 0 on the calling thread and with other numbers, each once, from 1 to
/// `helpers`, on as many helpers as come. It must not throw, and returns when nothing is left to do.
struct SharedWork {
  void* object;
  void (*call)(void* object, int number) noexcept;
};

/// Whose helpers: a pass may wait for its next node while the loops inside of a node could use a hand.
enum class Helping { Loops, Passes };

void share_work(Helping which, int helpers, SharedWork work);

template <class F>
void share(Helping which, int helpers, F&& f) {
  using Body = std::remove_reference_t<F>;
  share_work(which, helpers,
             {const_cast<void*>(static_cast<const void*>(std::addressof(f))),
              [](void* body, int number) noexcept { (*static_cast<Body*>(body))(number); }});
}

}  // namespace adjoint::runtime
