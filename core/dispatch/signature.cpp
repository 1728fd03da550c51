#include "dispatch/signature.h"

#include <map>
#include <memory>
#include <mutex>

#include "dispatch/operator.h"
#include "for_size.h"

namespace adjoint {

namespace {

/// NumPy's names for what torch's arguments are, which torch takes too.
struct Synonym {
  std::string_view name, other;
};
constexpr Synonym kSynonyms[] = {{"self", "input"}, {"self", "x"},           {"self", "a"},
                                 {"self", "x1"},    {"input", "self"},       {"input", "x"},
                                 {"dim", "axis"},   {"keepdim", "keepdims"}, {"other", "x2"},
                                 {"size", "shape"}, {"shape", "size"}};

}  // namespace

std::string shown_signature(std::string_view signature) {
  std::string shown;
  bool star = false;
  each_parameter(signature, [&](const ParameterText& p) {
    if (!shown.empty()) shown += ", ";
    if (p.keyword_only && !std::exchange(star, true)) shown += "*, ";
    shown += p.name();
    if (p.has_default) (shown += '=') += p.value;
  });
  return shown;
}

Signature::Signature(const Operator& op, std::string_view order, bool old)
    : op(&op), old(old), text(shown_signature(order)) {
  each_parameter(order, [&](const ParameterText& p) {
    Parameter to{.name = std::string(p.name()),
                 .synonyms = {},
                 .kind = nullptr,
                 .has_default = p.has_default,
                 .keyword_only = p.keyword_only,
                 .index = 0};
    int i = 0;
    each_parameter(op.order, [&](const ParameterText& own) {
      each_name(own.names, [&](std::string_view name) {
        if (name == to.name) to.index = i;
      });
      ++i;
    });
    to.kind = op.kinds[static_cast<size_t>(to.index)];
    each_name(p.names, [&](std::string_view name) {
      if (name != to.name) to.synonyms.emplace_back(name);
    });
    for (const Synonym& s : kSynonyms)
      if (s.name == to.name && names_parameter(order, s.other, 0)) to.synonyms.emplace_back(s.other);
    positional += !to.keyword_only;
    required += !to.has_default;
    parameters.push_back(std::move(to));
  });
}

Signatures::Signatures(const Operator& op) {
  all.emplace_back(op, op.order, false);
  each_order(op.orders, [&](std::string_view order) { all.emplace_back(op, order, false); });
  each_order(op.old_orders, [&](std::string_view order) { all.emplace_back(op, order, true); });
  size_t i = 0;
  each_parameter(op.order, [&](const ParameterText& p) {
    Default& d = defaults.emplace_back();
    if (p.has_default && !read_default(*op.kinds[i], p.value, d))
      fail("operator '", op.name, "': the default of '", p.name(), "' cannot be read: ", p.value);
    ++i;
  });
}

const Signatures& signatures_of(const Operator& op) {
  static std::mutex lock;
  static auto& made = *new std::map<const Operator*, std::unique_ptr<const Signatures>>;
  const std::scoped_lock guard(lock);
  auto& s = made[&op];
  if (!s) s = std::make_unique<Signatures>(op);
  return *s;
}

}  // namespace adjoint
