// A trace made ready to run: instructions over memory that is planned beforehand.
//
// What a trace calls a slot has memory of one of these kinds: OUTSIDE memory, found anew at each call;
// CONSTANTS, which are made once; a place in the ARENA, which lasts from the first instruction that writes it
// to the last that reads it; memory of its OWN for that time, if it is large; FRESH memory, for what the
// program gets; or what a row made (KEPT until nobody needs it). Every pointer of an instruction is written
// down with its slot, so that a slot that moves is followed by writing the pointers again.
//
// Instructions are LOOPS, element-wise kernels with their pointers; MOVES; LAUNCHES, which is what other rows
// of the table come to where they were prepared (prepared.h); and ROWS, which were not: computed by what the
// door computes, past the door. Both may fail, and so may a GUARD, which
// compares what the program read when it was recorded: then what was written outside is put back, and whoever
// runs the program does what it stands for by itself.
//
// Start reading at `Program::run`. See Note: replay.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "kernels/gathered.h"
#include "kernels/in_registers.h"
#include "kernels/product.h"
#include "replay/picture.h"
#include "replay/prepared.h"
#include "replay/row.h"
#include "runtime/counted.h"

namespace adjoint::replay {

class Builder;

/// Which input an output is; or what it is a view of, an input or an output, and what may be done with the
/// view.
struct Relation {
  int32_t same = -1, base_input = -1, base_output = -1;
  /// What it counts writes with: an input; or, where its count is not its memory's (`x.data`), the first such
  /// output.
  int32_t count_of_input = -1, count_of_output = -1;
  /// The version of a count that begins with this output.
  uint32_t version = 0;
  uint32_t flags = 0;
  bool operator==(const Relation&) const = default;
};

/// An argument of a row that is a number of the program's (`Trace::numbers`), which may be another at each
/// call; of a list of numbers, the one at `element`. Or, with a slot, the one element that lies in that.
struct Number {
  uint32_t number, step = 0, argument = 0, element = 0;
  int32_t slot = -1;
  DType dtype = DType::Float64;
  /// As `alpha` of what subtracts.
  bool negated = false;
};

class Program {
 public:
  /// What a program takes and gives. `inputs`: where each input lay, slot -1 for those that no operation met.
  struct Ends {
    std::vector<Place> inputs, outputs;
    /// Of the outputs: who they are. Empty: an output is the input that lies in its place.
    std::vector<Relation> relations;
    /// How many writes each input counts: of those that count together, the first.
    std::vector<uint32_t> counts = {};
    /// From this output on, whole slots are given as they are, for another program.
    size_t whole_from = ~size_t{0};
    std::vector<Number> numbers = {};
    /// A backward pass: all its numbers are given, and so is what it takes of the call, from `spent_from` on.
    bool passes = false;
    /// Inputs that the program lets go of before a step, if nothing reads them: gradients that it replaces.
    std::vector<std::pair<uint32_t, int64_t>> dropped = {};
    /// From this input on, each may go after the last step that takes it.
    size_t spent_from = ~size_t{0};
  };
  /// Of these steps of a trace. `ends` stays where it is. Throws Error where it cannot be run. Tells a
  /// `picture` what it consists of.
  Program(const Trace& trace, Range steps, const Ends& ends, Picture* picture = nullptr);
  ~Program();
  Program(const Program&) = delete;

  /// Chains run in pieces of this length, or of some times as many, in which eager's loops give the same
  /// bits.
  static constexpr int64_t kBlock = 512;
  /// How many rows make a block.
  static int64_t rows_of_block(int64_t row);
  enum class Outcome : uint8_t {
    Done,
    /// Something failed or went another way; nothing has changed.
    Undone,
  };
  /// Lets go of an input that nothing reads, or nothing any more.
  using Drop = runtime::FunctionRef<void(uint32_t input)>;
  /// Inputs in the order in which they were named; outputs are written. One thread at a time: see `Pool`.
  /// `numbers`: those that are given, and after the run all of them.
  Outcome run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::vector<Scalar>& numbers,
              const Drop* drop = nullptr);

