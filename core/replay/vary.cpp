// Which arguments of a recording are numbers of the program's.
//
// A number is followed through Python by an object of its own in its place (bind/replay_numbers.cpp), and
// from there on by its value: an argument that was another in another recording, and is in both what one of
// the numbers is that were passed on to the core, is that number. Where two are the same both times nobody
// can say which it is: they must stay the same. What was passed on and is found nowhere must be what it was.
// Start reading at `Recording::vary`.
#include <cmath>
#include <cstring>
#include <optional>

#include "for_size.h"
#include "replay/derivative.h"
#include "tensor/number.h"

namespace adjoint::replay {

namespace {

using Op = NumberNode::Op;

/// What is written for a number, at most an element.
struct Written {
  alignas(16) char bytes[16] = {};
  Written(const Scalar& s, DType type) { write_element(bytes, type, s); }
  bool operator==(const Written& o) const { return std::memcmp(bytes, o.bytes, sizeof bytes) == 0; }
};

class Finder {
 public:
  Finder(Recording& here, Recording& there, std::vector<Scalar> before)
      : here_(here), there_(there), before_(std::move(before)), used_(here.trace.numbers.size()) {}

  /// The arguments of steps.
  void arguments() {
    Trace &h = here_.trace, &t = there_.trace;
    for (uint32_t i = 0; i < std::min(h.steps.size(), t.steps.size()); ++i) {
      const Step &a = h.steps[i], &b = t.steps[i];
      if (a.kind != Step::Kind::Call || a.op != b.op || !(a.arguments == b.arguments)) continue;
      for (uint32_t k = a.arguments.begin; k < a.arguments.end; ++k) {
        Argument &x = h.arguments[k], &y = t.arguments[k];
        if (x.form != y.form || x.present != y.present || !x.present) continue;
        Number n{0, i, k - a.arguments.begin};
        if (x.form == Form::Float) {
          double &p = h.plain(x).d, &q = t.plain(y).d;
          if (find(n, Scalar(p), Scalar(q))) q = p;
        } else if (x.form == Form::Scalar) {
          Scalar &p = h.plain(x).scalar, &q = t.plain(y).scalar;
          if (p.kind() == q.kind() && !p.is_complex() && p.kind() != Category::Bool &&
              find(n, p, q, {}, true))
            q = p;
        } else if (x.form == Form::Floats && x.list == y.list) {
          for (; n.element < x.list.size(); ++n.element) {
            double &p = h.floats[x.list.begin + n.element], &q = t.floats[y.list.begin + n.element];
            if (find(n, Scalar(p), Scalar(q))) q = p;
          }
        }
      }
    }
  }

  /// Bare numbers, and tensors that were made of one.
  void slots() {
    Trace &h = here_.trace, &t = there_.trace;
    for (size_t s = 0; s < std::min(h.slots.size(), t.slots.size()); ++s) {
      const Slot &x = h.slots[s], &y = t.slots[s];
      if (!(x == y) || (x.kind != Slot::Kind::Given && x.kind != Slot::Kind::Number)) continue;
      const auto slot = static_cast<int32_t>(s);
      const auto place = std::ranges::find(h.places, slot, &Place::slot);
      if (place == h.places.end()) continue;
      const DType type = h.geometry(*place).dtype;
      const auto item = static_cast<size_t>(itemsize(type));
      char* const p = h.bytes.data() + x.bytes;
      char* const q = t.bytes.data() + y.bytes;
      for (size_t k = 0; k + item <= x.nbytes; k += item)
        doubt(read_element(p + k, type), read_element(q + k, type), type);
      if (item != x.nbytes || is_complex(type) || type == DType::Bool) continue;
      Number n{.number = 0, .slot = slot, .dtype = type};
      if (find(n, read_element(p, type), read_element(q, type), type)) std::memcpy(q, p, x.nbytes);
    }
  }

  /// Elements that are numbers now.
  void readings() {
    Trace &h = here_.trace, &t = there_.trace;
    for (const NumberNode& n : h.numbers)
      if (n.op == Op::Read)
        std::memcpy(t.bytes.data() + t.steps[n.at].bytes.begin, h.bytes.data() + h.steps[n.at].bytes.begin,
                    h.steps[n.at].bytes.size());
  }

  /// What was passed on and not found. A sentence, or none.
  const char* rest() {
    if (in_doubt_) return "a number that changes is the same as another that does not";
    for (size_t n = 0; n < used_.size(); ++n)
      if (here_.trace.numbers[n].given && !used_[n]) {
        if (!same_number(here_.trace.numbers[n].value, before_[n]))
          return "a number that changes is given to the core, and decides there what is computed";
        decide(Op::Same, n, -1);
      }
    for (const auto& [a, b] : ties_) decide(Op::Same, a, static_cast<int32_t>(b));
    return nullptr;
  }

