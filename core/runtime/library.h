// A shared library opened while the program runs, with errors that say what was tried.
#pragma once

#include <string>
#include <utility>

namespace adjoint::runtime {

class Library {
 public:
  Library() = default;
  /// Throws std::runtime_error with the loader's own words.
  explicit Library(const std::string& path);
  /// Closed libraries are rare: code and threads of theirs may still run. So destruction leaves them open.
  ~Library() = default;
  Library(Library&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}
  Library& operator=(Library&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(path_, other.path_);
    return *this;
  }

  /// Not open if it cannot be; `reason` then says why.
  static Library try_open(const std::string& path, std::string* reason);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  /// Null when there is no such symbol.
  void* find(const char* name) const;
  /// Throws std::runtime_error that names the symbol and the library.
  void* require(const char* name) const;
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(require(name));
  }

  void close();

 private:
  void* handle_ = nullptr;
  std::string path_;
};

/// The folder of the library (or program) that contains this code; empty when it cannot be told.
std::string own_folder();

}  // namespace adjoint::runtime
