// How a program is made from its trace.
//
//     builder_plan.cpp   what becomes of each step: a loop, a move, a row
//     builder.cpp        what is needed, what is constant, in which order, in which memory
//     builder_schedule.cpp, builder_rows.cpp   which loops run together: chains, some of them by rows
//     builder_emit.cpp, builder_chain.cpp   the instructions
//     builder_numbers.cpp   numbers of Python among them
//
// Start reading at `Builder::build`.
#pragma once

#include <map>
#include <optional>

#include "replay/program.h"

namespace adjoint::replay {

/// Whether a place is all of its slot, in order.
inline bool whole(const Slot& s, const Geometry& g, const Place& p) {
  return p.offset == 0 && g.contiguous && static_cast<size_t>(g.numel * itemsize(g.dtype)) == s.nbytes;
}

class Builder {
 public:
  explicit Builder(Program& p) : p_(p), t_(p.trace_) {}
  void build(Picture* picture);

 private:
  using Home = Program::Home;
  using Memory = Program::Memory;
  /// What becomes of a step.
  enum class How : uint8_t { Nothing, Loop, Walk, Move, Copy, Launch, Row, Guard };
  struct Plan {
    How how = How::Row;
    bool live = true;
    bool once = false;  // depends on nothing: computed when the program is built
    bool inplace = false;
    bool sure = false;  // of a launch: cannot fail
    StraightCall call{};
    int parameters = 0;  // of `call`
    Place out{};
    std::array<Place, 5> in{};  // of `call`, by operand; slot -1: none
    LoopCall walk{};            // its inputs are null
    /// Of a walk that may be a link of a chain: for each operand over fewer elements, how they repeat.
    std::array<Program::Spread, 5> spread{};
    bool spreads = false;
    std::shared_ptr<const Launches> launches = nullptr;
    std::vector<int32_t> aside{};  // the slots that these make on the way
    /// The slot that is reduced as a whole, by what may be part of a chain, and how many elements it has.
    int32_t folds = -1;
    int64_t folded = 0;
    /// Of a launch that reduces rows of in[0]: their length. To `out`, and to `also` if it has two results.
    int64_t row = 0;
    Place also{};
    std::optional<bool> even{};  // `is_even`, when it was asked
    const char* name = "";
    LoopMeaning meaning{};  // of the loop, where it is in a chain
  };

  Memory& memory(int32_t slot) { return p_.memory_[static_cast<size_t>(slot)]; }
  const Slot& slot(int32_t s) const { return t_.slots[static_cast<size_t>(s)]; }
  Slot& slot(int32_t s) { return t_.slots[static_cast<size_t>(s)]; }
  /// A place that a step takes or gives.
  struct Touch {
    int32_t slot;
    uint32_t geometry;
    int64_t offset;
    bool written, made;  // made: among the results
    Place place() const { return {slot, geometry, offset}; }
  };
  /// Those of a step, in the order of `Trace::each_place`.
  std::span<const Touch> touches(size_t step) const {
    return {touches_.data() + first_touch_[step], touches_.data() + first_touch_[step + 1]};
  }
  void find_touches();
  /// Places in the order in which they run, of one step each, or of the links of a chain or a pass.
  class Schedule {
   public:
    size_t size() const { return ends_.size(); }
    std::span<const uint32_t> operator[](size_t at) const {
      const uint32_t begin = at ? ends_[at - 1] : 0;
      return {steps_.data() + begin, steps_.data() + ends_[at]};
    }
    void reserve(size_t steps) {
      steps_.reserve(steps);
      ends_.reserve(steps);
    }
    void add(std::span<const uint32_t> steps) {
      steps_.insert(steps_.end(), steps.begin(), steps.end());
      ends_.push_back(static_cast<uint32_t>(steps_.size()));
    }
    /// One more step at the last place.
    void join(uint32_t step) {
      steps_.push_back(step);
      ++ends_.back();
    }

   private:
    std::vector<uint32_t> steps_, ends_;
  };

