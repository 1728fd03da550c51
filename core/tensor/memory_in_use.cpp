#include "tensor/memory_in_use.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/lock.h"
#include "runtime/system.h"
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
  int halts = 0;

  /// A process that is forked has this thread alone.
  void keep_own() {
    new (&lock) runtime::SmallLock;
    halts = 0;
    first = nullptr;
    for (MemoryInUse* m = thread_state.memory_in_use; m; m = m->outer_) insert(*m);
  }
  void insert(MemoryInUse& m) {
    m.next_ = first;
    m.link_ = &first;
    if (first) first->link_ = &m.next_;
    first = &m;
  }
  void tell_of_waiting() { memory_waits.store(!waiting.empty() || halts > 0, std::memory_order_relaxed); }
  /// With the lock: takes what was given up before any that is here came.
  std::vector<Waiting> take_unused() {
    uint64_t oldest = UINT64_MAX;
    for (const MemoryInUse* m = first; m; m = m->next_) oldest = std::min(oldest, m->since_);
    const auto unused = std::stable_partition(waiting.begin(), waiting.end(),
                                              [&](const Waiting& w) { return w.since >= oldest; });
    std::vector<Waiting> taken(unused, waiting.end());
    waiting.erase(unused, waiting.end());
    tell_of_waiting();
    return taken;
  }
  /// With the lock, which it lets go in between: until no halt is left.
  void stand_still(std::unique_lock<runtime::SmallLock>& held, MemoryInUse& pass) {
    while (halts > 0 && pass.kind_ == MemoryInUse::Pass && pass.away_ == 0) {
      pass.still_ = true;
      held.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      held.lock();
    }
    pass.still_ = false;
  }
  /// Without it: the memory may be another language's.
  static void let_go(const std::vector<Waiting>& taken) {
    for (const Waiting& w : taken) runtime::release_count(w.storage);
  }
};

namespace {
/// Never destroyed: threads may work when the program ends.
UsedMemory& all = *[] {
  runtime::system::at_fork(nullptr, nullptr, [] { all.keep_own(); });
  return new UsedMemory;
}();
}  // namespace

void MemoryInUse::enter() {
  outer_ = std::exchange(thread_state.memory_in_use, this);
  const std::lock_guard held(all.lock);
  since_ = ++all.clock;
  all.insert(*this);
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
    std::unique_lock held(all.lock);
    here->since_ = ++all.clock;
    unused = all.take_unused();
    all.stand_still(held, *here);
  }
  all.let_go(unused);
}

MemoryInUse::Away::Away() : from_(thread_state.memory_in_use) {
  if (!from_) return;
  const std::lock_guard held(all.lock);
  ++from_->away_;
}

void MemoryInUse::Away::back() {
  std::unique_lock held(all.lock);
  --from_->away_;
  all.stand_still(held, *from_);
}

bool MemoryInUse::Halt::complete() {
  const std::lock_guard held(all.lock);
  const auto own = [](const MemoryInUse* m) {
    const MemoryInUse* here = thread_state.memory_in_use;
    while (here && here != m) here = here->outer_;
    return here == m;
  };
  bool still = true;
  for (const MemoryInUse* m = all.first; m; m = m->next_) {
    if (m->kind_ != Pass || own(m)) continue;
    if (!std::exchange(asked_, true)) ++all.halts;
    still &= m->still_ || m->away_ > 0;
  }
  if (asked_) all.tell_of_waiting();
  return still;
}

void MemoryInUse::Halt::end() {
  const std::lock_guard held(all.lock);
  --all.halts;
  all.tell_of_waiting();
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
