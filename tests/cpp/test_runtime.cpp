// Tests of core/runtime but for its products, which test_blas.cpp has: memory, references, small vectors,
// loops, random numbers. Start reading at main.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "runtime/allocator.h"
#include "runtime/intrusive.h"
#include "runtime/library.h"
#include "runtime/memory_at_rest.h"
#include "runtime/parallel.h"
#include "runtime/small_vector.h"

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace adjoint::runtime;

namespace {

// --- memory ---------------------------------------------------------------------------------------

void test_sizes_and_statistics() {
  const MemoryStatistics before = memory_statistics();
  size_t expected = 0, count = 0, previous = 0;
  std::vector<std::pair<void*, size_t>> blocks;
  std::vector<size_t> sizes;
  for (size_t bytes = 0; bytes < 2000; ++bytes) sizes.push_back(bytes);
  for (size_t bytes = 2000; bytes < (size_t{12} << 20); bytes = bytes * 21 / 16 + 1) sizes.push_back(bytes);
  for (int e = 9; e < 23; ++e) {
    for (size_t d : {-1, 0, 1}) sizes.push_back((size_t{1} << e) + d);
  }
  std::sort(sizes.begin(), sizes.end());
  for (size_t bytes : sizes) {
    const size_t size = size_class(bytes);
    CHECK(size >= bytes && size >= previous);
    CHECK(bytes <= small_limit ? size - bytes <= 16 : (size - bytes) * 8 <= bytes);
    previous = size;
    void* block = allocate(bytes);
    CHECK(reinterpret_cast<uintptr_t>(block) % (bytes > 512 ? 64 : 16) == 0);
    std::memset(block, static_cast<int>(bytes & 0xFF), bytes);
    blocks.emplace_back(block, bytes);
    expected += size;
    ++count;
    CHECK(memory_statistics().allocated_bytes == before.allocated_bytes + expected);
  }
  const MemoryStatistics full = memory_statistics();
  CHECK(full.allocation_count == before.allocation_count + count);
  CHECK(full.peak_allocated_bytes >= full.allocated_bytes);
  CHECK(full.reserved_bytes >= full.allocated_bytes);
  CHECK(full.cached_bytes == full.reserved_bytes - full.allocated_bytes);
  bool intact = true;
  for (auto [block, bytes] : blocks) {
    const unsigned char* content = static_cast<unsigned char*>(block);
    for (size_t i = 0; i < bytes; ++i) intact = intact && content[i] == (bytes & 0xFF);
    deallocate(block, bytes);
  }
  CHECK(intact);
  const MemoryStatistics after = memory_statistics();
  CHECK(after.allocated_bytes == before.allocated_bytes);
  CHECK(after.allocation_count == before.allocation_count);
  reset_peak_memory_statistics();
  CHECK(memory_statistics().peak_allocated_bytes == after.allocated_bytes);
  void* block = allocate(size_t{3} << 20);
  deallocate(block, size_t{3} << 20);
  CHECK(memory_statistics().peak_allocated_bytes == after.allocated_bytes + (size_t{3} << 20));
  deallocate(nullptr, 5);
}

#ifndef ADJOINT_SANITIZE
void test_cache() {
  for (size_t bytes : {size_t{48}, size_t{3000}, size_t{100000}, size_t{10} << 20}) {
    void* block = allocate(bytes);
    deallocate(block, bytes);
    void* again = allocate(bytes);
    CHECK(again == block);
    deallocate(again, bytes);
  }
  CHECK(memory_statistics().cached_bytes >= size_t{10} << 20);
  empty_cache();
  CHECK(memory_statistics().cached_bytes < size_t{4} << 20);
  // Blocks of ever new sizes do not pile up.
  for (size_t megabytes = 40; megabytes < 120; megabytes += 8) {
    void* block = allocate(megabytes << 20);
    deallocate(block, megabytes << 20);
  }
  CHECK(memory_statistics().cached_bytes < size_t{300} << 20);
  empty_cache();
}
#endif

#ifndef ADJOINT_SANITIZE
/// 80 MB of blocks of one size, and how much of it is reserved after they are freed.
struct Peak {
  std::vector<void*> blocks;
  size_t bytes;
  explicit Peak(size_t size) : bytes(size) {
    for (size_t i = 0; i < (size_t{80} << 20) / size; ++i) {
      blocks.push_back(allocate(size));
      std::memset(blocks.back(), 1, size);
    }
  }
  void free() {
    for (void* block : blocks) deallocate(block, bytes);
    blocks.clear();
  }
};
void visit_the_centre() { deallocate(allocate(1 << 20), 1 << 20); }
void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1050)); }

