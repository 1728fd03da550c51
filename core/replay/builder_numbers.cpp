// Numbers of the program: when each is computed, and where it goes. See numbers.h.
#include "for_size.h"
#include "replay/builder.h"

namespace adjoint::replay {

void Builder::find_numbers() {
  varies_.resize(t_.slots.size());
  steps_that_take_.resize(t_.steps.size());
  reading_of_step_.assign(t_.steps.size(), -1);
  if (t_.numbers.empty()) return;
  p_.values_.resize(t_.numbers.size());
  std::vector<bool> follows(t_.numbers.size());
  for (uint32_t n = 0; n < t_.numbers.size(); ++n) {
    const NumberNode& node = t_.numbers[n];
    if (p_.ends_.passes) {
      reading_.push_back(-1);
      continue;
    }
    const bool read = node.op == NumberNode::Op::Read;
    follows[n] = read || (node.a >= 0 && follows[static_cast<size_t>(node.a)]) ||
                 (node.b >= 0 && follows[static_cast<size_t>(node.b)]);
    if (read) {
      reading_of_step_[node.at] = static_cast<int32_t>(p_.readings_.size());
      const auto at = static_cast<uint32_t>(p_.reading_nodes_.size());
      p_.readings_.push_back({nullptr, t_.geometry(t_.at(t_.steps[node.at].results)[0]).dtype, {at, at}, {}});
    }
    reading_.push_back(follows[n] ? static_cast<int32_t>(p_.readings_.size()) - 1 : -1);
    (follows[n] ? p_.reading_nodes_ : p_.first_nodes_).push_back(n);
    if (follows[n]) p_.readings_.back().nodes.end = static_cast<uint32_t>(p_.reading_nodes_.size());
  }
  targets_.resize(p_.readings_.size());
  std::vector<std::vector<Place>> written(p_.readings_.size());
  for (const Number& n : p_.ends_.numbers) {
    if (n.slot < 0) {
      if (n.step < steps_that_take_.size()) steps_that_take_[n.step] = true;
      continue;
    }
    varies_[static_cast<size_t>(n.slot)] = true;
    if (const int32_t r = reading_[n.number]; r >= 0) {
      const auto of_slot = std::ranges::find(t_.places, n.slot, &Place::slot);
      if (of_slot != t_.places.end()) written[static_cast<size_t>(r)].push_back(*of_slot);
    }
  }
  // What a reading writes stands among what its step writes, so that nothing is drawn past it.
  for (size_t i = 0; i < t_.steps.size(); ++i) {
    Step& s = t_.steps[i];
    if (const int32_t r = reading_of_step_[i]; r >= 0) {
      s.out.begin = static_cast<uint32_t>(t_.places.size());
      t_.places.insert(t_.places.end(), written[static_cast<size_t>(r)].begin(),
                       written[static_cast<size_t>(r)].end());
      s.out.end = static_cast<uint32_t>(t_.places.size());
    } else if (s.kind == Step::Kind::Call) {
      t_.each_place(s, [&](const Place& p, bool) {
        if (varies_[static_cast<size_t>(p.slot)]) steps_that_take_[i] = true;
      });
    }
  }
}

void Builder::target(const Number& n, void* at, Program::Target::Kind kind) {
  const int32_t r = reading_[n.number];
  (r < 0 ? p_.first_targets_ : targets_[static_cast<size_t>(r)])
      .push_back({n.number, kind, n.dtype, n.negated, at});
}

void Builder::emit_targets() {
  for (const Number& n : p_.ends_.numbers)
    if (n.slot >= 0) {
      const Slot& s = slot(n.slot);
      target(n, t_.bytes.data() + s.bytes, Program::Target::Kind::Element);
      const Home home = memory(n.slot).home;
      if (reading_[n.number] >= 0 && (home == Home::Arena || home == Home::Fresh))
        fail("a tensor is made of a number that is read, and then written or returned");
    }
  for (size_t r = 0; r < p_.readings_.size(); ++r) {
    p_.readings_[r].targets = {static_cast<uint32_t>(p_.targets_.size()),
                               static_cast<uint32_t>(p_.targets_.size() + targets_[r].size())};
    p_.targets_.insert(p_.targets_.end(), targets_[r].begin(), targets_[r].end());
  }
}

}  // namespace adjoint::replay
