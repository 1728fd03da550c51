// See parallel.h. Start reading at `run_chunks`.
//
// Each number of threads has an arena of its own, made when first asked for and never destroyed: a loop may
// still run in the old one while another thread changes the number, and at the end of the program TBB may be
// gone before us.
#include "runtime/parallel.h"

#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/interrupt.h"

#ifndef ADJOINT_NO_TBB
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace adjoint::runtime {
namespace {

constexpr int most_threads = 1024;
thread_local int region_depth = 0;

struct InRegion {
  InRegion() { ++region_depth; }
  ~InRegion() { --region_depth; }
};

int default_num_threads() {
#ifdef ADJOINT_NO_TBB
  return 1;
#else
  if (const char* text = std::getenv("ADJOINT_NUM_THREADS")) {
    char* end = nullptr;
    const long count = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && count >= 1 && count <= most_threads) return static_cast<int>(count);
  }
  const unsigned processors = std::thread::hardware_concurrency();
  return std::clamp(static_cast<int>(processors), 1, most_threads);
#endif
}

#ifndef ADJOINT_NO_TBB

std::mutex arenas_mutex;
tbb::task_arena* arenas[most_threads + 1] = {};
constinit std::atomic<bool> forked = false;

[[maybe_unused]] tbb::task_arena& arena(int threads) {
  const std::lock_guard<std::mutex> lock(arenas_mutex);
  tbb::task_arena*& slot = arenas[threads];
  if (slot == nullptr) slot = new tbb::task_arena(threads);
  return *slot;
}

#if defined(__unix__) || defined(__APPLE__)
[[maybe_unused]] const bool forks_watched = [] {
  pthread_atfork([] { arenas_mutex.lock(); }, [] { arenas_mutex.unlock(); },
                 [] {
                   arenas_mutex.unlock();
                   forked.store(true, std::memory_order_relaxed);
                 });
  return true;
}();
#endif

#endif

}  // namespace

bool in_parallel_region() { return region_depth > 0; }

void set_num_threads(int count) {
  if (count < 1 || count > most_threads) {
    throw std::invalid_argument("set_num_threads: expected a number from 1 to " +
                                std::to_string(most_threads) + ", got " + std::to_string(count));
  }
#ifdef ADJOINT_NO_TBB
  count = 1;
#endif
  detail::num_threads.store(count, std::memory_order_relaxed);
}

namespace detail {

constinit std::atomic<int> num_threads = 0;

int initialize_num_threads() {
  int expected = 0;
  const int count = default_num_threads();
  num_threads.compare_exchange_strong(expected, count, std::memory_order_relaxed);
  return expected ? expected : count;
}

namespace {

/// A chunk in pieces of some hundred microseconds each; between them it asks whether to go on. `stopped`: another thread
/// was told that it is not.
void run_pieces(int64_t begin, int64_t end, int64_t grain, RangeFunction f, const std::atomic<bool>* stopped) {
  const int64_t piece = grain < 64 ? std::max<int64_t>(grain, 1) : grain > INT64_MAX / 16 ? grain : (8 * grain + 63) & ~int64_t{63};
  for (int64_t b = begin;;) {
    const int64_t e = end - b > piece ? b + piece : end;
    f.call(f.object, b, e);
    if ((b = e) == end) return;
    check_interrupt();
    if (stopped && stopped->load(std::memory_order_relaxed)) return;
  }
}

[[maybe_unused]] void run_alone(int64_t begin, int64_t end, int64_t grain, RangeFunction f) {
  const InRegion in_region;
  run_pieces(begin, end, grain, f, nullptr);
}

}  // namespace

#ifdef ADJOINT_NO_TBB

void run_chunks(int64_t begin, int64_t end, int64_t grain, RangeFunction f) { run_alone(begin, end, grain, f); }

#elif defined(__SANITIZE_THREAD__)

/// oneTBB's library is not instrumented, and ThreadSanitizer takes its handing over of tasks for races. So that the
/// chunks themselves are watched, plain threads run them in such builds.
void run_chunks(int64_t begin, int64_t end, int64_t grain, RangeFunction f) {
  const int64_t chunk = std::max(grain, (end - begin - 1) / (int64_t{4} * get_num_threads()) + 1);
  std::atomic<int64_t> next{begin};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    const InRegion in_region;
    try {
      for (int64_t b; (b = next.fetch_add(chunk)) < end;) {
        const Uninterrupted helps;
        run_pieces(b, std::min(b + chunk, end), grain, f, nullptr);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(error_mutex);
      error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < get_num_threads() && !in_parallel_region(); ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

#else

/// A few chunks per thread: enough to even out what other programs take from one of them, few enough that a
/// chunk is worth its start.
void run_chunks(int64_t begin, int64_t end, int64_t grain, RangeFunction f) {
  const int threads = get_num_threads();
  if (threads == 1 || forked.load(std::memory_order_relaxed)) return run_alone(begin, end, grain, f);
  const int64_t length = end - begin;
  const int64_t most = std::min<int64_t>((length - 1) / grain + 1, int64_t{4} * threads);
  int64_t chunk = (length - 1) / most + 1;
  if (chunk >= 1024)
    chunk = (chunk + 63) & ~int64_t{63};  // boundaries on whole cache lines, vectors and pairs
  const int64_t chunks = (length - 1) / chunk + 1;
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> stopped{false};
  arena(threads).execute([&] {
    // Isolated: while this thread waits for its own chunks it must not pick up those of another region, whose
    // work could want a lock that the caller holds.
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(
          tbb::blocked_range<int64_t>(0, chunks, 1),
          [&](const tbb::blocked_range<int64_t>& range) {
            const InRegion in_region;
            // The caller alone asks: a signal is for the thread that started the work.
            std::optional<Uninterrupted> helps;
            if (std::this_thread::get_id() != caller) helps.emplace();
            for (int64_t i = range.begin(); i < range.end() && !stopped.load(std::memory_order_relaxed); ++i) {
              try {
                run_pieces(begin + i * chunk, std::min(begin + (i + 1) * chunk, end), grain, f, &stopped);
              } catch (...) {
                stopped.store(true, std::memory_order_relaxed);
                throw;
              }
            }
          },
          tbb::simple_partitioner());
    });
  });
}

#endif

}  // namespace detail
}  // namespace adjoint::runtime
