// Signatures: the names, synonyms and defaults of an operator's arguments, written as Python would.
//
//     self, dim=None, correction|unbiased=1.0, keepdim=False, *, dtype=None
//
// After a bar stand other names of the same argument. An operator may state further orders of its arguments
// (`orders`, `old_orders`), separated by semicolons: each names some of them, and the rest have their
// defaults. The text is checked against the types of `forward` when it is compiled (dispatch/family.h) and
// read once at run time, defaults included.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ops/contract/arguments.h"

namespace adjoint {

struct Operator;

/// One parameter as it is written.
struct ParameterText {
  std::string_view names, value;
  bool has_default = false, keyword_only = false;
  constexpr std::string_view name() const { return names.substr(0, names.find('|')); }
};

constexpr std::string_view trimmed(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}
/// What stands before the next separator outside of brackets; takes it and the separator away.
constexpr std::string_view cut(std::string_view& rest, char separator) {
  int depth = 0;
  size_t end = 0;
  for (; end < rest.size() && (rest[end] != separator || depth); ++end)
    depth += (rest[end] == '(') - (rest[end] == ')');
  const std::string_view part = trimmed(rest.substr(0, end));
  rest.remove_prefix(end < rest.size() ? end + 1 : end);
  return part;
}

/// Call f with each parameter that a signature names.
template <class F>
constexpr void each_parameter(std::string_view signature, F&& f) {
  bool keyword_only = false;
  while (!trimmed(signature).empty()) {
    std::string_view part = cut(signature, ',');
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    ParameterText p;
    p.keyword_only = keyword_only;
    p.names = cut(part, '=');
    p.value = trimmed(part);
    p.has_default = !p.value.empty();
    f(p);
  }
}
template <class F>
constexpr void each_order(std::string_view orders, F&& f) {
  while (!trimmed(orders).empty()) f(cut(orders, ';'));
}
template <class F>
constexpr void each_name(std::string_view names, F&& f) {
  while (!names.empty()) f(cut(names, '|'));
}

constexpr int parameters_in(std::string_view signature) {
  int n = 0;
  each_parameter(signature, [&](const ParameterText&) { ++n; });
  return n;
}
constexpr bool names_parameter(std::string_view signature, std::string_view name, int times) {
  each_parameter(signature, [&](const ParameterText& p) {
    each_name(p.names, [&](std::string_view other) { times -= other == name; });
  });
  return times == 0;
}
/// No name is given twice.
constexpr bool names_are_unique(std::string_view signature) {
  bool unique = true;
  each_parameter(signature, [&](const ParameterText& p) {
    each_name(p.names,
              [&](std::string_view name) { unique &= !name.empty() && names_parameter(signature, name, 1); });
  });
  return unique;
}
/// Further orders name arguments of the signature, each once.
constexpr bool orders_fit(std::string_view signature, std::string_view orders) {
  bool fit = true;
  each_order(orders, [&](std::string_view order) {
    fit &= names_are_unique(order);
    each_parameter(order, [&](const ParameterText& p) { fit &= names_parameter(signature, p.name(), 1); });
  });
  return fit;
}
static_assert(parameters_in("self, dim=(0, 1), *, dtype=None") == 3 && parameters_in("") == 0);
static_assert(names_are_unique("a, b|c=1") && !names_are_unique("a, b|a") &&
              orders_fit("a, b|c=1", "b, a; c") && !orders_fit("a", "b"));

/// More would not fit into the room that calls have for them.
inline constexpr int kMostArguments = 16;

struct Parameter {
  std::string name;
  /// Other names, those that NumPy has for the same thing among them.
  std::vector<std::string> synonyms;
  const ArgKind* kind;
  bool has_default, keyword_only;
  /// Which argument of the operator it is.
  int index;
};

/// One way to give an operator's arguments, read from its text.
struct Signature {
  const Operator* op;
  std::vector<Parameter> parameters;
  /// How many may be given by place, and how many have to be given.
  int positional = 0, required = 0;
  /// torch warns of it.
  bool old = false;
  /// As users read it.
  std::string text;

  Signature(const Operator& op, std::string_view order, bool old);
};

/// All ways, the plain one first; and the defaults of the arguments, in the order of `forward`.
struct Signatures {
  std::vector<Signature> all;
  std::deque<Default> defaults;
  explicit Signatures(const Operator& op);
};
/// Made at the first call.
const Signatures& signatures_of(const Operator& op);

/// A signature without what only the reading of calls needs: the names after bars.
std::string shown_signature(std::string_view signature);

}  // namespace adjoint
