// See system.h.
#if !defined(_WIN32)
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>

#include "runtime/system.h"
#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

namespace adjoint::runtime::system {

void* map_pages(size_t bytes, bool closed) noexcept {
  void* pages =
      mmap(nullptr, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void unmap_pages(void* pages, size_t bytes) noexcept { munmap(pages, bytes); }

bool close_pages(void* pages, size_t bytes, bool closed) noexcept {
  return mprotect(pages, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE) == 0;
}

void discard_pages(void* pages, size_t bytes) noexcept { madvise(pages, bytes, MADV_DONTNEED); }

void wish_large_pages([[maybe_unused]] void* pages, [[maybe_unused]] size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  madvise(pages, bytes, MADV_HUGEPAGE);
#endif
}

void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  pthread_atfork(before, in_parent, in_child);
}

WithoutSignals::WithoutSignals() {
  static_assert(sizeof(sigset_t) <= sizeof before_);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::memcpy(before_, &before, sizeof before);
}
WithoutSignals::~WithoutSignals() {
  sigset_t before;
  std::memcpy(&before, before_, sizeof before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

int processors() {
#if defined(__linux__)
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
#endif
  return 0;
}

#if defined(__linux__)
int current_processor() noexcept { return sched_getcpu(); }
int this_thread() noexcept { return gettid(); }

void keep_off(int processor, std::span<const int> threads) noexcept {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0 || CPU_COUNT(&mask) < 2) return;
  CPU_CLR(processor, &mask);
  for (int thread : threads) sched_setaffinity(thread, sizeof mask, &mask);
}
#else
int current_processor() noexcept { return -1; }
int this_thread() noexcept { return 0; }
void keep_off(int, std::span<const int>) noexcept {}
#endif

void* open_library(const std::string& path, std::string& reason) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* text = dlerror();
    reason = text ? text : "the loader gives no reason";
  }
  return library;
}
void* find_symbol(void* library, const char* name) { return dlsym(library, name); }
void close_library(void* library) { dlclose(library); }

std::string file_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

}  // namespace adjoint::runtime::system
#endif
