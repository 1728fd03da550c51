// Running chains: blocks of elements through all links, what is between them in buffers. Who decides what a
// chain is: builder_schedule.cpp, builder_chain.cpp.
#include <cstring>

#include "kernels/reducer.h"
#include "replay/program.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint::replay {

int64_t Program::rows_of_block(int64_t row) {
  constexpr int64_t kElements = 4096, kVector = 16;
  const int64_t rows = std::max<int64_t>(1, kElements / row);
  return rows > kVector ? rows / kVector * kVector : rows;
}

/// A thread's way through a chain: the buffers, those of numbers filled, and the calls of reductions over a
/// block.
class Program::ChainRun {
 public:
  explicit ChainRun(const Chain& chain)
      : chain_(chain),
        scratch_(chain.buffers * chain.buffer_bytes + 64),
        buffers_(
            reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(scratch_.get()) + 63) & ~uintptr_t{63})) {
    for (const Chain::Operand& number : chain.numbers)
      repeat_value(buffer(number.buffer), number.at, number.item, chain.length);
  }

  char* buffer(int32_t k) const { return buffers_ + k * chain_.buffer_bytes; }

  /// Elements [begin, begin + n), a block at most.
  void run(int64_t begin, int64_t n) {
    begin_ = begin, n_ = n;
    fetch(begin + n, std::min(n, chain_.n - begin - n));
    for (const Chain::Part& part : chain_.parts) {
      if (part.fills) {
        fill(chain_.fills[part.first]);
      } else if (part.pass) {
        pass(part);
      } else if (const Chain::Link& link = chain_.links[part.first]; link.loop) {
        const void* const in[5] = {at(link.in[0]), at(link.in[1]), at(link.in[2]), at(link.in[3]),
                                   at(link.in[4])};
        link.loop(at(link.out), in, link.out.by_row ? n / chain_.row : n, link.parameters);
      } else {
        reduce(part.first);
      }
    }
  }

 private:
  /// The operands of a reduction of rows, as tensors over a block, and its other arguments.
  struct Call {
    const void* at[launch::Routine::kMost];
    Tensor tensors[3];  // results, operand
    int64_t rows = 0;
  };

  /// The next block comes from memory while this one is computed. (GCC takes a function of nothing else for
  /// one without effect.)
  [[gnu::always_inline]] void fetch(int64_t begin, int64_t n) const {
    constexpr int64_t kLine = 64;
    for (const Chain::Operand* const o : chain_.far)
      for (int64_t at = begin * o->item; at < (begin + n) * o->item; at += kLine)
        __builtin_prefetch(o->at + at);
  }

  char* at(const Chain::Operand& o) const {
    return o.buffer >= 0         ? buffer(o.buffer)
           : !o.at || o.in_place ? o.at
                                 : o.at + (o.by_row ? begin_ / chain_.row : begin_) * o.item;
  }

  void pass(const Chain::Part& part) const {
    char* places[Pass::kMost];
    const uint32_t count = part.end - part.begin;
    const Chain::Operand* const* const of = &chain_.at[part.begin];
    for (uint32_t s = 0; s < count; ++s) places[s] = at(*of[s]);
    const int64_t length = part.by_rows ? chain_.row : n_;
    for (int64_t left = n_;;) {
      part.pass->run(&chain_.steps[part.begin], places, static_cast<int>(count), length);
      if ((left -= length) <= 0) return;
      for (uint32_t s = 0; s < count; ++s)
        if (!of[s]->in_place) places[s] += (of[s]->by_row ? 1 : length) * of[s]->item;
    }
  }

  void fill(const Chain::Fill& f) const {
    const int64_t item = f.from.item, length = f.spread.length;
    char* to = buffer(f.to);
    // From elements that a link has made of this block, or from all.
    const bool inside = f.from.buffer >= 0;
    const char* const from = inside ? buffer(f.from.buffer) : f.from.at;
    int64_t row = inside ? 0 : begin_ / length, place = inside ? 0 : begin_ % length;
    for (int64_t left = n_; left > 0; ++row, place = 0) {
      const int64_t taken = std::min(length - place, left);
      if (f.spread.each)
        repeat_value(to, from + row * item, item, taken);
      else
        std::memcpy(to, from + place * item, static_cast<size_t>(taken * item));
      to += taken * item;
      left -= taken;
    }
  }

  void reduce(uint32_t k) {
    static constexpr uint64_t kLast = 2;  // the last of two dimensions, as a mask
    const Chain::Link& link = chain_.links[k];
    if (calls_.empty()) calls_.resize(chain_.links.size());
    Call& call = calls_[k];
    const size_t count = link.results + 1;
    const int64_t rows = n_ / chain_.row;
    if (!call.rows) {
      std::copy_n(link.at, link.routine->arguments.size(), call.at);
      call.at[count] = &kLast;
      const auto bytes = static_cast<size_t>(chain_.buffer_bytes);
      for (size_t i = 0; i < count; ++i)
        if (const Tensor& t = *static_cast<const Tensor*>(link.at[i]); t.defined()) {
          const int64_t none[] = {0};
          call.tensors[i] =
              over(external_storage(nullptr, bytes, [](void*) {}, nullptr), t.dtype(), none, none, 0);
          call.at[i] = &call.tensors[i];
        }
    }
    for (size_t i = 0; i < count; ++i) {
      if (!call.tensors[i].defined()) continue;
      const bool is_operand = i == link.results;
      const int64_t sizes[] = {rows, chain_.row};
      if (rows != call.rows)
        call.tensors[i]->set_geometry({sizes, is_operand ? size_t{2} : size_t{1}}, nullptr);
      call.tensors[i]->data = at(is_operand ? link.in[0] : i ? link.also : link.out);
    }
    call.rows = rows;
    link.routine->call(call.at);
  }

  const Chain& chain_;
  const runtime::Scratch<char> scratch_;
  char* const buffers_;
  int64_t begin_ = 0, n_ = 0;
  std::vector<Call> calls_;  // by link
};