void test_rest() {
  const auto megabytes = [] { return memory_statistics().reserved_bytes >> 20; };
  empty_cache();
  const size_t before = megabytes();
  Peak small(144), medium(5000);
  // One block of a slab keeps the slab.
  std::swap(small.blocks[small.blocks.size() / 2], small.blocks.back());
  unsigned char* survivor = static_cast<unsigned char*>(small.blocks.back());
  small.blocks.pop_back();
  small.free();
  medium.free();
  CHECK(megabytes() >= before + 150);  // it may be needed again at once
  visit_the_centre();
  rest();
  visit_the_centre();
  rest();
  release_rested_memory();
  CHECK(megabytes() <= before + 24);
  CHECK(survivor[0] == 1 && survivor[143] == 1);
  // What went comes back, for blocks of another size too, and each is nobody else's.
  const size_t count = memory_statistics().allocation_count;
  Peak other(48);
  for (size_t i = 0; i < other.blocks.size(); ++i) std::memcpy(other.blocks[i], &i, sizeof i);
  bool intact = true;
  for (size_t i = 0; i < other.blocks.size(); ++i)
    intact = intact && std::memcmp(other.blocks[i], &i, sizeof i) == 0;
  CHECK(intact);
  other.free();
  CHECK(memory_statistics().allocation_count == count);
  CHECK(survivor[0] == 1 && survivor[143] == 1);
  deallocate(survivor, 144);
  empty_cache();
  CHECK(megabytes() <= before + 8);
  // What is needed again within the second stays.
  Peak(144).free();
  const size_t full = megabytes();
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Peak(144).free();
    visit_the_centre();
  }
  CHECK(megabytes() + 8 >= full);
  empty_cache();
}
#endif

void test_limit() {
  const size_t megabyte = size_t{1} << 20;
  const size_t in_use = memory_statistics().allocated_bytes;
  void* first = allocate(8 * megabyte);
  deallocate(first, 8 * megabyte);
  const size_t limit = std::max(memory_statistics().reserved_bytes, in_use + 8 * megabyte) + megabyte;
  set_memory_limit(limit);
  void* other = allocate(6 * megabyte);  // fits once the cached block is gone
  CHECK(memory_statistics().reserved_bytes <= limit);
  std::string message;
  try {
    (void)allocate(64 * megabyte);
  } catch (const OutOfMemory& error) {
    message = error.what();
  }
  CHECK(message.find(std::to_string(64 * megabyte)) != std::string::npos);
  CHECK(message.find(std::to_string(limit)) != std::string::npos);
  CHECK_THROWS(OutOfMemory, [&] {
    std::vector<std::pair<void*, size_t>> kept;
    try {
      for (int i = 0; i < 1000000; ++i) kept.emplace_back(allocate(256), 256);
    } catch (...) {
      for (auto [block, bytes] : kept) deallocate(block, bytes);
      throw;
    }
  }());
  deallocate(other, 6 * megabyte);
  set_memory_limit(0);
  for (size_t bytes : {SIZE_MAX, SIZE_MAX / 2, (size_t{1} << 47) + 1})
    CHECK_THROWS(std::bad_alloc, allocate(bytes));
  CHECK_THROWS(OutOfMemory, checked_bytes(-1, 4));
  CHECK_THROWS(OutOfMemory, checked_bytes(INT64_MAX, 8));
  CHECK(checked_bytes(3, 8) == 24 && checked_bytes(0, 8) == 0);
  CHECK(memory_statistics().allocated_bytes == in_use);
}

