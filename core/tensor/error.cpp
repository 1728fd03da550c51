// See error.h.
#include "tensor/error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "for_size.h"
#include "tensor/shape.h"

namespace adjoint {

void Piece::append_to(std::string& out) const {
  switch (kind_) {
    case Kind::text:
      out += text_;
      return;
    case Kind::number:
      out += std::to_string(number_);
      return;
    case Kind::natural:
      out += std::to_string(natural_);
      return;
    case Kind::sizes:
      out += to_string(sizes_);
      return;
    case Kind::real:
      char digits[32];
      const int length = std::snprintf(digits, sizeof digits, "%g", real_);
      std::replace(digits, digits + length, ',', '.');  // where the program has set a locale
      out.append(digits, static_cast<size_t>(length));
  }
}

void failing::fail_with(void (*raise)(const std::string&), const char* kinds, ...) {
  std::string text;
  va_list parts;
  va_start(parts, kinds);
  for (; *kinds; ++kinds) {
    const Piece piece = *kinds == 's'   ? Piece(va_arg(parts, const char*))
                        : *kinds == 'S' ? Piece(*va_arg(parts, const std::string*))
                        : *kinds == 'i' ? Piece(va_arg(parts, int64_t))
                                        : *va_arg(parts, const Piece*);
    piece.append_to(text);
  }
  va_end(parts);
  raise(text);
  __builtin_unreachable();
}

std::string join(std::initializer_list<Piece> pieces) {
  std::string out;
  for (const Piece& piece : pieces) piece.append_to(out);
  return out;
}

}  // namespace adjoint
