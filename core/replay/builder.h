// How a program is made from its trace. Start reading at `Builder::build`.
#pragma once

#include <map>

#include "replay/program.h"

namespace adjoint::replay {

class Builder {
 public:
  explicit Builder(Program& p) : p_(p), t_(p.trace_) {}
  void build();

 private:
  using Home = Program::Home;
  using Memory = Program::Memory;
  /// What becomes of a step.
  enum class How : uint8_t { Nothing, Loop, Walk, Move, Copy, Row, Guard };
  struct Plan {
    How how = How::Row;
    bool live = true;
    bool once = false;  // depends on nothing: computed when the program is built
    bool inplace = false;
    StraightCall call{};
    Place out{};
    std::array<Place, 5> in{};  // of `call`, by operand; slot -1: none
    LoopCall walk{};            // its inputs are null
    const char* name = "";
  };

  Memory& memory(int32_t slot) { return p_.memory_[static_cast<size_t>(slot)]; }
  const Slot& slot(int32_t s) const { return t_.slots[static_cast<size_t>(s)]; }
  Slot& slot(int32_t s) { return t_.slots[static_cast<size_t>(s)]; }
  /// f(place, written) of each place that a step touches.
  template <class F>
  void each_place(const Step& s, F&& f) const;

  void find_inputs_and_outputs();
  void plan_steps();
  bool plan_loop(const Step& s, Plan& plan);
  bool plan_walk(const Step& s, Plan& plan);
  bool plan_move(const Step& s, Plan& plan);
  void schedule();
  bool can_be_chained(const Plan& plan) const;
  void fill_values(const Step& s, std::vector<Value>& values, std::vector<Tensor>& tensors,
                   std::vector<std::vector<int64_t>>& ints, std::vector<Tensor>& out);
  void drop_what_nobody_needs();
  void find_constants();
  void find_lifetimes();
  void lay_out_arena();
  void find_what_to_undo();
  void emit(size_t i);
  void emit_walk(const Step& s, const Plan& plan);
  void emit_chain(const std::vector<uint32_t>& steps);
  void emit_loop(const Plan& plan);
  void emit_move(const Place& to, const Place& from, size_t bytes);
  void append(Program::Kind kind, size_t index);
  void point(void* at, const Place& p);
  Tensor tensor(const Place& p);
  const double* kept(const double* parameters, int n);
  void compute_constants();

  Program& p_;
  Trace& t_;
  std::vector<Plan> plans_;
  /// Steps in the order in which they run: one, or the links of a chain.
  std::vector<std::vector<uint32_t>> schedule_;
  size_t position_ = 0;  // of what is emitted
  std::map<std::tuple<int32_t, uint32_t, int64_t>, Tensor> tensors_;
};

}  // namespace adjoint::replay