/// Threads allocate, pass blocks round and free what others allocated.
void test_threads() {
  const MemoryStatistics before = memory_statistics();
  constexpr int threads = 4, slots = 64;
  static std::atomic<size_t*> shared[slots];
  std::vector<std::thread> workers;
  std::atomic<bool> intact = true;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([t, &intact] {
      uint64_t state = static_cast<uint64_t>(t) + 1;
      for (int i = 0; i < 20000; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t pick = state >> 33;
        size_t bytes = 16 + pick % 500;
        if (pick % 16 == 0) bytes = 16 + pick % 60000;
        if (pick % 256 == 0) bytes = 16 + pick % 300000;
        size_t* block = static_cast<size_t*>(allocate(bytes));
        block[0] = bytes;
        block[1] = ~bytes;
        if (size_t* old = shared[pick % slots].exchange(block)) {
          if (old[1] != ~old[0]) intact = false;
          deallocate(old, old[0]);
        }
        if (i % 4096 == 0) (void)memory_statistics();
        if (i % 8192 == 0) empty_cache();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (auto& slot : shared) {
    if (size_t* old = slot.exchange(nullptr)) deallocate(old, old[0]);
  }
  CHECK(intact.load());
  const MemoryStatistics after = memory_statistics();
  CHECK(after.allocated_bytes == before.allocated_bytes);
  CHECK(after.allocation_count == before.allocation_count);

  // What a thread leaves behind is used by the next one.
  const size_t reserved = memory_statistics().reserved_bytes;
  for (int i = 0; i < 20; ++i) {
    std::thread([] {
      std::vector<void*> blocks;
      for (int j = 0; j < 20000; ++j) blocks.push_back(allocate_small(200));
      for (void* block : blocks) deallocate_small(block, 200);
    }).join();
  }
  CHECK(memory_statistics().reserved_bytes <= reserved + (size_t{10} << 20));
  CHECK(memory_statistics().allocated_bytes == before.allocated_bytes);
}

// --- references -----------------------------------------------------------------------------------

struct Counted {
  std::atomic<uint32_t> refcount{1};
  int* destroyed;
  explicit Counted(int* d) : destroyed(d) {}
  static void destroy(Counted* object) noexcept {
    ++*object->destroyed;
    delete object;
  }
};

void test_references() {
  int destroyed = 0;
  {
    auto a = Ref<Counted>::steal(new Counted(&destroyed));
    CHECK(a.use_count() == 1 && a.unique());
    Ref<Counted> b = a;
    CHECK(a.use_count() == 2 && a == b);
    Ref<Counted> c = std::move(b);
    CHECK(a.use_count() == 2 && !b && b == nullptr);
    c = Ref<Counted>::steal(new Counted(&destroyed));
    CHECK(a.use_count() == 1 && destroyed == 0);
    c = a;
    CHECK(destroyed == 1 && c.get() == a.get());
    Counted* raw = c.detach();
    CHECK(raw->refcount == 2 && !c);
    Ref<Counted> d = Ref<Counted>::share(raw);
    CHECK(raw->refcount == 3);
    (void)Ref<Counted>::steal(raw);
    CHECK(raw->refcount == 2);
    a = *&a;
    a.reset();
    CHECK(destroyed == 1 && d.unique());
  }
  CHECK(destroyed == 2);

  std::atomic<int> owners{0};
  int dead = 0;
  auto shared = Ref<Counted>::steal(new Counted(&dead));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([mine = shared, &owners]() mutable {
      for (int i = 0; i < 10000; ++i) {
        Ref<Counted> copy = mine;
        owners += copy ? 1 : 0;
      }
      mine.reset();
    });
  }
  shared.reset();
  for (std::thread& thread : threads) thread.join();
  CHECK(dead == 1 && owners == 40000);
}

// --- small vectors --------------------------------------------------------------------------------

void test_small_vector() {
  using Sizes = SmallVector<int64_t, 5>;
  const size_t in_use = memory_statistics().allocated_bytes;
  {
    Sizes v{1, 2, 3};
    CHECK(v.size() == 3 && v.back() == 3 && memory_statistics().allocated_bytes == in_use);
    v.insert(v.begin(), 0);
    v.push_back(4);
    CHECK((v == Sizes{0, 1, 2, 3, 4}) && memory_statistics().allocated_bytes == in_use);
    v.insert(v.begin() + 2, 9);
    CHECK((v == Sizes{0, 1, 9, 2, 3, 4}) && memory_statistics().allocated_bytes > in_use);
    Sizes copy = v, moved = std::move(v);
    CHECK(copy == moved && v.empty());
    moved.erase(moved.begin() + 1, moved.begin() + 4);
    CHECK((moved == Sizes{0, 3, 4}) && moved != copy);
    const int64_t more[] = {7, 8};
    moved.insert(moved.begin() + 1, more, more + 2);
    CHECK((moved == Sizes{0, 7, 8, 3, 4}));
    moved.erase(moved.end() - 1);
    moved.resize(7, -1);
    CHECK((moved == Sizes{0, 7, 8, 3, -1, -1, -1}));
    copy = moved;
    CHECK(copy == moved);
    copy = Sizes{1};
    CHECK(copy.size() == 1);
    std::span<const int64_t> span = moved;
    CHECK(span.size() == 7 && Sizes(span) == moved &&
          std::accumulate(span.begin(), span.end(), int64_t{0}) == 15);
    moved.assign(span.data() + 1, 3);
    CHECK((moved == Sizes{7, 8, 3}));
    CHECK(*moved.rbegin() == 3 && Sizes(4, 2) == std::vector<int64_t>(4, 2));
    Sizes large;
    for (int64_t i = 0; i < 1000; ++i) large.push_back(i);
    CHECK(large.size() == 1000 && large[999] == 999 && large[0] == 0);
    v = std::move(large);
    CHECK(v.size() == 1000 && large.empty());
    large.push_back(1);
    CHECK(large.size() == 1);
  }
  CHECK(memory_statistics().allocated_bytes == in_use);
}

// --- loops ----------------------------------------------------------------------------------------

void test_parallel() {
  CHECK(get_num_threads() >= 1);
  CHECK_THROWS(std::invalid_argument, set_num_threads(0));
  double sums[3];
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    std::vector<std::atomic<int>> visits(100003);
    parallel_for(0, 100003, 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    bool once = true;
    for (auto& visit : visits) once = once && visit == 1;
    CHECK(once);
    sums[threads - 1] = parallel_reduce(
        0, 1000000, 1000, 0.0,
        [](int64_t begin, int64_t end) {
          double sum = 0;
          for (int64_t i = begin; i < end; ++i) sum += 1.0 / static_cast<double>(i + 1);
          return sum;
        },
        [](double a, double b) { return a + b; });
    CHECK(check::close(sums[threads - 1], 14.392726722865724, 1e-14));
    CHECK(sums[threads - 1] == sums[0]);

    std::atomic<int64_t> total = 0;
    parallel_for(0, 20, 1, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        parallel_for(0, 1000, 10, [&](int64_t b2, int64_t e2) { total += e2 - b2; });
      }
    });
    CHECK(total == 20000);
    CHECK_THROWS(std::domain_error, parallel_for(0, 1000, 1, [](int64_t b, int64_t e) {
                   if (b <= 500 && 500 < e) throw std::domain_error("500");
                 }));
    CHECK(!in_parallel_region());
  }
  set_num_threads(2);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  parallel_for(3, 10, 7, [&](int64_t b, int64_t e) {
    calls += b == 3 && e == 10 && std::this_thread::get_id() == caller;
  });
  CHECK(calls == 1);
  parallel_for(5, 5, 1, [&](int64_t, int64_t) { ++calls; });
  CHECK(calls == 1);
  CHECK(parallel_reduce(
            0, 0, 1, 42, [](int64_t, int64_t) { return 0; }, [](int a, int b) { return a + b; }) == 42);

  std::vector<std::thread> callers;
  std::atomic<int64_t> covered = 0;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) parallel_for(0, 1000, 10, [&](int64_t b, int64_t e) { covered += e - b; });
    });
  }
  for (std::thread& thread : callers) thread.join();
  CHECK(covered == 150000);
}

