// See error.h.
#include "tensor/error.h"

#include <algorithm>
#include <cstdio>

#include "for_size.h"

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
    case Kind::real:
      char digits[32];
      const int length = std::snprintf(digits, sizeof digits, "%g", real_);
      std::replace(digits, digits + length, ',', '.');  // where the program has set a locale
      out.append(digits, static_cast<size_t>(length));
  }
}

std::string join(std::initializer_list<Piece> pieces) {
  std::string out;
  for (const Piece& piece : pieces) piece.append_to(out);
  return out;
}

}  // namespace adjoint
