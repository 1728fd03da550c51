// See parallel.h. Start reading at `run_chunks`.
#include "runtime/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/interrupt.h"
#include "runtime/system.h"
#include "runtime/workers.h"

namespace adjoint::runtime {
namespace {

constexpr int most_threads = 1024;
thread_local int region_depth = 0;

struct InRegion {
  InRegion() { ++region_depth; }
  ~InRegion() { --region_depth; }
};

/// What an environment variable asks for; of a list, as OpenMP takes it, the first number. 0 where it is not
/// there or no number.
int asked_by(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return 0;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  const bool whole = end != text && (*end == '\0' || *end == ',');
  return whole && count >= 1 && count <= most_threads ? static_cast<int>(count) : 0;
}

/// What a small file of the system holds; nothing where it is not there.
std::string content(const std::string& path) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "r")) {
    char piece[4096];
    while (const size_t count = std::fread(piece, 1, sizeof piece, file)) text.append(piece, count);
    std::fclose(file);
  }
  return text;
}

/// Processors that a control group's quota amounts to, rounded up; 0 where it has none. `period` is empty
/// where one file has both.
int quota_of(const std::string& quota, const std::string& period) {
  const std::string numbers = content(quota) + ' ' + (period.empty() ? "" : content(period));
  char* end = nullptr;
  const double time = std::strtod(numbers.c_str(), &end);  // "max" is no number
  const double each = std::strtod(end, nullptr);
  return time > 0 && each > 0 ? static_cast<int>(std::min<double>(std::ceil(time / each), most_threads)) : 0;
}

/// The smallest quota of this process's control groups and of those around them (versions 1 and 2).
int quota() {
  int least = 0;
  const auto take = [&](int count) {
    if (count > 0 && (least == 0 || count < least)) least = count;
  };
  const std::string groups = content("/proc/self/cgroup");
  for (size_t end = 0, start = 0; (end = groups.find('\n', start)) != groups.npos; start = end + 1) {
    const std::string line = groups.substr(start, end - start);
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",cpu,") == controllers.npos) continue;
    // In a container the path may be one outside of it; then the root is the container's.
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      const std::string folder =
          (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu") + (path == "/" ? "" : path);
      take(unified ? quota_of(folder + "/cpu.max", "")
                   : quota_of(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us"));
      if (path.rfind('/') == path.npos) break;
    }
  }
  return least;
}

/// Processors that this process may run on.
int processors() {
  const int allowed = system::processors();
  return allowed ? allowed : static_cast<int>(std::thread::hardware_concurrency());
}

/// The smallest of what the environment asks for and of what the system gives.
int default_num_threads() {
  int least = std::clamp(processors(), 1, most_threads);
  for (int count : {asked_by("ADJOINT_NUM_THREADS"), asked_by("OMP_NUM_THREADS"), quota()})
    if (count > 0) least = std::min(least, count);
  return least;
}

}  // namespace

bool in_parallel_region() { return region_depth > 0; }

void set_num_threads(int count) {
  if (count < 1 || count > most_threads) {
    throw std::invalid_argument("set_num_threads: expected a number from 1 to " +
                                std::to_string(most_threads) + ", got " + std::to_string(count));
  }
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

/// A chunk in pieces of some hundred microseconds each; between them it asks whether to go on. `stopped`:
/// another thread was told that it is not.
void run_pieces(int64_t begin, int64_t end, int64_t grain, RangeFunction f,
                const std::atomic<bool>* stopped) {
  const int64_t piece = grain < 64               ? std::max<int64_t>(grain, 1)
                        : grain > INT64_MAX / 16 ? grain
                                                 : (8 * grain + 63) & ~int64_t{63};
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

/// A few chunks per thread: enough to even out what other programs take from one of them, few enough that a
/// chunk is worth its start.
void run_chunks(int64_t begin, int64_t end, int64_t grain, RangeFunction f) {
  const int threads = get_num_threads();
  if (threads == 1) return run_alone(begin, end, grain, f);
  const int64_t length = end - begin;
  const int64_t most = std::min<int64_t>((length - 1) / grain + 1, int64_t{4} * threads);
  int64_t chunk = (length - 1) / most + 1;
  // Boundaries on whole cache lines, vectors and pairs; of long ones on the blocks in which loops look at
  // their elements (512, ops/contract/loops.h), so that these give the same bits on any number of threads.
  if (chunk >= 1024) chunk = chunk < 4096 ? (chunk + 63) & ~int64_t{63} : (chunk + 511) & ~int64_t{511};
  const int64_t chunks = (length - 1) / chunk + 1;
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    const InRegion in_region;
    try {
      for (int64_t i; !stopped.load(std::memory_order_relaxed) &&
                      (i = next.fetch_add(1, std::memory_order_relaxed)) < chunks;)
        run_pieces(begin + i * chunk, std::min(begin + (i + 1) * chunk, end), grain, f, &stopped);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      stopped.store(true, std::memory_order_relaxed);
    }
  };
  share(Helping::Loops, static_cast<int>(std::min<int64_t>(threads, chunks)) - 1, [&](int number) {
    if (number == 0) return work();
    // The caller alone asks: a signal is for the thread that started the work.
    const Uninterrupted helps;
    work();
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace adjoint::runtime