  /// Nanoseconds that it will take, guessed: whether it is worth to let others run meanwhile.
  int64_t work() const { return work_; }
  struct Statistics {
    size_t operations = 0, loops = 0, chains = 0, chained = 0, moves = 0, prepared = 0, rows = 0, guards = 0,
           dropped = 0, constants = 0;
    size_t arena_bytes = 0, bytes = 0;
  };
  Statistics statistics() const;
  /// Of each instruction the least time, in nanoseconds, of some runs.
  struct Times {
    int64_t runs = 0;
    std::vector<int64_t> least;
    void add(const Times& other);
  };
  /// An instruction a line, for people, with its time if it was taken.
  std::string text(const Times& times) const;
  /// Which output is an input: its number, or -1.
  const std::vector<int32_t>& output_is_input() const { return output_is_input_; }

 private:
  struct Loops {
    Loop loop;
    void* out;
    const void* in[5];
    int64_t n;
    const double* parameters;
    const char* name;
  };
  /// Cheap loops over few elements, one after the other.
  struct SmallPass {
    decltype(adjoint::Pass::run) run;
    int64_t n;
    std::vector<Cheap> steps;
    std::vector<char*> at;
    std::vector<const char*> names;
  };
  struct Wide {  // a loop over many elements, or with numbers beside them
    StraightCall call;
    void* out;
    int64_t n;
    const char* name;
  };
  struct Move {
    char* to;
    const char* from;
    size_t bytes;
  };
  /// A loop over operands that lie otherwise, or have other types.
  struct Walk {
    LoopCall call;
    std::vector<Tensor> in;
    Tensor out;
    const char* name;
  };
  struct Gathered {
    GatheredCall call;
    const char* name;
  };
  /// How a block of n elements comes from fewer: each of them `length` times, or `length` of them again and
  /// again.
  struct Spread {
    int64_t length = 0;  // 0: it does not
    bool each = false;
  };
  /// Loops over the same many elements, a block at a time: what only they take never leaves the cache. By
  /// rows, a block is some whole rows; then links may be reductions of rows, and loops over the numbers that
  /// these give.
  struct Chain {
    struct Operand {
      char* at = nullptr;  // null: none, or in a buffer
      int64_t item = 0;    // from one element to the next
      int32_t buffer = -1;
      bool by_row = false;    // a number for each row
      bool in_place = false;  // the same row, or number, for every row
    };
    struct Link {
      Loop loop = nullptr;  // null: a reduction of rows
      const double* parameters = nullptr;
      const char* name;
      Operand out, in[5];
      /// Of a reduction: one or two results, which go to `out` and `also`, and the operand, which is in[0].
      const launch::Routine* routine = nullptr;
      const void* const* at = nullptr;
      size_t results = 1;
      Operand also{};
    };
    /// Links that are one pass of `steps`, or one alone; or a buffer that is filled from fewer elements.
    struct Part {
      uint32_t first, last;
      const adjoint::Pass* pass = nullptr;
      uint32_t begin = 0, end = 0;
      bool fills = false;    // fills_[first]
      bool by_rows = false;  // a pass over one row after the other
    };
    struct Fill {
      Operand from;
      int32_t to;
      Spread spread;
    };
    int64_t n;
    int64_t row = 0, length = kBlock;  // elements of a row, of a block
    int32_t buffers = 0;
    int64_t buffer_bytes = 0;
    std::vector<Link> links;
    std::vector<Part> parts;
    std::vector<Cheap> steps;
    std::vector<const Operand*> at;  // of each step
    Operand ones[2];                 // the number one in float32, float64
    std::vector<Operand> numbers;    // that fill a buffer each
    std::vector<Fill> fills;
    /// Whole operands, if together they are larger than a cache: blocks of them are fetched ahead.
    std::vector<const Operand*> far;
    std::string ends;  // why it is no longer, for people
    /// A reduction over all that a link makes: it asks for the blocks one after the other.
    struct Folded {
      const launch::Routine* routine = nullptr;
      const void* const* at;
      const char* name;
      Operand of;
    } folded{};
    std::string text() const;
  };
  struct Row {
    const Operator* op;
    CallForm form;
    bool copies = false;  // the second of the tensors to the first
    RowArguments arguments;
    Range results;
    std::vector<int32_t> makes;  // of each result: the slot that it makes, or -1
  };
  /// Memory is taken from the allocator before the first step that needs it, or from what ends there, and
  /// given back after the last; an input is let go of.
  struct Supply {
    enum class Kind : uint8_t { Take, TakeOver, Give, Drop } kind;
    int32_t slot, from = -1;
  };
  /// Of a prepared row, or of a part of one.
  struct Launch {
    const launch::Routine* routine;
    const void* const* at;
    const char* name;  // of the row; null: the same one's
  };
  struct Product {
    kernels::KeptProduct call;
    const char* name;
  };
  struct Guard {
    const char* at;
    Range bytes;
  };
  /// Where a number goes.
  struct Target {
    uint32_t number;
    enum class Kind : uint8_t { Double, Scalar, Element } kind;
    DType dtype;
    bool negated;
    void* at;
  };
  /// An element that is read as a number, and what follows from it until the next one.
  struct Reading {
    const char* at;
    DType dtype;
    Range nodes, targets;  // reading_nodes_, targets_
  };
  enum class Kind : uint8_t {
    Loops,
    Pass,
    Wide,
    Gathered,
    Walk,
    Chain,
    Move,
    Launch,
    Product,
    Row,
    Guard,
    Reading,
    Supply
  };
  /// Instructions of one kind, side by side.
  struct Run {
    Kind kind;
    uint32_t begin, end;
    bool checks = false;  // whether the user wants an end
  };
  enum class Home : uint8_t { None, Outside, Constant, Arena, Own, Block, Fresh, Kept };
  struct Memory {
    Home home = Home::None;
    bool escapes = false, touched = false;
    int32_t first = -1, last = -1;  // in the schedule
    int32_t input = -1;             // of Outside: which input lies in it
    int32_t takes = -1;             // of Own: whose memory it takes over
    int32_t made_as = -1;           // of fresh memory: in which geometry, if it is not as many bytes
    int32_t pointers = -1;          // the last of its pointers, of its tensors
    int32_t tensors = -1;
    int64_t offset = 0;  // of Outside: of the input in it; of Arena: of it in the arena
    char* base = nullptr;
    Ref<Storage> frame;  // what operands of rows stand on
    Tensor keep;         // what a row made, fresh or own memory, or a constant
    const char* writer = "jit";
  };
  /// Where the address of a memory is written, and how far in; in a list for each.
  template <class T>
  struct Pointer {
    T* at;
    int64_t offset;
    int32_t next;
  };
  struct Saved {
    int32_t slot;
    int64_t begin, end;
  };
  friend class Builder;