void Program::run_chain(const Chain& chain) {
  if (chain.folded.routine) return run_folded(chain);
  const auto links = static_cast<int64_t>(chain.links.size());
  const int64_t blocks = (chain.n - 1) / chain.length + 1, pieces = runtime::get_num_threads() * int64_t{8};
  // Each piece fills the buffers of numbers again.
  const int64_t grain = std::max({StraightCall::kSerial / chain.length / links, blocks / pieces, int64_t{1}});
  runtime::parallel_for(0, blocks, grain, [&](int64_t first, int64_t last) {
    ChainRun run(chain);
    for (int64_t block = first; block < last; ++block)
      run.run(block * chain.length, std::min(chain.length, chain.n - block * chain.length));
  });
}

void Program::run_folded(const Chain& chain) {
  const auto make = [&](int64_t begin, int64_t end, Elements::Use use) {
    ChainRun run(chain);
    const Chain::Operand& of = chain.folded.of;
    for (int64_t n; begin < end; begin += n) {
      n = std::min(Elements::kPiece, end - begin);
      run.run(begin, n);
      use(of.buffer >= 0 ? run.buffer(of.buffer) : of.at + begin * of.item, begin, n);
    }
  };
  const Elements elements{static_cast<const Tensor*>(chain.folded.at[1])->bytes(), make};
  struct Scope {
    explicit Scope(const Elements* e) { Elements::current = e; }
    ~Scope() { Elements::current = nullptr; }
  } scope(&elements);
  chain.folded.routine->call(chain.folded.at);
}

std::string Program::Chain::text() const {
  std::string all = adjoint::text("blocks of ", n);
  if (row) all += adjoint::text(" in rows of ", row);
  all += ":";
  for (const Part& part : parts) {
    if (part.fills) continue;
    // What is one pass stands in brackets.
    for (uint32_t k = part.first; k < part.last; ++k)
      all += adjoint::text(part.pass && k == part.first ? " (" : " ", links[k].name);
    if (part.pass) all += ")";
  }
  if (folded.routine) all += adjoint::text(", ", folded.name);
  return all + adjoint::text("; ", ends, "\n");
}

}  // namespace adjoint::replay
