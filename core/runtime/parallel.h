// Parallel loops: the one place that knows of threads.
//
//   parallel_for     f(b, e) on disjoint chunks that cover [begin, end)
//   parallel_reduce  the same with results, combined in order over chunks that depend on the length alone,
//                    so that sums come out the same to the last bit for any number of threads
//
// A range no longer than `grain` runs at once on the calling thread and pays one comparison. Longer ones run
// in pieces, and between them the calling thread looks whether the user wants an end (interrupt.h). Regions
// nest and run side by side without more threads than asked for (workers.h lends them). `f` may throw; one of
// the exceptions reaches the caller. `f` runs on other threads and must not depend on thread-local state.
//
// After fork the child has no worker threads and runs everything on the calling one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace adjoint::runtime {

/// At first what ADJOINT_NUM_THREADS says, else the number of processors that this process may use.
int get_num_threads();
/// For the whole process, from now on. Throws std::invalid_argument unless 1 <= count <= 1024.
void set_num_threads(int count);
/// True on a thread that is running a chunk.
bool in_parallel_region();

namespace detail {

/// Refers to a callable that outlives the call; keeps the loops' templates out of parallel.cpp.
struct RangeFunction {
  void* object;
  void (*call)(void* object, int64_t begin, int64_t end);
};

extern std::atomic<int> num_threads;  // 0 until first asked for
int initialize_num_threads();
void run_chunks(int64_t begin, int64_t end, int64_t grain, RangeFunction f);

}  // namespace detail

inline int get_num_threads() {
  const int count = detail::num_threads.load(std::memory_order_relaxed);
  return count ? count : detail::initialize_num_threads();
}

template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (end <= begin) return;
  if (end - begin <= grain) {
    f(begin, end);
    return;
  }
  using Body = std::remove_reference_t<F>;
  detail::run_chunks(begin, end, std::max<int64_t>(grain, 1),
                     {const_cast<void*>(static_cast<const void*>(std::addressof(f))),
                      [](void* body, int64_t b, int64_t e) { (*static_cast<Body*>(body))(b, e); }});
}

/// combine(... combine(f(b0, e0), f(b1, e1)) ...); `identity` for an empty range.
template <class T, class F, class C>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain, T identity, F&& f, C&& combine) {
  if (end <= begin) return identity;
  const int64_t length = end - begin;
  constexpr int64_t most_chunks = 4096;
  const int64_t chunk = std::max({grain, int64_t{1}, (length - 1) / most_chunks + 1});
  if (length <= chunk) return f(begin, end);
  const int64_t chunks = (length - 1) / chunk + 1;
  const std::unique_ptr<T[]> partial(new T[static_cast<size_t>(chunks)]);
  parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      partial[static_cast<size_t>(i)] = f(begin + i * chunk, std::min(begin + (i + 1) * chunk, end));
    }
  });
  T total = partial[0];
  for (int64_t i = 1; i < chunks; ++i) total = combine(total, partial[static_cast<size_t>(i)]);
  return total;
}

}  // namespace adjoint::runtime
