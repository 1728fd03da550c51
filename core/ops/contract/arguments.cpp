// What is said of arguments once they are boxed: how Python would write them, and what the text of a default
// means.
#include "ops/contract/arguments.h"

#include <charconv>
#include <cmath>

#include "for_size.h"
#include "tensor/error.h"

namespace adjoint {

std::string describe(const ArgKind& kind, const Value& v) {
  if (!v.present) return "None";
  switch (kind.form) {
    case Form::Tensor:
    case Form::Tensors:
    case Form::Generator:
      return "";
    case Form::Scalar:
      return v.scalar.is_complex()    ? "complex"
             : v.scalar.is_integral() ? text(v.scalar.as_int())
                                      : text(v.scalar.as_double());
    case Form::Int:
      return text(v.i);
    case Form::Float:
      return text(v.d);
    case Form::Bool:
      return v.b ? "True" : "False";
    case Form::Type:
      return name_of(v.type);
    case Form::Text:
      return "'" + std::string(v.text()) + "'";
    case Form::Ints: {
      std::string s = "(";
      for (int64_t d : v.ints()) s += std::to_string(d) + ",";
      return s + ")";
    }
    case Form::Floats: {
      std::string s = "(";
      for (double d : v.floats()) s += text(d, ",");
      return s + ")";
    }
  }
  return "";
}

namespace {

template <class T>
bool read_number(std::string_view text, T& to) {
  return std::from_chars(text.data(), text.data() + text.size(), to).ptr == text.data() + text.size();
}
bool read_float(std::string_view text, double& to) {
  if (text == "inf")
    to = HUGE_VAL;
  else if (text == "-inf")
    to = -HUGE_VAL;
  else if (text == "nan")
    to = std::nan("");
  else
    to = std::stod(std::string(text));
  return true;
}

}  // namespace

bool read_default(const ArgKind& kind, std::string_view text, Default& to) {
  Value& v = to.value;
  v.present = text != "None";
  if (!v.present) return kind.optional;
  switch (kind.form) {
    case Form::Bool:
      v.b = text == "True";
      return v.b || text == "False";
    case Form::Int:
      return read_number(text, v.i);
    case Form::Float:
      return read_float(text, v.d);
    case Form::Scalar: {
      int64_t i;
      double d = 0;
      if (text == "True" || text == "False")
        v.scalar = Scalar(text == "True");
      else if (read_number(text, i))
        v.scalar = Scalar(i);
      else if (read_float(text, d))
        v.scalar = Scalar(d);
      return true;
    }
    case Form::Text:
      if (text.size() < 2) return false;
      to.text = text.substr(1, text.size() - 2);
      v.list = {to.text.data(), to.text.size()};
      return true;
    case Form::Ints:
      for (size_t at = 0; at < text.size();) {
        const size_t end = text.find_first_of("(), ", at);
        const std::string_view word = text.substr(at, end - at);
        if (int64_t i; read_number(word, i) && !word.empty()) to.ints.push_back(i);
        at = end == std::string_view::npos ? text.size() : end + 1;
      }
      v.list = {to.ints.data(), to.ints.size()};
      return true;
    case Form::Tensor:
    case Form::Tensors:
    case Form::Type:
    case Form::Floats:
    case Form::Generator:
      break;
  }
  return false;
}

}  // namespace adjoint
