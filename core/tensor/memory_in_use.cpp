#include "tensor/memory_in_use.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lock.h"
#include "state.h"

namespace adjoint {

std::atomic<bool> memory_waits{false};

/// Who uses memory, and what waits for them.
struct UsedMemory {
  struct Waiting {
    Storage* storage;
    uint64_t since;
  };
  runtime::SmallLock lock;  // of what follows, and of the list
  uint64_t clock = 0;
  MemoryInUse* first = nullptr;
  std::vector<Waiting> waiting;

  /// With the lock: takes what was given up before any that is here came.
  std::vector<Waiting> take_unused() {
    uint64_t oldest = UINT64_MAX;
    for (const MemoryInUse* m = first; m; m = m->next_) oldest = std::min(oldest, m->since_);
    const auto unused = std::stable_partition(waiting.begin(), waiting.end(),
                                              [&](const Waiting& w) { return w.since >= oldest; });
    std::vector<Waiting> taken(unused, waiting.end());
    waiting.erase(unused, waiting.end());
    memory_waits.store(!waiting.empty(), std::memory_order_relaxed);
    return taken;
  }
  /// Without it: the memory may be another language's.
  static void let_go(const std::vector<Waiting>& taken) {
    for (const Waiting& w : taken) runtime::release_count(w.storage);
  }
};

namespace {
/// Never destroyed: threads may work when the program ends.
UsedMemory& all = *new UsedMemory;
}  // namespace

void MemoryInUse::enter() {
  outer_ = std::exchange(thread_state.memory_in_use, this);
  const std::lock_guard held(all.lock);
  since_ = ++all.clock;
  next_ = all.first;
  link_ = &all.first;
  if (next_) next_->link_ = &next_;
  all.first = this;
}

void MemoryInUse::leave() {
  thread_state.memory_in_use = outer_;
  std::vector<UsedMemory::Waiting> unused;
  {
    const std::lock_guard held(all.lock);
    *link_ = next_;
    if (next_) next_->link_ = link_;
    if (!all.waiting.empty()) unused = all.take_unused();
  }
  all.let_go(unused);
}

void MemoryInUse::begin_again() {
  std::vector<UsedMemory::Waiting> unused;
  if (MemoryInUse* const here = thread_state.memory_in_use) {
    const std::lock_guard held(all.lock);
    here->since_ = ++all.clock;
    unused = all.take_unused();
  }
  all.let_go(unused);
}

void give_up(Storage* storage) {
  {
    // Under the lock even when nobody is there: who enters after this finds the tensor's other memory.
    const std::lock_guard held(all.lock);
    if (all.first) {
      all.waiting.push_back({storage, all.clock});
      memory_waits.store(true, std::memory_order_relaxed);
      return;
    }
  }
  runtime::release_count(storage);
}

}  // namespace adjoint
