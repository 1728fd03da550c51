// One stretch of pages, handed out from its beginning, and again from there when all that was handed out has
// come back.
#include "runtime/guarded.h"

#include <mutex>
#include <new>

#include "for_size.h"
#include "runtime/system.h"

namespace adjoint::runtime::guarded {

namespace {

constexpr size_t kBytes = size_t{64} << 20;
std::mutex mutex;
char* pages = nullptr;
size_t used = 0, living = 0, opened = 0;

void protect(bool on) { system::close_pages(pages, kBytes, on); }

}  // namespace

void* allocate(size_t bytes) {
  std::lock_guard lock(mutex);
  if (!pages && !(pages = static_cast<char*>(system::map_pages(kBytes, true)))) throw std::bad_alloc();
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
