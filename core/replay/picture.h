// What people are shown of a program: instructions, what goes from one to another, and how much memory is
// held.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace adjoint::replay {

struct Picture {
  enum class Kind { Input, Number, Constant, Instruction, Blocks, Decision, Result, Written };
  struct Node {
    Kind kind;
    std::string text;
    /// Of an input, a result, or an input that is written: which.
    int32_t number = -1;
    /// Nodes before it, and the shape of what comes from there.
    std::vector<std::pair<uint32_t, std::string>> takes = {};
  };
  std::vector<Node> nodes;
  /// Bytes beyond what was there before: what is held at most, what is left of that in the end, and what the
  /// function itself holds at least.
  size_t peak = 0, left = 0, eager = 0;
};

}  // namespace adjoint::replay