// Not under sanitizers: their own allocators are not kept whole across a fork while other threads allocate.
#if defined(__unix__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
void test_fork() {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) deallocate(allocate(1 << 20), 1 << 20);
  });
  bool all_well = true;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      void* block = allocate(1 << 20);
      deallocate(block, 1 << 20);
      std::atomic<int64_t> covered = 0;
      parallel_for(0, 1000, 10, [&](int64_t b, int64_t e) { covered += e - b; });
      _exit(covered == 1000 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    all_well = all_well && status == 0;
  }
  stop = true;
  busy.join();
  CHECK(all_well);
}
#endif

void test_library() {
  CHECK_THROWS(std::runtime_error, Library("/nowhere/libnothing.so"));
  std::string reason;
  CHECK(!Library::try_open("/nowhere/libnothing.so", &reason) && reason.find("nothing") != std::string::npos);
#if defined(__linux__) && defined(__GLIBC__)
  Library m("libm.so.6");
  CHECK(m.function<double(double)>("cos")(0.0) == 1.0);
  CHECK(m.find("no_such_function") == nullptr);
  CHECK_THROWS(std::runtime_error, m.require("no_such_function"));
#endif
  CHECK(!own_folder().empty());
}

}  // namespace

int main() {
#if defined(__unix__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  test_fork();
#endif
  test_sizes_and_statistics();
#ifndef ADJOINT_SANITIZE
  test_cache();
  test_rest();
#endif
  test_limit();
  test_threads();
  test_references();
  test_small_vector();
  test_parallel();
  test_library();
#if defined(__unix__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  test_fork();
#endif
  return check::result();
}