  void place(int32_t slot, char* base);
  bool overlap(std::span<const Tensor> inputs) const;
  void run_row(Row& row);
  bool compute_numbers(std::span<const uint32_t> nodes, std::span<const Target> targets);
  class ChainRun;
  static void run_chain(const Chain& chain);
  static void run_folded(const Chain& chain);
  void supply(const Supply& s, const Drop* drop);
  /// False where a decision comes out otherwise.
  bool run_all(std::span<const Run> runs, const Drop* drop);
  bool run_timed(const Drop* drop);
  void append_text(const Run& run, uint32_t i, std::string& all) const;
  size_t bytes_held() const;
  size_t bytes_of_tensors() const;

  Trace trace_;
  const Ends& ends_;
  std::vector<int32_t> output_is_input_;
  std::vector<Memory> memory_;
  std::vector<Pointer<void>> pointers_;
  std::vector<Pointer<TensorImpl>> tensors_;
  std::vector<Run> runs_;
  std::vector<Loops> loops_;
  std::vector<std::unique_ptr<SmallPass>> passes_;
  std::deque<Wide> wides_;  // which stay where they are
  std::vector<std::unique_ptr<Gathered>> gathered_;
  std::vector<std::unique_ptr<Walk>> walks_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::vector<Move> moves_;
  std::vector<Launch> launches_;
  std::vector<Product> products_;
  std::vector<BoundLaunch> bound_;
  std::set<std::shared_ptr<const Launches>> prepared_;  // what they were made from
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<Guard> guards_;
  std::vector<Supply> supplies_;
  std::vector<Tensor> converted_;  // numbers that no call changes, in the type of a walk
  std::vector<int32_t> outside_, fresh_, kept_;
  std::vector<int32_t> chained_;  // outside memory that chains write
  /// Numbers: which are computed before all else, which follow from elements that are read, and where they
  /// go.
  std::vector<Scalar> values_;
  std::vector<uint32_t> first_nodes_, reading_nodes_;
  std::vector<Target> first_targets_, targets_;
  std::vector<Reading> readings_;
  std::vector<Saved> saved_;
  std::vector<std::unique_ptr<double[]>> parameters_;
  /// Numbers that no call changes, by their bytes and how many times each.
  std::map<std::array<uint64_t, 3>, std::unique_ptr<char[]>> repeated_;
  /// An arena that is longer goes back to the allocator after each call.
  static constexpr size_t kMostArena = size_t{64} << 10;
  Tensor arena_;
  char* arena_at_ = nullptr;
  size_t arena_bytes_ = 0;
  std::vector<char> undo_;
  size_t operations_ = 0, dropped_ = 0, constants_ = 0;
  int64_t work_ = 0;
  bool draws_ = false;
  std::unique_ptr<Times> times_;  // null: nobody wants to know
  runtime::Counted counted_;
  friend class Pool;
};

