// See workers.h. One list of invitations under one lock, which is held for a few instructions when a thread
// enters or leaves a region, never while it works. Start reading at `share`.
#include "runtime/workers.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/system.h"

namespace adjoint::runtime {
namespace {

/// One call of `share`, on its caller's stack. The lock guards all of it; `inside` may be looked at without.
struct Invitation {
  SharedWork work;
  int places;  // how many more may come
  int next_number = 1;
  std::atomic<int> inside{0};
  Invitation* next = nullptr;
};

/// What is looked for by looking again and again, for about `microseconds`.
template <class Found>
bool look_around(int microseconds, const Found& found) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  do {
    for (int i = 0; i < 16; ++i) {
      if (found()) return true;
      system::pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// How long a helper looks for more work, and a caller for the last helper to leave, before they sleep.
constexpr int kHelperLooks = 20, kCallerLooks = 50;

class Helpers {
 public:
  /// Invites, does the work, and sees the helpers off.
  void share(int helpers, SharedWork work) {
    Invitation own{work, helpers};
    bool asleep;
    {
      const std::lock_guard guard(lock_);
      while (threads_ < helpers && start()) {
      }
      own.next = first_;
      first_ = &own;
      open_.fetch_add(1, std::memory_order_relaxed);
      asleep = sleeping_ > 0;
      if (asleep) part();
    }
    if (asleep) helpers == 1 ? came_.notify_one() : came_.notify_all();
    work.call(work.object, 0);
    {
      const std::lock_guard guard(lock_);
      if (own.places > 0) remove(own);
    }
    // The last thing that a helper touches of `own` is this count.
    if (look_around(kCallerLooks, [&] { return own.inside.load(std::memory_order_acquire) == 0; })) return;
    std::unique_lock guard(lock_);
    ++waiting_;
    left_.wait(guard, [&] { return own.inside.load(std::memory_order_acquire) == 0; });
    --waiting_;
  }

  void before_fork() { lock_.lock(); }
  void after_fork() { lock_.unlock(); }

 private:
  /// With the lock. An invitation that is full is no longer on the list.
  void remove(Invitation& invitation) {
    Invitation** at = &first_;
    while (*at != &invitation) at = &(*at)->next;
    *at = invitation.next;
    open_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// With the lock. A guest system takes the idle processors of its machine for busy ones, and wakes a helper
  /// on its caller's, where both wait for each other. So helpers are kept off it: when the caller has moved,
  /// and not at each call where several callers take turns.
  void part() {
    const int processor = system::current_processor();
    if (processor < 0 || processor == free_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - parted_ < std::chrono::milliseconds(1)) return;
    system::keep_off(processor, std::span(known_).first(static_cast<size_t>(known_count_)));
    free_ = processor;
    parted_ = now;
  }

  /// With the lock. False where the system gives no more threads.
  bool start() {
    const system::WithoutSignals started_without;
    try {
      std::thread([this] { help(); }).detach();
      ++threads_;
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  [[noreturn]] void help() {
    {
      const std::lock_guard guard(lock_);
      if (known_count_ < static_cast<int>(known_.size())) known_[known_count_++] = system::this_thread();
      free_ = -1;
    }
    for (;;) {
      look_around(kHelperLooks, [&] { return open_.load(std::memory_order_relaxed) > 0; });
      std::unique_lock guard(lock_);
      ++sleeping_;
      came_.wait(guard, [&] { return first_ != nullptr; });
      --sleeping_;
      // The newest first: the region that is nested deepest holds up the others.
      Invitation& invitation = *first_;
      const int number = invitation.next_number++;
      if (--invitation.places == 0) remove(invitation);
      invitation.inside.fetch_add(1, std::memory_order_relaxed);
      guard.unlock();
      invitation.work.call(invitation.work.object, number);
      guard.lock();
      invitation.inside.fetch_sub(1, std::memory_order_release);
      if (waiting_ > 0) left_.notify_all();
    }
  }

  std::mutex lock_;  // of what follows
  std::condition_variable came_, left_;
  Invitation* first_ = nullptr;
  int threads_ = 0, sleeping_ = 0, waiting_ = 0;
  std::array<int, 64> known_{};  // the helpers that can be told where to run
  int known_count_ = 0;
  int free_ = -1;  // the processor that they were kept off, and when
  std::chrono::steady_clock::time_point parted_;
  std::atomic<int> open_{0};  // invitations on the list, for those who look without the lock
};

/// Never destroyed: helpers may sleep in it when the program ends.
Helpers& all_helpers(Helping which) {
  static Helpers* const helpers = new Helpers[2];
  return helpers[static_cast<int>(which)];
}

constinit std::atomic<bool> forked = false;

void after_fork() {
  all_helpers(Helping::Passes).after_fork();
  all_helpers(Helping::Loops).after_fork();
}
[[maybe_unused]] const bool forks_watched = [] {
  system::at_fork(
      [] {
        all_helpers(Helping::Loops).before_fork();
        all_helpers(Helping::Passes).before_fork();
      },
      [] { after_fork(); },
      [] {
        after_fork();
        forked.store(true, std::memory_order_relaxed);
      });
  return true;
}();

}  // namespace

void share_work(Helping which, int helpers, SharedWork work) {
  if (helpers <= 0 || forked.load(std::memory_order_relaxed)) return work.call(work.object, 0);
  all_helpers(which).share(helpers, work);
}

}  // namespace adjoint::runtime
