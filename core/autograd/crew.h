// The threads that share one pass: which task is whose, and what waits to be added up.
//
// Each thread has a queue. A task that becomes ready joins the queue of the thread that brought its last
// gradient, and that thread takes it next, so that a chain of nodes stays on one thread and its gradients in
// one cache. A thread whose queue is empty takes from the other end of another's: the branch that was left
// longest. It looks for a while before it sleeps, since the next branch is often a few microseconds away.
//
// The gradients that arrive at a task wait until all are there, and are then added up in the order in which
// one thread would have brought them, later nodes first: the sums are the same, bit for bit.
//
// There is no lock that all threads pass: a lock for each queue, one for each task's arrivals, and counts.
// Start reading at `work`.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lock.h"
#include "runtime/system.h"
#include "tensor/tensor.h"

namespace adjoint {

class Crew {
 public:
  struct Arrival {
    uint64_t sequence;
    uint32_t edge, input_nr;
    Tensor gradient;
  };

  Crew(size_t tasks, int threads) : arrivals_(new Arrivals[tasks]), queues_(static_cast<size_t>(threads)) {}

  /// A ready task joins the queue of the calling thread.
  void push(uint32_t task) {
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    Queue& queue = queues_[here() % queues_.size()];
    {
      const std::lock_guard lock(queue.lock);
      queue.tasks.push_back(task);
      queue.length.store(queue.tasks.size(), std::memory_order_seq_cst);
    }
    // In one order with a sleeper, who counts itself and then looks at the lengths.
    if (sleeping_.load(std::memory_order_seq_cst) > 0) wake(false);
  }

  /// One of the `dependencies` of a task is done, with or without a gradient. The last one makes it ready.
  void arrive(uint32_t task, uint32_t& dependencies, Arrival arrival) {
    if (arrival.gradient.defined()) {
      Arrivals& all = arrivals_[task];
      const std::lock_guard lock(all.lock);
      all.list.push_back(std::move(arrival));
    }
    if (std::atomic_ref(dependencies).fetch_sub(1, std::memory_order_acq_rel) == 1) push(task);
  }

  /// What arrived at a ready task, in order.
  std::vector<Arrival> arrived(uint32_t task) {
    std::vector<Arrival> list = std::move(arrivals_[task].list);
    if (list.size() > 1)
      std::ranges::sort(list, [](const Arrival& a, const Arrival& b) {
        return a.sequence != b.sequence ? a.sequence > b.sequence : a.edge < b.edge;
      });
    return list;
  }

  /// Runs tasks as thread number `number` until all are done or one failed: the first error is kept. `poll`,
  /// which may throw, is called now and then, also while there is nothing to do.
  template <class Run, class Poll>
  void work(size_t number, const Run& run, const Poll& poll) {
    struct Number {
      size_t outer;
      ~Number() { here() = outer; }
    } scope{std::exchange(here(), number)};
    for (uint32_t count = 0;;) {
      try {
        uint32_t task;
        const bool found = find(task);
        if (!found || (++count & 63) == 0) poll();
        if (found)
          run(task);
        else if (ended())
          return;
        else
          continue;
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        failed_.store(true, std::memory_order_release);
      }
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1 || failed_.load(std::memory_order_relaxed))
        wake(true);
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Arrivals {
    runtime::SmallLock lock;
    std::vector<Arrival> list;
  };
  struct alignas(64) Queue {
    runtime::SmallLock lock;
    std::deque<uint32_t> tasks;
    std::atomic<size_t> length{0};  // for those who look without the lock
  };

  /// The number of the calling thread in the innermost pass that it works in.
  static size_t& here() {
    static thread_local size_t number = 0;
    return number;
  }

  bool ended() const {
    return failed_.load(std::memory_order_acquire) || unfinished_.load(std::memory_order_acquire) == 0;
  }

  bool take(uint32_t& task) {
    for (size_t i = 0; i < queues_.size(); ++i) {
      Queue& queue = queues_[(here() + i) % queues_.size()];
      if (queue.length.load(std::memory_order_seq_cst) == 0) continue;
      const std::lock_guard lock(queue.lock);
      if (queue.tasks.empty()) continue;
      task = i == 0 ? queue.tasks.back() : queue.tasks.front();
      i == 0 ? queue.tasks.pop_back() : queue.tasks.pop_front();
      queue.length.store(queue.tasks.size(), std::memory_order_relaxed);
      return true;
    }
    return false;
  }

  /// A task; else false, when all is done or failed, or nothing came for a while.
  bool find(uint32_t& task) {
    constexpr int kLooks = 2000;
    for (int i = 0; i < kLooks; ++i) {
      if (ended()) return false;
      if (take(task)) return true;
      runtime::system::pause();
    }
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    const bool found = !ended() && take(task);
    if (!found && !ended()) change_.wait_for(lock, std::chrono::milliseconds(50));
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
    return found;
  }

  void wake(bool all) {
    // With the lock: whoever looked in vain is asleep by then.
    const std::lock_guard lock(mutex_);
    all ? change_.notify_all() : change_.notify_one();
  }

  std::unique_ptr<Arrivals[]> arrivals_;
  std::vector<Queue> queues_;
  /// Tasks in queues or running.
  std::atomic<int64_t> unfinished_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // of what follows
  std::condition_variable change_;
  std::exception_ptr error_;
};

}  // namespace adjoint
