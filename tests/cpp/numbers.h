// Tensors from plain numbers and back, for tests that compare numbers. Start with `make` and `read`.
#pragma once

#include <string>
#include <vector>

#include "dispatch/operator.h"
#include "kernels/copy.h"

namespace numbers {

using namespace adjoint;

using Numbers = std::vector<Complex<double>>;

inline Tensor make(const Numbers& values, DType type, IntList shape) {
  Tensor t = empty(shape, type);
  for (size_t i = 0; i < values.size(); ++i)
    write_element(t.bytes() + static_cast<int64_t>(i) * t.itemsize(), type, Scalar(values[i]));
  return t;
}
inline Numbers read(const Tensor& t) {
  const Tensor d = dense(t);
  Numbers v;
  for (int64_t i = 0; i < d.numel(); ++i)
    v.push_back(read_element(d.bytes() + i * d.itemsize(), d.dtype()).as_complex());
  return v;
}

/// The defaults of an operator's parameters.
inline std::vector<double> defaults(const Operator& op, DType type = DType::Float64) {
  std::vector<double> p;
  if (op.elementwise && op.elementwise->parameters == 0) return p;
  std::string_view s = op.signature;
  for (size_t at = s.find('='); at != s.npos; at = s.find('=', at + 1)) {
    const std::string text(s.substr(at + 1, s.find(',', at) - at - 1));
    p.push_back(text == "None" ? op.elementwise->absent(static_cast<int>(p.size()), type) : std::stod(text));
  }
  return p;
}

/// Equal, where NaN equals NaN.
inline bool same_numbers(const Numbers& a, const Numbers& b) {
  auto equal = [](double x, double y) { return x == y || (x != x && y != y); };
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i].re, b[i].re) || !equal(a[i].im, b[i].im)) return false;
  return true;
}

}  // namespace numbers
