#include "replay/numbers.h"

#include <cmath>
#include <cstring>

#include "for_size.h"

namespace adjoint::replay {

namespace {

/// Up to here integers are doubles.
constexpr int64_t kExact = int64_t{1} << 53;

bool exact(const Scalar& s) { return !s.is_integral() || (s.as_int() <= kExact && s.as_int() >= -kExact); }

bool compute_whole(NumberNode::Op op, int64_t a, int64_t b, Scalar& r) {
  using Op = NumberNode::Op;
  int64_t whole;
  switch (op) {
    case Op::Add:
      if (__builtin_add_overflow(a, b, &whole)) return false;
      break;
    case Op::Subtract:
      if (__builtin_sub_overflow(a, b, &whole)) return false;
      break;
    case Op::Multiply:
      if (__builtin_mul_overflow(a, b, &whole)) return false;
      break;
    case Op::FloorDivide:
    case Op::Remainder: {
      if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
      const int64_t rest = a % b, turned = rest != 0 && (rest < 0) != (b < 0);
      whole = op == Op::Remainder ? rest + turned * b : a / b - turned;
      break;
    }
    case Op::Divide:
      if (b == 0 || a > kExact || a < -kExact || b > kExact || b < -kExact) return false;
      r = Scalar(static_cast<double>(a) / static_cast<double>(b));
      return true;
    default:
      return false;
  }
  r = Scalar(whole);
  return true;
}

}  // namespace

bool same_number(const Scalar& a, const Scalar& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_integral()) return a.as_int() == b.as_int();
  const double x = a.as_double(), y = b.as_double();
  return std::memcmp(&x, &y, sizeof x) == 0;
}

bool compute(NumberNode::Op op, const Scalar& a, const Scalar& b, Scalar& r) {
  using Op = NumberNode::Op;
  const bool both_whole = a.is_integral() && b.is_integral();
  switch (op) {
    case Op::Negate:
    case Op::Magnitude:
      if (!a.is_integral())
        r = Scalar(op == Op::Negate ? -a.as_double() : std::fabs(a.as_double()));
      else if (a.as_int() == INT64_MIN)
        return false;
      else
        r = Scalar(op == Op::Negate || a.as_int() < 0 ? -a.as_int() : a.as_int());
      return true;
    case Op::Floor:
    case Op::Ceiling: {
      const double whole = op == Op::Floor ? std::floor(a.as_double()) : std::ceil(a.as_double());
      if (a.is_integral() || !(std::fabs(whole) <= static_cast<double>(kExact))) return false;
      r = Scalar(static_cast<int64_t>(whole));
      return true;
    }
    case Op::Cosine:
      if (!exact(a) || !std::isfinite(a.as_double())) return false;
      r = Scalar(std::cos(a.as_double()));
      return true;
    case Op::Truth:
      r = Scalar(a.is_integral() ? a.as_int() != 0 : a.as_double() != 0);
      return true;
    case Op::Same:
      r = Scalar(same_number(a, b));
      return true;
    case Op::Less:
    case Op::LessEqual:
    case Op::Equal: {
      if (!both_whole && (!exact(a) || !exact(b))) return false;
      const auto outcome = [&](auto x, auto y) {
        return op == Op::Less ? x < y : op == Op::LessEqual ? x <= y : x == y;
      };
      r = Scalar(both_whole ? outcome(a.as_int(), b.as_int()) : outcome(a.as_double(), b.as_double()));
      return true;
    }
    default:
      break;
  }
  if (both_whole) return compute_whole(op, a.as_int(), b.as_int(), r);
  if (!exact(a) || !exact(b)) return false;
  const double x = a.as_double(), y = b.as_double();
  switch (op) {
    case Op::Add:
      r = Scalar(x + y);
      return true;
    case Op::Subtract:
      r = Scalar(x - y);
      return true;
    case Op::Multiply:
      r = Scalar(x * y);
      return true;
    case Op::Divide:
      r = Scalar(x / y);
      return y != 0;
    case Op::Power: {
      // Python has rules of its own for the rest; here it calls the same function of the C library.
      if (!(x > 0) || !std::isfinite(x) || !std::isfinite(y)) return false;
      const double power = std::pow(x, y);
      r = Scalar(power);
      return std::isfinite(power);
    }
    default:
      return false;
  }
}

bool compute(const NumberNode& node, Scalar* values, size_t at) {
  using Op = NumberNode::Op;
  Scalar& r = values[at];
  switch (node.op) {
    case Op::Input:
    case Op::Read:
      return r.kind() == node.value.kind();
    case Op::Constant:
      r = node.value;
      return true;
    default:
      break;
  }
  const Scalar& a = values[node.a];
  if (!compute(node.op, a, node.b < 0 ? a : values[node.b], r)) return false;
  return node.decides() ? r == node.value : r.kind() == node.value.kind();
}

}  // namespace adjoint::replay