 private:
  /// `type`: of an element that a number is written to.
  bool find(Number n, const Scalar& here, const Scalar& there, std::optional<DType> type = {},
            bool kind = false) {
    const auto is = [&](const Scalar& number, const Scalar& argument) {
      if (type) return fits(number, *type) && Written(number, *type) == Written(argument, *type);
      return argument.kind() == number.kind()
                 ? same_number(number, argument)
                 : !kind && argument.kind() == Category::Floating && number.is_integral() &&
                       same_number(Scalar(number.as_double()), argument);
    };
    if (same_number(here, there)) {
      if (!type) doubt(here, there, type);
      return false;
    }
    int64_t found = -1;
    for (size_t k = 0; k < used_.size(); ++k) {
      const NumberNode& node = here_.trace.numbers[k];
      if (!node.given || !is(node.value, here) || !is(before_[k], there)) continue;
      used_[k] = true;
      if (found < 0) {
        found = static_cast<int64_t>(k);
      } else if (std::ranges::find(ties_, std::pair(static_cast<size_t>(found), k)) == ties_.end()) {
        ties_.emplace_back(found, k);
      }
    }
    for (size_t k = 0; k < used_.size() && found < 0 && !type && !here.is_integral(); ++k) {
      const NumberNode& node = here_.trace.numbers[k];
      if (!node.given || node.value.is_integral() || !is(Scalar(-node.value.as_double()), here) ||
          !is(Scalar(-before_[k].as_double()), there))
        continue;
      used_[k] = n.negated = true;
      found = static_cast<int64_t>(k);
    }
    if (found < 0) return false;
    n.number = static_cast<uint32_t>(found);
    here_.numbers.push_back(n);
    return true;
  }
  /// What stayed the same although a number that changed may have become it both times, where it was rounded:
  /// nobody can say whether it is that number.
  void doubt(const Scalar& here, const Scalar& there, std::optional<DType> type) {
    if (!type && !same_number(here, there)) return;
    const auto becomes = [&](const Scalar& number, const Scalar& argument) {
      if (!type) return number.as_double() == argument.as_complex().re;
      if (is_integral(*type) && !fits(number, *type)) return true;
      return Written(number, *type) == Written(argument, *type);
    };
    if (type && !(Written(here, *type) == Written(there, *type))) return;
    for (size_t k = 0; k < used_.size(); ++k)
      if (const NumberNode& node = here_.trace.numbers[k]; node.given && !same_number(node.value, before_[k]))
        in_doubt_ = in_doubt_ || (becomes(node.value, here) && becomes(before_[k], there));
  }
  void decide(Op op, size_t a, int32_t b) {
    std::vector<NumberNode>& all = here_.trace.numbers;
    if (b < 0) {
      b = static_cast<int32_t>(all.size());
      all.push_back({Op::Constant, -1, -1, 0, all[a].value});
    }
    all.push_back({op, static_cast<int32_t>(a), b, 0, Scalar(true)});
  }

  Recording &here_, &there_;
  std::vector<Scalar> before_;
  std::vector<bool> used_;
  bool in_doubt_ = false;
  std::vector<std::pair<size_t, size_t>> ties_;
};

}  // namespace

std::string Recording::vary(const Recording& before, const Recording& tracked, std::span<const Scalar> there,
                            std::span<const std::pair<uint32_t, Scalar>> returned) {
  numbers.clear();
  trace.numbers.clear();
  if (const std::string d = difference(tracked); !d.empty()) return d;
  if (before.trace.steps.size() != trace.steps.size())
    return text(trace.steps.size(), " operations ran, and ", before.trace.steps.size(), " before");
  // The numbers as they were.
  trace.numbers = tracked.trace.numbers;
  std::vector<Scalar> values(trace.numbers.size());
  for (size_t n = 0; n < values.size(); ++n) {
    const NumberNode& node = trace.numbers[n];
    if (node.op == Op::Input) {
      values[n] = there[n];
    } else if (node.op == Op::Read) {
      const Step &a = trace.steps[node.at], &b = before.trace.steps[node.at];
      if (b.kind != Step::Kind::Read || a.bytes != b.bytes) return "a number is read elsewhere";
      values[n] = read_element(before.trace.bytes.data() + b.bytes.begin,
                               trace.geometry(trace.at(a.results)[0]).dtype);
    }
    if (!compute(node, values.data(), n)) {
      trace.numbers.clear();
      return "a decision on a number came out otherwise, or nobody can compute it again";
    }
  }
  for (const auto& [n, value] : returned)
    if (n >= values.size() || !same_number(values[n], value))
      return "it returns or stores something else at each call";
  Recording o = before;
  Finder finder(*this, o, std::move(values));
  finder.arguments();
  finder.slots();
  finder.readings();
  if (const char* words = finder.rest()) return words;
  return difference(o);
}

}  // namespace adjoint::replay