  void find_inputs_and_outputs();
  void merge_equal();
  void find_numbers();
  void emit_targets();
  void target(const Number& n, void* at, Program::Target::Kind kind);
  void plan_steps();
  /// f(range in Trace::places) of the tensors that a step is called with, writes to aside.
  template <class F>
  void each_list(const Step& s, F&& f) const {
    for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k)
      if (const Argument& a = t_.arguments[k];
          a.present && (a.form == Form::Tensor || a.form == Form::Tensors))
        f(a.list);
    f(s.out);
  }
  /// What a step is called with. Of an element-wise call, `places` leaves out what the call does.
  struct Operands : RowArguments {
    std::vector<Place> places;
  };
  /// `stand_in`: tensors are no more than their geometry.
  void operands_of(const Step& s, bool stand_in, Operands& operands);
  const Tensor& stand_in(const Place& p);
  bool plan_loop(const Step& s, const Operands& operands, Plan& plan);
  bool plan_walk(const Step& s, const Operands& operands, Plan& plan);
  bool plan_spread(Plan& plan) const;
  bool plan_move(const Step& s, Plan& plan);
  /// Loops over as many elements run in blocks.
  static constexpr int64_t kLeastChained = 1024;
  /// Numbers beside so many elements at most are written out when the program is built.
  static constexpr int64_t kRepeated = 128;
  /// Rows that are longer are not kept from one loop to the next.
  static constexpr int64_t kLongestRow = int64_t{1} << 15;
  /// What a row made, and what was taken for the program, is given back, or taken, when it has to be from
  /// this size on.
  static constexpr size_t kInTime = 4096;
  /// As what a step runs in a chain: over all elements, over a number for each row, or from rows to numbers.
  enum class Part : uint8_t { None, Whole, Numbers, Fold };
  class Alike;
  struct Drawn;
  void schedule();
  void draw(Drawn& chain, size_t i, std::vector<char>& done);
  Part part_of(const Drawn& chain, Plan& plan);
  void find_rows(const Step& s, Plan& plan) const;
  bool is_even(Plan& plan) const;
  bool fits_rows(Plan& plan, int64_t row) const;
  void join_small(Alike& alike);
  std::string why_it_ends(const Drawn& chain, size_t passed) const;
  static const LoopMeaning::Way* way_from(const Plan& plan, const Place& made);
  static int takes(const Plan& plan, const Place& made);
  /// Whether these are one pass over few elements.
  bool is_pass(std::span<const uint32_t> steps) const {
    return steps.size() > 1 && !ends_.contains(steps[0]);
  }
  /// Whether elements are known when the program is built, and no call changes them.
  bool is_known(const Place& p) const {
    const Slot& s = slot(p.slot);
    if (varies_[static_cast<size_t>(p.slot)]) return false;
    return s.kind == Slot::Kind::Number ||
           (s.kind == Slot::Kind::Given && !s.writes && !p_.memory_[static_cast<size_t>(p.slot)].escapes);
  }
  bool can_be_chained(const Plan& plan) const;
  RowArguments arguments(const Step& s) {
    return {t_, s, [&](const Place& p) { return tensor(p); }};
  }
  bool may_fail(const Plan& plan, const Step& s) const {
    return plan.how == How::Guard ||
           ((plan.how == How::Row || (plan.how == How::Launch && !plan.sure)) && s.kind == Step::Kind::Call);
  }
  bool looks_at_elements(const ElementwiseInfo& op, const Tensor* in, const std::vector<Place>& places) const;
  void plan_launches();
  void find_fold(const Step& s, Plan& plan) const;
  void drop_what_nobody_needs();
  void find_constants();
  void find_lifetimes();
  void lay_out_arena();
  void find_what_to_undo();
  void find_drops();
  void supply(Program::Supply::Kind kind, int32_t slot, int32_t from = -1);
  void emit_scheduled();
  void emit(size_t i);
  void emit_walk(const Step& s, const Plan& plan);
  void emit_chain(std::vector<uint32_t> steps);
  void emit_pass(std::span<const uint32_t> steps);
  LoopMeaning meaning(const Plan& plan);
  void take_what_is_made(const std::vector<uint32_t>& steps);
  void order_links(std::vector<uint32_t>& steps) const;
  class Layout;
  void join_links(Program::Chain& chain, const std::vector<uint32_t>& steps,
                  const std::map<int32_t, size_t>& last);
  bool is_direct(const Program::Chain& chain, const Plan& plan, size_t operand) const;
  void fetch_far(Program::Chain& chain, const std::vector<uint32_t>& steps);
  const BoundLaunch& bind(const Launches::Call& call, const Step& s, const Plan& plan);
  const char* repeat(const Place& p, int64_t n);
  void emit_loop(const Plan& plan);
  void emit_launches(const Step& s, const Plan& plan);
  void emit_move(const Place& to, const Place& from, size_t bytes);
  void append(Program::Kind kind, size_t index);
  void point(void* at, const Place& p);
  Tensor tensor(const Place& p);
  const double* kept(const double* parameters, int n);
  void compute_constants();
  void show(Picture& picture) const;
  std::string name_of(std::span<const uint32_t> steps) const;

  Program& p_;
  Trace& t_;
  std::vector<Plan> plans_;
  std::vector<Touch> touches_;
  std::vector<uint32_t> first_touch_;
  Schedule schedule_;
  std::vector<char> in_registers_;        // of slots: whether it is made and taken within a pass
  std::map<uint32_t, std::string> ends_;  // of the chain that begins with a step: why it is no longer
  std::map<uint32_t, int64_t> rows_;      // and how long its rows are, if it goes by rows
  /// Slots and steps that take numbers; of each number, and each step, the reading that it follows from, or
  /// -1.
  std::vector<char> varies_, steps_that_take_;
  std::vector<int32_t> reading_, reading_of_step_;
  std::vector<std::vector<Program::Target>> targets_;  // of readings
  /// Own and fresh memory that is taken before a place in the schedule, or given back after it, and inputs
  /// that nothing takes any more after it.
  struct Birth {
    int32_t position, slot;
  };
  std::vector<Birth> taken_, given_, spent_;  // by position
  size_t next_taken_ = 0, next_given_ = 0, next_spent_ = 0;
  std::vector<std::pair<uint32_t, int64_t>> drops_;  // inputs, and the steps before which they go
  int32_t last_decision_ = -1;                       // in the schedule
  size_t position_ = 0;                              // of what is emitted
  int64_t checked_ = 0;  // the work after which the last look at an interrupt comes
  struct Known {
    uint32_t geometry;
    int32_t next;  // of the same slot
    int64_t offset;
    Tensor tensor;
  };
  std::vector<Known> tensors_;
  std::vector<int32_t> first_tensor_;  // of slots
  std::vector<Tensor> stand_ins_;      // of geometries, and then as bare numbers
};

}  // namespace adjoint::replay
