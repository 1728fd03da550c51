// One stretch of pages, handed out from its beginning, and again from there when all that was handed out has
// come back.
#include "runtime/guarded.h"

#include <mutex>
#include <new>

#include "for_size.h"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#endif

namespace adjoint::runtime::guarded {

namespace {

constexpr size_t kBytes = size_t{64} << 20;
std::mutex mutex;
char* pages = nullptr;
size_t used = 0, living = 0, opened = 0;

#if defined(__unix__) || defined(__APPLE__)
char* reserve() {
  void* p = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}
void protect(bool on) { mprotect(pages, kBytes, on ? PROT_NONE : PROT_READ | PROT_WRITE); }
#else
char* reserve() { return static_cast<char*>(::operator new(kBytes, std::nothrow)); }
void protect(bool) {}
#endif

}  // namespace

void* allocate(size_t bytes) {
  std::lock_guard lock(mutex);
  if (!pages && !(pages = reserve())) throw std::bad_alloc();
  const size_t wanted = (bytes + 63) / 64 * 64;
  if (wanted > kBytes - used) throw std::bad_alloc();
  char* const p = pages + used;
  used += wanted;
  ++living;
  return p;
}

void deallocate(void*) noexcept {
  std::lock_guard lock(mutex);
  if (--living == 0) used = 0;
}

void open() noexcept {
  std::lock_guard lock(mutex);
  if (opened++ == 0) protect(false);
}

void close() noexcept {
  std::lock_guard lock(mutex);
  if (--opened == 0) protect(true);
}

}  // namespace adjoint::runtime::guarded
