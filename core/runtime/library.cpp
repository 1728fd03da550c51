// See library.h.
#include "runtime/library.h"

#include <stdexcept>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace adjoint::runtime {

#if defined(_WIN32)

namespace {
void* open(const std::string& path, std::string& reason) {
  void* handle = reinterpret_cast<void*>(LoadLibraryA(path.c_str()));
  if (handle == nullptr) reason = "error " + std::to_string(GetLastError());
  return handle;
}
}  // namespace

void* Library::find(const char* name) const {
  return handle_ ? reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name)) : nullptr;
}

void Library::close() {
  if (handle_) FreeLibrary(static_cast<HMODULE>(std::exchange(handle_, nullptr)));
}

std::string own_folder() {
  HMODULE module = nullptr;
  if (!GetModuleHandleExA(
          GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
          reinterpret_cast<const char*>(&own_folder), &module)) {
    return {};
  }
  char path[4096];
  const DWORD length = GetModuleFileNameA(module, path, sizeof path);
  const std::string whole(path, length);
  const size_t slash = whole.find_last_of("\\/");
  return slash == std::string::npos ? std::string() : whole.substr(0, slash);
}

#else

namespace {
void* open(const std::string& path, std::string& reason) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* text = dlerror();
    reason = text ? text : "the loader gives no reason";
  }
  return handle;
}
}  // namespace

void* Library::find(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

void Library::close() {
  if (handle_) dlclose(std::exchange(handle_, nullptr));
}

std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

#endif

Library Library::try_open(const std::string& path, std::string* reason) {
  Library library;
  std::string why;
  library.handle_ = open(path, why);
  library.path_ = path;
  if (reason) *reason = why;
  return library;
}

Library::Library(const std::string& path) {
  std::string reason;
  *this = try_open(path, &reason);
  if (handle_ == nullptr) throw std::runtime_error("cannot open the library '" + path + "': " + reason);
}

void* Library::require(const char* name) const {
  if (handle_ == nullptr) {
    throw std::runtime_error(std::string("no library is open in which to look for '") + name + "'");
  }
  void* symbol = find(name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the library '") + path_ + "' has no symbol '" + name + "'");
  }
  return symbol;
}

}  // namespace adjoint::runtime
