// Errors of the core, and the text they carry.
//
// A core error names one of Python's exception types; the bindings translate. Text is put together only on
// the failing path: `fail<TypeError>("expected ", a, " but found ", b)`.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
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
  /// A shape, as `to_string` writes it.
  Piece(std::span<const int64_t> sizes) : kind_(Kind::sizes), sizes_(sizes) {}

  void append_to(std::string& out) const;

 private:
  enum class Kind : char { text, number, natural, real, sizes } kind_;
  union {
    std::string_view text_;
    int64_t number_;
    uint64_t natural_;
    double real_;
    std::span<const int64_t> sizes_;
  };
};

std::string join(std::initializer_list<Piece> pieces);

template <class... Parts>
std::string text(const Parts&... parts) {
  return join({Piece(parts)...});
}

namespace failing {

/// A part of an error's text as it is passed to a function that takes any: by a letter, which says what it
/// is, and a value. A place that fails passes addresses and numbers; the text is put together elsewhere.
template <class T>
struct Passed {
  static constexpr char kind = 'p';
  Piece piece;
  Passed(const T& part) : piece(part) {}
  const Piece* value() const { return &piece; }
};
template <class T>
  requires std::convertible_to<const T&, const char*>
struct Passed<T> {
  static constexpr char kind = 's';
  const char* text;
  Passed(const char* t) : text(t) {}
  const char* value() const { return text; }
};
template <>
struct Passed<std::string> {
  static constexpr char kind = 'S';
  const std::string& text;
  const std::string* value() const { return &text; }
};
template <class T>
  requires(std::signed_integral<T> && !std::same_as<T, char>)
struct Passed<T> {
  static constexpr char kind = 'i';
  T number;
  int64_t value() const { return number; }
};

template <char... kinds>
inline constexpr char kKinds[] = {kinds..., '\0'};
[[noreturn, gnu::cold]] void fail_with(void (*raise)(const std::string&), const char* kinds, ...);
template <class E>
[[noreturn, gnu::cold]] void raise(const std::string& text) {
  throw E(text);
}

}  // namespace failing

template <class E = Error, class... Parts>
[[noreturn, gnu::cold, gnu::always_inline]] inline void fail(const Parts&... parts) {
  failing::fail_with(&failing::raise<E>, failing::kKinds<failing::Passed<Parts>::kind...>,
                     failing::Passed<Parts>{parts}.value()...);
}

}  // namespace adjoint
