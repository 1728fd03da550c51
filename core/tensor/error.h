// Errors of the core, and the text they carry.
//
// A core error names one of Python's exception types; the bindings translate. Text is put together only on
// the failing path: `fail<TypeError>("expected ", a, " but found ", b)`.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

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

/// A part of a message. Streams would do as well, and bring the C++ library's locales, half a megabyte, into
/// a module that carries this library within it.
class Piece {
 public:
  Piece(std::string_view text) : kind_(Kind::text), text_(text) {}
  Piece(const std::string& text) : Piece(std::string_view(text)) {}
  Piece(const char* text) : Piece(std::string_view(text)) {}
  /// A letter: no class that converts to an integer, which would be shown as the character of that number.
  template <std::same_as<char> T>
  Piece(const T& letter) : Piece(std::string_view(&letter, 1)) {}
  template <std::signed_integral T>
    requires(!std::same_as<T, char>)
  Piece(T value) : kind_(Kind::number), number_(value) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, char>)
  Piece(T value) : kind_(Kind::natural), natural_(value) {}
  template <std::floating_point T>
  Piece(T value) : kind_(Kind::real), real_(static_cast<double>(value)) {}

  void append_to(std::string& out) const;

 private:
  enum class Kind : char { text, number, natural, real } kind_;
  union {
    std::string_view text_;
    int64_t number_;
    uint64_t natural_;
    double real_;
  };
};

std::string join(std::initializer_list<Piece> pieces);

template <class... Parts>
std::string text(const Parts&... parts) {
  return join({Piece(parts)...});
}

template <class E = Error, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  throw E(text(parts...));
}

}  // namespace adjoint
