// The tables of 2/pi by which large angles are reduced (trigonometric.h), found from its bits when the
// program starts: in the file they would be a hundred times as long.
#include <cmath>
#include <cstdint>
#include <iterator>

#include "kernels/cpu/math/coefficients.h"
#include "kernels/cpu/math/trigonometric.h"

namespace adjoint::turns {

namespace {

/// The bits first ... first + count - 1 of 2/pi, count < 64, as an integer times 2^-scale; bit 1 is the first
/// after the point, those before are 0.
double bits_of_two_over_pi(int first, int count, int scale) {
  constexpr auto& words = math::coefficients::two_over_pi;
  const int at = first - 1;
  uint64_t from_there = 0;
  if (at >= 0) {
    const int word = at / 64, shift = at % 64;
    from_there = words[word] << shift;
    if (shift && word + 1 < static_cast<int>(std::size(words))) from_there |= words[word + 1] >> (64 - shift);
  } else if (at > -64) {
    from_there = words[0] >> -at;
  }
  return std::ldexp(static_cast<double>(from_there >> (64 - count)), -scale);
}

FloatTurns float_turns() {
  FloatTurns t{};
  for (int i = 0; i < 129; ++i) {
    const int s = i + 126 - 150;
    t.high[i] = bits_of_two_over_pi(s - 1, 29, 27);
    t.low[i] = bits_of_two_over_pi(s + 28, 53, 80);
  }
  return t;
}
DoubleTurns double_turns() {
  DoubleTurns t{};
  for (int i = 0; i < 1025; ++i) {
    const int s = i + 1022 - 1075;
    t.high[i] = bits_of_two_over_pi(s - 1, 53, 51);
    t.middle[i] = bits_of_two_over_pi(s + 52, 53, 104);
    t.low[i] = bits_of_two_over_pi(s + 105, 53, 157);
  }
  return t;
}

}  // namespace

const FloatTurns of_float = float_turns();
const DoubleTurns of_double = double_turns();

}  // namespace adjoint::turns
