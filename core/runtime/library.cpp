// See library.h.
#include "runtime/library.h"

#include <stdexcept>

#include "for_size.h"
#include "runtime/system.h"

namespace adjoint::runtime {

void* Library::find(const char* name) const { return handle_ ? system::find_symbol(handle_, name) : nullptr; }

void Library::close() {
  if (handle_) system::close_library(std::exchange(handle_, nullptr));
}

std::string own_folder() {
  const std::string path = system::file_of(reinterpret_cast<const void*>(&own_folder));
  if (path.empty()) return {};
  const size_t slash = path.find_last_of("\\/");
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

Library Library::try_open(const std::string& path, std::string* reason) {
  Library library;
  std::string why;
  library.handle_ = system::open_library(path, why);
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
