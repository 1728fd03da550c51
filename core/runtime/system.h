// What differs from one system to the next: pages, forks, signals, processors, libraries that are opened.
//
// The rest of the core is C++ alone, whose clocks and threads are the same everywhere. Written once for each
// kind of system: system_posix.cpp, system_windows.cpp; tests/test_structure.py holds the core to it.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>

namespace adjoint::runtime::system {

/// Whether large blocks are worth pages of their own: mapping and giving back is cheap, and what was
/// discarded reads as zeros.
#if defined(__linux__)
inline constexpr bool cheap_pages = true;
#else
inline constexpr bool cheap_pages = false;
#endif

/// Pages that read as zeros, or, closed, that nothing may touch; null where the system gives none.
void* map_pages(size_t bytes, bool closed = false) noexcept;
/// All that was mapped at once; a part of it only where `cheap_pages`.
void unmap_pages(void* pages, size_t bytes) noexcept;
/// Nothing may touch them, or all may; false where the system refuses.
bool close_pages(void* pages, size_t bytes, bool closed) noexcept;
/// Their content may go; the addresses stay.
void discard_pages(void* pages, size_t bytes) noexcept;
/// A wish for large pages: where it fails, small ones serve.
void wish_large_pages(void* pages, size_t bytes) noexcept;

/// Called around each fork, where the system has it: before, and afterwards in the parent and in the child.
void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

/// Threads that are started in its scope get no signals: these are for threads of the program.
class WithoutSignals {
 public:
  WithoutSignals();
  ~WithoutSignals();
  WithoutSignals(const WithoutSignals&) = delete;

 private:
  alignas(8) unsigned char before_[128];
};

/// log |gamma(x)| without a global that says its sign.
[[gnu::always_inline]] inline double log_gamma(double x) {
#if defined(__linux__)
  int sign = 0;
  return ::lgamma_r(x, &sign);
#else
  return __builtin_lgamma(x);
#endif
}

/// Processors that this process may run on; 0 where the system does not say.
int processors();

/// The processor that the calling thread runs on; -1 where threads find processors of their own.
int current_processor() noexcept;
/// By what `keep_off` knows the calling thread.
int this_thread() noexcept;
/// These threads may run wherever the calling one may, but not on that processor, unless there is no other.
void keep_off(int processor, std::span<const int> threads) noexcept;

/// In a loop that looks again and again.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

#if defined(__APPLE__)
inline constexpr const char* library_suffix = ".dylib";
#elif defined(_WIN32)
inline constexpr const char* library_suffix = ".dll";
#else
inline constexpr const char* library_suffix = ".so";
#endif

/// Null where it cannot be opened; `reason` then says why.
void* open_library(const std::string& path, std::string& reason);
void* find_symbol(void* library, const char* name);
void close_library(void* library);
/// The file that holds the code or data at the address; empty where it cannot be told.
std::string file_of(const void* address);

}  // namespace adjoint::runtime::system
