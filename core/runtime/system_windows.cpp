// See system.h. It has been compiled, and not run.
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include "runtime/system.h"

namespace adjoint::runtime::system {

void* map_pages(size_t bytes, bool closed) noexcept {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, closed ? PAGE_NOACCESS : PAGE_READWRITE);
}
void unmap_pages(void* pages, size_t) noexcept { VirtualFree(pages, 0, MEM_RELEASE); }
bool close_pages(void* pages, size_t bytes, bool closed) noexcept {
  DWORD before;
  return VirtualProtect(pages, bytes, closed ? PAGE_NOACCESS : PAGE_READWRITE, &before) != 0;
}
void discard_pages(void* pages, size_t bytes) noexcept {
  VirtualAlloc(pages, bytes, MEM_RESET, PAGE_READWRITE);
}
void wish_large_pages(void*, size_t) noexcept {}

void at_fork(void (*)(), void (*)(), void (*)()) {}

WithoutSignals::WithoutSignals() { (void)before_; }
WithoutSignals::~WithoutSignals() = default;

int processors() {
  DWORD_PTR ours = 0, all = 0;
  if (!GetProcessAffinityMask(GetCurrentProcess(), &ours, &all)) return 0;
  return __builtin_popcountll(ours);
}

int current_processor() noexcept { return -1; }
int this_thread() noexcept { return 0; }
void keep_off(int, std::span<const int>) noexcept {}

void* open_library(const std::string& path, std::string& reason) {
  void* library = reinterpret_cast<void*>(LoadLibraryA(path.c_str()));
  if (library == nullptr) reason = "error " + std::to_string(GetLastError());
  return library;
}
void* find_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}
void close_library(void* library) { FreeLibrary(static_cast<HMODULE>(library)); }

std::string file_of(const void* address) {
  HMODULE module = nullptr;
  constexpr DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExA(how, static_cast<const char*>(address), &module)) return {};
  char path[4096];
  return {path, GetModuleFileNameA(module, path, sizeof path)};
}

}  // namespace adjoint::runtime::system
#endif