/// Bytes that the function itself holds at its peak, at least: from the call that makes a memory to the last
/// that takes it, or to the end if it is given. (A variable or a node may hold it for longer.)
size_t held_by_eager(const Trace& trace, const Program::Ends& ends);

/// A program for several threads at once, made when it is needed first: each that runs it gets a copy.
class Pool {
 public:
  Pool(std::shared_ptr<const Trace> trace, Range steps, Program::Ends ends)
      : trace_(std::move(trace)), steps_(steps), ends_(std::move(ends)) {}
  /// Make one, if there is none yet. Throws Error where it cannot be run.
  void plan();
  bool is_planned() const { return first_.load(std::memory_order_acquire); }
  /// Undone, too, where none can be made, or not now.
  Program::Outcome run(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                       std::vector<Scalar>& numbers, const Program::Drop* drop = nullptr);
  /// One of the copies, which are alike.
  const Program& any() const { return *first_.load(std::memory_order_acquire); }
  /// Of each instruction, how long it takes in the runs to come.
  void time(bool on);
  Program::Times times() const;
  /// Made, if it is not yet; so are the following.
  std::string text() {
    plan();
    return any().text(times());
  }
  Picture picture() const;

 private:
  std::unique_ptr<Program> make();
  void keep(std::unique_ptr<Program> one);
  void took(const Program::Times& times);

  const std::shared_ptr<const Trace> trace_;
  const Range steps_;
  const Program::Ends ends_;
  /// How this thread was when it was recorded, as far as plans depend on it.
  const DType default_dtype_ = default_dtype();
  const bool inference_ = thread_state.inference;
  std::atomic<bool> hopeless_ = false;
  std::atomic<const Program*> first_ = nullptr;
  mutable runtime::SmallLock lock_;
  std::vector<std::unique_ptr<Program>> idle_;
  bool timed_ = false;
  Program::Times times_;
  runtime::Counted counted_;
};

}  // namespace adjoint::replay
