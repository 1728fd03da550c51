// Errors of the core, and the text they carry.
//
// A core error names one of Python's exception types; the bindings translate. Text is put together only on
// the failing path: `fail<TypeError>("expected ", a, " but found ", b)`.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace adjoint {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};  // RuntimeError
struct IndexError : Error {
  using Error::Error;
};
struct TypeError : Error {
  using Error::Error;
};
struct ValueError : Error {
  using Error::Error;
};
struct NotImplemented : Error {
  using Error::Error;
};  // NotImplementedError
struct OverflowError : Error {
  using Error::Error;
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class E = Error, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  throw E(text(parts...));
}

}  // namespace adjoint
